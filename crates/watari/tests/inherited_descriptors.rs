//! Descriptors that `watari` inherits: other processes share them, so their flags are not changed, and every state of
//! them is handled.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod fake;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::time::Duration;

use common::{WATARI, signal_process};
use fake::{Room, start};
use rustix::fs::{CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl, mkfifoat};
use rustix::process::Signal;
use tokio::process::{Child, Command};

/// How long a line may take.
const WITHIN: Duration = Duration::from_secs(30);

const ONE_TURN: &str = "prompt\ntext Good morning\nresult\n";

/// A turn that is longer than any pipe.
const LONG_ANSWER: &str = "prompt\nmessage\ndeltas 3000 of 1000\nend\nresult\n";

/// Both ends of something that carries bytes one way: what is read, and what is written.
type Ends = (OwnedFd, OwnedFd);

fn pipe() -> Ends {
    let (reader, writer) = io::pipe().unwrap();
    (reader.into(), writer.into())
}

fn socket() -> Ends {
    let (one, other) = StdUnixStream::pair().unwrap();
    (one.into(), other.into())
}

/// A pipe with a name, which has another way to begin and to end.
fn fifo(room: &Room, name: &str) -> Ends {
    let path = room.sandbox.root().join(name);
    mkfifoat(CWD, &path, Mode::from(0o600)).unwrap();
    // Each end alone would wait for the other.
    let both = File::options().read(true).write(true).open(&path).unwrap();
    let ends = (File::open(&path).unwrap().into(), File::options().write(true).open(&path).unwrap().into());
    drop(both);
    ends
}

fn is_non_blocking(end: impl AsFd) -> bool {
    fcntl_getfl(end).unwrap().contains(OFlags::NONBLOCK)
}

fn make_non_blocking(end: impl AsFd) {
    fcntl_setfl(&end, fcntl_getfl(&end).unwrap() | OFlags::NONBLOCK).unwrap();
}

/// A session whose three descriptors this test shares, as a shell or a second writer would.
struct Shared {
    child: Child,
    theirs: [OwnedFd; 3],
    stdin: File,
    stdout: File,
}

impl Shared {
    fn begin(mut command: Command, [stdin, stdout, stderr]: [Ends; 3]) -> Shared {
        let theirs = [stdin.0, stdout.1, stderr.1];
        let [input, output, errors] = theirs.each_ref().map(|end| Stdio::from(end.try_clone().unwrap()));
        let child = command.stdin(input).stdout(output).stderr(errors).spawn().unwrap();
        Shared { child, theirs, stdin: stdin.1.into(), stdout: stdout.0.into() }
    }

    /// Reads until a line of a type has come.
    async fn receive(&self, kind: &str) {
        let (mut stdout, wanted) = (self.stdout.try_clone().unwrap(), format!(r#"{{"type":"{kind}""#));
        let hearing = tokio::task::spawn_blocking(move || {
            let (mut received, mut piece) = (String::new(), [0; 4096]);
            while !received.contains(&wanted) {
                // It may begin only with the end of what was read before.
                received.drain(..received.len().saturating_sub(wanted.len()));
                let count = stdout.read(&mut piece).unwrap();
                assert_ne!(count, 0, "it ended without {wanted}");
                received.extend(piece[..count].iter().map(|byte| char::from(*byte & 0x7f)));
            }
        });
        let received = tokio::time::timeout(WITHIN, hearing).await;
        received.unwrap_or_else(|_| panic!("no {kind} came within {WITHIN:?}")).unwrap();
    }

    fn say(&mut self, line: &str) {
        self.stdin.write_all(line.as_bytes()).unwrap();
    }

    fn is_unchanged(&self, when: &str) {
        let changed: Vec<usize> = (0..3).filter(|number| is_non_blocking(&self.theirs[*number])).collect();
        assert_eq!(changed, Vec::<usize>::new(), "made non-blocking {when}");
    }
}

#[tokio::test]
async fn no_shared_descriptor_is_made_non_blocking() {
    for kind in ["pipes", "sockets", "named pipes"] {
        let room = Room::new(ONE_TURN);
        let ends = match kind {
            "pipes" => [pipe(), pipe(), pipe()],
            "sockets" => [socket(), socket(), socket()],
            _ => ["stdin", "stdout", "stderr"].map(|name| fifo(&room, name)),
        };
        let mut session = Shared::begin(room.command(), ends);
        session.receive("ready").await;
        session.is_unchanged(&format!("by the start, on {kind}"));
        session.say(&start());
        session.receive("turn_result").await;
        session.is_unchanged(&format!("by a turn, on {kind}"));
        // Nothing could be put back.
        signal_process(session.child.id().unwrap(), Signal::KILL);
        session.child.wait().await.unwrap();
        session.is_unchanged(&format!("when it was killed, on {kind}"));
    }
}

#[tokio::test]
async fn a_non_blocking_output_is_awaited_and_receives_everything() {
    for make in [pipe as fn() -> Ends, socket] {
        let room = Room::new(LONG_ANSWER);
        let (output, input) = (make(), pipe());
        make_non_blocking(&output.1);
        let mut session = Shared::begin(room.command(), [input, output, pipe()]);
        session.say(&start());
        session.receive("turn_result").await;
        assert!(is_non_blocking(&session.theirs[1]), "another process made it non-blocking and needs it so");
        drop(session.stdin);
        room.ends(session.child).await;
    }
}

#[tokio::test]
async fn a_non_blocking_input_is_awaited() {
    for make in [pipe as fn() -> Ends, socket] {
        let room = Room::new(ONE_TURN);
        let input = make();
        make_non_blocking(&input.0);
        let mut session = Shared::begin(room.command(), [input, pipe(), pipe()]);
        session.receive("ready").await;
        session.say(&start());
        session.receive("turn_result").await;
        let Shared { child, theirs, stdin, .. } = session;
        drop((stdin, theirs));
        room.ends(child).await;
    }
}

/// The terminal is one of util-linux's `script`; a program before this one has made it non-blocking.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_non_blocking_terminal_is_awaited() {
    let room = Room::new(LONG_ANSWER);
    let make = "import fcntl,os; [fcntl.fcntl(n, fcntl.F_SETFL, fcntl.fcntl(n, fcntl.F_GETFL) | os.O_NONBLOCK) for n in (0, 1)]";
    let command = format!("python3 -c '{make}'; '{WATARI}' stdio --claude '{}'", room.claude.display());
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &command, "/dev/null"]).current_dir(room.sandbox.cwd());
    script.env_clear().envs(room.sandbox.environment()).kill_on_drop(true);
    script.env("PATH", std::env::var_os("PATH").unwrap());
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Nothing is typed yet when it begins to read.
    let mut stdout = tokio::io::BufReader::new(child.stdout.take().unwrap());
    let shown = tokio::time::timeout(WITHIN, async {
        use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
        let mut shown = String::new();
        while !shown.contains(r#"{"type":"ready"#) {
            assert_ne!(stdout.read_line(&mut shown).await.unwrap(), 0, "{shown}");
        }
        stdin.write_all(start().as_bytes()).await.unwrap();
        while !shown.contains(r#"{"type":"turn_result"#) {
            assert_ne!(stdout.read_line(&mut shown).await.unwrap(), 0, "{shown}");
        }
        shown
    });
    let shown = shown.await.unwrap();
    assert!(!shown.contains(r#"{"type":"error"#), "{shown}");
    drop(stdin);
    let status = tokio::time::timeout(WITHIN, child.wait()).await.unwrap().unwrap();
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn a_named_pipe_whose_writer_has_exited_is_read_to_its_end() {
    let room = Room::new(ONE_TURN);
    let (reader, writer) = fifo(&room, "conversation");
    File::from(writer).write_all(start().as_bytes()).unwrap();
    let (stdout, lines) = pipe();
    let child = room.command().stdin(reader).stdout(lines).spawn().unwrap();
    room.ends(child).await;
    let mut text = String::new();
    File::from(stdout).read_to_string(&mut text).unwrap();
    assert!(text.contains(r#"{"type":"turn_result""#), "{text}");
}

/// A stub that ends with its input, to which nothing was written yet.
#[tokio::test]
async fn a_stub_awaits_a_non_blocking_input() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, writer) = pipe();
    make_non_blocking(&reader);
    let mut command = Command::new(WATARI);
    command.args(["stub", "--until-eof"]).current_dir(folder.path()).env_clear().kill_on_drop(true);
    let mut child = command.stdin(reader).stdout(Stdio::piped()).spawn().unwrap();
    let mut printed = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut child.stdout.take().unwrap(), &mut printed).await.unwrap();
    assert!(printed.contains("WATARI_STUB_URL="), "{printed}");
    // No event shows that it still waits.
    let ended = tokio::time::timeout(Duration::from_millis(500), child.wait()).await;
    assert!(ended.is_err(), "it did not wait: {ended:?}");
    drop(writer);
    let status = tokio::time::timeout(WITHIN, child.wait()).await.unwrap().unwrap();
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn a_command_awaits_a_non_blocking_output() {
    let (reader, writer) = pipe();
    make_non_blocking(&writer);
    // Full, as another program would leave it.
    let mut filled = 0;
    while let Ok(count) = rustix::io::write(&writer, &[b' '; 4096]) {
        filled += count;
    }
    let mut command = Command::new(WATARI);
    let mut child = command.args(["schema", "native"]).env_clear().stdout(writer).kill_on_drop(true).spawn().unwrap();
    drop(command);
    // No event shows that it still waits.
    let ended = tokio::time::timeout(Duration::from_millis(500), child.wait()).await;
    assert!(ended.is_err(), "it did not wait: {ended:?}");
    let reading = tokio::task::spawn_blocking(move || {
        let mut printed = String::new();
        File::from(reader).read_to_string(&mut printed).map(|_| printed)
    });
    let printed = tokio::time::timeout(WITHIN, reading).await.unwrap().unwrap().unwrap();
    assert!(child.wait().await.unwrap().success());
    let schema = fs::read_to_string(common::root().join("docs/schema/native.json")).unwrap();
    assert_eq!(printed.len(), filled + schema.len());
    assert!(printed.ends_with(&schema));
}

/// Both ends of a full pipe without a reader.
fn full_pipe() -> Ends {
    let (reader, writer) = pipe();
    make_non_blocking(&writer);
    while rustix::io::write(&writer, &[b' '; 4096]).is_ok() {}
    fcntl_setfl(&writer, fcntl_getfl(&writer).unwrap() - OFlags::NONBLOCK).unwrap();
    (reader, writer)
}

/// How long an end that waits a second for a reader may take, with room for a busy machine.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn an_unread_standard_error_does_not_block_a_command() {
    let (_reader, full) = full_pipe();
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["socket", "--cwd", "/nowhere"][..], &["stub", "/nowhere"], &["check", "--claude", "/nowhere"]] {
        let mut command = Command::new(WATARI);
        command.args(arguments).current_dir(folder.path()).env_clear().env("HOME", folder.path()).kill_on_drop(true);
        let mut child = command.stdin(Stdio::null()).stderr(full.try_clone().unwrap()).spawn().unwrap();
        let ended = tokio::time::timeout(SOON, child.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("{arguments:?} still waits after {SOON:?}")).unwrap();
        assert!(!status.success(), "{arguments:?}: {status}");
    }
}

#[tokio::test]
async fn a_host_with_unread_output_and_errors_listens_and_ends() {
    let room = Room::new(ONE_TURN);
    let (_reader, full) = full_pipe();
    let socket = room.sandbox.root().join("socket");
    let mut command = Command::new(WATARI);
    command.arg("socket").arg("--claude").arg(&room.claude).arg("--socket").arg(&socket);
    command.env_clear().envs(room.sandbox.environment()).current_dir(room.sandbox.cwd()).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(full.try_clone().unwrap()).stderr(full.try_clone().unwrap());
    let child = command.spawn().unwrap();
    common::appears(&socket).await;
    let client = tokio::net::UnixStream::connect(&socket).await.unwrap();
    let mut line = String::new();
    let reading = tokio::io::AsyncBufReadExt::read_line(&mut tokio::io::BufReader::new(client), &mut line).await;
    assert!(reading.unwrap() > 0 && line.contains(r#""type":"init""#), "{line}");
    signal_process(child.id().unwrap(), Signal::TERM);
    room.ends(child).await;
}

#[tokio::test]
async fn a_signal_before_start_ends_a_session_with_unread_output() {
    let room = Room::new(ONE_TURN);
    let (_reader, full) = full_pipe();
    // It waits for its output once it has read the line: its input is empty then.
    let (input, mut client) = StdUnixStream::pair().unwrap();
    let child = room.command().stdin(OwnedFd::from(input.try_clone().unwrap())).stdout(full).spawn().unwrap();
    client.write_all(b"\n").unwrap();
    while rustix::io::ioctl_fionread(&input).unwrap() > 0 {
        // No event reports it, so it is polled.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    signal_process(child.id().unwrap(), Signal::TERM);
    let ended = tokio::time::timeout(SOON, child.wait_with_output()).await;
    assert_eq!(ended.unwrap_or_else(|_| panic!("it still runs after {SOON:?}")).unwrap().status.code(), Some(0));
}

/// The command line that starts a program with two more descriptors: of a file, as `flock` holds one, and where a parent
/// in Node has its channel.
#[cfg(target_os = "linux")]
fn with_more_descriptors(room: &Room, lock: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "exec 9>\"$1\" 3<>\"$1\"; shift; \"$@\"", "sh"]).arg(lock).arg(WATARI).args(arguments);
    command.arg("--claude").arg(&room.claude);
    command.env_clear().envs(room.sandbox.environment()).env("NODE_CHANNEL_FD", "3").kill_on_drop(true);
    command.current_dir(room.sandbox.cwd());
    command
}

/// The processes of a room that have a file open.
#[cfg(target_os = "linux")]
fn holders(room: &Room, file: &std::path::Path) -> Vec<String> {
    let processes = watari_testkit::processes::marked(room.sandbox.root().to_str().unwrap());
    let holds = |pid: u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        descriptors.into_iter().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == file))
    };
    processes.into_iter().filter(|process| holds(process.pid)).map(|process| process.command).collect()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_cli_inherits_no_descriptor_beyond_standard_error() {
    let room = Room::new(ONE_TURN);
    let (lock, environment) = (room.sandbox.root().join("lock"), room.sandbox.root().join("environment"));
    let script = format!("env >'{}'; exec '{WATARI}' __fake-claude \"$@\"", environment.display());
    common::program(&room.claude, &script);
    let command = with_more_descriptors(&room, &lock, &["stdio"]);
    let mut session = Shared::begin(command, [pipe(), pipe(), pipe()]);
    session.say(&start());
    session.receive("turn_result").await;
    // Watari itself and the shell that it was started by: another program may rely on that.
    let holders = holders(&room, &lock);
    assert!(!holders.is_empty() && holders.iter().all(|holder| holder.contains(" stdio ")), "{holders:?}");
    let environment = fs::read_to_string(environment).unwrap();
    assert!(environment.contains("HOME=") && !environment.contains("NODE_CHANNEL_FD"), "{environment}");
    let Shared { child, theirs, stdin, .. } = session;
    drop((stdin, theirs));
    room.ends(child).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_background_host_holds_no_descriptor_of_the_program_that_started_it() {
    let room = Room::new(ONE_TURN);
    let lock = room.sandbox.root().join("lock");
    let mut command = with_more_descriptors(&room, &lock, &["socket", "--detach"]);
    let started = command.stdin(Stdio::null()).output().await.unwrap();
    assert!(started.status.success(), "{started:?}");
    assert_eq!(holders(&room, &lock), Vec::<String>::new());
    let hosts = watari_testkit::processes::marked(room.sandbox.root().to_str().unwrap());
    let host = hosts.iter().find(|process| process.command.contains("--detached")).unwrap();
    signal_process(host.pid, Signal::TERM);
    let left = watari_testkit::processes::none_marked_within(room.sandbox.root().to_str().unwrap(), WITHIN).await;
    assert!(left.is_ok(), "{left:?}");
}
