//! Publishes the events of a session: numbers and stores each one before clients receive it.
//!
//! The driver calls the publisher, which has no task of its own. A client is attached in one step, between two events,
//! so that it misses none and gets none twice.

mod attach;
mod background;
mod commands;
mod left_open;
mod open_text;
mod storage_failure;
mod sync;
#[cfg(test)]
mod tests;
mod unparsed;

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::{mpsc, watch};
use tokio::time::Sleep;
use watari_sdk::native::NativeEvent;
use watari_sdk::{Command, Event, HostEvent, ProgramTool, Refusal, SessionState, Sink, Work};

use crate::command_dedup::CommandDedup;
use crate::host::{StopStep, StopWatch};
use crate::log::{AppendError, ephemeral_line};
use crate::ring::Ring;
use crate::session_files::SessionFiles;
use crate::settings::ChangedSettings;
use crate::snapshot::{Snapshot, StoredEvent, snapshot_change};
use crate::ticket::{CommandOutcome, Ticket};
pub(crate) use attach::PublisherRequest;
use background::Background;
use open_text::OpenText;
pub(crate) use open_text::Piece;
use sync::Fsync;
use unparsed::{Admission, UnparsedLines};

/// The sink of a host's driver: numbers, stores and publishes events. The host's task owns it.
pub(crate) struct Publisher {
    pub(crate) files: SessionFiles,
    ring: Ring,
    snapshot: Snapshot,
    /// What clients have changed in the CLI's settings.
    pub(crate) settings: ChangedSettings,
    /// The text of open blocks so far.
    open_text: BTreeMap<u64, OpenText>,
    requests: mpsc::Receiver<PublisherRequest>,
    /// Requests to stop the host.
    stop: StopWatch,
    dedup: CommandDedup,
    /// Commands that were accepted, and are acknowledged when their events are stored.
    unacknowledged: Vec<(Ticket, CommandOutcome)>,
    /// Whether the current command is acknowledged only then.
    awaits_storage: bool,
    /// The tools in the current command.
    offered_tools: Option<Vec<ProgramTool>>,
    state: watch::Sender<SessionState>,
    background: Background,
    /// Events that could not be stored, and those that came after them, in order.
    unstored: VecDeque<NativeEvent>,
    unstored_bytes: usize,
    dropped: u64,
    /// Why events cannot be stored, and when to try again.
    storage_failure: Option<(String, Pin<Box<Sleep>>)>,
    /// The same reason, for the watchers of [`Publisher::storage_failure`].
    storage_failure_sender: watch::Sender<Option<String>>,
    /// When to verify the log's file and the locks again.
    verify_at: Option<Pin<Box<Sleep>>>,
    is_closing: bool,
    unparsed: UnparsedLines,
    sync: Fsync,
    /// The text of the event that is being published; reused for its memory.
    text: Vec<u8>,
}

impl Publisher {
    pub(crate) fn new(
        files: SessionFiles,
        requests: mpsc::Receiver<PublisherRequest>,
        state: watch::Sender<SessionState>,
        stop: StopWatch,
    ) -> Publisher {
        Publisher {
            files,
            ring: Ring::new(),
            snapshot: Snapshot::default(),
            settings: ChangedSettings::default(),
            open_text: BTreeMap::new(),
            requests,
            stop,
            dedup: CommandDedup::default(),
            unacknowledged: Vec::new(),
            awaits_storage: true,
            offered_tools: None,
            state,
            background: Background::new(),
            unstored: VecDeque::new(),
            unstored_bytes: 0,
            dropped: 0,
            storage_failure: None,
            storage_failure_sender: watch::Sender::new(None),
            verify_at: None,
            is_closing: false,
            unparsed: UnparsedLines::default(),
            sync: Fsync::default(),
            text: Vec::new(),
        }
    }

    /// Publishes an event, or queues it until it can be stored.
    pub(crate) fn publish(&mut self, event: impl Into<NativeEvent>) {
        let event = event.into();
        if let NativeEvent::Session(event) = &event {
            match self.unparsed.admit(event) {
                Admission::Publish => {}
                Admission::Omit => return,
                Admission::PublishAfter(omitted) => self.publish_or_queue(omitted.into()),
            }
        }
        self.publish_or_queue(event);
    }

    /// Publishes an event, whether or not unparsed lines are being omitted; queues it if it cannot be stored.
    fn publish_or_queue(&mut self, event: NativeEvent) {
        if self.storage_failure.is_none() {
            match self.store_and_publish(&event) {
                Ok(()) => return,
                Err(error) => self.report_storage_failure(&error),
            }
        }
        self.queue_unstored(event);
    }

    /// Records that the CLI is starting.
    pub(crate) fn process_starting(&mut self) {
        self.is_closing = false;
        self.change_state(SessionState::Starting);
    }

    /// Whether work of the session runs in the background, and when that changes.
    pub(crate) fn background(&self) -> watch::Receiver<bool> {
        self.background.runs()
    }

    /// Why the host stops, if it does.
    pub(crate) fn stop_reason(&self) -> Option<String> {
        self.stop.reason().filter(|_| self.stop.is_stopping())
    }

    /// Why events cannot be stored, while they cannot, and when that changes.
    pub(crate) fn storage_failure(&self) -> watch::Receiver<Option<String>> {
        self.storage_failure_sender.subscribe()
    }

    /// Records that the CLI could not be started: no `cli_exited` event follows.
    pub(crate) fn process_start_failed(&mut self) {
        self.change_state(SessionState::Down);
    }

    fn store_and_publish(&mut self, event: &NativeEvent) -> Result<(), AppendError> {
        self.text.clear();
        event.write(&mut self.text);
        if event.is_ephemeral() {
            self.ring.push(&ephemeral_line(self.files.log.last(), &self.text), None);
        } else {
            self.files.log.check_limit(self.is_closing)?;
            let start = self.files.log.whole_bytes();
            let (line, storage) = self.files.log.append_to(&self.text)?;
            self.ring.push(line, Some((storage, start)));
        }
        if let NativeEvent::Session(event) = event {
            self.observe(event);
        }
        Ok(())
    }

    fn observe(&mut self, event: &Event) {
        crate::asked::observe(event, &mut self.files.asked_tool_uses);
        self.settings.observe(event);
        self.background.observe(event);
        if let Some(change) = snapshot_change(event) {
            let log = &self.files.log;
            self.snapshot.observe(StoredEvent { seq: log.last().seq, span: Some(log.last_line_span()) }, change);
        }
        if let Event::BlockDelta { block, delta, .. } = event {
            match self.open_text.get_mut(&block.0) {
                Some(text) => text.push(delta.text()),
                None => drop(self.open_text.insert(block.0, OpenText::new(delta))),
            }
        } else if let Event::BlockFinished { block, .. } | Event::BlockDiscarded { block } = event {
            self.open_text.remove(&block.0);
        } else if let Event::SessionOpened { session } = event {
            self.change_conversation(session.session_id.as_str());
        } else if let Event::Ready { .. } | Event::BecameIdle = event {
            self.change_state(SessionState::Idle);
        } else if let Event::TurnStarted { .. } = event {
            self.change_state(SessionState::Running);
        } else if let Event::TurnFinished { .. } = event {
            self.sync.want(&self.files);
        } else if let Event::CliExited { exit } = event {
            if let Some(left) = exit.left_text() {
                tracing::warn!("{left}");
            }
            self.open_text.clear();
            self.change_state(SessionState::Down);
            self.sync.want(&self.files);
        }
    }

    fn change_conversation(&mut self, session_id: &str) {
        if let Err(error) = self.files.change_conversation(session_id) {
            // The CLI uses the conversation anyway. Without the lock, another process could drive it at the same time.
            tracing::error!(session_id, "cannot lock or record the conversation's new id: {error}");
        }
    }

    fn change_state(&mut self, state: SessionState) {
        self.state.send_if_modified(|current| std::mem::replace(current, state) != state);
    }
}

impl Sink for Publisher {
    type Ticket = Ticket;

    fn emit(&mut self, event: Event) {
        self.publish(event);
    }

    fn poll_room(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        // When this changes, `poll_work` has returned, after which this is polled again.
        if self.storage_failure.is_none() || self.is_closing { Poll::Ready(()) } else { Poll::Pending }
    }

    fn begin_closing(&mut self) {
        self.is_closing = true;
    }

    fn poll_work(&mut self, context: &mut Context<'_>) -> Poll<Work> {
        if let Poll::Ready(step) = self.stop.poll_step(context) {
            return Poll::Ready(match step {
                StopStep::Close(reason) => {
                    // Clients learn the reason before they see any effect of the end.
                    self.publish(HostEvent::HostStopping { reason });
                    Work::Close
                }
                StopStep::Abort => Work::Abort,
            });
        }
        while let Poll::Ready(Some(request)) = self.requests.poll_recv(context) {
            self.handle_request(request);
        }
        while self.sync.poll(context, &self.files).is_ready() {}
        while let Some((_, retry_at)) = &mut self.storage_failure {
            ready!(retry_at.as_mut().poll(context));
            if self.store_waiting().is_ok() {
                return Poll::Ready(Work::Done);
            }
        }
        self.poll_verify(context).map(|()| Work::Done)
    }

    fn is_storage_blocked(&self) -> bool {
        self.storage_failure.is_some()
    }

    fn register(&mut self, command: &Command, ticket: Ticket) -> Option<Ticket> {
        self.register_command(command, ticket)
    }

    fn admit(&mut self, command: &Command) -> Result<(), Refusal> {
        self.admit_command(command)
    }

    fn complete(&mut self, ticket: Ticket, outcome: CommandOutcome) {
        self.complete_command(ticket, outcome);
    }

    fn acknowledge(&mut self) {
        self.acknowledge_commands();
    }
}
