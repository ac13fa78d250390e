//! The supervisor as a program of its own, for programs that use the crate without `watari`.

use std::io::Write;
use std::process::ExitCode;

use watari_sdk::Supervisor;

fn main() -> ExitCode {
    Supervisor::run_if_supervisor();
    // Reached only when a person started it; a write error does not matter.
    let _unread = writeln!(
        std::io::stderr(),
        "watari-supervisor is started by programs that use watari-sdk, to terminate the processes of their sessions; \
         set its path in Options::supervisor"
    );
    ExitCode::from(2)
}
