//! Runs the real CLI in its place, passes everything on unchanged and records it.
//!
//! `RECORD_CLAUDE` names the real CLI and `RECORD_TO` the file. The file has a JSON line for each line of the streams:
//! `{"t": seconds, "dir": stream, "m": content}`. `dir` is `sdk>` for a line to the CLI, `cli>` for one from it,
//! `stderr`, `spawn` with its command line, `eof` with the stream that ended, and `exit` with its code, or with its
//! signal as a negative number. `m` is the message as it came, or a string if the line is not a message.
//!
//! A line is recorded before it is passed on. So effects of a line are recorded after it, and a killed recorder has
//! lost at most the last line.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use watari_sdk::files::TEST_LOG;

/// The variable that names the real CLI.
pub const CLAUDE_VARIABLE: &str = "RECORD_CLAUDE";
/// The variable that names the file to write to.
pub const FILE_VARIABLE: &str = "RECORD_TO";

/// How many streams the CLI writes to.
const OWN_STREAMS: usize = 2;
/// How long to wait for the rest of the CLI's output after it has exited. Only a process that it left behind with its
/// stdout makes this expire.
const REST_WITHIN: Duration = Duration::from_secs(1);
/// The exit code of a recorder that cannot start.
const UNUSABLE: u8 = 64;
/// Added to the number of a signal to make an exit code, as shells do.
const SIGNAL_CODE: i32 = 128;

/// Why a recorder fails.
#[derive(Debug, thiserror::Error)]
enum RecordError {
    #[error("{0} is not set")]
    NoVariable(&'static str),
    #[error("cannot write to {}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot start {}: {source}", .path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error("cannot listen to signals: {0}")]
    Signals(#[source] io::Error),
    #[error("cannot wait for the CLI: {0}")]
    Wait(#[source] io::Error),
    #[error("cannot start a thread for the streams of Claude Code: {0}")]
    Streams(#[source] io::Error),
}

/// Runs the CLI with these arguments until it exits.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match record(arguments.collect()) {
        Ok(status) => ExitCode::from(exit_code(status)),
        Err(error) => {
            // If stderr is closed, nobody reads it; the exit code is enough.
            let _written = writeln!(io::stderr(), "record-claude: {error}");
            ExitCode::from(UNUSABLE)
        }
    }
}

fn record(arguments: Vec<OsString>) -> Result<ExitStatus, RecordError> {
    let variable = |name| env::var_os(name).map(PathBuf::from).ok_or(RecordError::NoVariable(name));
    let (path, file) = (variable(CLAUDE_VARIABLE)?, variable(FILE_VARIABLE)?);
    let notes = Notes::to(&file).map_err(|source| RecordError::File { path: file, source })?;
    let argv: Vec<_> = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
    notes.note("spawn", &json!({"argv": argv}));
    let mut child = Command::new(&path)
        .args(&arguments)
        .env_remove(CLAUDE_VARIABLE)
        .env_remove(FILE_VARIABLE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| RecordError::Start { path, source })?;
    pass_signals_on(&child).map_err(RecordError::Signals)?;
    let ended = pass_streams_on(&mut child, &notes).map_err(RecordError::Streams)?;
    let status = child.wait().map_err(RecordError::Wait)?;
    for _ in 0..OWN_STREAMS {
        // When this expires, another process holds the stream, and the CLI's own output is passed on.
        let _held = ended.recv_timeout(REST_WITHIN);
    }
    notes.note("exit", &json!(status.code().or(status.signal().map(|signal| -signal))));
    Ok(status)
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| SIGNAL_CODE + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(UNUSABLE)
}

/// Forwards signals to the CLI.
fn pass_signals_on(child: &Child) -> io::Result<()> {
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    for (number, signal) in [(SIGINT, Signal::INT), (SIGTERM, Signal::TERM)] {
        let (mut given, giver) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(number, giver)?;
        thread::Builder::new().spawn(move || {
            while given.read_exact(&mut [0]).is_ok() {
                // A CLI that has exited meanwhile needs no signal.
                let _ended = child.map(|child| kill_process(child, signal));
            }
        })?;
    }
    Ok(())
}

/// Passes the three streams on. The end of each of the CLI's own two is reported.
fn pass_streams_on(child: &mut Child, notes: &Notes) -> io::Result<Receiver<()>> {
    let (sender, ended) = sync_channel(OWN_STREAMS);
    if let Some(stdin) = child.stdin.take() {
        // Not waited for: it may never end, even though the CLI exits.
        Stream { notes: notes.clone(), speaker: "sdk>", name: "stdin" }.pass_on(io::stdin(), stdin, None)?;
    }
    if let Some(stdout) = child.stdout.take() {
        let stream = Stream { notes: notes.clone(), speaker: "cli>", name: "stdout" };
        stream.pass_on(stdout, io::stdout(), Some(sender.clone()))?;
    }
    if let Some(stderr) = child.stderr.take() {
        let stream = Stream { notes: notes.clone(), speaker: "stderr", name: "stderr" };
        stream.pass_on(stderr, io::stderr(), Some(sender))?;
    }
    Ok(ended)
}

/// One of the CLI's streams.
struct Stream {
    notes: Notes,
    /// The value of `dir` for its lines.
    speaker: &'static str,
    name: &'static str,
}

impl Stream {
    /// Passes it on in a thread of its own, which reports when the stream has ended.
    fn pass_on(
        self,
        from: impl Read + Send + 'static,
        to: impl Write + Send + 'static,
        ended: Option<SyncSender<()>>,
    ) -> io::Result<()> {
        let pass_on = move || {
            // The receiver may have closed its end; then nothing more is passed on.
            let _closed = self.copy(from, to);
            if let Some(ended) = ended {
                let _nobody_waits = ended.send(());
            }
        };
        thread::Builder::new().spawn(pass_on).map(drop)
    }

    fn copy(&self, mut from: impl Read, mut to: impl Write) -> io::Result<()> {
        let mut piece = vec![0; 64 * 1024];
        let mut unfinished = Vec::new();
        loop {
            let count = from.read(&mut piece)?;
            for part in piece[..count].split_inclusive(|byte| *byte == b'\n') {
                unfinished.extend_from_slice(part);
                if part.ends_with(b"\n") {
                    self.notes.line(self.speaker, &std::mem::take(&mut unfinished));
                }
            }
            if count == 0 {
                self.notes.line(self.speaker, &unfinished);
                self.notes.note("eof", &json!(self.name));
                return Ok(());
            }
            to.write_all(&piece[..count])?;
            to.flush()?;
        }
    }
}

/// The file of the record. Each line is written immediately.
#[derive(Debug, Clone)]
struct Notes {
    start: Instant,
    file: Arc<Mutex<File>>,
}

impl Notes {
    fn to(path: &Path) -> io::Result<Notes> {
        let file = TEST_LOG.open(path)?;
        Ok(Notes { start: Instant::now(), file: Arc::new(Mutex::new(file)) })
    }

    /// Records a line of a stream: a message stays as it is. Blank lines are not recorded.
    fn line(&self, speaker: &str, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_ascii();
        let is_message = text.starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok();
        if is_message {
            self.append(speaker, text);
        } else if !text.is_empty() {
            self.note(speaker, &json!(text));
        }
    }

    fn note(&self, speaker: &str, what: &Value) {
        self.append(speaker, &what.to_string());
    }

    fn append(&self, speaker: &str, what: &str) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = self.start.elapsed().as_secs_f64();
        let line = format!("{{\"t\":{seconds:.4},\"dir\":\"{speaker}\",\"m\":{what}}}\n");
        // The CLI continues without a record; the file then visibly has no end.
        let _unwritten = file.write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that arrives in these pieces.
    struct Pieces(Vec<&'static str>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0).as_bytes();
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn what_is_passed_on_is_unchanged_and_written_down_line_by_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let notes = Notes::to(file.path()).unwrap();
        let mut passed_on = Vec::new();
        let pieces = Pieces(vec!["{\"half\":\"\\ud83d\"", "}\r\n\nnot a", " message\n{\"type\":1}\n{\"cut\""]);
        let stream = Stream { notes, speaker: "cli>", name: "stdout" };
        stream.copy(pieces, &mut passed_on).unwrap();
        let expected = "{\"half\":\"\\ud83d\"}\r\n\nnot a message\n{\"type\":1}\n{\"cut\"";
        assert_eq!(String::from_utf8(passed_on).unwrap(), expected);
        let written = std::fs::read_to_string(file.path()).unwrap();
        let without_time: Vec<_> = written.lines().map(|line| line.split_once(",\"dir\":").unwrap().1).collect();
        insta::assert_snapshot!(without_time.join("\n"), @r#"
        "cli>","m":{"half":"\ud83d"}}
        "cli>","m":"not a message"}
        "cli>","m":{"type":1}}
        "cli>","m":"{\"cut\""}
        "eof","m":"stdout"}
        "#);
    }
}
