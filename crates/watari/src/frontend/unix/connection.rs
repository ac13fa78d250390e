//! One client of a host.

mod writing;

use std::io;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use watari_hub::{ClientIdentity, Followed, Follower, Handle, HostState, Once, Outcome, Position, Sender, Since};
use watari_sdk::Command;

use super::input::{CHUNK_BYTES, Input, LineBudget, Understood};
use super::long_lines::{LoadedLine, LongLines};
use super::names;
use super::turn::{LINE_COST_BYTES, Turn};
use super::wire::Wire;
use crate::dialect::native::Native;
use crate::dialect::speaker::{Greeting, Heard, Problem, Speaker};
use crate::frontend::outbox::Outbox;

/// How much may wait for a client before it is told no more for now: the rest is in the log.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// How many of its commands may be unanswered before no more of its lines are read.
const UNANSWERED_MAX: usize = 64;

/// One client.
pub(super) struct Connection {
    wire: Wire,
    speaker: Box<dyn Speaker>,
    handle: Handle,
    /// The number of this connection.
    number: u64,
    /// Whose command ids its commands have.
    identity: ClientIdentity,
    /// What others are told who it is.
    name: String,
    input: Input,
    outbox: Outbox,
    follower: Option<Follower>,
    long_lines: LongLines,
    turn: Turn,
    state: watch::Receiver<HostState>,
    /// The last numbered event that it was told.
    position: Position,
    answers: JoinSet<(Option<String>, Option<Outcome>)>,
    /// Since when it has taken nothing, though there was something.
    stuck_since: Option<Instant>,
    /// Why nothing can be written to it any more. What it sent before still counts.
    unwritable: Option<String>,
}

/// What one wait brought.
enum Happened {
    Readable,
    Parsed(Understood),
    LineStalled,
    Writable,
    Closed,
    Followed(Result<Followed, String>),
    Loaded(Result<LoadedLine, String>),
    Answered(Option<String>, Option<Outcome>),
    Slow,
}

/// That a client is to be let go, and why.
struct Gone(String);

impl Connection {
    pub(super) fn new(
        wire: Wire,
        speaker: Box<dyn Speaker>,
        number: u64,
        handle: Handle,
        budget: LineBudget,
    ) -> Connection {
        Connection {
            wire,
            speaker,
            number,
            name: names::shown(&ClientIdentity::Connection(number), number),
            identity: ClientIdentity::Connection(number),
            long_lines: LongLines::new(budget.long_lines()),
            input: Input::new(budget),
            turn: Turn::default(),
            outbox: Outbox::default(),
            follower: None,
            state: handle.state(),
            position: Position::default(),
            answers: JoinSet::new(),
            stuck_since: None,
            unwritable: None,
            handle,
        }
    }

    /// Serves it until it goes, or the session ends; says why.
    pub(super) async fn serve(mut self) -> String {
        match self.talk().await {
            Ok(()) => {
                // What became of its last commands is known by now.
                while let Some(answered) = self.answers.join_next().await {
                    if let Ok((id, outcome)) = answered {
                        self.tell_outcome(id.as_deref(), outcome);
                    }
                }
                self.write_last_lines().await;
                "the session has ended".to_owned()
            }
            Err(Gone(why)) => why,
        }
    }

    async fn talk(&mut self) -> Result<(), Gone> {
        if let Some(since) = self.speaker.begins_with()
            && !self.attach(since, Some(Greeting::Connected)).await
        {
            return Ok(());
        }
        loop {
            self.turn.pass_on().await;
            self.write_what_goes();
            self.take_rest().await?;
            if self.outbox.is_empty() {
                self.long_lines.load();
            }
            match self.wait().await {
                Happened::Readable => self.read().await?,
                Happened::Parsed(understood) => {
                    self.take(understood).await;
                    self.take_lines().await;
                }
                Happened::LineStalled => self.input.skip_stalled(),
                Happened::Writable => {}
                Happened::Closed => return Err(Gone("it has closed the connection".to_owned())),
                Happened::Followed(Ok(Followed::Told { cost_bytes })) => {
                    self.turn.spend(cost_bytes);
                    self.told();
                }
                Happened::Followed(Ok(Followed::Long(line))) => {
                    if self.speaker.has_word_for(line.head()) {
                        self.long_lines.push(line);
                    } else {
                        self.told();
                    }
                }
                Happened::Loaded(Ok(line)) => self.tell_long(line).await?,
                Happened::Followed(Ok(Followed::Behind)) => {
                    if !self.attach(Since::Behind(self.position), None).await {
                        return Ok(());
                    }
                }
                Happened::Followed(Ok(Followed::Ended)) => return Ok(()),
                Happened::Followed(Err(error)) | Happened::Loaded(Err(error)) => {
                    return Err(self.unreadable(error).await);
                }
                Happened::Answered(id, outcome) => self.tell_outcome(id.as_deref(), outcome),
                Happened::Slow => self.look_if_slow()?,
            }
        }
    }

    /// The log cannot be read: what can be saved of it is there when this client comes back.
    async fn unreadable(&mut self, error: String) -> Gone {
        let why = format!("{error}; it is written again: connect again");
        self.speaker.complain(&Problem::of_storage(why.clone()), self.outbox.lines());
        self.handle.restore().await;
        self.write_last_lines().await;
        Gone(why)
    }

    /// Tells a long line. Only this client waits for it.
    async fn tell_long(&mut self, line: LoadedLine) -> Result<(), Gone> {
        // Nothing is said in its place before it is back.
        let speaker = std::mem::replace(&mut self.speaker, Box::new(Native::default()));
        let Some((speaker, lines)) = line.tell(speaker).await else {
            return Err(Gone("a line could not be told to it; this is a mistake in watari".to_owned()));
        };
        self.speaker = speaker;
        self.outbox.append(lines);
        self.told();
        Ok(())
    }

    /// Waits for the next thing to do. Every arm may be dropped half-way: readiness is only looked at, a line that was
    /// parsed or loaded stays until it is taken, a follower takes nothing before it has something, an answer that was not taken
    /// stays, and the timers are made anew.
    async fn wait(&mut self) -> Happened {
        let Connection { wire, speaker, input, outbox, follower, long_lines, state, answers, .. } = self;
        let follows = outbox.unwritten().len() < WAITING_BYTES_MAX && long_lines.is_empty();
        let waiting = outbox.unwritten().len();
        // Of one that is gone, only the parsing of its last line is waited for.
        let is_gone = self.unwritable.is_some();
        let reads = input.wants_more() && outbox.takes_replies() && answers.len() < UNANSWERED_MAX && !is_gone;
        let writes = waiting > 0 && !is_gone;
        // One that has gone meanwhile still meant what it said last.
        let watches = reads || writes || (!input.is_parsing() && !is_gone);
        let (slow_at, stalled_at) = (self.stuck_since.map(|since| since + writing::SLOW_AFTER), input.stalled_at());
        tokio::select! {
            happened = ready(wire, reads, writes), if watches => happened,
            understood = input.parsed() => Happened::Parsed(understood),
            () = super::until(stalled_at) => Happened::LineStalled,
            Some(answered) = answers.join_next() => match answered {
                Ok((id, outcome)) => Happened::Answered(id, outcome),
                // A task that waits for an answer does not panic.
                Err(_) => Happened::Answered(None, None),
            },
            followed = follow(follower, state, speaker.as_mut(), outbox), if follows => Happened::Followed(followed),
            loaded = long_lines.loaded() => Happened::Loaded(loaded),
            () = super::until(slow_at) => Happened::Slow,
        }
    }

    fn tell_outcome(&mut self, id: Option<&str>, outcome: Option<Outcome>) {
        let outcome = outcome.unwrap_or_else(|| Err("the session has ended".to_owned()));
        self.outbox.reply(|lines| self.speaker.answer(id, &outcome, lines));
    }

    fn told(&mut self) {
        if let Some(last) = self.follower.as_ref().and_then(Follower::last) {
            self.position = self.position.max(last);
        }
    }

    /// Lets the client in; false if there is no session any more.
    async fn attach(&mut self, since: Since, greeting: Option<Greeting>) -> bool {
        let Some(attached) = self.handle.attach(since).await else { return false };
        if let Some(greeting) = greeting {
            self.outbox.reply(|lines| self.speaker.greet(&attached, greeting, lines));
        }
        self.position = attached.known;
        self.follower = Some(attached.follower);
        self.long_lines.clear();
        true
    }

    async fn read(&mut self) -> Result<(), Gone> {
        match self.input.read(&self.wire) {
            Ok(count) => {
                self.turn.spend(count);
                self.take_lines().await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(Gone(format!("it cannot be read: {error}"))),
        }
        Ok(())
    }

    async fn take_lines(&mut self) {
        while let Some(understood) = self.input.next(self.speaker.as_mut()) {
            self.take(understood).await;
            self.turn.spend(LINE_COST_BYTES);
            self.turn.pass_on().await;
        }
    }

    async fn take(&mut self, understood: Understood) {
        let Some(heard) = understood else { return };
        match heard {
            Ok((Heard::Hello { since, key, client }, _)) => {
                let is_elsewhere = key.is_some_and(|key| key != self.handle.key().as_str());
                let since = if is_elsewhere && since != Since::Now { Since::Elsewhere } else { since };
                self.identity = client.map_or(ClientIdentity::Connection(self.number), ClientIdentity::Named);
                self.name = names::shown(&self.identity, self.number);
                // If there is no session any more, following says so.
                let _ended = self.attach(since, Some(Greeting::Hello)).await;
            }
            Ok((Heard::Refused { id, message }, _)) => {
                self.outbox.reply(|lines| self.speaker.answer(id.as_deref(), &Err(message), lines));
            }
            Ok((Heard::Command { id, about, command }, fingerprint)) => {
                self.give(id, about, command, fingerprint).await;
            }
            Err(problem) => {
                tracing::debug!(client = self.name, "a line was not understood: {}", problem.message);
                self.outbox.reply(|lines| self.speaker.complain(&problem, lines));
            }
        }
    }

    async fn give(&mut self, id: Option<String>, about: Option<String>, command: Command, fingerprint: u64) {
        let verb = command.verb();
        tracing::debug!(client = self.name, id, "is to {verb}");
        let once = id.clone().map(|id| Once { client: self.identity.clone(), id, fingerprint });
        let answered = self.handle.give(Sender { name: self.name.clone(), once }, command).await;
        self.answers.spawn(async move {
            let outcome = answered.await.ok();
            let named = |message: String| match about {
                Some(about) => format!("{about}: {message}"),
                None => message,
            };
            (id, outcome.map(|outcome| outcome.map_err(named)))
        });
    }

    /// A client that reads nothing any more is gone once everything it has sent was taken. A long line of it may still have to
    /// be parsed.
    async fn take_rest(&mut self) -> Result<(), Gone> {
        let Some(why) = self.unwritable.clone() else { return Ok(()) };
        while !self.input.is_parsing() {
            if !self.input.read_rest(&self.wire) {
                return Err(Gone(why));
            }
            self.turn.spend(CHUNK_BYTES);
            self.turn.pass_on().await;
            self.take_lines().await;
        }
        Ok(())
    }
}

/// Waits until something can be read or written, or until the client has gone.
async fn ready(wire: &mut Wire, reads: bool, writes: bool) -> Happened {
    let ready = match (reads, writes) {
        (true, false) => wire.readable().await.map(|()| Happened::Readable),
        (false, true) => wire.writable().await.map(|()| Happened::Writable),
        (true, true) => {
            wire.either().await.map(|can_read| if can_read { Happened::Readable } else { Happened::Writable })
        }
        (false, false) => wire.closed().await.map(|()| Happened::Closed),
    };
    ready.unwrap_or(Happened::Closed)
}

async fn follow(
    follower: &mut Option<Follower>,
    state: &mut watch::Receiver<HostState>,
    speaker: &mut dyn Speaker,
    outbox: &mut Outbox,
) -> Result<Followed, String> {
    match follower {
        Some(follower) => {
            follower.next(|line| speaker.tell(line, outbox.lines())).await.map_err(|error| error.to_string())
        }
        // Whoever has not asked for anything still learns that there is nothing to ask for any more.
        None => {
            while state.changed().await.is_ok() {}
            Ok(Followed::Ended)
        }
    }
}
