//! The keeper as a program of its own, for programs that use the crate without `watari`.

use watari_sdk::Keeper;

fn main() -> std::process::ExitCode {
    Keeper::run_if_asked();
    // Reached only when a person started it.
    std::process::ExitCode::from(2)
}
