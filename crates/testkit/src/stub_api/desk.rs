//! Records requests and takes replies, in one step.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::ledger::{Call, Ledger, RecordedRequest};
use super::script::{Reply, Script};

/// What every request needs: the ledger and the record file.
#[derive(Debug)]
pub(super) struct Desk {
    ledger: Arc<watch::Sender<Ledger>>,
    record: Option<File>,
    started: Instant,
}

/// What to do with a recorded request.
pub(super) enum Noted {
    ForModel { reply: Arc<Reply>, id: String },
    Other(Call),
}

impl Desk {
    pub(super) fn new(ledger: Arc<watch::Sender<Ledger>>, record: Option<File>) -> Self {
        Self { ledger, record, started: Instant::now() }
    }

    /// Records a request and, if the model has to answer it, takes the reply and an id for its message: in one step, so
    /// that replies leave in the order in which requests are recorded.
    pub(super) fn note(&self, mut request: RecordedRequest, bytes: usize) -> Result<Noted, io::Error> {
        request.at = self.started.elapsed();
        let mut noted = Ok(Noted::Other(Call::Unknown));
        self.ledger.send_modify(|ledger| {
            request.number = ledger.next_number();
            let answerer = request.sort(ledger.script());
            noted = self.write_down(&request).map(|()| match ledger.take_reply(&answerer) {
                Some((reply, id)) => Noted::ForModel { reply, id },
                None => Noted::Other(request.call),
            });
            ledger.record(request, bytes);
        });
        noted
    }

    /// Starts over with another script, as if there had been no request yet.
    pub(super) fn replace_script(&self, script: Script) {
        self.ledger.send_modify(|ledger| ledger.begin_again(script));
    }

    pub(super) fn with_requests<T>(&self, read: impl FnOnce(&mut dyn Iterator<Item = &RecordedRequest>) -> T) -> T {
        read(&mut self.ledger.borrow().requests())
    }

    fn write_down(&self, request: &RecordedRequest) -> Result<(), io::Error> {
        let Some(mut file) = self.record.as_ref() else {
            return Ok(());
        };
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        // One write, so that a reader sees whole lines.
        file.write_all(&line)
    }
}
