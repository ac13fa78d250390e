//! Changes around a host: folders, sockets, logs and outputs that disappear, block, or are not what they should be.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{WATARI, appears};
use host::{Client, Room, WITHIN, end_of};
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, listen, socket};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

const TURNS: &str = "repeat 20\nprompt\ntext Hello\nresult\nend\n";

/// A client that still has a conversation.
async fn talks(mut client: Client) {
    client.say("hi").await;
    client.until("done").await;
}

/// Waits until the host's log contains a text.
async fn logged(room: &Room, text: &str) {
    let found = async {
        while !room.log().contains(text) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(WITHIN, found).await.is_ok(), "{}", room.log());
}

#[tokio::test]
async fn a_removed_runtime_folder_is_created_again_with_both_sockets() {
    let room = Room::fake(TURNS);
    let host = room.host(&[]).await;
    let mut stays = host.client_with_init().await;
    let (socket, native) = (host.socket.clone(), host.native_path());
    fs::remove_dir_all(socket.parent().unwrap()).unwrap();
    appears(&socket).await;
    appears(&native).await;
    talks(host.client_with_init().await).await;
    assert_eq!(host.native_since(json!(0)).await.1["resume"], "ok");
    // The connected client has missed nothing.
    stays.until("done").await;
    host.stop().await;
    room.is_tidy();
}

#[tokio::test]
async fn a_foreign_listener_with_a_full_queue_at_the_socket_s_path_does_not_block_a_host() {
    let room = Room::fake(TURNS);
    let path = room.sandbox.root().join("s.sock");
    let host = room.host(&["--socket", path.to_str().unwrap()]).await;
    let native = room.record()["key"].as_str().map(|key| room.state().join(format!("run/{key}.sock"))).unwrap();
    fs::remove_file(&path).unwrap();
    // Another program's socket, which accepts no connection: a client would wait forever.
    let stranger = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&stranger, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&stranger, 0).unwrap();
    let queued = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    connect(&queued, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    logged(&room, "the socket was removed and cannot be created again: another process is listening on").await;
    let mut client = Client::connect(&native).await;
    client.send(json!({"type": "hello", "protocol": [1]})).await;
    client.send(json!({"type": "prompt", "id": "1", "content": "hi"})).await;
    client.until("turn_finished").await;
    drop((stranger, queued));
    host.stop().await;
}

#[tokio::test]
async fn a_pipe_as_host_log_is_refused_immediately() {
    let room = Room::fake(TURNS);
    let pipe = room.sandbox.root().join("pipe");
    mkfifoat(CWD, &pipe, Mode::from(0o600)).unwrap();
    for is_read in [false, true] {
        let _reader = is_read.then(|| {
            let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
            rustix::fs::open(&pipe, flags, Mode::empty()).unwrap()
        });
        let mut child = room.command(&["--log", pipe.to_str().unwrap()]).spawn().unwrap();
        let (code, stderr) = end_of(&mut child).await;
        let what = if is_read { "a pipe" } else { "a pipe or a socket" };
        assert_eq!(
            (code, stderr),
            (Some(1), format!("watari: cannot log to {}: it is {what}, not a file\n", pipe.display()))
        );
    }
    assert_eq!(room.sessions(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_deleted_host_log_is_created_again() {
    let room = Room::fake(TURNS);
    let host = room.host(&[]).await;
    host.client_with_init().await;
    fs::remove_file(room.sessions()[0].join("host.log")).unwrap();
    talks(host.client_with_init().await).await;
    assert!(room.log().contains("a client connected"), "{}", room.log());
    host.stop().await;
}

#[tokio::test]
async fn folders_and_sockets_with_names_that_are_not_utf_8_work() {
    let room = Room::fake(TURNS);
    let odd = |name: &[u8]| room.sandbox.root().join(OsString::from_vec(name.to_vec()));
    let (cwd, path) = (odd(b"not \xff text"), odd(b"\xfe.sock"));
    fs::create_dir(&cwd).unwrap();
    let mut command = Command::new(WATARI);
    command.args(["socket", "--claude"]).arg(&room.claude).arg("--socket").arg(&path).arg("--cwd").arg(&cwd);
    room.prepare(&mut command);
    let mut child = command.spawn().unwrap();
    let mut output = Vec::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    tokio::time::timeout(WITHIN, out.read_until(b'\n', &mut output)).await.unwrap().unwrap();
    assert_eq!(output.strip_suffix(b"\n").unwrap(), path.as_os_str().as_bytes());
    let mut client = Client::at(&path).await;
    assert_eq!(client.next().await.unwrap()["type"], "init");
    talks(client).await;
    assert_eq!(room.record()["cwd"].as_array().unwrap().len(), cwd.as_os_str().len());
}

#[tokio::test]
async fn a_background_host_whose_key_cannot_be_printed_ends() {
    let room = Room::fake(TURNS);
    let mut command = room.command(&["--detach"]);
    // No rule of ours: the test itself opens it.
    let full = File::options().write(true).open(Path::new("/dev/full")).unwrap();
    let mut child = command.stdout(Stdio::from(full)).spawn().unwrap();
    let (code, stderr) = end_of(&mut child).await;
    let why = "cannot print the session's key, so the session was ended: No space left on device (os error 28)";
    assert!(code == Some(1) && stderr.ends_with(&format!("watari: {why}\n")), "{code:?} {stderr}");
    room.is_empty_within(WITHIN).await;
    room.is_tidy();
}

/// A limit that any step of the start can meet.
#[tokio::test]
async fn a_host_with_too_few_descriptors_reports_the_limit_to_raise() {
    let room = Room::fake("prompt\nresult\n");
    for limit in [12, 16, 20] {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\""), WATARI, "socket", "--cwd"]);
        command.arg(room.sandbox.cwd()).arg("--claude").arg(&room.claude);
        room.prepare(&mut command);
        let (code, stderr) = end_of(&mut command.spawn().unwrap()).await;
        assert_eq!(code, Some(1), "{limit}: {stderr}");
        assert!(stderr.contains("Too many open files") && stderr.contains("ulimit -n 1024"), "{limit}: {stderr}");
        assert!(!stderr.contains("give this user permission"), "{limit}: {stderr}");
    }
}
