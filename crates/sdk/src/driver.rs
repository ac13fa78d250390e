//! Runs the machine over the CLI's pipes: one task per session, the only owner of its state.

mod unwritten;
mod wait;

use std::io;
use std::time::{Duration, Instant};

use tokio::net::unix::pipe;
use watari_protocol::{Command, Event, Exit, Machine, Output, Phase, ProcessEnd, Refusal, Stop};

use crate::commands::{CommandQueue, Envelope};
use crate::lines::{LineSplitter, RawLine};
use crate::process::{Process, Started};
use crate::sink::{Sink, Work};
use crate::tail::Tail;
use crate::transcript::TranscriptWatch;
use crate::version::is_too_old;
use unwritten::Unwritten;
use wait::{Reading, Ticks, Timer, read_or_work, readable, writable};

/// How many bytes may wait to be written to the CLI before its output is no longer read: the longest prompt, and room
/// for answers.
const BACKLOG_STOP_READING_BYTES: usize = 256 * 1024 * 1024;

/// When a deadline has passed, at most this many waiting bytes are read before the CLI counts as silent. It is more
/// than a pipe can hold.
const RECEIVED_BYTES_MAX: usize = 2 * 1024 * 1024;

/// How many bytes may wait for a CLI that does not read before requests and answers are refused. (Prompts have their
/// own limit.)
const BACKLOG_REFUSE_BYTES: usize = 64 * 1024 * 1024;

/// How long a CLI may run after it has closed its stdout.
const EXIT_WITHIN: Duration = Duration::from_secs(2);

/// How the driver has left the session.
#[derive(Debug)]
pub(crate) struct Driven {
    /// Whether the CLI became ready. If not, the commands that wait for it are still in their queue.
    pub(crate) was_ready: bool,
    /// The version of a CLI that is too old. It was terminated as soon as it was ready.
    pub(crate) too_old: Option<String>,
    pub(crate) exit: Exit,
}

/// A session's task.
pub(crate) struct Driver<S> {
    machine: Machine,
    lines: LineSplitter,
    stdin: Option<pipe::Sender>,
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    process: Process,
    stderr_tail: Tail,
    unwritten: Unwritten,
    /// Lines for the CLI whose events are not stored yet; they are written when the events are. They stay few:
    /// meanwhile the sink refuses new commands and has no room for the CLI's output.
    awaiting_storage: Vec<Vec<u8>>,
    /// Whether every sender of commands was dropped.
    has_no_clients: bool,
    /// Whether the CLI is ready, so that it gets commands. Until then they are held in their queue.
    was_ready: bool,
    too_old: Option<String>,
    transcript: TranscriptWatch,
    exit: Exit,
    /// The deadline for the CLI to exit, once it has closed its stdout.
    exit_deadline: Option<Instant>,
    timer: Timer,
    reading: Reading,
    ticks: Ticks,
    /// Set once no process of the session is left.
    process_end: Option<ProcessEnd>,
    sink: S,
}

/// What one wait returned.
enum DriverEvent<T> {
    Read(io::Result<usize>),
    /// The sink has done background work, or wants the session to end.
    Work(Work),
    Writable,
    Stderr,
    Command(Option<Box<Envelope<T>>>),
    /// A command that waited for the CLI can be handled now.
    Waiting,
    /// Another program writes to the conversation.
    Stranger(Event),
    Exited(ProcessEnd),
    Time,
}

impl<S: Sink> Driver<S> {
    pub(crate) fn new(machine: Machine, started: Started, transcript: TranscriptWatch, sink: S) -> Driver<S> {
        Driver {
            machine,
            lines: LineSplitter::new(),
            stdin: Some(started.stdin),
            stdout: Some(started.stdout),
            stderr: Some(started.stderr),
            process: started.process,
            stderr_tail: Tail::default(),
            unwritten: Unwritten::default(),
            awaiting_storage: Vec::new(),
            has_no_clients: false,
            was_ready: false,
            too_old: None,
            transcript,
            exit: Exit::default(),
            exit_deadline: None,
            timer: Timer::default(),
            reading: Reading::default(),
            ticks: Ticks::default(),
            process_end: None,
            sink,
        }
    }

    /// Runs until no process of the session is left. Commands come from the lent queue.
    pub(crate) async fn run(mut self, commands: &mut CommandQueue<S::Ticket>) -> Driven {
        loop {
            self.carry_out_outputs();
            if self.stdout.is_none()
                && let Some(process_end) = self.process_end.take()
            {
                self.read_last_of_stderr();
                self.machine.handle_exit(process_end, self.stderr_tail.text());
                self.carry_out_outputs();
                return Driven { was_ready: self.was_ready, too_old: self.too_old, exit: self.exit };
            }
            let event = self.wait(commands).await;
            if let Some(time) = self.reading.take_blocked() {
                // The CLI's output of that time may wait in its pipe unread, so the CLI is not to blame for its silence.
                self.machine.credit_unread_time(time, Instant::now());
            }
            match event {
                DriverEvent::Read(read) => self.handle_output(read),
                DriverEvent::Work(work) => self.handle_work(work),
                DriverEvent::Writable => self.write_stdin(),
                DriverEvent::Stderr => self.read_stderr(),
                DriverEvent::Command(Some(envelope)) => self.receive_command(*envelope, commands),
                DriverEvent::Waiting => {
                    if let Some(envelope) = commands.take_waiting() {
                        self.handle_command(envelope);
                    }
                }
                DriverEvent::Stranger(event) => self.emit(event),
                DriverEvent::Command(None) => self.clients_dropped(),
                DriverEvent::Time => self.time_passed(),
                DriverEvent::Exited(process_end) => self.process_end = Some(process_end),
            }
        }
    }

    /// Waits for the next thing to do. Every arm is cancel-safe: bytes are read, and a command is taken from its queue,
    /// only when that arm wins; the other arms on pipes wait for readiness only; `exited` stores received reports in
    /// the process; and the timer stays set.
    async fn wait(&mut self, commands: &mut CommandQueue<S::Ticket>) -> DriverEvent<S::Ticket> {
        let deadline = [self.machine.poll_timeout(), self.exit_deadline].into_iter().flatten().min();
        let deadline = self.ticks.limit(deadline);
        let has_unwritten = !self.unwritten.is_empty();
        // Once every process has exited, nothing writes to the pipe any more: it can be read to its end immediately.
        let has_exited = self.process_end.is_some();
        // A closing session is read to its end, even if nobody reads its events: it must not wait for a reader.
        if self.machine.phase() == Phase::Closing {
            self.sink.begin_closing();
        }
        // While the CLI does not read its stdin, its stdout is not read: each request would add an answer to the backlog.
        let reads = self.unwritten.len() < BACKLOG_STOP_READING_BYTES;
        // While commands wait, newer ones stay in the channel, so that the order is preserved.
        let has_waiting = self.was_ready && commands.has_waiting();
        let receives = !self.has_no_clients && !has_waiting;
        tokio::select! {
            process_end = self.process.exited(), if !has_exited => DriverEvent::Exited(process_end),
            () = self.timer.until(deadline) => DriverEvent::Time,
            command = commands.receive(), if receives => DriverEvent::Command(command.map(Box::new)),
            () = std::future::ready(()), if has_waiting => DriverEvent::Waiting,
            event = self.transcript.stranger_found() => DriverEvent::Stranger(event),
            () = writable(self.stdin.as_ref()), if has_unwritten => DriverEvent::Writable,
            () = readable(self.stderr.as_ref()) => DriverEvent::Stderr,
            event = read_or_work(
                &mut self.stdout, &mut self.lines, &mut self.sink, has_exited, reads, &mut self.reading,
            ) => event,
        }
    }

    fn handle_output(&mut self, read: io::Result<usize>) {
        let ended = matches!(read, Ok(0) | Err(_));
        let now = Instant::now();
        self.machine.note_output(now);
        while let Some(line) = self.lines.next() {
            feed_line(&mut self.machine, line, now);
        }
        if ended {
            if let Some(line) = self.lines.last() {
                feed_line(&mut self.machine, line, now);
            }
            self.stdout = None;
            self.exit_deadline = Some(now + EXIT_WITHIN);
        }
    }

    fn read_stderr(&mut self) {
        let Some(stderr) = &self.stderr else { return };
        let mut bytes = [0; 16 * 1024];
        match stderr.try_read(&mut bytes) {
            Ok(0) => self.stderr = None,
            Ok(count) => self.stderr_tail.push(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.stderr = None,
        }
    }

    /// Reads the rest of stderr. Every process has exited, so nothing more will be written.
    fn read_last_of_stderr(&mut self) {
        let mut bytes = [0; 16 * 1024];
        while let Some(Ok(count @ 1..)) = self.stderr.as_ref().map(|stderr| stderr.try_read(&mut bytes)) {
            self.stderr_tail.push(&bytes[..count]);
        }
    }

    fn write_stdin(&mut self) {
        let Some(stdin) = &self.stdin else { return };
        match stdin.try_write(self.unwritten.bytes()) {
            Ok(count) => {
                if self.unwritten.written(count) {
                    // The pipe was full, so the CLI has read from it: it may be busy with a long prompt.
                    self.machine.reset_silence(Instant::now());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.unwritten.is_stuck = true,
            // Not the end of the session: the CLI's output is still to be read.
            Err(_) => self.close_stdin(),
        }
    }

    /// Takes a new command, unless it was sent before.
    fn receive_command(&mut self, envelope: Envelope<S::Ticket>, commands: &mut CommandQueue<S::Ticket>) {
        let Envelope { command, ticket } = envelope;
        let Some(ticket) = self.sink.register(&command, ticket) else { return };
        let envelope = Envelope { command, ticket };
        let now = if self.was_ready { Some(envelope) } else { commands.hold(envelope, &mut self.sink) };
        if let Some(envelope) = now {
            self.handle_command(envelope);
        }
    }

    fn handle_command(&mut self, Envelope { command, ticket }: Envelope<S::Ticket>) {
        let admitted = self.sink.admit(&command).and_then(|()| self.check_backlog(&command));
        let outcome = admitted.and_then(|()| self.machine.handle_command(command, Instant::now()));
        self.sink.complete(ticket, outcome);
    }

    fn handle_work(&mut self, work: Work) {
        let command = match work {
            Work::Done => return,
            Work::Close => Command::Close,
            Work::Abort => Command::Abort,
        };
        // Refused only if the session has ended by itself, which is fine.
        let _ended = self.machine.handle_command(command, Instant::now());
    }

    /// Limits the backlog of a CLI that does not read. Commands that stop it are never refused.
    fn check_backlog(&self, command: &Command) -> Result<(), Refusal> {
        let bytes = self.unwritten.len();
        match command {
            Command::Request { .. } | Command::Answer { .. } if bytes > BACKLOG_REFUSE_BYTES => {
                Err(Refusal::CliNotReading { bytes })
            }
            Command::Request { .. }
            | Command::Answer { .. }
            | Command::Prompt(_)
            | Command::Interrupt { .. }
            | Command::Close
            | Command::Abort => Ok(()),
            #[cfg(not(feature = "exhaustive"))]
            _ => Ok(()),
        }
    }

    /// Every client was dropped: terminates the session.
    fn clients_dropped(&mut self) {
        self.has_no_clients = true;
        // Refused only if the session has ended by itself, which is fine.
        let _ended = self.machine.handle_command(Command::Abort, Instant::now());
    }

    fn time_passed(&mut self) {
        let now = Instant::now();
        if let Some(time) = self.ticks.pause(now) {
            // The CLI may have been paused, too.
            self.machine.credit_pause(time, now);
            self.exit_deadline = self.exit_deadline.map(|deadline| deadline + time);
        }
        self.read_what_waits();
        if self.exit_deadline.is_some_and(|deadline| deadline <= now) {
            self.exit_deadline = None;
            self.process.stop(Stop::Kill);
        }
        self.machine.handle_timeout(now);
    }

    /// Reads what the CLI has already written, so that unread output does not count as silence, for example after this
    /// program itself was stopped.
    fn read_what_waits(&mut self) {
        let mut received = 0;
        while received < RECEIVED_BYTES_MAX && !self.reading.is_blocked() && self.process_end.is_none() {
            let Some(stdout) = &self.stdout else { return };
            // Not through tokio, which may not know yet that there is something to read.
            let Ok(count @ 1..) = rustix::io::read(stdout, rustix::buffer::spare_capacity(self.lines.space())) else {
                // The pipe is empty, or the next read reports its end.
                return;
            };
            received += count;
            self.handle_output(Ok(count));
        }
    }

    fn carry_out_outputs(&mut self) {
        if !self.awaiting_storage.is_empty() && !self.sink.is_storage_blocked() {
            // The events that caused them are stored now.
            std::mem::take(&mut self.awaiting_storage).into_iter().for_each(|line| self.write_to_cli(line));
        }
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Write(line) if self.sink.is_storage_blocked() => self.awaiting_storage.push(line),
                Output::Write(line) | Output::WriteNow(line) => self.write_to_cli(line),
                Output::Stop(Stop::CloseStdin) => self.unwritten.close_when_written(),
                Output::Stop(stop) => self.process.stop(stop),
                Output::Event(event) => self.emit(event),
            }
        }
        if self.unwritten.is_done() {
            self.close_stdin();
        }
        // Every event that completed commands caused was emitted.
        self.sink.acknowledge();
    }

    fn write_to_cli(&mut self, line: Vec<u8>) {
        if self.stdin.is_some() {
            self.unwritten.push(line);
        }
    }

    fn emit(&mut self, event: Event) {
        if let Event::Ready { cli } = &event {
            if let Some(version) = cli.version.clone().filter(|version| is_too_old(version)) {
                self.too_old = Some(version);
                // Never refused: the session has just begun.
                let _aborted = self.machine.handle_command(Command::Abort, Instant::now());
                return;
            }
            self.was_ready = true;
        } else if let Event::CliExited { exit } = &event {
            self.exit = Exit::clone(exit);
        }
        self.transcript.observe(&event);
        self.sink.emit(event);
    }

    fn close_stdin(&mut self) {
        self.stdin = None;
        self.unwritten = Unwritten::default();
    }
}

fn feed_line(machine: &mut Machine, line: RawLine<'_>, now: Instant) {
    match line {
        RawLine::Whole(line) => machine.handle_line(line, now),
        RawLine::TooLong { beginning, bytes } => machine.handle_overlong_line(&beginning, bytes),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use watari_protocol::Config;

    use super::*;

    /// A conversation with every kind of line: long, short, blank, not JSON, with escapes and multi-byte characters.
    const CONVERSATION: &str = r#"{"type":"control_response","response":{"subtype":"success","request_id":"watari_1","response":{}}}
{"type":"system","subtype":"init","session_id":"11111111-1111-4111-8111-111111111111","model":"m"}

not json at all: ä 渡り
{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1","model":"m"}}}
{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}}
{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"渡り \n\u00e9"}}}
{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"渡り \n\u00e9"}]}}
{"type":"stream_event","event":{"type":"message_stop"}}
{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{}}}
{"subtype":"success","result":"渡り","type":"result"}
{"type":"unheard_of"}"#;

    /// Returns the outputs of a session whose CLI writes these pieces.
    fn outputs(pieces: &[&[u8]]) -> Vec<String> {
        let now = Instant::now();
        let mut machine = Machine::start(Config::default(), now);
        let mut lines = LineSplitter::new();
        for piece in pieces {
            lines.space().extend_from_slice(piece);
            while let Some(line) = lines.next() {
                feed_line(&mut machine, line, now);
            }
        }
        if let Some(line) = lines.last() {
            feed_line(&mut machine, line, now);
        }
        std::iter::from_fn(|| machine.poll_output()).map(|output| format!("{output:?}")).collect()
    }

    #[test]
    fn a_conversation_cut_at_any_byte_is_the_same_conversation() {
        let bytes = CONVERSATION.as_bytes();
        let whole = outputs(&[bytes]);
        assert!(whole.len() > 12, "{whole:#?}");
        for place in 0..=bytes.len() {
            let (before, after) = bytes.split_at(place);
            assert_eq!(outputs(&[before, after]), whole, "cut at {place}");
        }
    }

    proptest! {
        #[test]
        fn a_conversation_in_any_pieces_is_the_same_conversation(
            cuts in proptest::collection::vec(0..=CONVERSATION.len(), 0..30)
        ) {
            let bytes = CONVERSATION.as_bytes();
            let mut places = [cuts, vec![0, bytes.len()]].concat();
            places.sort_unstable();
            let pieces: Vec<&[u8]> = places.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
            prop_assert_eq!(outputs(&pieces), outputs(&[bytes]));
        }
    }
}
