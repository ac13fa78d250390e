//! Asks one question and prints the answer while the model writes it. README.md shows this program; a test compares.
//!
//! ```text
//! cargo run -p watari-sdk --example ask -- "What is in this folder?"
//! ```
#![expect(
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    reason = "a short program that looks for a few events"
)]

use std::error::Error;
use std::io::Write;

use watari_sdk::{Answer, Author, BlockKind, Delta, Event, Options, Supervisor, TurnCause, TurnEnding, query};

fn main() -> Result<(), Box<dyn Error>> {
    // Must be the first call. Watari starts this program a second time, as the supervisor: the process that terminates
    // Claude Code if this one dies. In that second process, this call does not return.
    Supervisor::run_if_supervisor();
    ask(std::env::args().nth(1).ok_or("usage: ask PROMPT")?)
}

// `#[tokio::main]` is not on `main`, because it starts threads, and the supervisor must start without any.
#[tokio::main]
async fn ask(prompt: String) -> Result<(), Box<dyn Error>> {
    let options = Options { supervisor: Supervisor::ThisProgram, ..Options::default() };
    let mut query = query(prompt, options).await?;
    let mut ending: Result<(), Box<dyn Error>> = Err("the session ended without a result".into());
    while let Some(event) = query.next().await {
        match event {
            // Deltas of other kinds are the model's reasoning and the input of tools.
            Event::BlockDelta { delta: Delta::Text(text), .. } => {
                print!("{text}");
                std::io::stdout().flush()?;
            }
            // The deltas have printed this text: end its line.
            Event::BlockFinished { streamed: true, content, .. } if content.kind == BlockKind::Text => println!(),
            // The CLI does not stream every text. Blocks with a `parent` come from a subagent.
            Event::BlockFinished { parent: None, source, content, .. }
                if source.author == Author::Model && content.kind == BlockKind::Text =>
            {
                println!("{}", content.text().unwrap_or_default());
            }
            // An MCP server from the user's settings wants the user to fill in a form, which this program cannot show.
            // (The CLI asks nothing else, unless the options say so.) If this fails, the CLI has withdrawn the form or
            // exited.
            Event::AskOpened { ask, .. } => drop(query.answer(ask, Answer::Decline).await),
            // A turn that the CLI has started by itself has `TurnCause::Cli`: it is not the answer.
            Event::TurnFinished { cause: TurnCause::Prompt(_), outcome } => {
                ending = match outcome.ending {
                    TurnEnding::Completed => Ok(()),
                    TurnEnding::Interrupted | TurnEnding::Failed(_) => Err(outcome.error_text().into()),
                };
            }
            _ => {}
        }
    }
    // An error is printed to stderr, and the program exits with 1.
    ending
}
