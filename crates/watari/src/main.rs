//! The `watari` program.

mod command;
mod dialect;
mod frontend;
mod host_log;
mod printable;
mod standard_streams;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory, Parser};
use command::Command;
use watari_sdk::Supervisor;
use watari_testkit::fake_claude;

/// Drive Claude Code from any program as structured data.
#[derive(Debug, Parser)]
#[command(version, about, after_help = AFTER_HELP)]
struct Watari {
    #[command(subcommand)]
    command: Option<Command>,
}

const AFTER_HELP: &str = "\
The bridge over HTTP is not in this version yet. What is, beside these commands: the crate
watari-sdk, with which a Rust program holds a conversation with Claude Code, and the keeper of its sessions,
which this program is when the crate starts it.

Examples:
  watari doctor                     # will it work here?
  watari check --fetch              # what of the protocol holds with a version?
  watari stub answers.yaml          # test without a key
  watari stdio                      # one session over standard input and output
  watari socket --cwd ~/project     # one session on a UNIX socket, for many clients
  watari schema bridge              # … and the JSON Schema of its messages
  cargo run -p watari-sdk --example ask -- \"What is in this folder?\"
  cargo run -p watari-sdk --example chat";

/// The argument that makes this program a stand-in for the CLI, for tests.
const FAKE_ARGUMENT: &str = "__fake-claude";

/// A write over the limit for the size of files fails, as one to a full disk does, instead of ending the program. (What
/// it starts gets the system's own rule back.)
fn survive_file_size_limits() {
    // Where it cannot be, the system's rule holds.
    let _registered = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// The end of a child is heard of, also if whoever started this program ignores it: then the system would tell nothing.
fn hear_of_children() {
    // Where it cannot be, the system's rule holds.
    let _registered = signal_hook::flag::register(signal_hook::consts::SIGCHLD, Arc::default());
}

fn main() -> ExitCode {
    // First of all: whoever started this program may have blocked what ends it.
    watari_sdk::unblock_signals();
    // This program is also the keeper of sessions.
    Supervisor::run_if_supervisor();
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == FAKE_ARGUMENT) {
        return fake_claude::run(arguments);
    }
    survive_file_size_limits();
    hear_of_children();
    // Before anything is printed: the printers of the standard library pass over a descriptor that cannot be written.
    if let Err(why) = standard_streams::check_writable(std::io::stdout()) {
        return command::fail(&format!("standard output cannot be written: {why}"));
    }
    match Watari::parse().command {
        Some(command) => command.run(),
        None => match Watari::command().print_help() {
            Ok(()) => ExitCode::SUCCESS,
            // Nobody reads what is printed.
            Err(_) => ExitCode::FAILURE,
        },
    }
}
