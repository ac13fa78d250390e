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
A Rust program can drive Claude Code with the crate watari-sdk. Access over HTTP is planned and does not exist yet.

Examples:
  watari doctor                     # does this machine have what Watari needs?
  watari check --fetch              # does Claude Code still behave as Watari expects?
  watari stub answers.yaml          # test without an API key
  watari stdio                      # one session over standard input and output
  watari socket --cwd ~/project     # one session on a UNIX socket, for many clients
  watari schema bridge              # the JSON Schema of the messages of watari stdio
  cargo run -p watari-sdk --example ask -- \"What is in this folder?\"
  cargo run -p watari-sdk --example chat";

/// The argument that makes this program the fake CLI, for tests.
const FAKE_ARGUMENT: &str = "__fake-claude";

/// Makes a write over the file size limit fail, as a write to a full disk does, instead of terminating the program.
/// (Child processes get the default disposition back.)
fn survive_file_size_limits() {
    // If it cannot be registered, the default disposition applies.
    let _registered = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// Makes the kernel report exited children even if the parent process ignored SIGCHLD, which this program inherits.
fn report_exited_children() {
    // If it cannot be registered, the inherited disposition applies.
    let _registered = signal_hook::flag::register(signal_hook::consts::SIGCHLD, Arc::default());
}

fn main() -> ExitCode {
    // First of all: the parent process may have blocked the signals that end this program.
    watari_sdk::unblock_signals();
    // And passed on its descriptors, which are not meant for the programs that this one starts.
    watari_sdk::keep_inherited_descriptors();
    // This program is also the supervisor of sessions.
    Supervisor::run_if_supervisor();
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == FAKE_ARGUMENT) {
        return fake_claude::run(arguments);
    }
    survive_file_size_limits();
    report_exited_children();
    // Before anything is printed: the standard library ignores a stdout that is not writable.
    if let Err(why) = standard_streams::check_writable(std::io::stdout()) {
        return command::fail(&format!("cannot write to standard output: {why}"));
    }
    match Watari::parse().command {
        Some(command) => command.run(),
        None => match Watari::command().print_help() {
            Ok(()) => ExitCode::SUCCESS,
            // Standard output is closed.
            Err(_) => ExitCode::FAILURE,
        },
    }
}
