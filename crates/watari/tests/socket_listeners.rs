//! Who can connect to a session's sockets and who cannot, and how a host starts and stops, on the fake CLI.

#![cfg(all(target_os = "linux", not(watari_portable)))]
#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]
#![allow(clippy::print_stdout, reason = "a test that is not run says why")]

mod common;
mod host;

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use common::{WATARI, appears};
use host::{Room, end_of, transcript};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::process::Command;

/// A user id without an account.
const ANOTHER_USER: u32 = 65534;

const PERL: &str = "/usr/bin/perl";

/// Writes a line to a socket and prints the replies of at most two seconds.
const ASK: &str = r#"
    $SIG{ALRM} = sub { print "and it stays open"; exit 0 };
    $SIG{PIPE} = "IGNORE";
    my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or do { print "refused: $!"; exit 0 };
    syswrite $s, "$ARGV[1]\n";
    alarm 2;
    $| = 1;
    while (sysread $s, my $bytes, 1000) { print $bytes }
    print "and it is closed";
"#;

/// One turn that ends by itself, and one in which a question waits and something runs beside.
const TURNS: &str = "prompt\ntext Good morning\nresult\nprompt\ntext Let me see\nchild\n\
                     tool t1 Bash {\"command\":\"ls\"}\nask! t1 Bash {\"command\":\"ls\"}\nwait interrupt\n";

/// How long the processes of the host may continue to run.
const GONE_WITHIN: Duration = Duration::from_secs(3);

/// The standard error of a refused host, with the room as ROOM, and its exit code.
async fn refusal(room: &Room, mut command: Command) -> String {
    let (code, stderr) = end_of(&mut command.spawn().unwrap()).await;
    room.is_empty_within(GONE_WITHIN).await;
    shown(room, &format!("{stderr}exit {}", code.unwrap()))
}

fn shown(room: &Room, text: &str) -> String {
    text.replace(room.sandbox.root().to_str().unwrap(), "ROOM")
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
}

/// What another user receives on a socket.
async fn received_by(user: u32, socket: &Path, line: &str) -> String {
    let mut perl = std::process::Command::new(PERL);
    perl.args(["-MIO::Socket::UNIX", "-e", ASK]).args([socket.as_os_str(), line.as_ref()]).current_dir("/");
    perl.uid(user).gid(user).env_clear().stdin(Stdio::null());
    let output = Command::from(perl).output().await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn another_user_receives_nothing_even_if_all_modes_are_open_needs_root() {
    let room = Room::fake(TURNS);
    let host = room.host(&[]).await;
    let (socket, native) = (host.socket.clone(), host.native_path());
    for user in [ANOTHER_USER, 0] {
        if user == ANOTHER_USER {
            assert_eq!(received_by(user, &socket, "").await, "refused: Permission denied");
        }
        // Everything that could keep another user out: the sockets, and all folders above them.
        [&socket, &native].into_iter().for_each(|path| open_to_all(path));
        socket.ancestors().skip(1).take_while(|folder| *folder != Path::new("/tmp")).for_each(open_to_all);
        let hello = r#"{"type":"hello","protocol":[1]}"#;
        let received = [
            received_by(user, &socket, r#"{"type":"message","text":"hi"}"#).await,
            received_by(user, &native, hello).await,
        ];
        if user == ANOTHER_USER {
            assert_eq!(received, ["and it is closed", "and it is closed"]);
        } else {
            // This shows that the socket works for its own user.
            assert!(
                received[0].starts_with("{\"type\":\"init\"") && received[1].starts_with("{\"type\":\"hello\""),
                "{received:?}"
            );
            assert!(received.iter().all(|received| received.ends_with("and it stays open")), "{received:?}");
        }
    }
    let log = room.log();
    assert_eq!(log.matches("rejected a client of another user").count(), 2, "{log}");
    host.stop().await;
    // Nothing that the other user wrote had an effect either: the only turn is root's.
    assert_eq!(room.events().iter().filter(|event| event["type"] == "prompt_accepted").count(), 1);
}

#[tokio::test]
async fn a_socket_folder_that_others_can_use_is_refused_and_left_unchanged_needs_root() {
    let room = Room::fake(TURNS);
    let runtime = room.sandbox.root().join("runtime");
    let folder = runtime.join("watari");
    let start = || {
        let mut command = room.command(&[]);
        command.env("XDG_RUNTIME_DIR", &runtime);
        refusal(&room, command)
    };
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o750)).unwrap();
    insta::assert_snapshot!(start().await, @"
    watari: ROOM/runtime/watari is open to others (mode 750): run `chmod 700 ROOM/runtime/watari`
    exit 1
    ");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o750);
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    chown(&folder, Some(ANOTHER_USER), Some(ANOTHER_USER)).unwrap();
    insta::assert_snapshot!(start().await, @"
    watari: ROOM/runtime/watari is owned by user 65534, not by this one (0): set XDG_RUNTIME_DIR to a folder of this user's
    exit 1
    ");
    chown(&folder, Some(0), Some(0)).unwrap();
    assert_eq!(common::names_in(&folder), Vec::<std::ffi::OsString>::new());
    fs::remove_dir(&folder).unwrap();
    fs::write(&folder, "precious").unwrap();
    insta::assert_snapshot!(start().await, @"
    watari: ROOM/runtime/watari cannot be used: ROOM/runtime/watari is not a folder: move it away, or set XDG_RUNTIME_DIR to another folder
    exit 1
    ");
    assert_eq!(fs::read_to_string(&folder).unwrap(), "precious");
}

#[tokio::test]
async fn a_foreign_file_at_the_socket_s_path_is_left_alone_and_the_refused_host_leaves_nothing_needs_root() {
    let room = Room::fake(TURNS);
    let root = room.sandbox.root();
    let start = |path: PathBuf| refusal(&room, room.command(&["--socket", path.to_str().unwrap()]));
    fs::write(root.join("file"), "precious").unwrap();
    symlink("file", root.join("link")).unwrap();
    fs::create_dir(root.join("folder")).unwrap();
    let listener = UnixListener::bind(root.join("listened.sock")).unwrap();
    let foreign = root.join("foreign.sock");
    drop(UnixListener::bind(&foreign).unwrap());
    let mut printed = Vec::new();
    for name in ["file", "link", "folder", "listened.sock", "nowhere/s.sock"] {
        printed.push(start(root.join(name)).await);
    }
    chown(&foreign, Some(ANOTHER_USER), Some(ANOTHER_USER)).unwrap();
    printed.push(start(foreign.clone()).await);
    assert!(fs::metadata(&foreign).unwrap().file_type().is_socket());
    printed.push(start(root.join("x".repeat(107))).await);
    insta::assert_snapshot!(printed.join("\n").replace(&"x".repeat(107), "xxx…"), @"
    watari: ROOM/file is a file and is not replaced: remove it, or choose another path
    exit 1
    watari: ROOM/link is a symbolic link and is not replaced: remove it, or choose another path
    exit 1
    watari: ROOM/folder is a folder and is not replaced: remove it, or choose another path
    exit 1
    watari: another process is listening on ROOM/listened.sock: stop it, or choose another path
    exit 1
    watari: cannot listen on ROOM/nowhere/s.sock: its folder does not exist; create it
    exit 1
    watari: ROOM/foreign.sock is another user's socket and is not replaced: remove it, or choose another path
    exit 1
    watari: the socket path ROOM/xxx… has 122 bytes (maximum 106): choose a shorter one with --socket, or a shorter XDG_RUNTIME_DIR
    exit 1
    ");
    assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "precious");
    assert_eq!(fs::read_link(root.join("link")).unwrap(), Path::new("file"));
    drop(listener);
    room.is_tidy();
}

#[tokio::test]
async fn the_socket_of_a_killed_host_is_replaced() {
    let room = Room::fake(TURNS);
    let path = room.sandbox.root().join("agent.sock");
    let flags = ["--socket", path.to_str().unwrap()];
    room.host(&flags).await.kill().await;
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket());
    let host = room.host(&flags).await;
    host.client_with_init().await;
    host.stop().await;
    assert!(!path.exists());
    room.is_empty_within(GONE_WITHIN).await;
}

#[tokio::test]
async fn a_second_host_for_a_socket_or_session_is_refused_and_the_first_continues() {
    let room = Room::fake(TURNS);
    let path = room.sandbox.root().join("agent.sock");
    let host = room.host(&["--socket", path.to_str().unwrap()]).await;
    let id = room.record()["session_id"].as_str().unwrap().to_owned();
    let mut client = host.client_with_init().await;
    let start = async |flags: &[&str]| {
        let (code, stderr) = end_of(&mut room.command(flags).spawn().unwrap()).await;
        let text = shown(&room, &stderr).replace(&id, "ID").replace(&host.pid().to_string(), "PID");
        format!("{text}exit {}", code.unwrap())
    };
    insta::assert_snapshot!(start(&["--socket", path.to_str().unwrap()]).await, @"
    watari: the socket ROOM/agent.sock is in use by watari socket, process PID: choose another path, or end that first
    exit 1
    ");
    insta::assert_snapshot!(start(&["--resume", &id]).await, @"
    watari: the session ID is in use by watari socket, process PID: connect to that, or end it first
    exit 1
    ");
    // In whatever letters, it is the same session.
    insta::assert_snapshot!(start(&["--resume", &id.to_uppercase()]).await.replace(&id.to_uppercase(), "ID"), @"
    watari: the session ID is in use by watari socket, process PID: connect to that, or end it first
    exit 1
    ");
    client.say("good morning?").await;
    client.until("done").await;
    host.stop().await;
    room.is_empty_within(GONE_WITHIN).await;
    room.is_tidy();
    // Also when it has ended.
    let host = room.host(&["--resume", &id.to_uppercase()]).await;
    host.stop().await;
    assert_eq!((room.sessions().len(), &room.record()["session_id"]), (1, &json!(id)));
}

#[tokio::test]
async fn a_host_that_was_refused_its_socket_leaves_no_session_behind() {
    let room = Room::fake(TURNS);
    let path = room.sandbox.root().join("file");
    fs::write(&path, "precious").unwrap();
    let flags = ["--socket", path.to_str().unwrap()];
    refusal(&room, room.command(&flags)).await;
    assert_eq!(room.sessions(), Vec::<PathBuf>::new());
    // A session that exists is unchanged.
    room.host(&[]).await.stop().await;
    let (record, events) = (room.record(), room.events());
    assert_eq!(record["state"], "ended");
    let id = record["session_id"].as_str().unwrap();
    refusal(&room, room.command(&["--resume", id, flags[0], flags[1]])).await;
    assert_eq!((room.record()["state"].as_str(), room.events()), (Some("ended"), events));
}

#[tokio::test]
async fn deleted_sockets_are_created_again_and_connected_clients_stay() {
    let room = Room::fake(TURNS);
    let host = room.host(&[]).await;
    let mut early = host.client_with_init().await;
    for path in [&host.socket, &host.native_path()] {
        fs::remove_file(path).unwrap();
    }
    appears(&host.socket).await;
    appears(&host.native_path()).await;
    let mut late = host.client_with_init().await;
    host.native_since(json!(0)).await;
    early.say("good morning?").await;
    late.until("done").await;
    early.until("done").await;
    let log = room.log();
    assert_eq!(log.matches("the socket was removed and has been created again").count(), 2, "{log}");
    host.stop().await;
    room.is_tidy();
}

#[tokio::test]
async fn a_signal_during_a_turn_ends_the_host_with_a_reason_and_leaves_nothing() {
    let room = Room::fake(TURNS);
    let mut host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    let (mut native, _) = host.native_since(json!(0)).await;
    client.say("good morning?").await;
    client.until("done").await;
    client.say("what is there?").await;
    client.until("approval_request").await;
    host.signal(Signal::TERM);
    // The reason comes first.
    insta::assert_snapshot!(transcript(&["usage"], &client.rest().await), @r#"
    {"kind":"session","message":"the session ends: the host received a signal to stop","type":"error"}
    {"decision":"cancelled","request_id":"t1","type":"approval_resolved"}
    {"kind":"turn","message":"the turn was interrupted","type":"error"}
    {"message_id":3,"type":"done","usage":"usage"}
    "#);
    let seen = native.rest().await;
    let ends = seen.iter().skip_while(|line| line["type"] != "ask_opened").skip(1);
    insta::assert_snapshot!(transcript(&["seq", "outcome", "request"], ends), @r#"
    {"reason":"the host received a signal to stop","seq":"seq","type":"host_stopping"}
    {"ask":2,"by":null,"kind":"permission","resolution":"cli_exited","seq":"seq","tool_use":"t1","type":"ask_resolved"}
    {"cause":{"prompt":3},"outcome":"outcome","seq":"seq","type":"turn_finished"}
    {"exit":{"code":0,"errors":[],"left":0,"reason":"requested","signal":null,"stderr":""},"seq":"seq","type":"cli_exited"}
    "#);
    assert_eq!(host.end().await, (Some(0), String::new()));
    room.is_empty_within(GONE_WITHIN).await;
    room.is_tidy();
    assert_eq!(room.record()["state"], "ended");
    // Everything that was sent is stored.
    assert_eq!(room.events().last(), seen.last());
}

#[tokio::test]
async fn a_signal_ends_an_idle_host() {
    let room = Room::fake(TURNS);
    for signal in [Signal::TERM, Signal::INT] {
        let mut host = room.host(&[]).await;
        let mut client = host.client_with_init().await;
        host.signal(signal);
        let printed = transcript(&[], &client.rest().await);
        insta::allow_duplicates! {
            insta::assert_snapshot!(printed, @r#"{"kind":"session","message":"the session ends: the host received a signal to stop","type":"error"}"#);
        }
        assert_eq!(host.end().await, (Some(0), String::new()));
        room.is_empty_within(GONE_WITHIN).await;
        room.is_tidy();
    }
    for session in room.sessions() {
        assert_eq!(watari_hub::read_and_mark_killed(&session).unwrap().state, watari_hub::record::State::Ended);
    }
}

#[tokio::test]
async fn a_signal_ends_a_host_whose_cli_starts() {
    // It never answers, so it never is ready.
    let room = Room::fake("mute\nprompt\n");
    let mut host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    host.signal(Signal::TERM);
    assert_eq!(
        transcript(&[], &client.rest().await),
        r#"{"kind":"session","message":"the session ends: the host received a signal to stop","type":"error"}"#
    );
    assert_eq!(host.end().await, (Some(0), String::new()));
    room.is_empty_within(GONE_WITHIN).await;
    room.is_tidy();
    assert_eq!(room.record()["state"], "ended");
}

/// A process that is ended with the test, if it has not ended before.
struct Ended(Pid);

impl Drop for Ended {
    fn drop(&mut self) {
        // Most often there is nothing left to end.
        let _gone = kill_process(self.0, Signal::KILL);
    }
}

#[tokio::test]
async fn a_background_host_outlives_its_starter_and_ends_at_a_signal() {
    let room = Room::fake(TURNS);
    let starter = room.command(&["--detach"]).output().await.unwrap();
    let [out, err] = [starter.stdout, starter.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let session = room.sessions().remove(0);
    let key = session.file_name().unwrap().to_str().unwrap();
    let holder = fs::read_to_string(session.join("lock")).unwrap();
    let pid = holder.strip_prefix("watari socket, process ").unwrap().parse().unwrap();
    let ended = Ended(Pid::from_raw(pid).unwrap());
    assert_eq!((starter.status.code(), out), (Some(0), format!("{key}\n")));
    let socket = room.state().join("run").join(format!("{key}.agent.sock"));
    assert_eq!(err, format!("watari: listening on {}\n", socket.display()));
    // A session of its own, so that the end of a terminal is not its end.
    assert_eq!(rustix::process::getsid(Some(ended.0)).unwrap(), ended.0);
    let mut client = host::Client::connect(&socket).await;
    client.say("good morning?").await;
    client.until("done").await;
    kill_process(ended.0, Signal::TERM).unwrap();
    client.until("error").await;
    room.is_empty_within(GONE_WITHIN).await;
    room.is_tidy();
    assert_eq!(room.record()["state"], "ended");
}

#[tokio::test]
async fn a_background_host_that_cannot_start_reports_the_reason() {
    let room = Room::fake(TURNS);
    let mut command = Command::new(WATARI);
    command.args(["socket", "--detach", "--claude", "/nowhere/claude", "--cwd"]).arg(room.sandbox.cwd());
    command.env_clear().envs(room.sandbox.environment()).current_dir(room.sandbox.root());
    let starter = command.stdin(Stdio::null()).output().await.unwrap();
    let [out, err] = [starter.stdout, starter.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    insta::assert_snapshot!(shown(&room, &format!("{out}{err}exit {}", starter.status.code().unwrap())), @"
    watari: Claude Code CLI not found: there is nothing at /nowhere/claude; check the path
    exit 1
    ");
    room.is_empty_within(GONE_WITHIN).await;
    room.is_tidy();
}
