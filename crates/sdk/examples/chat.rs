//! A chat in which tools ask for permission.
//!
//! Each line of input is a prompt. While an ask is open, `y` or `n` answers it. The end of input ends the session.
//!
//! ```text
//! cargo run -p watari-sdk --example chat
//! ```
#![expect(clippy::wildcard_enum_match_arm, reason = "a short program that looks for a few events")]

use std::error::Error;
use std::io::Write;

use tokio::io::{AsyncBufReadExt, BufReader};
use watari_sdk::{
    Answer, AskId, AskKind, BlockKind, Client, CommandError, Delta, Event, Options, PermissionPrompts, Supervisor,
    TurnEnding,
};

fn main() -> Result<(), Box<dyn Error>> {
    // Must be the first call. Watari starts this program a second time, as the supervisor: the process that terminates
    // Claude Code if this one dies. In that second process, this call does not return.
    Supervisor::run_if_supervisor();
    chat()
}

// One thread is enough here. A program that does more leaves `flavor` out.
#[tokio::main(flavor = "current_thread")]
async fn chat() -> Result<(), Box<dyn Error>> {
    let options = Options {
        supervisor: Supervisor::ThisProgram,
        permission_prompts: PermissionPrompts::Ask { answer_timeout: None },
        ..Options::default()
    };
    let (client, mut events) = Client::connect(options).await?;
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    let mut open_asks = Vec::new();
    loop {
        // `select!` drops the future that is not ready first. Here, that loses nothing.
        tokio::select! {
            // Cancel-safe: an event that was not returned stays in the queue.
            event = events.next() => match event {
                Some(event) => handle_event(&event, &client, &mut open_asks).await?,
                None => return Err("the session has ended".into()),
            },
            // Cancel-safe: an unfinished line stays in the reader.
            line = input.next_line() => match line? {
                Some(line) => handle_line(line.trim(), &client, &open_asks).await?,
                None => break,
            },
        }
    }
    // Nobody reads the last events: `close` does not need that.
    client.close().await;
    Ok(())
}

async fn handle_event(event: &Event, client: &Client, open_asks: &mut Vec<AskId>) -> std::io::Result<()> {
    match event {
        Event::BlockDelta { delta: Delta::Text(text), .. } => print(&visible(text))?,
        // The CLI does not stream every text.
        Event::BlockFinished { streamed: false, parent: None, content, .. } if content.kind == BlockKind::Text => {
            print(&visible(&content.text().unwrap_or_default()))?;
        }
        Event::AskOpened { ask, kind } => match kind {
            // A real program shows questions and plans in another way, and answers a question with `Answer::Choose`.
            AskKind::Permission(request) | AskKind::Question(request) | AskKind::Plan(request) => {
                open_asks.push(*ask);
                let (tool, input) = (visible(&request.tool), visible(request.input.as_str()));
                print(&format!("\nallow {tool} to run with {input}? y/n\n"))?;
            }
            // From an MCP server in the user's settings. This chat cannot show forms.
            AskKind::Elicitation(_) => report(client.answer(*ask, Answer::Decline).await)?,
            // Hooks and calls of tools do not occur, because the options have none.
            _ => {}
        },
        Event::AskResolved { ask, .. } => open_asks.retain(|open| open != ask),
        Event::TurnFinished { outcome, .. } if outcome.ending != TurnEnding::Completed => {
            print(&format!("\nthe turn did not complete: {}", visible(&outcome.error_text())))?;
        }
        Event::BecameIdle => print("\nready\n")?,
        Event::CliExited { exit } => {
            print(&format!("\nClaude Code has exited ({:?}) {}\n", exit.reason, visible(&exit.stderr)))?;
        }
        _ => {}
    }
    Ok(())
}

async fn handle_line(line: &str, client: &Client, open_asks: &[AskId]) -> std::io::Result<()> {
    match (line, open_asks.first()) {
        ("", _) => Ok(()),
        ("y", Some(ask)) => report(client.answer(*ask, Answer::allow()).await),
        ("n", Some(ask)) => report(client.answer(*ask, Answer::deny("The user said no")).await),
        (_, Some(_)) => print("y or n?\n"),
        // Returns when the prompt is queued, not when it is answered. `map(drop)` discards the prompt's id.
        (prompt, None) => report(client.send(prompt).await.map(drop)),
    }
}

/// Prints why a command was refused. The session continues: the CLI may have withdrawn an ask just before the answer.
fn report(result: Result<(), CommandError>) -> std::io::Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(error) => print(&format!("{error}\n")),
    }
}

fn print(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Escapes control characters: text from a model must not control the terminal.
fn visible(text: &str) -> String {
    let is_control = |character: char| {
        let is_invisible =
            matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        (character.is_control() && !matches!(character, '\n' | '\t')) || is_invisible
    };
    let show = |character: char| {
        if is_control(character) { character.escape_unicode().to_string() } else { character.to_string() }
    };
    text.chars().map(show).collect()
}
