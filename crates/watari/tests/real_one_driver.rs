//! One conversation of the real CLI has one driver, whatever the front end.

#![allow(clippy::duplicate_mod, reason = "both clients are judged by the same schemas")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod bridge;
mod common;
mod host;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use bridge::{Bridge, of_type};
use host::end_of;
use serde_json::{Value, json};
use watari_testkit::processes::marked;
use watari_testkit::{Reply, Script};

/// The same clean room for hosts and for `watari stdio`.
struct Room {
    hosts: host::Room,
}

impl Room {
    async fn new() -> Room {
        let script = (0..8).fold(Script::new(), |script, _| script.reply(Reply::text("Hello")));
        Room { hosts: host::Room::real_with(script).await }
    }

    fn bridge(&self) -> Bridge {
        Bridge::in_sandbox(&self.hosts.sandbox, &["--claude", self.hosts.claude.to_str().unwrap()])
    }

    /// `watari stdio` with a session that has had a turn, and the session's id.
    async fn bridge_with(&self, options: Value) -> (Bridge, String) {
        let mut bridge = self.bridge();
        bridge.start("hi", options).await;
        let seen = bridge.until("turn_result").await;
        let id = of_type(&seen, "session_init")[0]["sessionId"].as_str().unwrap().to_owned();
        (bridge, id)
    }

    /// Asserts that a session on stdio is refused.
    async fn refused(&self, options: Value) -> String {
        let mut bridge = self.bridge();
        bridge.start("hi", options).await;
        let seen = bridge.rest().await;
        let last = seen.last().unwrap();
        assert_eq!((&last["type"], &last["fatal"]), (&json!("error"), &json!(true)), "{seen:?}");
        assert_eq!(bridge.exit().await.code(), Some(1));
        assert!(of_type(&seen, "turn_result").is_empty(), "{seen:?}");
        last["message"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_conversation_that_a_host_drives_is_refused_on_stdio_by_id_and_as_the_latest() {
    let room = Room::new().await;
    let host = room.hosts.host(&[]).await;
    let mut client = host.client().await;
    let id = client.next().await.unwrap()["session_id"].as_str().unwrap().to_owned();
    client.say("hi").await;
    client.until("done").await;
    let refusal = format!(
        "the session {id} is in use by watari socket, process {}: connect to that, or end it first",
        host.pid()
    );
    assert_eq!(room.refused(json!({"resume": id})).await, refusal);
    assert_eq!(room.refused(json!({"resume": id.to_uppercase()})).await.to_lowercase(), refusal);
    assert_eq!(room.refused(json!({"continue": true})).await, refusal);
    // A fork only reads it, and is a conversation of its own.
    let (mut fork, forked) = room.bridge_with(json!({"resume": id, "forkSession": true})).await;
    assert_ne!(forked, id);
    fork.close_input();
    fork.exit().await;
    host.stop().await;
    let (mut again, same) = room.bridge_with(json!({"resume": id})).await;
    assert_eq!(same, id);
    again.close_input();
    assert_eq!(again.exit().await.code(), Some(0));
    room.hosts.is_tidy();
}

#[tokio::test]
async fn nothing_of_a_refused_session_reaches_the_conversation_of_its_driver() {
    let room = Room::new().await;
    let host = room.hosts.host(&[]).await;
    let mut client = host.client().await;
    let id = client.next().await.unwrap()["session_id"].as_str().unwrap().to_owned();
    client.say("hi").await;
    client.until("done").await;
    let before = room.transcript(&id);
    let calls = room.model_calls();
    let processes = room.processes();
    for options in [json!({"continue": true}), json!({"resume": id})] {
        assert!(room.refused(options).await.starts_with(&format!("the session {id} is in use by watari socket")));
    }
    // A CLI that was started for a refused session would store its prompt there when it ends, and ask the model.
    room.has_only(&processes).await;
    assert_eq!(room.transcript(&id), before);
    assert_eq!(room.model_calls(), calls);
    host.stop().await;
}

#[tokio::test]
async fn a_conversation_has_one_driver_whatever_names_the_state_folder_and_the_cli_s_folder_have() {
    let room = Room::new().await;
    let host = room.hosts.host(&[]).await;
    let mut client = host.client().await;
    let id = client.next().await.unwrap()["session_id"].as_str().unwrap().to_owned();
    client.say("hi").await;
    client.until("done").await;
    let config = room.hosts.sandbox.home().join(".claude");
    let (elsewhere, link) = (room.hosts.sandbox.root().join("elsewhere"), room.hosts.sandbox.root().join("link"));
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&config, &link).unwrap();
    let surroundings = [
        vec![("XDG_STATE_HOME", &elsewhere)],
        vec![("HOME", &elsewhere), ("CLAUDE_CONFIG_DIR", &config)],
        vec![("HOME", &elsewhere), ("CLAUDE_CONFIG_DIR", &link)],
    ];
    for variables in surroundings {
        let mut command = room.hosts.command(&["--resume", &id]);
        let mut child = command.envs(variables.clone()).spawn().unwrap();
        let (code, stderr) = end_of(&mut child).await;
        let holder = format!("watari: the session {id} is in use by watari socket, process {}", host.pid());
        assert!(code == Some(1) && stderr.starts_with(&holder), "{variables:?}: {code:?} {stderr}");
    }
    // What another folder of the CLI's has under this id is another conversation.
    let mut command = room.hosts.command(&["--resume", &id]);
    let (code, stderr) = end_of(&mut command.env("HOME", &elsewhere).spawn().unwrap()).await;
    assert!(code == Some(1) && stderr.contains("there is no conversation"), "{code:?} {stderr}");
    host.stop().await;
    room.hosts.is_tidy();
}

#[tokio::test]
async fn a_second_watari_that_does_not_see_the_lock_is_reported() {
    let room = Room::new().await;
    let host = room.hosts.host(&[]).await;
    let mut client = host.client().await;
    let id = client.next().await.unwrap()["session_id"].as_str().unwrap().to_owned();
    client.say("hi").await;
    client.until("done").await;
    // As on another machine with the same home: the same conversations, and locks of its own.
    let projects = room.hosts.conversation_locks().parent().unwrap().to_owned();
    let elsewhere = room.hosts.sandbox.root().join("elsewhere");
    fs::create_dir_all(elsewhere.join("projects")).unwrap();
    for folder in common::names_in(&projects).into_iter().filter(|name| name != ".watari-locks") {
        std::os::unix::fs::symlink(projects.join(&folder), elsewhere.join("projects").join(&folder)).unwrap();
    }
    let (mut second, same) =
        room.bridge_with(json!({"resume": id, "env": {"CLAUDE_CONFIG_DIR": elsewhere.to_str().unwrap()}})).await;
    assert_eq!(same, id);
    client.say("still there?").await;
    let (mut native, _) = host.native_since(json!(0)).await;
    let seen = native.until("resumed_elsewhere").await;
    assert_eq!(seen.last().unwrap()["entrypoint"], "watari");
    second.close_input();
    second.exit().await;
    host.stop().await;
}

#[tokio::test]
async fn a_fork_is_not_reported_whichever_program_wrote_the_copied_history() {
    let room = Room::new().await;
    let (mut first, id) = room.bridge_with(json!({})).await;
    first.close_input();
    first.exit().await;
    room.resume_without_us(&id).await;
    let (mut fork, _) = room.bridge_with(json!({"resume": id, "forkSession": true})).await;
    fork.send(json!({"type": "user_message", "text": "and now?"})).await;
    fork.close_input();
    let seen = fork.rest().await;
    assert_eq!(of_type(&seen, "turn_result").len(), 1, "{seen:?}");
    assert!(of_type(&seen, "error").is_empty(), "{seen:?}");
}

#[tokio::test]
async fn a_conversation_that_stdio_drives_is_refused_on_stdio_and_for_a_host() {
    let room = Room::new().await;
    let (mut bridge, id) = room.bridge_with(json!({})).await;
    let holder = format!("the session {id} is in use by watari stdio, process {}", bridge.pid());
    assert_eq!(room.refused(json!({"resume": id})).await, format!("{holder}: connect to that, or end it first"));
    let mut child = room.hosts.command(&["--resume", &id]).spawn().unwrap();
    let (code, stderr) = end_of(&mut child).await;
    assert_eq!((code, stderr), (Some(1), format!("watari: {holder}: connect to that, or end it first\n")));
    // The session continues with its holder.
    bridge.send(json!({"type": "user_message", "text": "and now?"})).await;
    bridge.until("turn_result").await;
    bridge.close_input();
    assert_eq!(bridge.exit().await.code(), Some(0));
}

#[tokio::test]
async fn without_a_lock_folder_beside_the_conversations_the_state_folder_has_the_locks() {
    let room = Room::new().await;
    let locks = room.hosts.conversation_locks();
    fs::create_dir_all(locks.parent().unwrap()).unwrap();
    fs::write(&locks, "not a folder").unwrap();
    // Then the state folder has the lock.
    let (mut bridge, id) = room.bridge_with(json!({})).await;
    assert!(room.refused(json!({"resume": id})).await.starts_with(&format!("the session {id} is in use by")));
    bridge.close_input();
    assert_eq!(bridge.exit().await.code(), Some(0));
    let mut host = room.hosts.host(&["--resume", &id]).await;
    host.signal(rustix::process::Signal::TERM);
    assert_eq!(host.end().await, (Some(0), String::new()));
    // And if that has none either, the session runs without.
    let state = room.hosts.state();
    fs::remove_dir_all(&state).unwrap();
    fs::create_dir_all(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(state.join("locks"), "not a folder").unwrap();
    let (mut bridge, _) = room.bridge_with(json!({})).await;
    bridge.close_input();
    assert_eq!(bridge.exit().await.code(), Some(0));
}

#[tokio::test]
async fn a_conversation_that_another_program_resumes_is_reported_in_every_dialect() {
    let room = Room::new().await;
    let host = room.hosts.host(&[]).await;
    let mut client = host.client().await;
    let id = client.next().await.unwrap()["session_id"].as_str().unwrap().to_owned();
    client.say("hi").await;
    client.until("done").await;
    room.resume_without_us(&id).await;
    client.say("still there?").await;
    let (mut native, _) = host.native_since(json!(0)).await;
    let seen = native.until("resumed_elsewhere").await;
    let reported = seen.last().unwrap();
    assert_eq!((&reported["session_id"], &reported["entrypoint"]), (&json!(id), &json!("sdk-cli")));
    let message = "another program (\"sdk-cli\") has resumed this conversation: each loses the turns of the other; end \
                 one of them";
    let error = client.until("error").await.pop().unwrap();
    assert_eq!((&error["kind"], &error["message"]), (&json!("session"), &json!(message)));
    host.stop().await;

    let (mut bridge, id) = room.bridge_with(json!({})).await;
    room.resume_without_us(&id).await;
    bridge.send(json!({"type": "user_message", "text": "still there?"})).await;
    let error = bridge.until("error").await.pop().unwrap();
    assert_eq!((&error["fatal"], &error["message"]), (&json!(false), &json!(message)));
    bridge.close_input();
    assert_eq!(bridge.exit().await.code(), Some(0));
}

impl Room {
    /// What the CLI has stored of a conversation.
    fn transcript(&self, id: &str) -> String {
        let projects = fs::read_dir(self.hosts.sandbox.home().join(".claude/projects")).unwrap();
        let mut paths = projects.map(|folder| folder.unwrap().path().join(format!("{id}.jsonl")));
        fs::read_to_string(paths.find(|path| path.exists()).unwrap()).unwrap()
    }

    fn processes(&self) -> Vec<u32> {
        marked(self.hosts.sandbox.root().to_str().unwrap()).iter().map(|process| process.pid).collect()
    }

    /// Waits until no other processes are left in the room. (The exit of a process that is not a child is not reported.)
    async fn has_only(&self, processes: &[u32]) {
        let others = || self.processes().into_iter().filter(|process| !processes.contains(process)).count();
        let gone = async {
            while others() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(host::WITHIN, gone).await.unwrap();
    }

    fn model_calls(&self) -> usize {
        self.hosts.stub.as_ref().unwrap().model_calls().len()
    }

    /// Another program resumes the conversation at the same time.
    async fn resume_without_us(&self, id: &str) {
        let mut claude = tokio::process::Command::new(&self.hosts.claude);
        claude.args(["-p", "--resume", id, "me too"]).env_clear().envs(self.hosts.sandbox.environment());
        claude.current_dir(self.hosts.sandbox.cwd()).stdin(std::process::Stdio::null());
        let output = claude.output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
