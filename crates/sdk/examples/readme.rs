//! The program of the README.

use std::error::Error;
use std::io::Write;

use watari_sdk::{BlockKind, Delta, Event, Options, Supervisor, TurnCause, TurnEnding, query};

fn main() -> Result<(), Box<dyn Error>> {
    // This call comes first: the program also serves as the supervisor of its own sessions.
    Supervisor::run_if_supervisor();
    ask()
}

#[tokio::main]
async fn ask() -> Result<(), Box<dyn Error>> {
    let options = Options { supervisor: Supervisor::ThisProgram, ..Options::default() };
    let mut answer = query("What is in this folder?", options).await?;
    let mut ending = Err("the session ended without a result".into());
    while let Some(event) = answer.next().await {
        match event {
            // Deltas of other kinds are the model's reasoning and the input of tools.
            Event::BlockDelta { delta: Delta::Text(text), .. } => {
                print!("{text}");
                std::io::stdout().flush()?;
            }
            Event::BlockFinished { streamed: true, content, .. } if content.kind == BlockKind::Text => println!(),
            Event::TurnFinished { cause: TurnCause::Prompt(_), outcome } => {
                ending = match outcome.ending {
                    TurnEnding::Completed => Ok(()),
                    _ => Err(outcome.result.unwrap_or(outcome.subtype).into()),
                };
            }
            _ => {}
        }
    }
    // An error is printed to stderr, and the program exits with 1.
    ending
}
