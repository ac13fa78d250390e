//! A message that gets no turn is reported, so that a client that counts results does not wait for it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod fake;

use std::process::Stdio;
use std::time::Duration;

use fake::{Room, start, user_message};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// How long a line may take.
const WITHIN: Duration = Duration::from_secs(30);

const INTERRUPT_ALL: &str = "{\"type\":\"interrupt\",\"cancelQueued\":true}\n";
const ABORT: &str = "{\"type\":\"abort\"}\n";

struct Talk {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Talk {
    fn begin(room: &Room) -> Talk {
        let mut child = room.command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Talk { child, stdin, lines: BufReader::new(stdout).lines() }
    }

    async fn say(&mut self, lines: &str) {
        self.stdin.write_all(lines.as_bytes()).await.unwrap();
    }

    /// All lines up to one of a type.
    async fn receive(&mut self, kind: &str) {
        while self.line().await.unwrap()["type"] != kind {}
    }

    async fn line(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(WITHIN, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("no line came within {WITHIN:?}")).unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// The next line that says how a message, a turn or the session fared; none at the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            let line = self.line().await?;
            match line["type"].as_str().unwrap() {
                "turn_result" => return Some(format!("turn_result {}", line["subtype"].as_str().unwrap())),
                "error" | "message_dropped" => return Some(line.to_string()),
                _ => {}
            }
        }
    }

    /// As many of these lines as there are wanted.
    async fn received<const COUNT: usize>(&mut self) -> String {
        let mut received = Vec::new();
        while received.len() < COUNT {
            received.push(self.next().await.unwrap());
        }
        received.join("\n")
    }
}

/// A turn that only an interrupt ends, and one that ends by itself.
const TWO_TURNS: &str = "prompt\ntext Once upon a time\nwait interrupt\nprompt\ntext Good morning\nresult\n";

#[tokio::test]
async fn messages_that_an_interrupt_cancels_are_reported_one_by_one() {
    let room = Room::new(TWO_TURNS);
    let mut talk = Talk::begin(&room);
    talk.say(&[start(), user_message(), user_message()].concat()).await;
    talk.receive("assistant_message").await;
    talk.say(&[INTERRUPT_ALL.to_owned(), user_message()].concat()).await;
    insta::assert_snapshot!(talk.received::<4>().await, @r#"
    {"reason":"cancelled","type":"message_dropped"}
    {"reason":"cancelled","type":"message_dropped"}
    turn_result error_during_execution
    turn_result success
    "#);
    drop(talk.stdin);
    room.ends(talk.child).await;
}

#[tokio::test]
async fn a_message_that_the_cli_loses_is_reported_and_the_next_message_runs() {
    let room = Room::new("prompt\nstate idle\nprompt\ntext Good morning\nresult\n");
    let mut talk = Talk::begin(&room);
    talk.say(&[start(), user_message()].concat()).await;
    insta::assert_snapshot!(talk.received::<3>().await, @r#"
    {"fatal":false,"message":"the CLI gave no result for a message; it may have run: check before you send it again","type":"error"}
    {"reason":"lost","type":"message_dropped"}
    turn_result success
    "#);
    drop(talk.stdin);
    room.ends(talk.child).await;
}

#[tokio::test]
async fn waiting_messages_of_an_aborted_session_are_not_reported() {
    let room = Room::new(TWO_TURNS);
    let mut talk = Talk::begin(&room);
    talk.say(&[start(), user_message(), user_message()].concat()).await;
    talk.receive("assistant_message").await;
    talk.say(ABORT).await;
    while let Some(line) = talk.next().await {
        assert_eq!(line, "turn_result error_during_execution");
    }
    room.ends(talk.child).await;
}
