//! `watari schema`: the JSON Schemas of what is spoken with clients.

use std::process::ExitCode;

use super::print;
use crate::dialect::{bridge, native, socket};

/// Print the JSON Schema of the messages that clients write and read, to generate code from.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Schema {
    /// Whose messages
    dialect: Dialect,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Dialect {
    /// Those of `watari stdio`
    Bridge,
    /// Those of the socket of `watari socket`
    Socket,
    /// Watari's own: the events as they are stored, and every command
    Native,
}

const AFTER_HELP: &str = "\
It is of draft 2020-12, with one definition for each message; to_watari is all that a client writes, from_watari all
that it reads. A type that both write has two definitions, such as hello and hello_from_watari.

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
