//! One question, one answer: prints the text as the model writes it.
//!
//! ```text
//! cargo run -p watari-sdk --example ask -- "What is in this folder?"
//! ```

use std::error::Error;
use std::io::Write;

use watari_sdk::{Delta, Event, Options, Supervisor, TurnEnding, query};

#[tokio::main(flavor = "current_thread")]
async fn ask(prompt: String) -> Result<(), Box<dyn Error>> {
    let options = Options { supervisor: Supervisor::ThisProgram, ..Options::default() };
    let mut answer = query(prompt, options).await?;
    let mut stdout = std::io::stdout().lock();
    while let Some(event) = answer.next().await {
        if let Event::BlockDelta { delta: Delta::Text(text), .. } = &event {
            stdout.write_all(text.as_bytes())?;
            stdout.flush()?;
        }
        if let Event::TurnFinished { outcome, .. } = event {
            writeln!(stdout)?;
            if outcome.ending != TurnEnding::Completed {
                return Err(outcome.result.unwrap_or(outcome.subtype).into());
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    // This call comes first: the program is also the supervisor of its own sessions.
    Supervisor::run_if_supervisor();
    ask(std::env::args().nth(1).ok_or("usage: ask PROMPT")?)
}
