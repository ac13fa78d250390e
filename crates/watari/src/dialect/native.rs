//! Watari's own dialect: the events as they are stored, and the commands as the session knows them.
//!
//! Every line of an event begins with its place, `seq` or `after`, and is passed on as it is.

mod incoming;
mod line;
mod outgoing;
mod schema;

pub(super) use incoming::since;
pub(crate) use line::Line;
pub(crate) use schema::schema;

use watari_hub::{Attached, Outcome, Since};

use super::speaker::{Greeting, Heard, Problem, Reader, Speaker};
use outgoing::{Resume, Said};

/// The version of this dialect that is spoken here.
const PROTOCOL: u64 = 1;

/// A client that speaks it. It hears nothing before it has said hello.
#[derive(Debug, Default)]
pub(crate) struct Native;

impl Speaker for Native {
    fn begins_with(&self) -> Option<Since> {
        None
    }

    fn read(&mut self, line: &str) -> Result<Heard, Problem> {
        incoming::read(line)
    }

    fn reader(&self) -> Reader {
        Box::new(incoming::read)
    }

    fn greet(&mut self, attached: &Attached, _greeting: Greeting, out: &mut Vec<u8>) {
        let resume = if attached.is_gap { Resume::Gap } else { Resume::Ok };
        let hello = Said::Hello {
            protocol: PROTOCOL,
            key: attached.key.as_str(),
            session_id: &attached.session_id,
            seq: attached.last,
            state: attached.state,
            resume,
        };
        outgoing::write(&hello, out);
        if let Some(message) = &attached.trouble {
            outgoing::write(&Said::Error { id: None, message }, out);
        }
    }

    fn tell(&mut self, line: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }

    fn has_word_for(&self, _head: &[u8]) -> bool {
        true
    }

    fn answer(&mut self, id: Option<&str>, outcome: &Outcome, out: &mut Vec<u8>) {
        outgoing::write(&Said::outcome(id, outcome), out);
    }

    fn complain(&mut self, problem: &Problem, out: &mut Vec<u8>) {
        outgoing::write(&Said::Error { id: problem.id.as_deref(), message: &problem.message }, out);
    }
}
