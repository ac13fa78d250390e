//! Plays one form of a scenario against a CLI, and reports what came and why it does not hold.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use watari_sdk::StartError;
use watari_sdk::files::{self, CHECK_FILE};

use super::file::{Form, Step, ToolRun};
use super::pattern::matches;
use super::shape;
use super::talk::{Cli, Received, Talk, Until};
use crate::hand_written::InputFileError;
use crate::sandbox::{Sandbox, SandboxError};
use crate::stub_api::{Script, StartStubError, StubApi};

/// Why a scenario could not be played. This says nothing about the CLI's messages.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The stub of the API did not start.
    #[error(transparent)]
    Stub(#[from] StartStubError),
    /// The sandbox could not be created.
    #[error("cannot create a sandbox for a scenario: {0}")]
    Room(#[source] SandboxError),
    /// A file of the scenario could not be created.
    #[error("cannot create the file {path} of the scenario: {source}; check that no other file is in its way")]
    File {
        /// Its path.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The scenario is invalid once its variables are replaced.
    #[error(transparent)]
    Text(#[from] InputFileError),
    /// The CLI did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Processes of the CLI are left.
    #[error("{0}; find them with `watari doctor`")]
    Left(#[source] io::Error),
}

/// The result of playing one form.
#[derive(Debug, Clone)]
pub(super) struct Played {
    pub(super) how: Option<String>,
    /// Every message of the CLI, in order.
    pub(super) messages: Vec<Value>,
    pub(super) breach: Option<Breach>,
    /// The CLI's stderr.
    pub(super) complaints: String,
}

/// Why a scenario does not hold.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Breach {
    /// The CLI exited, or closed its output, without a message.
    Mute,
    /// An expected message did not come within the time limit.
    TooLate { expected: Value, limit: Duration },
    /// An expected message did not come.
    NotSaid { expected: Value },
    /// The CLI sent more than a scenario may.
    TooMuch,
    /// None of the tools exists.
    NoSuchTool { names: Vec<String> },
    /// A tool did not do what it should.
    Tool { name: String, what: ToolBreach, said: String },
    /// A file does not have the expected content.
    File { path: String },
    /// The API did not receive the expected text.
    NotAsked { text: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolBreach {
    Missing,
    NotCalled,
    NoResult,
    Failed,
    DidNotFail,
    OtherResult,
}

/// A scenario's own stub and sandbox.
pub(super) struct Stage {
    stub: StubApi,
    sandbox: Sandbox,
}

impl Stage {
    pub(super) async fn build() -> Result<Stage, PlayError> {
        let stub = StubApi::start(Script::new()).await?;
        let sandbox = Sandbox::new(&stub.base_url()).map_err(PlayError::Room)?;
        Ok(Stage { stub, sandbox })
    }

    /// Replaces the variables in the text of a scenario.
    pub(super) fn fill_in(&self, text: &str) -> String {
        text.replace("${cwd}", &self.sandbox.cwd().to_string_lossy()).replace("${stub}", &self.stub.base_url())
    }

    pub(super) async fn play(self, form: Form, cli: &Cli, until: &Until) -> Result<Played, PlayError> {
        let Stage { stub, mut sandbox } = self;
        for (path, content) in &form.files {
            let made = write_file(&sandbox.cwd().join(path), content);
            made.map_err(|source| PlayError::File { path: path.clone(), source })?;
        }
        for (name, value) in &form.env {
            sandbox = sandbox.with_env(name, value);
        }
        let mut talk = Talk::start(cli, &sandbox, &form, until).await?;
        // The CLI sends no request before it gets a prompt.
        stub.replace_script(Script::from(form.script));
        let mut messages = Vec::new();
        let played = follow(&mut talk, &form.transcript, until.limit, &mut messages).await;
        let complaints = talk.end().await.map_err(PlayError::Left)?;
        let breach = match played {
            Err(Breach::NotSaid { .. }) if messages.is_empty() => Some(Breach::Mute),
            // A missing tool is the better reason.
            Err(breach) => Some(tools_breach(&form.tools, &messages).filter(is_missing_tool).unwrap_or(breach)),
            Ok(()) => tools_breach(&form.tools, &messages)
                .or_else(|| file_breach(&form.leaves, sandbox.cwd()))
                .or_else(|| request_breach(&form.requested, &stub.model_calls())),
        };
        Ok(Played { how: form.how, messages, breach, complaints })
    }
}

/// Plays a transcript; received messages are added to `messages`.
async fn follow(talk: &mut Talk, steps: &[Step], limit: Duration, messages: &mut Vec<Value>) -> Result<(), Breach> {
    for step in steps {
        match step {
            Step::User(text) => {
                talk.send(&json!({"type": "user", "message": {"role": "user", "content": text}})).await;
            }
            Step::Send(line) => talk.send(&Value::Object(line.clone())).await,
            Step::Answer(answer) => {
                let asked = messages.iter().rev().find(|message| message["type"] == "control_request");
                let id = asked.map_or(Value::Null, |asked| asked["request_id"].clone());
                let response = json!({"subtype": "success", "request_id": id, "response": answer});
                talk.send(&json!({"type": "control_response", "response": response})).await;
            }
            Step::Expect(expected) => expect(talk, &Value::Object(expected.clone()), limit, messages).await?,
        }
    }
    Ok(())
}

/// Receives until the expected message comes. It has to come before the turn ends.
async fn expect(talk: &mut Talk, expected: &Value, limit: Duration, messages: &mut Vec<Value>) -> Result<(), Breach> {
    loop {
        let message = match talk.receive().await {
            Received::Message(message) => message,
            Received::End => return Err(Breach::NotSaid { expected: expected.clone() }),
            Received::TooLate => return Err(Breach::TooLate { expected: expected.clone(), limit }),
            Received::TooMuch => return Err(Breach::TooMuch),
        };
        let is_it = matches(expected, &message);
        let must_end_turn = message["type"] == "result";
        messages.push(message);
        match (is_it, must_end_turn) {
            (true, _) => return Ok(()),
            (false, true) => return Err(Breach::NotSaid { expected: expected.clone() }),
            (false, false) => {}
        }
    }
}

/// Why the tools did not run as they should: all missing tools, or the first one that did something else.
fn tools_breach(expected: &[ToolRun], messages: &[Value]) -> Option<Breach> {
    let there = shape::tools_of_session(messages);
    let uses = shape::tool_uses(messages);
    let mut breaches = Vec::new();
    for (run, place) in expected.iter().zip(places(expected)) {
        let used = uses.iter().filter(|used| used.name == run.name).nth(place);
        let what = match used.map(|used| used.result) {
            None => Some((ToolBreach::NotCalled, String::new())),
            Some(None) => Some((ToolBreach::NoResult, String::new())),
            Some(Some(result)) => {
                let said = shape::text_of_result(result);
                tool_breach(run, result["is_error"] == true, &said, &there).map(|what| (what, said))
            }
        };
        breaches.extend(what.map(|(what, said)| (run.name.clone(), what, said)));
    }
    let are_all_missing =
        breaches.len() == expected.len() && breaches.iter().all(|(_, what, _)| *what == ToolBreach::Missing);
    if are_all_missing && !breaches.is_empty() {
        let mut names: Vec<String> = breaches.into_iter().map(|(name, _, _)| name).collect();
        names.dedup();
        return Some(Breach::NoSuchTool { names });
    }
    breaches.into_iter().next().map(|(name, what, said)| Breach::Tool { name, what, said })
}

fn tool_breach(run: &ToolRun, failed: bool, said: &str, there: &[&str]) -> Option<ToolBreach> {
    match (failed, run.fails) {
        (true, _) if !there.contains(&run.name.as_str()) => Some(ToolBreach::Missing),
        (true, false) => Some(ToolBreach::Failed),
        (false, true) => Some(ToolBreach::DidNotFail),
        (true, true) | (false, false) => {
            let differs = run.result.as_ref().is_some_and(|result| !said.contains(result));
            differs.then_some(ToolBreach::OtherResult)
        }
    }
}

fn is_missing_tool(breach: &Breach) -> bool {
    match breach {
        Breach::NoSuchTool { .. } => true,
        Breach::Tool { what, .. } => *what == ToolBreach::Missing,
        Breach::Mute
        | Breach::TooLate { .. }
        | Breach::NotSaid { .. }
        | Breach::TooMuch
        | Breach::File { .. }
        | Breach::NotAsked { .. } => false,
    }
}

/// For each tool, how many of the same name come before it.
fn places(expected: &[ToolRun]) -> impl Iterator<Item = usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    expected.iter().map(move |run| {
        let count = counts.entry(&run.name).or_default();
        *count += 1;
        *count - 1
    })
}

fn file_breach(leaves: &BTreeMap<String, String>, directory: &Path) -> Option<Breach> {
    let missing = leaves.iter().find(|(path, text)| !holds_text(&directory.join(path), text));
    missing.map(|(path, _)| Breach::File { path: path.clone() })
}

/// Whether a path is a file that contains a text near its beginning.
fn holds_text(path: &Path, text: &str) -> bool {
    // A pipe would block, and a device would never end.
    let is_file = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    is_file && beginning_of(path).is_ok_and(|beginning| String::from_utf8_lossy(&beginning).contains(text))
}

fn beginning_of(path: &Path) -> Result<Vec<u8>, io::Error> {
    let mut beginning = Vec::new();
    CHECK_FILE.open_existing(path)?.take(LEFT_BYTES_MAX).read_to_end(&mut beginning)?;
    Ok(beginning)
}

/// How much of a file is searched.
const LEFT_BYTES_MAX: u64 = 16 * 1024 * 1024;

fn request_breach(texts: &[String], calls: &[Value]) -> Option<Breach> {
    let mut calls = calls.iter();
    // Every call is used once, so that the texts are in different ones.
    let missing = texts.iter().find(|text| !calls.any(|call| has_text(call, text)));
    missing.map(|text| Breach::NotAsked { text: text.clone() })
}

fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found.contains(text),
        Value::Array(items) => items.iter().any(|item| has_text(item, text)),
        Value::Object(members) => members.values().any(|member| has_text(member, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn write_file(path: &Path, content: &str) -> Result<(), io::Error> {
    path.parent().map_or(Ok(()), files::make_folder)?;
    CHECK_FILE.open(path)?.write_all(content.as_bytes())
}
