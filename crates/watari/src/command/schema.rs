//! `watari schema`: prints the JSON Schemas of the dialects.

use std::process::ExitCode;

use super::print;
use crate::dialect::{bridge, native, socket};

/// Print the JSON Schema of a dialect's messages, for example to generate code.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Schema {
    /// Dialect whose messages to print
    dialect: Dialect,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Dialect {
    /// The dialect of `watari stdio`
    Bridge,
    /// The dialect of the socket of `watari socket`
    Socket,
    /// Watari's own dialect: the events as they are stored, and every command
    Native,
}

const AFTER_HELP: &str = "\
The schema uses draft 2020-12 and has one definition per message. to_watari covers everything that a client writes,
from_watari everything that it reads. A type that both sides write has two definitions, such as hello and
hello_from_watari.

Examples:
  watari schema bridge > bridge.json
  watari schema native > native.json";

impl Schema {
    pub(crate) fn run(self) -> ExitCode {
        let schema = match self.dialect {
            Dialect::Bridge => bridge::schema(),
            Dialect::Socket => socket::schema(),
            Dialect::Native => native::schema(),
        };
        print(&format!("{schema:#}\n"), ExitCode::SUCCESS)
    }
}
