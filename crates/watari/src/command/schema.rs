//! `watari schema`: prints the JSON Schemas of the dialects.

use std::process::ExitCode;

use super::print;
use crate::dialect::{bridge, native, socket};

/// Print the JSON Schema of the messages that clients write and read, for example to generate code.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Schema {
    /// Dialect: the kind of messages
    dialect: Dialect,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Dialect {
    /// The messages of `watari stdio`
    Bridge,
    /// The messages on the socket of `watari socket`
    Socket,
    /// The messages on the second socket of `watari socket`: all events as they are stored, and all commands
    Native,
}

const AFTER_HELP: &str = "\
The schema uses draft 2020-12 and has one definition per message. The definition to_watari covers all messages that a
client writes, from_watari all that it reads. A type that exists in both directions has two definitions, such as hello
and hello_from_watari.

The schemas of files: `watari stub --schema` (scripts) and `watari check --schema` (scenarios).

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
