//! Sends one prompt and prints the answer as it is generated.
//!
//! ```text
//! cargo run -p watari-sdk --example ask -- "What is in this folder?"
//! ```

use std::io::Write;

use watari_sdk::{Delta, Event, Options, Supervisor, TurnEnding, query};

#[tokio::main(flavor = "current_thread")]
async fn ask(prompt: String) -> Result<(), Box<dyn std::error::Error>> {
    let options = Options { supervisor: Supervisor::ThisProgram, ..Options::default() };
    let mut answer = query(prompt, options).await?;
    let mut stdout = std::io::stdout().lock();
    while let Some(event) = answer.next().await {
        if let Event::BlockDelta { delta: Delta::Text(text), .. } = &event {
            stdout.write_all(text.as_bytes())?;
            stdout.flush()?;
        }
        if let Event::TurnFinished { outcome, .. } = &event {
            match outcome.ending {
                TurnEnding::Completed => writeln!(stdout)?,
                TurnEnding::Interrupted | TurnEnding::Failed(_) => {
                    writeln!(stdout, "\nfailed: {}", outcome.result.as_deref().unwrap_or(&outcome.subtype))?;
                }
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // This program is also the supervisor of its own sessions. Must be the first call.
    Supervisor::run_if_supervisor();
    ask(std::env::args().nth(1).ok_or("usage: ask PROMPT")?)
}
