//! Records requests and takes replies, in one step.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::request_log::{Call, RecordedRequest, RequestLog};
use super::script::{Reply, Script};

/// What every request needs: the request log and the record file.
#[derive(Debug)]
pub(super) struct RequestHandler {
    request_log: Arc<watch::Sender<RequestLog>>,
    record: Option<File>,
    started: Instant,
}

/// What to do with a recorded request.
pub(super) enum Noted {
    ForModel { reply: Arc<Reply>, id: String },
    Other(Call),
}

impl RequestHandler {
    pub(super) fn new(request_log: Arc<watch::Sender<RequestLog>>, record: Option<File>) -> Self {
        Self { request_log, record, started: Instant::now() }
    }

    /// Records a request and, if the model has to answer it, takes the reply and an id for its message: in one step, so
    /// that replies leave in the order in which requests are recorded.
    pub(super) fn note(&self, mut request: RecordedRequest, bytes: usize) -> Result<Noted, io::Error> {
        request.at = self.started.elapsed();
        let mut noted = Ok(Noted::Other(Call::Unknown));
        self.request_log.send_modify(|request_log| {
            request.number = request_log.next_number();
            let answerer = request.sort(request_log.script());
            noted = self.write_down(&request).map(|()| match request_log.take_reply(&answerer) {
                Some((reply, id)) => Noted::ForModel { reply, id },
                None => Noted::Other(request.call),
            });
            request_log.record(request, bytes);
        });
        noted
    }

    /// Starts over with another script, as if there had been no request yet.
    pub(super) fn replace_script(&self, script: Script) {
        self.request_log.send_modify(|request_log| request_log.begin_again(script));
    }

    pub(super) fn with_requests<T>(&self, read: impl FnOnce(&mut dyn Iterator<Item = &RecordedRequest>) -> T) -> T {
        read(&mut self.request_log.borrow().requests())
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
