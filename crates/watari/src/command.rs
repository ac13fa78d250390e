//! The commands of the program, each in a file of its own.

mod check;
mod doctor;
mod stub;

use std::io::{self, Write};
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

/// What the program is asked to do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Stub(stub::Stub),
    Check(check::Check),
    Doctor(doctor::Doctor),
}

impl Command {
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Command::Stub(stub) => stub.run(),
            Command::Check(check) => check.run(),
            Command::Doctor(doctor) => doctor.run(),
        }
    }
}

/// What a command exits with that could not do what it was asked to; one is for an answer that is a no.
const CANNOT: u8 = 2;

/// Says why a command cannot do what it was asked to.
fn fail(why: &str) -> ExitCode {
    // If nobody reads it, the code still tells.
    let _written = writeln!(io::stderr().lock(), "watari: {why}");
    ExitCode::from(CANNOT)
}

/// Prints what a command found.
fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads what is printed.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Waits until somebody wants the program to end: Ctrl-C, or SIGTERM.
async fn stopped() {
    let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    let (Ok(mut interrupt), Ok(mut terminate)) = (interrupt, terminate) else {
        // Without handlers the signals end the program by themselves.
        return std::future::pending().await;
    };
    tokio::select! {
        // Both may be dropped half-way: one is enough.
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
