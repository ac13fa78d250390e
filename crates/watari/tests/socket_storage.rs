//! A host whose disk is full reports it, waits, loses nothing, and continues by itself when there is room. On the fake
//! CLI, on a separate small disk, which only root can create, in a separate namespace.

#![cfg(all(target_os = "linux", not(watari_portable)))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]
#![allow(clippy::print_stdout, reason = "a test that is not run says why")]

mod common;
mod host;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use host::{Client, Room, end_of, of_type, text_of};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// How often it is tried to store what could not be stored.
const TRIED_EVERY: Duration = Duration::from_secs(1);

/// How long it may take until it is noticed that there is room.
const NOTICED_WITHIN: Duration = Duration::from_millis(2500);

const GONE_WITHIN: Duration = Duration::from_secs(3);

/// A question that waits, and a text that is longer than the disk has room for.
const SCRIPT: &str = "prompt\nmessage\ntext Let me see\ntool t1 Bash {\"command\":\"ls\"}\nend\n\
                      ask! t1 Bash {\"command\":\"ls\"}\ndeltas 5000 of 20\nawait t1\ntext Done\nresult\n";

const LONG_BYTES: usize = 5000 * 20;

/// A room whose session files are on a small disk.
struct SmallDisk {
    room: Room,
    /// The process that holds the mount until it exits.
    holder: Child,
}

impl SmallDisk {
    async fn new(script: &str) -> SmallDisk {
        let mut room = Room::fake(script);
        let (state, runtime) = (room.sandbox.root().join("state"), room.sandbox.root().join("runtime"));
        fs::create_dir(&state).unwrap();
        fs::create_dir(&runtime).unwrap();
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
        let mount = format!("mount -t tmpfs -o size=256k,mode=700 none '{}'", state.display());
        let mut holder = Command::new("unshare");
        holder.args(["-m", "sh", "-c", &format!("{mount} && echo mounted && exec cat")]).env("HOME", "/");
        holder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut holder = holder.spawn().unwrap();
        let output = BufReader::new(holder.stdout.as_mut().unwrap()).lines().next_line().await.unwrap();
        assert!(output.is_some(), "a small disk cannot be mounted here");
        room.sandbox = room.sandbox.with_env("XDG_STATE_HOME", state.to_str().unwrap());
        room.sandbox = room.sandbox.with_env("XDG_RUNTIME_DIR", runtime.to_str().unwrap());
        SmallDisk { room, holder }
    }

    /// A host that uses this disk.
    fn start(&self, flags: &[&str]) -> Child {
        let outside = self.room.command(flags);
        let outside = outside.as_std();
        let mut inside = Command::new("nsenter");
        inside
            .args(["-m", "-t", &self.holder.id().unwrap().to_string()])
            .arg(outside.get_program())
            .args(outside.get_args());
        inside.env_clear().envs(self.room.sandbox.environment());
        inside.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        inside.spawn().unwrap()
    }

    /// A host that listens.
    async fn host(&self, flags: &[&str]) -> SmallHost {
        let mut child = self.start(flags);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        match tokio::time::timeout(host::WITHIN, lines.next_line()).await.unwrap().unwrap() {
            Some(socket) => SmallHost { child, socket: socket.into() },
            None => panic!("there is no host: {:?}", end_of(&mut child).await),
        }
    }

    /// A path on the disk, as seen from outside the namespace.
    fn path(&self, name: &str) -> PathBuf {
        let state = self.room.sandbox.root().join("state");
        PathBuf::from(format!("/proc/{}/root{}/{name}", self.holder.id().unwrap(), state.display()))
    }

    fn session(&self) -> PathBuf {
        let mut sessions = fs::read_dir(self.path("watari/sessions")).unwrap();
        sessions.next().unwrap().unwrap().path()
    }

    /// The same, as the host knows it.
    fn session_inside(&self) -> PathBuf {
        let session = self.session();
        self.room.sandbox.root().join("state/watari/sessions").join(session.file_name().unwrap())
    }

    /// Fills a part of the disk, which can be freed later.
    fn fill(&self) {
        fs::write(self.path("ballast"), vec![b'x'; 150 * 1024]).unwrap();
    }

    /// Fills the disk.
    fn fill_up(&self) {
        let mut more = fs::File::create(self.path("more")).unwrap();
        while more.write_all(&[b'x'; 512]).is_ok() {}
    }

    fn make_room(&self) {
        for name in ["ballast", "more"] {
            let _absent = fs::remove_file(self.path(name));
        }
    }

    fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.session().join("events.jsonl")).unwrap();
        assert!(text.ends_with('\n'), "the last line was broken off");
        text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

struct SmallHost {
    child: Child,
    socket: PathBuf,
}

impl SmallHost {
    async fn native(&self, since: Value) -> Client {
        let name = self.socket.file_name().unwrap().to_str().unwrap();
        let mut client = Client::connect(&self.socket.with_file_name(name.replace(".agent.sock", ".sock"))).await;
        client.send(json!({"type": "hello", "protocol": [1], "since": since})).await;
        client.until("hello").await;
        client
    }

    async fn client(&self) -> Client {
        let mut client = Client::connect(&self.socket).await;
        client.until("init").await;
        client
    }

    /// Ends the host with a signal; returns its exit code and its standard error.
    async fn stop(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap(), Signal::TERM).unwrap();
        end_of(&mut self.child).await
    }
}

/// The numbers of numbered events are complete, and every one is there once and in order.
fn is_whole(events: &[Value]) {
    for (event, number) in events.iter().zip(1..) {
        assert_eq!(event["seq"], format!("1:{number}"), "{event}");
    }
}

fn finished_texts(events: &[Value]) -> Vec<&str> {
    of_type(events, "block_finished").iter().filter_map(|event| event["content"]["text"].as_str()).collect()
}

/// The answer to a command, which is known by its name.
async fn answer(client: &mut Client, name: &str, mut command: Value) -> Value {
    command["id"] = json!(name);
    client.send(command).await;
    loop {
        let line = client.next().await.unwrap();
        if line["id"] == name {
            return line;
        }
    }
}

#[tokio::test]
async fn a_turn_on_a_full_disk_waits_and_is_complete_when_there_is_space_again_needs_mounts() {
    let disk = SmallDisk::new(SCRIPT).await;
    let host = disk.host(&[]).await;
    let (mut native, mut socket) = (host.native(json!(0)).await, host.client().await);
    let mut giver = host.native(Value::Null).await;
    disk.fill();
    socket.say("go").await;

    let mut delivered = native.until("storage_failed").await;
    let full = delivered.last().unwrap().clone();
    assert!(full["after"].is_string() && full["seq"].is_null(), "{full}");
    let why = full["message"].as_str().unwrap();
    assert!(why.starts_with("no space left for the log ") && why.contains("free some space"), "{why}");
    let mut received = socket.until("error").await;
    assert_eq!(received.last().unwrap()["message"], why);
    // A client that connects now is informed, too.
    let mut late = host.client().await;
    assert_eq!(late.until("error").await.last().unwrap()["message"], why);

    let ask = of_type(&delivered, "ask_opened")[0]["ask"].clone();
    let allow = json!({"type": "answer", "ask": ask, "answer": {"type": "allow"}});
    for (name, command) in [("prompt", json!({"type": "prompt", "content": "more"})), ("allow", allow.clone())] {
        let refused = answer(&mut giver, name, command).await;
        assert_eq!(refused["type"], "refused", "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("no space left for the log"), "{refused}");
    }
    let interrupted = answer(&mut giver, "interrupt", json!({"type": "interrupt"})).await;
    assert_eq!(interrupted["type"], "accepted", "{interrupted}");
    // Every event that a client received is stored.
    assert_eq!(of_type(&delivered, "block_finished").len(), of_type(&disk.events(), "block_finished").len());

    // The host retries in vain, without informing the clients.
    tokio::time::sleep(TRIED_EVERY + TRIED_EVERY / 2).await;
    disk.make_room();
    let made_room = Instant::now();
    delivered.extend(native.until("storage_recovered").await);
    assert!(made_room.elapsed() < NOTICED_WITHIN, "{:?}", made_room.elapsed());
    assert!(delivered.last().unwrap()["after"].is_string(), "{:?}", delivered.last());
    // A refused command can be sent again.
    let allowed = answer(&mut giver, "allow", allow).await;
    assert_eq!(allowed["type"], "accepted", "{allowed}");
    delivered.extend(native.until("became_idle").await);
    received.extend(socket.until("done").await);

    let events = disk.events();
    is_whole(&events);
    let numbered: Vec<Value> = delivered.iter().filter(|line| line["seq"].is_string()).cloned().collect();
    assert_eq!(numbered, events);
    let text: String = (0..5000).map(|number| format!("{number:019} ")).collect();
    assert_eq!(text.len(), LONG_BYTES);
    assert_eq!(finished_texts(&events), ["Let me see", &text, "Done"]);
    assert_eq!(text_of(&received), format!("Let me see{text}Done"));
    // A client that reconnects receives the same from the file.
    let mut again = host.native(json!(0)).await.until("became_idle").await;
    again.retain(|line| line["seq"].is_string());
    assert_eq!(again, events);
    assert_eq!(host.stop().await, (Some(0), String::new()));
}

#[tokio::test]
async fn a_host_on_a_full_disk_can_be_ended_and_the_next_host_reports_lost_events_needs_mounts() {
    let disk = SmallDisk::new(SCRIPT).await;
    let host = disk.host(&[]).await;
    let mut socket = host.client().await;
    disk.fill();
    socket.say("go").await;
    socket.until("error").await;
    let id = fs::read(disk.session().join("record.json")).unwrap();
    let id = serde_json::from_slice::<Value>(&id).unwrap()["session_id"].as_str().unwrap().to_owned();
    disk.fill_up();
    let (code, stderr) = host.stop().await;
    let output = stderr.replace(disk.session_inside().to_str().unwrap(), "SESSION");
    // It could not note its end, which is not as it should be.
    insta::assert_snapshot!(format!("{output}exit {}", code.unwrap()), @"
    watari: some events could not be stored: no space left for the log SESSION/events.jsonl: No space left on device (os error 28)
    exit 1
    ");
    let received = socket.rest().await;
    let ends =
        |line: &&Value| line["message"].as_str().is_some_and(|message| message.starts_with("the session ends: "));
    assert!(received.iter().any(|line| ends(&line)), "{received:#?}");
    disk.room.is_empty_within(GONE_WITHIN).await;
    // The folder of private files stays, without anything in it.
    let runtime = disk.room.sandbox.root().join("runtime/watari");
    assert_eq!(common::names_in(&runtime), ["private"]);
    assert_eq!(common::names_in(&runtime.join("private")), Vec::<std::ffi::OsString>::new());

    // There is still no room.
    let (code, stderr) = end_of(&mut disk.start(&["--resume", &id])).await;
    assert!(code == Some(1) && stderr.contains("No space left on device"), "{code:?} {stderr}");
    let before = disk.events();
    disk.make_room();
    let host = disk.host(&["--resume", &id]).await;
    host.native(json!(0)).await.until("ready").await;
    let events = disk.events();
    assert_eq!(events[..before.len()], before);
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let left =
        kinds.iter().filter(|kind| ["ask_resolved", "prompt_dropped", "block_discarded", "cli_exited"].contains(kind));
    assert_eq!(
        left.collect::<Vec<_>>(),
        [&"ask_resolved", &"block_discarded", &"prompt_dropped", &"cli_exited"],
        "{kinds:?}"
    );
    assert_eq!(host.stop().await, (Some(0), String::new()));
}

#[tokio::test]
async fn a_host_that_cannot_write_its_own_log_continues_needs_mounts() {
    let disk = SmallDisk::new("prompt\ntext Good morning\nresult\n").await;
    let mut host = disk.host(&[]).await;
    // The process that started it has exited.
    drop(host.child.stderr.take());
    disk.fill_up();
    // Each is a line in the log, for which there soon is no room.
    for _ in 0..100 {
        host.client().await;
    }
    disk.make_room();
    let mut client = host.client().await;
    client.say("good morning?").await;
    client.until("done").await;
    assert_eq!(host.stop().await, (Some(0), String::new()));
}

#[tokio::test]
async fn a_file_size_limit_counts_as_a_full_disk_and_does_not_end_the_host() {
    let room = Room::fake("repeat 20\nprompt\ntext Hello\nresult\nend\n");
    let mut command = tokio::process::Command::new("sh");
    // In blocks of 512 bytes, or of 1024.
    command.args(["-c", "ulimit -f 16; exec \"$0\" \"$@\"", common::WATARI, "socket", "--cwd"]).arg(room.sandbox.cwd());
    command.arg("--claude").arg(&room.claude);
    let host = room.start(command).await;
    let mut client = host.client_with_init().await;
    let storage = async {
        loop {
            client.say("hi").await;
            let seen = client.until_one_of(&["done", "error"]).await.pop().unwrap();
            if seen["kind"] == "storage" {
                return seen["message"].as_str().unwrap().to_owned();
            }
        }
    };
    let message = storage.await;
    assert!(message.contains("no space left for the log"), "{message}");
    host.kill().await;
}

/// What a client wants reaches the CLI only after it is stored: a host that is killed in between has neither.
#[tokio::test]
async fn a_command_reaches_the_cli_only_if_it_can_be_stored_needs_mounts() {
    let disk = SmallDisk::new("prompt\nask t1 Bash {\"command\":\"ls\"}\nresult\nprompt\nresult\n").await;
    let host = disk.host(&[]).await;
    let mut client = host.native(json!(0)).await;
    client.send(json!({"type": "prompt", "id": "1", "content": "go"})).await;
    let asked = client.until("ask_opened").await.pop().unwrap();
    disk.fill_up();
    // More than what is left of the last page of the file.
    let command = format!("echo {}", "x".repeat(8000));
    let answer = json!({"type": "allow", "input": {"command": command}});
    client.send(json!({"type": "answer", "id": "2", "ask": asked["ask"], "answer": answer})).await;
    client.until("storage_failed").await;
    let reached =
        |room: &Room| room.lines_sent_to_cli().iter().filter(|line| line["type"] == "control_response").count();
    assert_eq!(reached(&disk.room), 0);
    disk.make_room();
    // Now it is stored, and then the CLI has it, and the client knows.
    let seen = client.until("turn_finished").await;
    let place = |kind: &str| seen.iter().position(|line| line["type"] == kind);
    assert!(place("ask_resolved") < place("turn_finished") && place("accepted").is_some(), "{seen:#?}");
    assert_eq!(reached(&disk.room), 1);
    host.stop().await;
}

/// No command was acknowledged yet, and the waiting process sees neither the socket nor the log.
#[tokio::test]
async fn a_background_start_that_cannot_be_stored_ends_with_the_reason_needs_mounts() {
    // More than what is left of the last page of the file, before the CLI is ready.
    let long = "x".repeat(8000);
    let script = format!("stop\nemit {{\"type\":\"novelty\",\"text\":\"{long}\"}}\nprompt\nresult\n");
    let disk = SmallDisk::new(&script).await;
    let mut starter = disk.start(&["--detach"]);
    let host = common::children_started_by(starter.id().unwrap()).await[0];
    common::cli_has_stopped(host).await;
    disk.fill_up();
    common::signal_cli_of(host, Signal::CONT);
    let (code, stderr) = end_of(&mut starter).await;
    let output = stderr.replace(disk.session_inside().to_str().unwrap(), "SESSION");
    insta::assert_snapshot!(format!("{output}exit {code:?}"), @"
    watari: the session was not started, because its events cannot be stored: no space left for the log SESSION/events.jsonl: No space left on device (os error 28); fix that and start it again
    exit Some(1)
    ");
    disk.room.is_empty_within(GONE_WITHIN).await;
}
