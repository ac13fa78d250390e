//! The `watari` program.

use clap::{CommandFactory, Parser};
use watari_sdk::Keeper;

/// Drive Claude Code from any program as structured data.
#[derive(Debug, Parser)]
#[command(version, about, after_help = AFTER_HELP)]
struct Watari {}

const AFTER_HELP: &str = "\
The bridges (stdio, UNIX socket, HTTP) are not in this version yet. What is: the crate watari-sdk, with
which a Rust program holds a conversation with Claude Code, and the keeper of its sessions, which this
program is when the crate starts it.

Examples:
  watari --version
  cargo run -p watari-sdk --example ask -- \"What is in this folder?\"
  cargo run -p watari-sdk --example chat";

fn main() -> std::io::Result<()> {
    // First of all: this program is also the keeper of sessions.
    Keeper::run_if_asked();
    Watari::parse();
    Watari::command().print_help()
}
