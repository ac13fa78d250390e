//! Tells what happens in a session: numbers it, stores it, and only then tells whoever listens.
//!
//! It is called by the session and has no task of its own. Whoever wants to listen is let in between two events, in one
//! step, so that nothing is missed and nothing comes twice.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Sleep;
use watari_sdk::{AskId, Command, Delta, Event, Refused, Sink};

use crate::follow::{Attached, Beginning, Since};
use crate::kept::Kept;
use crate::log::{AppendError, fleeting};
use crate::position::Position;
use crate::ring::Ring;
use crate::standing::{Item, Standing, change_of};
use crate::told::{HostEvent, Told};

/// How often it is tried to store what could not be stored.
const TRIED_EVERY: Duration = Duration::from_secs(1);

/// How much may wait to be stored when the session is being closed. What does not fit is dropped and counted.
const UNSTORED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Something that is wanted of a publisher.
#[derive(Debug)]
pub(crate) enum Wanted {
    Attach {
        since: Since,
        answer: oneshot::Sender<Attached>,
    },
    /// Tell something of the host's own, and say when it is told.
    Tell {
        event: HostEvent,
        told: oneshot::Sender<()>,
    },
}

/// How far a session is, as its events tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HostState {
    /// The CLI is being started.
    Starting,
    /// Nothing runs and nothing waits.
    Idle,
    /// A turn runs.
    Running,
    /// There is no CLI; the next prompt starts it again.
    Down,
}

#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) kept: Kept,
    ring: Ring,
    standing: Standing,
    /// The text so far of blocks that grow.
    open_text: BTreeMap<u64, Delta>,
    mailbox: mpsc::Receiver<Wanted>,
    state: watch::Sender<HostState>,
    /// What could not be stored, in its order, and what came behind it.
    unstored: VecDeque<Told>,
    unstored_bytes: usize,
    dropped: u64,
    /// Why it could not be stored, and when it is tried again.
    trouble: Option<(String, Pin<Box<Sleep>>)>,
    hurries: bool,
    sync: Sync,
    /// The text of the event that is being told; kept, because its memory is used again.
    text: Vec<u8>,
}

/// Makes what was stored survive the machine, in a thread beside.
#[derive(Debug, Default)]
struct Sync {
    running: Option<JoinHandle<io::Result<()>>>,
    is_wanted: bool,
}

impl Publisher {
    pub(crate) fn new(kept: Kept, mailbox: mpsc::Receiver<Wanted>, state: watch::Sender<HostState>) -> Publisher {
        Publisher {
            kept,
            ring: Ring::new(),
            standing: Standing::default(),
            open_text: BTreeMap::new(),
            mailbox,
            state,
            unstored: VecDeque::new(),
            unstored_bytes: 0,
            dropped: 0,
            trouble: None,
            hurries: false,
            sync: Sync::default(),
            text: Vec::new(),
        }
    }

    /// Tells something, or keeps it until it can be stored.
    pub(crate) fn publish(&mut self, told: impl Into<Told>) {
        let told = told.into();
        if self.trouble.is_none() {
            match self.store_and_tell(&told) {
                Ok(()) => return,
                Err(error) => self.storage_failed(&error),
            }
        }
        if self.hurries && self.unstored_bytes >= UNSTORED_BYTES_MAX {
            self.dropped += 1;
        } else {
            self.unstored_bytes += told.weight_bytes();
            self.unstored.push_back(told);
        }
    }

    /// A CLI is being started.
    pub(crate) fn life_begins(&mut self) {
        self.hurries = false;
        self.change_state(HostState::Starting);
    }

    /// No CLI could be started, so there is none whose end would be told.
    pub(crate) fn life_failed(&mut self) {
        self.change_state(HostState::Down);
    }

    /// Ends what an earlier host was killed in the middle of.
    pub(crate) fn end_what_was_left_open(&mut self) {
        let left_open = std::mem::take(&mut self.kept.left_open);
        for event in left_open.items().rev().filter_map(|item| ending_of(item, &left_open)) {
            self.publish(event);
        }
    }

    fn store_and_tell(&mut self, told: &Told) -> Result<(), AppendError> {
        self.text.clear();
        told.write(&mut self.text);
        if told.is_fleeting() {
            self.ring.push(&fleeting(self.kept.log.last(), &self.text), None);
        } else {
            let start = self.kept.log.bytes();
            self.ring.push(self.kept.log.append(&self.text)?, Some(start));
        }
        if let Told::Event(event) = told {
            self.note(event);
        }
        Ok(())
    }

    fn note(&mut self, event: &Event) {
        if let Some(change) = change_of(event) {
            self.standing.note(self.kept.log.last().seq, change);
        }
        if let Event::BlockGrew { block, delta, .. } = event {
            match self.open_text.get_mut(&block.0) {
                Some(text) => text_of(text).push_str(delta.text()),
                None => drop(self.open_text.insert(block.0, delta.clone())),
            }
        } else if let Event::BlockFinished { block, .. } | Event::BlockDiscarded { block } = event {
            self.open_text.remove(&block.0);
        } else if let Event::SessionOpened { session } = event {
            self.change_conversation(session.session_id.as_str());
        } else if let Event::Ready { .. } | Event::BecameIdle = event {
            self.change_state(HostState::Idle);
        } else if let Event::TurnStarted { .. } = event {
            self.change_state(HostState::Running);
        } else if let Event::TurnFinished { .. } = event {
            self.sync.want(&self.kept);
        } else if let Event::Ended { .. } = event {
            self.open_text.clear();
            self.change_state(HostState::Down);
            self.sync.want(&self.kept);
        }
    }

    fn change_conversation(&mut self, session_id: &str) {
        if let Err(error) = self.kept.change_conversation(session_id) {
            // The CLI has it all the same; what is lost is that nobody else may have it too.
            tracing::error!(session_id, "the conversation has another id, which cannot be noted: {error}");
        }
    }

    fn change_state(&mut self, state: HostState) {
        self.state.send_if_modified(|current| std::mem::replace(current, state) != state);
    }

    fn storage_failed(&mut self, error: &AppendError) {
        let message = format!("{error}; it is tried again every second: make room, or end the session");
        tracing::error!("{message}");
        self.trouble = Some((message.clone(), Box::pin(tokio::time::sleep(TRIED_EVERY))));
        // It is not stored, so nothing can be wrong with it.
        let _told = self.store_and_tell(&Told::Host(HostEvent::StorageFull { message }));
    }

    /// The session ends: it is tried for the last time to store what waits. What cannot be is lost, and nobody hears of
    /// it but for why the host ends.
    pub(crate) fn finish(&mut self) -> Result<(), AppendError> {
        if self.trouble.is_none() {
            return Ok(());
        }
        self.store_what_waits().inspect_err(|_| {
            for told in std::mem::take(&mut self.unstored) {
                if let Told::Host(HostEvent::HostStopping { .. }) = told {
                    self.text.clear();
                    told.write(&mut self.text);
                    self.ring.push(&fleeting(self.kept.log.last(), &self.text), None);
                }
            }
        })
    }

    /// Stores what waits, as far as it goes.
    fn store_what_waits(&mut self) -> Result<(), AppendError> {
        while let Some(told) = self.unstored.pop_front() {
            if let Err(error) = self.store_and_tell(&told) {
                self.unstored.push_front(told);
                let again = Box::pin(tokio::time::sleep(TRIED_EVERY));
                self.trouble = self.trouble.take().map(|(why, _)| (why, again));
                return Err(error);
            }
            self.unstored_bytes = self.unstored_bytes.saturating_sub(told.weight_bytes());
        }
        self.trouble = None;
        tracing::info!("events can be stored again");
        self.publish(HostEvent::StorageRecovered);
        if self.dropped > 0 {
            let count = std::mem::take(&mut self.dropped);
            self.publish(Event::EventsDropped { count });
        }
        Ok(())
    }

    fn take_wanted(&mut self, wanted: Wanted) {
        match wanted {
            Wanted::Attach { since, answer } => {
                // Whoever wanted it may have gone.
                let _unheard = answer.send(self.attach(since));
            }
            Wanted::Tell { event, told } => {
                self.publish(event);
                let _unheard = told.send(());
            }
        }
    }

    /// Lets somebody listen: what there was and what there will be, with nothing between.
    fn attach(&self, since: Since) -> Attached {
        let last = self.kept.log.last();
        let (beginning, is_gap) = match since {
            Since::Elsewhere => (Beginning::After(0), true),
            Since::Now => (Beginning::Standing(self.standing.numbers().into()), false),
            Since::After(position) | Since::AfterWithAsks(position) => {
                let is_lost = self.kept.record.is_lost(position, last);
                (Beginning::After(if is_lost { 0 } else { position.seq }), is_lost)
            }
        };
        let known = match since {
            Since::Now => last,
            Since::After(position) | Since::AfterWithAsks(position) if !is_gap => position,
            Since::After(_) | Since::AfterWithAsks(_) | Since::Elsewhere => Position::default(),
        };
        let asks_before = match since {
            Since::AfterWithAsks(_) => self.standing.asks_up_to(known.seq),
            Since::Now | Since::After(_) | Since::Elsewhere => VecDeque::new(),
        };
        let grown = self.open_text.iter().map(|(block, delta)| {
            let text = Event::BlockGrew { block: watari_sdk::BlockId(*block), at: 0, delta: delta.clone() };
            let mut json = Vec::new();
            Told::Event(text).write(&mut json);
            fleeting(last, json)
        });
        let mut caught_up = Vec::new();
        Told::Host(HostEvent::CaughtUp).write(&mut caught_up);
        let grown = grown.chain([fleeting(last, caught_up)]);
        Attached {
            key: self.kept.record.key.clone(),
            session_id: self.kept.record.session_id.clone().unwrap_or_default(),
            state: *self.state.borrow(),
            last,
            known,
            is_gap,
            asks: self.standing.known_asks().map(|(ask, about)| (AskId(ask), about.clone())).collect(),
            trouble: self.trouble.as_ref().map(|(why, _)| why.clone()),
            follower: crate::follow::Follower::new(
                self.kept.log.path().to_owned(),
                self.kept.log.bytes(),
                beginning,
                asks_before,
                grown.collect(),
                self.ring.reader(),
            ),
        }
    }
}

/// The event that ends what a killed host has begun.
fn ending_of(item: &Item, left_open: &Standing) -> Option<Event> {
    use watari_sdk::{AskEnding, BlockId, DropReason, Exit, ExitReason, MessageId, PromptId};
    Some(match item {
        Item::Block(block) => Event::BlockDiscarded { block: BlockId(*block) },
        Item::Message(message) => {
            Event::MessageFinished { message: MessageId(message.clone()), blocks: Vec::new(), stop_reason: None }
        }
        Item::Ask(ask) => {
            let about = left_open.asks().get(ask)?.clone();
            Event::AskClosed { ask: AskId(*ask), about, ending: AskEnding::SessionEnded, by: None }
        }
        Item::Prompt(prompt) => Event::PromptDropped { prompt: PromptId(*prompt), reason: DropReason::SessionEnded },
        Item::Cli => Event::Ended { exit: Exit { reason: ExitReason::OwnerKilled, ..Exit::default() } },
        Item::Session | Item::Tasks | Item::Turn => return None,
    })
}

fn text_of(delta: &mut Delta) -> &mut String {
    match delta {
        Delta::Text(text) | Delta::Thinking(text) | Delta::Input(text) => text,
    }
}

impl Sync {
    fn want(&mut self, kept: &Kept) {
        self.is_wanted = true;
        self.begin(kept);
    }

    fn begin(&mut self, kept: &Kept) {
        if self.running.is_none()
            && self.is_wanted
            && let Ok(file) = kept.log.file()
        {
            self.is_wanted = false;
            self.running = Some(tokio::task::spawn_blocking(move || file.sync_data()));
        }
    }

    fn poll(&mut self, context: &mut Context<'_>, kept: &Kept) -> Poll<()> {
        let Some(running) = &mut self.running else { return Poll::Pending };
        if let Ok(Err(error)) = ready!(Pin::new(running).poll(context)) {
            tracing::warn!("the log may not survive the end of the machine: {error}");
        }
        self.running = None;
        self.begin(kept);
        Poll::Ready(())
    }
}

impl Sink for Publisher {
    fn tell(&mut self, event: Event) {
        self.publish(event);
    }

    fn poll_room(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        // When that changes, there was work, after which this is asked again.
        if self.trouble.is_none() || self.hurries { Poll::Ready(()) } else { Poll::Pending }
    }

    fn hurry(&mut self) {
        self.hurries = true;
    }

    fn poll_work(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Poll::Ready(Some(wanted)) = self.mailbox.poll_recv(context) {
            self.take_wanted(wanted);
        }
        while self.sync.poll(context, &self.kept).is_ready() {}
        while let Some((_, again)) = &mut self.trouble {
            ready!(again.as_mut().poll(context));
            if self.store_what_waits().is_ok() {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    fn has_kept_all(&self) -> bool {
        self.trouble.is_none()
    }

    fn refuses(&self, command: &Command) -> Option<Refused> {
        let (why, _) = self.trouble.as_ref()?;
        match command {
            Command::Prompt(_) | Command::Answer { .. } | Command::Request(_) => {
                Some(Refused::NotKept { why: why.clone() })
            }
            Command::Interrupt { .. } | Command::Close | Command::Abort => None,
        }
    }
}
