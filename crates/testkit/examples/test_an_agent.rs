//! A small agent and its test. The agent has Claude look at a folder and says in one line what is there. In the test, a
//! script answers in place of the model, so it needs no API key and no network. It does need a Claude Code: the
//! `claude` on the PATH, or `Options::claude`.
//!
//! ```text
//! cargo run -p watari-testkit --example test_an_agent
//! ```
//!
//! In your own program, add `watari-testkit = { path = "../watari/crates/testkit" }` to the `[dev-dependencies]`, and
//! write `#[tokio::test]` instead of a `main`. A test has no `main` that could begin with `run_if_supervisor`, so use
//! `Supervisor::None` there, or `Supervisor::Program` with the path of `watari`.

#![expect(clippy::wildcard_enum_match_arm, reason = "a short program that looks for a few events")]

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use watari_sdk::{Answer, Environment, Event, Options, SettingSource, Supervisor, TurnCause, TurnEnding, query};
use watari_testkit::{Reply, Sandbox, Script, StubApi};

fn main() -> Result<(), Box<dyn Error>> {
    // Must be the first call. Watari starts this program a second time, as the supervisor: the process that terminates
    // Claude Code if this one dies. In that second process, this call does not return.
    Supervisor::run_if_supervisor();
    test()
}

/// The agent: what is in this folder, in one line.
async fn summarize(folder: &Path, options: Options) -> Result<String, Box<dyn Error>> {
    // Commands that only read, such as `ls`, need no permission.
    let options = Options { cwd: Some(folder.to_owned()), ..options };
    let mut events = query("Look at this folder and say in one line what is in it.", options).await?;
    let mut summary = Err("there was no answer".to_owned());
    while let Some(event) = events.next().await {
        match event {
            // A form of an MCP server in the user's settings: nobody is there to fill it in. If this fails, the CLI has
            // withdrawn the form or exited.
            Event::AskOpened { ask, .. } => drop(events.answer(ask, Answer::Decline).await),
            // A turn that the CLI has started by itself has `TurnCause::Cli`: it is not the answer.
            Event::TurnFinished { cause: TurnCause::Prompt(_), outcome } => {
                summary = match outcome.ending {
                    TurnEnding::Completed => Ok(first_line(&outcome.result.unwrap_or_default())),
                    TurnEnding::Interrupted | TurnEnding::Failed(_) => Err(outcome.error_text()),
                };
            }
            _ => {}
        }
    }
    Ok(summary?)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Its test: what the tool finds must reach the model, and an API that fails must be an error.
#[tokio::main(flavor = "current_thread")]
async fn test() -> Result<(), Box<dyn Error>> {
    let look = Reply::tool_use("toolu_look", "Bash", json!({"command": "ls"}));
    let stub = StubApi::start(Script::new().reply(look).reply(Reply::text("Two notes.\nNothing else."))).await?;
    let sandbox = Sandbox::new(&stub.base_url())?;
    for name in ["milk.txt", "bread.txt"] {
        std::fs::write(sandbox.cwd().join(name), "two")?;
    }
    // The CLI must not see anything of the developer. It gets only the sandbox's environment, so `User` means the
    // settings in the sandbox's empty home folder. It reads no project settings, neither of this folder nor of its
    // parents.
    let options = Options {
        setting_sources: Some(vec![SettingSource::User]),
        environment: Environment::only(sandbox.environment()),
        supervisor: Supervisor::ThisProgram,
        ..Options::default()
    };
    let limit = Duration::from_secs(60);
    let mut stdout = std::io::stdout().lock();

    // The first `?` is for the time limit, the second for the agent's own error.
    let summary = tokio::time::timeout(limit, summarize(sandbox.cwd(), options.clone())).await??;
    writeln!(stdout, "the agent said: {summary}")?;
    ensure(summary == "Two notes.", "the agent must say the first line of the answer")?;

    let calls = stub.model_calls();
    writeln!(stdout, "the model was asked {} times", calls.len())?;
    let found = calls.last().and_then(|call| tool_result(call, "toolu_look")).unwrap_or_default();
    writeln!(stdout, "the tool found: {found:?}")?;
    ensure(found == "bread.txt\nmilk.txt", "what the tool found must reach the model")?;

    // This also forgets the calls so far.
    stub.replace_script(Script::new().reply(Reply::status(529, "Overloaded")));
    let failed = tokio::time::timeout(limit, summarize(sandbox.cwd(), options)).await?;
    ensure(failed.is_err() && !stub.model_calls().is_empty(), "an API that fails must be an error")?;
    writeln!(stdout, "with an API that fails there is an error")?;
    Ok(())
}

/// Finds the result of a tool use in a request that the CLI sent to the API.
fn tool_result<'a>(call: &'a Value, id: &str) -> Option<&'a str> {
    let messages = call["messages"].as_array().into_iter().flatten();
    let mut blocks = messages.filter_map(|message| message["content"].as_array()).flatten();
    blocks.find(|block| block["tool_use_id"] == id)?["content"].as_str()
}

fn ensure(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}
