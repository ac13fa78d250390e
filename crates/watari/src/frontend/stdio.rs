//! One session on standard input and output, in the bridge dialect.

mod closing;
mod lock;
mod running;
mod state;
mod wait;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use lock::{ConversationLock, lock_checks};
use running::{
    AfterEvent, Answered, EMPTY_PROMPT, Ending, Running, STARTED, TOOLS_TOO_LATE, too_late, unexpected_exit, unusable,
};
use state::{Connected, Connecting, State, connect};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Interval;
use wait::{StdioEvent, next_from_session, poll_once, read_more, write_more};
use watari_sdk::{
    Event, Exit, LineSplitter, PermissionMode, PermissionPrompts, ProgramTool, Prompt, RawLine, RefusalCode,
    Supervisor, WatchdogLimits, why_session_is_unusable,
};

use crate::command::{StopSignals, print_error};
use crate::dialect::bridge::{self, Encoder, Incoming, StartOptions};
use crate::dialect::speaker::ProtocolError;
use crate::frontend::outbox::Outbox;
use crate::standard_streams::{Input, Output};

/// How many prompts of the client may be queued while the CLI starts.
const EARLY_PROMPTS_MAX: usize = 256;

/// How long background work may continue after the client has closed its input.
const BACKGROUND_WITHIN: Duration = Duration::from_secs(60);

/// How long the last lines wait for a client that does not read, and for a client that has aborted.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(60);
const LAST_LINES_AFTER_ABORT: Duration = Duration::from_secs(1);

/// The settings from the command line.
#[derive(Debug)]
pub(crate) struct StdioArguments {
    pub(crate) claude: Option<PathBuf>,
    pub(crate) allow_bypass: bool,
    /// After how long unanswered permission requests are denied: none uses the client's limit, zero means never.
    pub(crate) permission_timeout: Option<Duration>,
    pub(crate) watchdog: WatchdogLimits,
}

/// Serves one session, and returns the exit code.
pub(crate) async fn serve(settings: StdioArguments, signals: StopSignals) -> ExitCode {
    let (input, output) = match (Input::open(), Output::open()) {
        (Ok(input), Ok(output)) => (input, output),
        (Err(error), _) | (_, Err(error)) => {
            return crate::command::fail(&format!("cannot use standard input and output: {error}"));
        }
    };
    let mut session = StdioSession {
        settings,
        input: Some(input),
        lines: LineSplitter::new(),
        output: Some(output),
        has_lost_output: false,
        has_failed: false,
        outbox: Outbox::default(),
        signals,
        state: State::Waiting,
        lock: ConversationLock::default(),
        lock_checks: lock_checks(),
        tools: Vec::new(),
        requests: JoinSet::new(),
        code: None,
        last_lines_within: LAST_LINES_WITHIN,
    };
    session.run().await
}

/// A client and its session.
struct StdioSession {
    settings: StdioArguments,
    /// None once the client has closed it.
    input: Option<Input>,
    lines: LineSplitter,
    /// None once the client has disconnected.
    output: Option<Output>,
    /// Whether lines were lost because of a write error, although the client has not closed its end.
    has_lost_output: bool,
    /// Whether a fatal error was sent, after which nothing more is sent.
    has_failed: bool,
    outbox: Outbox,
    signals: StopSignals,
    state: State,
    lock: ConversationLock,
    lock_checks: Interval,
    /// The client's tools, until it sends `start`.
    tools: Vec<ProgramTool>,
    /// Requests that the CLI has not answered yet, and the closing of the session.
    requests: JoinSet<Answered>,
    /// The exit code, once there is nothing more to do.
    code: Option<u8>,
    last_lines_within: Duration,
}

impl StdioSession {
    async fn run(&mut self) -> ExitCode {
        bridge::ready(self.outbox.lines());
        loop {
            if let Some(code) = self.code {
                self.write_last_lines().await;
                return ExitCode::from(if self.has_lost_output { 1 } else { code });
            }
            // Write what is buffered before waiting: the events of one read of the CLI leave in one write, and a single
            // delta is not delayed.
            while let Some(written) = self.try_write() {
                self.wrote(written);
            }
            match self.wait().await {
                StdioEvent::Read(Ok(0)) => self.input_ended().await,
                StdioEvent::Read(Err(error)) => self.input_failed(&error).await,
                StdioEvent::Read(Ok(_)) => self.handle_lines().await,
                StdioEvent::Wrote(written) => self.wrote(written),
                StdioEvent::Connected(connected) => self.connected(*connected).await,
                StdioEvent::Event(Some(event)) => self.handle_events(*event).await,
                // Only a panic in the session's task ends the events without a last one.
                StdioEvent::Event(None) => {
                    self.fail_ended_session("the session stopped unexpectedly; this is a bug in watari");
                }
                StdioEvent::Answered(answered) => self.answered(answered),
                StdioEvent::Signal => self.signalled(),
                StdioEvent::Time => self.close(),
                StdioEvent::LockCheck => self.check_lock(),
            }
        }
    }

    /// Waits for the next thing to do. Every arm may be dropped half-way: a dropped read or write has transferred
    /// nothing, an event, a signal or a tick that was not received stays pending, and a start or a request continues.
    async fn wait(&mut self) -> StdioEvent {
        let StdioSession { input, lines, output, outbox, signals, state, requests, lock_checks, .. } = self;
        let is_running = matches!(state, State::Running(_));
        let has_room = outbox.has_room() || state.is_aborting();
        let reads = outbox.has_room_for_replies();
        tokio::select! {
            written = write_more(output, outbox.unwritten()) => StdioEvent::Wrote(written),
            read = read_more(input, lines), if reads => StdioEvent::Read(read),
            event = next_from_session(state, has_room) => event,
            Some(answered) = requests.join_next() => StdioEvent::Answered(answered.unwrap_or(Answered::Succeeded)),
            () = signals.received() => StdioEvent::Signal,
            _ = lock_checks.tick(), if is_running => StdioEvent::LockCheck,
        }
    }

    /// Writes without waiting; none if there is nothing to write, or if the client is not reading.
    fn try_write(&mut self) -> Option<std::io::Result<usize>> {
        let output = self.output.as_mut().filter(|_| !self.outbox.is_empty())?;
        poll_once(output.write(self.outbox.unwritten()))
    }

    fn wrote(&mut self, written: std::io::Result<usize>) {
        match written {
            Ok(count) => {
                if self.outbox.written(count)
                    && let State::Running(running) = &mut self.state
                {
                    running.encoder.lines_moved();
                }
            }
            Err(error) => {
                self.output_failed(&error);
                self.abort();
            }
        }
    }

    async fn handle_lines(&mut self) {
        // The lines borrow from the splitter, and their handling needs all of `self`.
        let mut lines = std::mem::take(&mut self.lines);
        while let Some(line) = lines.next() {
            self.handle_line(line).await;
        }
        self.lines = lines;
    }

    async fn handle_line(&mut self, line: RawLine<'_>) {
        if self.has_failed {
            return;
        }
        let read = match line {
            RawLine::Whole(line) => bridge::read(line),
            RawLine::TooLong { bytes, .. } => Err(ProtocolError::new(format!("a line of {bytes} bytes is too long"))),
        };
        match read {
            Ok(None) => {}
            Ok(Some(incoming)) => self.handle_message(incoming).await,
            Err(problem) => self.send_error(Some(problem)),
        }
    }

    async fn handle_message(&mut self, incoming: Incoming) {
        if let Incoming::Abort = incoming {
            return self.abort();
        }
        match &mut self.state {
            State::Waiting => match incoming {
                Incoming::Start { prompt, options } => self.start(prompt, *options),
                Incoming::RegisterTools(tools) => self.tools = tools,
                Incoming::UserMessage(_)
                | Incoming::PermissionResponse { .. }
                | Incoming::Interrupt { .. }
                | Incoming::SetModel(_)
                | Incoming::SetPermissionMode(_)
                | Incoming::ToolCallResult { .. }
                | Incoming::Abort => self.send_error(Some(too_late("there is no session yet: send start first"))),
            },
            // After a cancelled start, messages are ignored.
            State::Starting { start_guard: None, .. } => {}
            State::Starting { prompts, .. } => match incoming {
                Incoming::UserMessage(prompt) if prompts.len() < EARLY_PROMPTS_MAX => prompts.push(prompt),
                Incoming::Start { .. } => self.send_error(Some(too_late(STARTED))),
                Incoming::RegisterTools(_) => self.send_error(Some(too_late(TOOLS_TOO_LATE))),
                Incoming::Interrupt { cancel_queued } => {
                    // The first prompt is the one to interrupt. Without prompts there is nothing to do.
                    let count = if cancel_queued { prompts.len() } else { prompts.len().min(1) };
                    prompts.drain(..count).for_each(|_| self.outbox.reply(bridge::message_cancelled));
                }
                Incoming::UserMessage(_)
                | Incoming::PermissionResponse { .. }
                | Incoming::SetModel(_)
                | Incoming::SetPermissionMode(_)
                | Incoming::ToolCallResult { .. }
                | Incoming::Abort => {
                    self.send_error(Some(too_late("the session is still starting: wait for session_init")));
                }
            },
            State::Running(running) => {
                let problem = match self.lock.refusal_of(&incoming) {
                    None => running.handle_message(incoming, &mut self.requests).await,
                    refused => refused,
                };
                self.send_error(problem);
            }
            State::Over => {}
        }
    }

    fn start(&mut self, prompt: Prompt, options: StartOptions) {
        if prompt.is_empty() {
            // Nothing is started, so the client can send another `start`.
            return self.send_error(Some(ProtocolError::refused(RefusalCode::InvalidField, EMPTY_PROMPT)));
        }
        let StartOptions { mut session, streams, unstartable, unknown } = options;
        if let Some(why) = unstartable {
            return self.fail(&why);
        }
        for problem in unknown {
            self.send_error(Some(ProtocolError::refused(RefusalCode::InvalidField, problem)));
        }
        if session.permission_mode == Some(PermissionMode::BypassPermissions) && !self.settings.allow_bypass {
            return self.fail("bypassPermissions is only allowed when watari is started with --allow-bypass");
        }
        session.allow_bypass = self.settings.allow_bypass;
        session.claude.clone_from(&self.settings.claude);
        session.supervisor = Supervisor::ThisProgram;
        session.watchdog = self.settings.watchdog;
        session.program_tools = std::mem::take(&mut self.tools);
        if let Some(limit) = self.settings.permission_timeout {
            session.permission_prompts =
                PermissionPrompts::Ask { answer_timeout: Some(limit).filter(|limit| !limit.is_zero()) };
        }
        let (start_guard, cancelled) = oneshot::channel();
        let connecting: Connecting = Box::pin(connect(session, cancelled));
        let encoder = Box::new(Encoder::new(streams));
        self.state = State::Starting { connecting, start_guard: Some(start_guard), prompts: vec![prompt], encoder };
    }

    async fn connected(&mut self, connected: Result<Option<Connected>, String>) {
        let is_cancelled = self.state.is_aborting();
        let State::Starting { prompts, encoder, .. } = std::mem::replace(&mut self.state, State::Over) else { return };
        let Connected { client, events, lock } = match connected {
            Ok(Some(connected)) => connected,
            Ok(None) => return self.finish(),
            // The reason does not matter to a client that has cancelled the start.
            Err(_) if is_cancelled => return self.finish(),
            Err(why) => return self.fail_ended_session(&why),
        };
        self.lock = lock;
        let mut running = Running::new(client, events, *encoder);
        for prompt in prompts {
            let problem = running.send(prompt).await;
            self.send_error(problem);
        }
        self.state = State::Running(Box::new(running));
        if self.input.is_none() {
            self.drain().await;
        }
    }

    /// Takes an event and all further available events, so that they leave in one write.
    async fn handle_events(&mut self, first: Event) {
        let unwritten_offset = self.outbox.unwritten_offset();
        if let State::Running(running) = &mut self.state {
            running.encoder.set_unwritten_offset(unwritten_offset);
        }
        let mut next = Some(first);
        while let Some(event) = next {
            let State::Running(running) = &mut self.state else { return };
            if self.has_failed {
                // The client has received its last line; only the end of the session matters.
                if let Event::CliExited { exit } = event {
                    return self.ended(&exit);
                }
                next = poll_once(running.events.next()).flatten();
                continue;
            }
            if let Event::SessionOpened { session } = &event
                && let Err(refusal) = self.lock.take(&session.session_id)
            {
                return self.fail(&refusal);
            }
            // A session without a usable id can be neither locked nor named to the client.
            if let Event::Unknown { frame } = &event
                && let Some(why) = why_session_is_unusable(frame)
            {
                return self.fail(&unusable(&why));
            }
            match running.handle_event(event, &mut self.outbox) {
                AfterEvent::Done => {}
                AfterEvent::ToAnswer(ask, answer) => {
                    // An ask that was resolved in the meantime needs no answer.
                    let _refused = running.client.answer(ask, answer).await;
                }
                AfterEvent::ToInterrupt => running.interrupt_all(&mut self.requests, &mut self.outbox).await,
                AfterEvent::Ended(exit) => return self.ended(&exit),
            }
            let has_room = self.outbox.has_room() || running.ending == Ending::Aborting;
            next = if has_room { poll_once(running.events.next()).flatten() } else { None };
        }
        self.close_if_drained();
    }

    /// The CLI has exited, on request or by itself.
    fn ended(&mut self, exit: &Exit) {
        let State::Running(running) = &self.state else { return };
        let left = exit.left_text();
        if let Some(left) = &left {
            // Also for people: the client may have disconnected.
            print_error(left);
        }
        if running.ending == Ending::No || running.ending == Ending::Draining {
            let why = [Some(unexpected_exit(exit)), left].into_iter().flatten().collect::<Vec<_>>().join("; ");
            return self.fail_ended_session(&why);
        }
        self.last_lines_within = match running.ending {
            Ending::Aborting if !self.has_failed => LAST_LINES_AFTER_ABORT,
            Ending::No | Ending::Draining | Ending::Closing | Ending::Aborting => LAST_LINES_WITHIN,
        };
        if let Some(left) = left.filter(|_| !self.has_failed) {
            bridge::session_error(&left, self.outbox.lines());
        }
        self.finish();
    }

    fn answered(&mut self, answered: Answered) {
        match (answered, &mut self.state) {
            (Answered::Failed(problem), _) => self.send_error(Some(problem)),
            (Answered::ModelChanged(model), State::Running(running)) => {
                running.encoder.encode_model(model.as_deref(), self.outbox.lines());
            }
            (Answered::Succeeded | Answered::ModelChanged(_), _) => {}
        }
    }

    fn send_error(&mut self, problem: Option<ProtocolError>) {
        if let Some(problem) = problem.filter(|_| !self.has_failed) {
            self.outbox.reply(|lines| bridge::error(&problem, lines));
        }
    }
}
