//! The keeper as a program of its own, for programs that use the crate without `watari`.

use std::io::Write;
use std::process::ExitCode;

use watari_sdk::Keeper;

fn main() -> ExitCode {
    Keeper::run_if_asked();
    // Reached only when a person started it; should nobody read this, nothing is lost.
    let _unread = writeln!(
        std::io::stderr(),
        "watari-keeper is started by programs that use watari-sdk, to end what their sessions leave behind; \
         name it in Options::keeper"
    );
    ExitCode::from(2)
}
