//! The keeper as a program of its own, for programs that use the crate without `watari`.

use std::io::Write;
use std::process::ExitCode;

use watari_sdk::Supervisor;

fn main() -> ExitCode {
    Supervisor::run_if_supervisor();
    // Reached only when a person started it; should nobody read this, nothing is lost.
    let _unread = writeln!(
        std::io::stderr(),
        "watari-supervisor is started by programs that use watari-sdk, to end what their sessions leave behind; \
         name it in Options::keeper"
    );
    ExitCode::from(2)
}
