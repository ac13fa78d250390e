//! The recorder as a program, so that a session can start it as its CLI: see `watari_testkit::recorder`.

use std::process::ExitCode;

fn main() -> ExitCode {
    watari_testkit::recorder::run(std::env::args_os().skip(1))
}
