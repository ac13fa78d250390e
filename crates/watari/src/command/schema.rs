//! `watari schema`: the JSON Schemas of what is spoken with clients.

use std::process::ExitCode;

use super::print;
use crate::dialect::bridge;

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
}

const AFTER_HELP: &str = "\
It is of draft 2020-12, with one definition for each message; to_watari is all that a client writes, from_watari all
that it reads.

Example:
  watari schema bridge > bridge.json";

impl Schema {
    pub(crate) fn run(self) -> ExitCode {
        let schema = match self.dialect {
            Dialect::Bridge => bridge::schema(),
        };
        print(&format!("{schema:#}\n"), ExitCode::SUCCESS)
    }
}
