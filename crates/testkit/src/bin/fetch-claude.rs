//! Fetches Claude Code CLIs into the cache, for `./check` and by hand: see `watari_testkit::fetch`.

use std::error::Error;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use watari_testkit::claude::PINNED_CLAUDE_VERSION;
use watari_testkit::fetch::{WantedVersion, fetch_claude};

const HELP: &str = "\
Installs Claude Code from npm into the cache, unless it is there, and prints the path of the program.

Usage: fetch-claude [VERSION]...

VERSION is a whole version like 2.1.325 or a tag like latest; without one, it is the version that the tests run
against. The cache is $WATARI_CACHE, $XDG_CACHE_HOME/watari or ~/.cache/watari.
";

/// The exit code for wrong arguments.
const MISUSED: u8 = 2;
/// The exit code after a signal.
const ENDED: u8 = 130;

fn main() -> ExitCode {
    let mut arguments: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        return written(io::stdout().write_all(HELP.as_bytes()));
    }
    if arguments.is_empty() {
        arguments.push(PINNED_CLAUDE_VERSION.to_owned());
    }
    // All arguments are parsed before anything is fetched.
    match arguments.iter().map(|word| word.parse()).collect::<Result<Vec<WantedVersion>, _>>() {
        Ok(wanted) => run(&wanted),
        Err(error) => failed(&error, MISUSED),
    }
}

fn run(wanted: &[WantedVersion]) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.and_then(|runtime| runtime.block_on(fetch_until_signal(wanted)));
    outcome.unwrap_or_else(|error| failed(&error, 1))
}

/// Fetches until a signal arrives. npm is in a process group of its own, so a terminal's Ctrl-C reaches only this
/// process.
async fn fetch_until_signal(wanted: &[WantedVersion]) -> io::Result<ExitCode> {
    let (mut signalled, signaller) = std::os::unix::net::UnixStream::pair().and_then(|(signalled, signaller)| {
        signalled.set_nonblocking(true)?;
        Ok((UnixStream::from_std(signalled)?, signaller))
    })?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, signaller.try_clone()?)?;
    }
    tokio::select! {
        // When dropped, it kills npm and removes what it has installed so far.
        code = fetch(wanted) => Ok(code),
        // Cancel-safe: the program exits.
        _signal = signalled.read_u8() => Ok(ExitCode::from(ENDED)),
    }
}

async fn fetch(wanted: &[WantedVersion]) -> ExitCode {
    for version in wanted {
        report(&format!("Claude Code {version}: unless it is in the cache, npm installs it now (up to 400 MB)"));
        let fetched = match fetch_claude(version).await {
            Ok(fetched) => fetched,
            Err(error) => return failed(&error, 1),
        };
        let how = if fetched.already_there { "was already installed" } else { "is installed" };
        report(&format!("Claude Code {} {how}", fetched.version));
        let line = [fetched.path.as_os_str().as_bytes(), b"\n"].concat();
        if let Err(error) = io::stdout().write_all(&line) {
            return failed(&error, 1);
        }
    }
    ExitCode::SUCCESS
}

fn written(result: io::Result<()>) -> ExitCode {
    result.map_or_else(|error| failed(&error, 1), |()| ExitCode::SUCCESS)
}

fn failed(error: &dyn Error, code: u8) -> ExitCode {
    report(&error.to_string());
    ExitCode::from(code)
}

fn report(text: &str) {
    // If stderr is closed, nobody reads it; the exit code is enough.
    let _written = writeln!(io::stderr(), "fetch-claude: {text}");
}
