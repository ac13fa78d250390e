//! A chat in which tools ask for permission.
//!
//! Each line of input is a prompt. While an ask is open, `y` or `n` answers it. The end of input ends the session.
//!
//! ```text
//! cargo run -p watari-sdk --example chat
//! ```

use std::io::Write;

use tokio::io::{AsyncBufReadExt, BufReader};
use watari_sdk::{Answer, AskId, AskKind, Client, Delta, Event, Options, PermissionPrompts, Supervisor};

#[tokio::main(flavor = "current_thread")]
async fn chat() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options {
        supervisor: Supervisor::ThisProgram,
        permission_prompts: PermissionPrompts::Ask { answer_within: None },
        ..Options::default()
    };
    let (client, mut events) = Client::connect(options).await?;
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    let mut asked = Vec::new();
    loop {
        tokio::select! {
            // Cancel-safe: an event that is not taken stays in the queue.
            event = events.next() => match event {
                Some(event) => show(&event, &mut asked)?,
                None => return Ok(()),
            },
            // Cancel-safe: an unfinished line stays in the reader.
            line = input.next_line() => match line? {
                Some(line) => apply(line.trim(), &client, &asked).await?,
                None => break,
            },
        }
    }
    client.close().await;
    Ok(())
}

fn show(event: &Event, asked: &mut Vec<AskId>) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    if let Event::BlockDelta { delta: Delta::Text(text), .. } = event {
        write!(stdout, "{}", visible(text))?;
    }
    if let Event::AskOpened { ask, kind } = event {
        asked.push(*ask);
        match kind {
            AskKind::Permission(asks) | AskKind::Question(asks) | AskKind::Plan(asks) => {
                let input = visible(asks.input.as_str());
                writeln!(stdout, "\nallow {} to run with {input}? y/n", visible(&asks.tool))?;
            }
            // Do not occur: the options have no hooks, tools or MCP servers.
            AskKind::Hook(_) | AskKind::Form(_) | AskKind::ToolCall(_) => {}
        }
    }
    if let Event::AskResolved { ask, .. } = event {
        asked.retain(|open| open != ask);
    }
    if let Event::BecameIdle = event {
        writeln!(stdout, "\nready")?;
    }
    stdout.flush()
}

async fn apply(line: &str, client: &Client, asked: &[AskId]) -> std::io::Result<()> {
    let result = match (line, asked.first()) {
        ("", _) => return Ok(()),
        ("y", Some(ask)) => client.answer(*ask, Answer::allow()).await,
        ("n", Some(ask)) => client.answer(*ask, Answer::deny("The user said no")).await,
        (prompt, None) => client.send(prompt).await.map(drop),
        (_, Some(_)) => return writeln!(std::io::stdout(), "y or n?"),
    };
    match result {
        Ok(()) => Ok(()),
        // For example because the CLI withdrew the ask meanwhile.
        Err(refused) => writeln!(std::io::stdout(), "{refused}"),
    }
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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // This program is also the supervisor of its own sessions. Must be the first call.
    Supervisor::run_if_supervisor();
    chat()
}
