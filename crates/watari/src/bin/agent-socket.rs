//! `agent-socket`: another name of `watari socket`, after the protocol agent-socket.

#![allow(clippy::print_stderr, reason = "it has no other way to report why it cannot start")]

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    // The two programs are usually installed in the same folder. If they are not, `watari` is searched in PATH.
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name("watari"));
    let watari = beside.filter(|program| program.is_file()).unwrap_or_else(|| "watari".into());
    let error = Command::new(&watari).arg("socket").args(std::env::args_os().skip(1)).exec();
    eprintln!("agent-socket: cannot start {}: {error}; install watari beside it", watari.display());
    ExitCode::from(2)
}
