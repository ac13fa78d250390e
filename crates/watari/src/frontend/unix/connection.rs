//! One client of a host.

mod writing;

use std::collections::BTreeMap;
use std::io;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use watari_hub::{
    Acknowledgement, ClientIdentity, Delivery, Handle, IdempotencyKey, Position, ReplyTo, SessionState, Since,
    Subscription, Ticket,
};
use watari_sdk::Command;

use super::client_stream::ClientStream;
use super::input::{CHUNK_BYTES, Input, LineBudget, ParsedLine};
use super::long_line::{LoadedLine, PendingLongLine};
use super::names;
use super::work_slice::{LINE_COST_BYTES, WorkSlice};
use crate::dialect::native::Native;
use crate::dialect::speaker::{ClientMessage, CommandRef, HelloCause, ProtocolError, Speaker};
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
    state: watch::Receiver<SessionState>,
    /// The position of the last durable event that was sent to it.
    position: Position,
    acknowledgements: (mpsc::Sender<Acknowledgement>, mpsc::Receiver<Acknowledgement>),
    /// The commands without an outcome, by their number.
    unanswered: BTreeMap<u64, CommandRef>,
    /// How many commands the client has sent.
    commands: u64,
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
    Answered(Acknowledgement),
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
            acknowledgements: mpsc::channel(UNANSWERED_MAX),
            unanswered: BTreeMap::new(),
            commands: 0,
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
                while !self.unanswered.is_empty()
                    && let Some(answered) = self.acknowledgements.1.recv().await
                {
                    self.send_outcome(&answered);
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
                ConnectionEvent::Answered(answered) => {
                    self.send_outcome(&answered);
                    // Lines may have waited for it.
                    self.handle_lines().await;
                }
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
        let Connection {
            stream,
            speaker,
            input,
            outbox,
            subscription,
            pending_long_line,
            state,
            acknowledgements,
            unanswered,
            ..
        } = self;
        let delivers = outbox.unwritten().len() < WAITING_BYTES_MAX && pending_long_line.is_empty();
        let waiting = outbox.unwritten().len();
        // After a client has disconnected, only the parsing of its last line is awaited.
        let is_disconnected = self.unwritable.is_some();
        // Complete lines may wait until the client has fewer unanswered commands.
        let handles_lines = unanswered.len() < UNANSWERED_MAX;
        let reads = input.wants_more() && outbox.has_room_for_replies() && handles_lines && !is_disconnected;
        let writes = waiting > 0 && !is_disconnected;
        // A client that disconnects while its last lines wait or are parsed is noticed later, so that they take effect.
        let awaits_socket = reads || writes || (!input.is_parsing() && handles_lines && !is_disconnected);
        let (slow_at, stalled_at) = (self.stuck_since.map(|since| since + writing::SLOW_AFTER), input.stalled_at());
        tokio::select! {
            event = ready(stream, reads, writes), if awaits_socket => event,
            parsed = input.parsed() => ConnectionEvent::Parsed(parsed),
            () = super::until(stalled_at) => ConnectionEvent::LineStalled,
            // It never ends: this connection has a sender itself.
            Some(answered) = acknowledgements.1.recv() => ConnectionEvent::Answered(answered),
            delivery = next_delivery(subscription, state, speaker.as_mut(), outbox), if delivers => ConnectionEvent::Delivery(delivery),
            loaded = pending_long_line.loaded() => ConnectionEvent::Loaded(loaded),
            () = super::until(slow_at) => ConnectionEvent::Slow,
        }
    }

    fn send_outcome(&mut self, answered: &Acknowledgement) {
        if let Some(command) = self.unanswered.remove(&answered.command) {
            self.outbox.reply(|lines| self.speaker.answer(&command, &answered.outcome, lines));
        }
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

    /// Handles the complete lines, as long as the client does not have too many unanswered commands.
    async fn handle_lines(&mut self) {
        loop {
            if self.unanswered.len() >= UNANSWERED_MAX {
                if self.unwritable.is_none() {
                    return;
                }
                // The client has disconnected, so nothing else is to be done meanwhile.
                if let Some(answered) = self.acknowledgements.1.recv().await {
                    self.send_outcome(&answered);
                }
            }
            let Some(parsed) = self.input.next(self.speaker.as_mut()) else { return };
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
            Ok((ClientMessage::Refused(command, refusal), _)) => {
                self.outbox.reply(|lines| self.speaker.answer(&command, &Err(refusal), lines));
            }
            Ok((ClientMessage::Command(reference, command), fingerprint)) => {
                self.submit(reference, command, fingerprint).await;
            }
            Err(problem) => {
                tracing::debug!(client = self.name, "cannot parse a line: {}", problem.message);
                self.outbox.reply(|lines| self.speaker.protocol_error(&problem, lines));
            }
        }
    }

    async fn submit(&mut self, reference: CommandRef, command: Command, fingerprint: u64) {
        let verb = command.verb();
        tracing::debug!(client = self.name, reference.id, "received a command to {verb}");
        // There is always a place: `handle_lines` limits the unanswered commands.
        let Ok(place) = self.acknowledgements.0.clone().try_reserve_owned() else { return };
        let id = reference.id.clone();
        let idempotency_key = id.map(|id| IdempotencyKey { client: self.identity.clone(), id, fingerprint });
        self.commands += 1;
        self.unanswered.insert(self.commands, reference);
        let ticket = Ticket { idempotency_key, reply_to: ReplyTo::new(self.commands, place) };
        self.handle.submit(command.sent_by(self.name.clone()), ticket).await;
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
    state: &mut watch::Receiver<SessionState>,
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
