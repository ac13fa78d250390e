//! One client of a host.

mod writing;

use std::io;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use watari_hub::{
    ClientIdentity, CommandOrigin, CommandOutcome, Delivery, Handle, HostState, IdempotencyKey, Position, Since,
    Subscription,
};
use watari_sdk::Command;

use super::client_stream::ClientStream;
use super::input::{CHUNK_BYTES, Input, LineBudget, ParsedLine};
use super::long_line::{LoadedLine, PendingLongLine};
use super::names;
use super::work_slice::{LINE_COST_BYTES, WorkSlice};
use crate::dialect::native::Native;
use crate::dialect::speaker::{ClientMessage, HelloCause, ProtocolError, Speaker};
use crate::frontend::outbox::Outbox;

/// How many bytes may be buffered for a client before its subscription pauses: further events are in the log.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// How many commands of a client may be unanswered before no more of its lines are read.
const UNANSWERED_MAX: usize = 64;

/// One client.
pub(super) struct Connection {
    stream: ClientStream,
    speaker: Box<dyn Speaker>,
    handle: Handle,
    /// The number of this connection.
    number: u64,
    /// The identity that scopes its command ids.
    identity: ClientIdentity,
    /// Its name as shown to other clients.
    name: String,
    input: Input,
    outbox: Outbox,
    subscription: Option<Subscription>,
    pending_long_line: PendingLongLine,
    slice: WorkSlice,
    state: watch::Receiver<HostState>,
    /// The position of the last durable event that was sent to it.
    position: Position,
    answers: JoinSet<(Option<String>, Option<CommandOutcome>)>,
    /// Since when it has read nothing, although bytes are waiting for it.
    stuck_since: Option<Instant>,
    /// Why nothing can be written to it any more. The lines it sent before are still handled.
    unwritable: Option<String>,
}

/// The result of one wait.
enum ConnectionEvent {
    Readable,
    Parsed(ParsedLine),
    LineStalled,
    Writable,
    Closed,
    Delivery(Result<Delivery, String>),
    Loaded(Result<LoadedLine, String>),
    Answered(Option<String>, Option<CommandOutcome>),
    Slow,
}

/// Why a client is disconnected.
struct Disconnect(String);

impl Connection {
    pub(super) fn new(
        stream: ClientStream,
        speaker: Box<dyn Speaker>,
        number: u64,
        handle: Handle,
        budget: LineBudget,
    ) -> Connection {
        Connection {
            stream,
            speaker,
            number,
            name: names::display_name(&ClientIdentity::Connection(number), number),
            identity: ClientIdentity::Connection(number),
            pending_long_line: PendingLongLine::new(budget.long_line_permits()),
            input: Input::new(budget),
            slice: WorkSlice::default(),
            outbox: Outbox::default(),
            subscription: None,
            state: handle.state(),
            position: Position::default(),
            answers: JoinSet::new(),
            stuck_since: None,
            unwritable: None,
            handle,
        }
    }

    /// Serves the client until it disconnects or the host ends; returns the reason.
    pub(super) async fn serve(mut self) -> String {
        match self.exchange().await {
            Ok(()) => {
                // The outcomes of its last commands are known by now.
                while let Some(answered) = self.answers.join_next().await {
                    if let Ok((id, outcome)) = answered {
                        self.send_outcome(id.as_deref(), outcome);
                    }
                }
                self.write_last_lines().await;
                "the session has ended".to_owned()
            }
            Err(Disconnect(why)) => why,
        }
    }

    async fn exchange(&mut self) -> Result<(), Disconnect> {
        if let Some(since) = self.speaker.attach_on_connect()
            && !self.attach(since, Some(HelloCause::Connected)).await
        {
            return Ok(());
        }
        loop {
            self.slice.yield_if_over().await;
            self.try_write();
            self.drain_and_disconnect().await?;
            if self.outbox.is_empty() {
                self.pending_long_line.load();
            }
            match self.wait().await {
                ConnectionEvent::Readable => self.read().await?,
                ConnectionEvent::Parsed(parsed) => {
                    self.handle_parsed(parsed).await;
                    self.handle_lines().await;
                }
                ConnectionEvent::LineStalled => self.input.skip_stalled(),
                ConnectionEvent::Writable => {}
                ConnectionEvent::Closed => return Err(Disconnect("it closed the connection".to_owned())),
                ConnectionEvent::Delivery(Ok(Delivery::Delivered { cost_bytes })) => {
                    self.slice.spend(cost_bytes);
                    self.delivered();
                }
                ConnectionEvent::Delivery(Ok(Delivery::Long(line))) => {
                    if self.speaker.encodes(line.head()) {
                        self.pending_long_line.set(line);
                    } else {
                        self.delivered();
                    }
                }
                ConnectionEvent::Loaded(Ok(line)) => self.send_long_line(line).await?,
                ConnectionEvent::Delivery(Ok(Delivery::Lagged)) => {
                    if !self.attach(Since::Lagged(self.position), None).await {
                        return Ok(());
                    }
                }
                ConnectionEvent::Delivery(Ok(Delivery::Ended)) => return Ok(()),
                ConnectionEvent::Delivery(Err(error)) | ConnectionEvent::Loaded(Err(error)) => {
                    return Err(self.disconnect_unreadable_log(error).await);
                }
                ConnectionEvent::Answered(id, outcome) => self.send_outcome(id.as_deref(), outcome),
                ConnectionEvent::Slow => self.disconnect_if_slow()?,
            }
        }
    }

    /// The log cannot be read: the host restores what it can before the client reconnects.
    async fn disconnect_unreadable_log(&mut self, error: String) -> Disconnect {
        let why = format!("{error}; the host restores it: connect again");
        self.speaker.protocol_error(&ProtocolError::about_log(why.clone()), self.outbox.lines());
        self.handle.restore().await;
        // A client that does not read must not hold the connection open.
        let _late = tokio::time::timeout(writing::SLOW_AFTER, self.write_last_lines()).await;
        Disconnect(why)
    }

    /// Sends a long line. Only this client waits for it.
    async fn send_long_line(&mut self, line: LoadedLine) -> Result<(), Disconnect> {
        // The placeholder encodes nothing before the dialect is back.
        let speaker = std::mem::replace(&mut self.speaker, Box::new(Native::default()));
        let Some((speaker, lines)) = line.encode(speaker).await else {
            return Err(Disconnect("a line could not be encoded; this is a bug in watari".to_owned()));
        };
        self.speaker = speaker;
        self.outbox.append(lines);
        self.delivered();
        Ok(())
    }

    /// Waits for the next thing to do. Every arm may be dropped half-way: readiness is only observed, a line that was
    /// parsed or loaded stays until it is taken, a subscription consumes nothing before it delivers, an answer stays
    /// until it is taken, and the timers are created again.
    async fn wait(&mut self) -> ConnectionEvent {
        let Connection { stream, speaker, input, outbox, subscription, pending_long_line, state, answers, .. } = self;
        let delivers = outbox.unwritten().len() < WAITING_BYTES_MAX && pending_long_line.is_empty();
        let waiting = outbox.unwritten().len();
        // After a client has disconnected, only the parsing of its last line is awaited.
        let is_disconnected = self.unwritable.is_some();
        let reads =
            input.wants_more() && outbox.has_room_for_replies() && answers.len() < UNANSWERED_MAX && !is_disconnected;
        let writes = waiting > 0 && !is_disconnected;
        // A client that disconnects while its last line is parsed is noticed later, so that the line takes effect.
        let awaits_socket = reads || writes || (!input.is_parsing() && !is_disconnected);
        let (slow_at, stalled_at) = (self.stuck_since.map(|since| since + writing::SLOW_AFTER), input.stalled_at());
        tokio::select! {
            event = ready(stream, reads, writes), if awaits_socket => event,
            parsed = input.parsed() => ConnectionEvent::Parsed(parsed),
            () = super::until(stalled_at) => ConnectionEvent::LineStalled,
            Some(answered) = answers.join_next() => match answered {
                Ok((id, outcome)) => ConnectionEvent::Answered(id, outcome),
                // A task that waits for an answer does not panic.
                Err(_) => ConnectionEvent::Answered(None, None),
            },
            delivery = next_delivery(subscription, state, speaker.as_mut(), outbox), if delivers => ConnectionEvent::Delivery(delivery),
            loaded = pending_long_line.loaded() => ConnectionEvent::Loaded(loaded),
            () = super::until(slow_at) => ConnectionEvent::Slow,
        }
    }

    fn send_outcome(&mut self, id: Option<&str>, outcome: Option<CommandOutcome>) {
        let outcome = outcome.unwrap_or_else(|| Err("the session has ended".to_owned()));
        self.outbox.reply(|lines| self.speaker.answer(id, &outcome, lines));
    }

    fn delivered(&mut self) {
        if let Some(last) = self.subscription.as_ref().and_then(Subscription::last) {
            self.position = self.position.max(last);
        }
    }

    /// Attaches the client to the session; false if the host has ended.
    async fn attach(&mut self, since: Since, hello: Option<HelloCause>) -> bool {
        let Some(attached) = self.handle.attach(since).await else { return false };
        if let Some(cause) = hello {
            self.outbox.reply(|lines| self.speaker.hello(&attached, cause, lines));
        }
        self.position = attached.client_position;
        self.subscription = Some(attached.subscription);
        self.pending_long_line.clear();
        true
    }

    async fn read(&mut self) -> Result<(), Disconnect> {
        match self.input.read(&self.stream) {
            Ok(count) => {
                self.slice.spend(count);
                self.handle_lines().await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(Disconnect(format!("cannot read from the client: {error}"))),
        }
        Ok(())
    }

    async fn handle_lines(&mut self) {
        while let Some(parsed) = self.input.next(self.speaker.as_mut()) {
            self.handle_parsed(parsed).await;
            self.slice.spend(LINE_COST_BYTES);
            self.slice.yield_if_over().await;
        }
    }

    async fn handle_parsed(&mut self, parsed: ParsedLine) {
        let Some(received) = parsed else { return };
        match received {
            Ok((ClientMessage::Hello { since, key, client }, _)) => {
                let is_other_session = key.is_some_and(|key| key != self.handle.key().as_str());
                let since = if is_other_session && since != Since::Now { Since::OtherSession } else { since };
                self.identity = client.map_or(ClientIdentity::Connection(self.number), ClientIdentity::Named);
                self.name = names::display_name(&self.identity, self.number);
                // If the host has ended, the subscription reports it.
                let _ended = self.attach(since, Some(HelloCause::Hello)).await;
            }
            Ok((ClientMessage::Refused { id, message }, _)) => {
                self.outbox.reply(|lines| self.speaker.answer(id.as_deref(), &Err(message), lines));
            }
            Ok((ClientMessage::Command { id, error_prefix, command }, fingerprint)) => {
                self.submit(id, error_prefix, command, fingerprint).await;
            }
            Err(problem) => {
                tracing::debug!(client = self.name, "cannot parse a line: {}", problem.message);
                self.outbox.reply(|lines| self.speaker.protocol_error(&problem, lines));
            }
        }
    }

    async fn submit(&mut self, id: Option<String>, error_prefix: Option<String>, command: Command, fingerprint: u64) {
        let verb = command.verb();
        tracing::debug!(client = self.name, id, "received a command to {verb}");
        let idempotency_key = id.clone().map(|id| IdempotencyKey { client: self.identity.clone(), id, fingerprint });
        let answered = self.handle.submit(CommandOrigin { name: self.name.clone(), idempotency_key }, command).await;
        self.answers.spawn(async move {
            let outcome = answered.await.ok();
            let prefixed = |message: String| match error_prefix {
                Some(prefix) => format!("{prefix}: {message}"),
                None => message,
            };
            (id, outcome.map(|outcome| outcome.map_err(prefixed)))
        });
    }

    /// Disconnects a client that reads nothing any more, once all its lines are handled. A long line may still have to
    /// be parsed.
    async fn drain_and_disconnect(&mut self) -> Result<(), Disconnect> {
        let Some(why) = self.unwritable.clone() else { return Ok(()) };
        while !self.input.is_parsing() {
            if !self.input.read_rest(&self.stream) {
                return Err(Disconnect(why));
            }
            self.slice.spend(CHUNK_BYTES);
            self.slice.yield_if_over().await;
            self.handle_lines().await;
        }
        Ok(())
    }
}

/// Waits until the connection is readable or writable, or until the client has disconnected.
async fn ready(stream: &mut ClientStream, reads: bool, writes: bool) -> ConnectionEvent {
    let ready = match (reads, writes) {
        (true, false) => stream.readable().await.map(|()| ConnectionEvent::Readable),
        (false, true) => stream.writable().await.map(|()| ConnectionEvent::Writable),
        (true, true) => stream
            .either()
            .await
            .map(|can_read| if can_read { ConnectionEvent::Readable } else { ConnectionEvent::Writable }),
        (false, false) => stream.closed().await.map(|()| ConnectionEvent::Closed),
    };
    ready.unwrap_or(ConnectionEvent::Closed)
}

async fn next_delivery(
    subscription: &mut Option<Subscription>,
    state: &mut watch::Receiver<HostState>,
    speaker: &mut dyn Speaker,
    outbox: &mut Outbox,
) -> Result<Delivery, String> {
    match subscription {
        Some(subscription) => {
            subscription.next(|line| speaker.encode(line, outbox.lines())).await.map_err(|error| error.to_string())
        }
        // A client without a subscription is also disconnected when the host ends.
        None => {
            while state.changed().await.is_ok() {}
            Ok(Delivery::Ended)
        }
    }
}
