//! The fake CLI as a program, so that tests can start it: see `watari_testkit::fake_claude`.

use std::process::ExitCode;

fn main() -> ExitCode {
    watari_testkit::fake_claude::run(std::env::args_os().skip(1))
}
