//! A conversation in which tools ask before they run.
//!
//! Each line that is read is a prompt; `y` or `n` answers a question; the end of input ends the session.
//!
//! ```text
//! cargo run -p watari-sdk --example chat
//! ```

use std::io::Write;

use tokio::io::{AsyncBufReadExt, BufReader};
use watari_sdk::{AskId, AskKind, Client, Decision, Delta, Event, Keeper, Options, PermissionPrompts};

#[tokio::main(flavor = "current_thread")]
async fn chat() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options {
        keeper: Keeper::ThisProgram,
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
            // Cancel-safe: `next_line` keeps an unfinished line in the reader.
            line = input.next_line() => match line? {
                Some(line) => obey(&line, &client, &mut asked).await?,
                None => break,
            },
        }
    }
    client.close().await;
    Ok(())
}

fn show(event: &Event, asked: &mut Vec<AskId>) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    if let Event::BlockGrew { delta: Delta::Text(text), .. } = event {
        write!(stdout, "{text}")?;
    }
    if let Event::AskOpened { ask, kind: AskKind::Permission(permission) } = event {
        asked.push(*ask);
        // The input comes from the model: as JSON it has no control characters that a terminal would obey.
        writeln!(stdout, "\nmay {} run with {}? y/n", permission.tool, permission.input.as_str())?;
    }
    if let Event::BecameIdle = event {
        writeln!(stdout, "\nready")?;
    }
    stdout.flush()
}

async fn obey(line: &str, client: &Client, asked: &mut Vec<AskId>) -> Result<(), Box<dyn std::error::Error>> {
    match (line, asked.pop()) {
        ("y", Some(ask)) => client.respond(ask, Decision::allow()).await?,
        ("n", Some(ask)) => client.respond(ask, Decision::deny("The user said no")).await?,
        (_, Some(ask)) => asked.push(ask),
        (prompt, None) => {
            client.send(prompt).await?;
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First of all: this program is also the keeper of its own sessions.
    Keeper::run_if_asked();
    chat()
}
