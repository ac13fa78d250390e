//! One session on standard input and output, in the dialect of the bridge.

mod leaving;
mod lock;
mod running;
mod state;
mod wait;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use lock::ConversationLock;
use running::{Answered, EMPTY_PROMPT, Ending, Running, STARTED, TOOLS_TOO_LATE, Taken, gone, unusable};
use state::{Connected, Connecting, State, connect};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use wait::{StdioEvent, next_of, poll_once, read_more, write_more};
use watari_sdk::{
    Event, Exit, Lines, Liveness, PermissionMode, PermissionPrompts, Prompt, RawLine, Supervisor, Tool,
    unusable_session,
};

use crate::command::StopSignals;
use crate::dialect::bridge::{self, Encoder, Fatal, Incoming, StartOptions};
use crate::frontend::outbox::Outbox;
use crate::standard_streams::{Input, Output};

/// How many messages of the client may wait while the CLI starts.
const EARLY_PROMPTS_MAX: usize = 256;

/// How long background work may go on when the client has closed its end.
const BACKGROUND_WITHIN: Duration = Duration::from_secs(60);

/// How long a client that takes nothing may keep the last lines waiting; and one that has aborted.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(60);
const LAST_LINES_AFTER_ABORT: Duration = Duration::from_secs(1);

/// What the command line says.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) claude: Option<PathBuf>,
    pub(crate) allow_bypass: bool,
    /// After how long an unanswered permission request is a no, whatever the client says; none means what the client
    /// says, zero never.
    pub(crate) permission_timeout: Option<Duration>,
    pub(crate) liveness: Liveness,
}

/// Serves one session, and returns what to exit with.
pub(crate) async fn serve(settings: Settings, signals: StopSignals) -> ExitCode {
    let (input, output) = match (Input::open(), Output::open()) {
        (Ok(input), Ok(output)) => (input, output),
        (Err(error), _) | (_, Err(error)) => {
            return crate::command::fail(&format!("standard input and output cannot be used: {error}"));
        }
    };
    let mut bridge = Bridge {
        settings,
        input: Some(input),
        lines: Lines::new(),
        output: Some(output),
        has_lost_output: false,
        has_failed: false,
        outbox: Outbox::default(),
        signals,
        state: State::Waiting,
        lock: ConversationLock::default(),
        tools: Vec::new(),
        requests: JoinSet::new(),
        code: None,
        last_lines_within: LAST_LINES_WITHIN,
    };
    bridge.run().await
}

/// A client, and the session it has or will have.
struct Bridge {
    settings: Settings,
    /// None once the client has closed it.
    input: Option<Input>,
    lines: Lines,
    /// None once the client is gone.
    output: Option<Output>,
    /// Whether lines were lost because they could not be written, though nobody has closed the other end.
    has_lost_output: bool,
    /// Whether the client was told a fatal error, after which it is told nothing.
    has_failed: bool,
    outbox: Outbox,
    signals: StopSignals,
    state: State,
    lock: ConversationLock,
    /// Tools of the client, until it starts.
    tools: Vec<Tool>,
    /// Requests that the CLI has not answered yet, and the end of the session.
    requests: JoinSet<Answered>,
    /// Set once there is nothing more to do.
    code: Option<u8>,
    last_lines_within: Duration,
}

impl Bridge {
    async fn run(&mut self) -> ExitCode {
        bridge::ready(self.outbox.lines());
        loop {
            if let Some(code) = self.code {
                self.write_last_lines().await;
                return ExitCode::from(if self.has_lost_output { 1 } else { code });
            }
            // At once, so that what one read of the CLI brought goes out in one write, and a lone delta does not wait.
            while let Some(written) = self.write_what_goes() {
                self.wrote(written);
            }
            match self.wait().await {
                StdioEvent::Read(Ok(0)) => self.input_ended().await,
                StdioEvent::Read(Err(error)) => self.input_failed(&error).await,
                StdioEvent::Read(Ok(_)) => self.take_lines().await,
                StdioEvent::Wrote(written) => self.wrote(written),
                StdioEvent::Connected(connected) => self.connected(*connected).await,
                StdioEvent::Event(Some(event)) => self.take_events(*event).await,
                // Only a panic in the session's task ends the events without a last one.
                StdioEvent::Event(None) => self.fail_at_the_end("the session broke off; this is a mistake in watari"),
                StdioEvent::Answered(answered) => self.answered(answered),
                StdioEvent::Signal => self.signalled(),
                StdioEvent::Time => self.close(),
            }
        }
    }

    /// Waits for the next thing to do. Every arm may be dropped half-way: a read or a write that was dropped took
    /// nothing, an event or a signal that was not heard stays, and what connects or answers is kept and goes on.
    async fn wait(&mut self) -> StdioEvent {
        let Bridge { input, lines, output, outbox, signals, state, requests, .. } = self;
        let has_room = outbox.has_room() || state.is_aborting();
        let reads = outbox.takes_replies();
        tokio::select! {
            written = write_more(output, outbox.unwritten()) => StdioEvent::Wrote(written),
            read = read_more(input, lines), if reads => StdioEvent::Read(read),
            happened = next_of(state, has_room) => happened,
            Some(answered) = requests.join_next() => StdioEvent::Answered(answered.unwrap_or(Answered::Well)),
            () = signals.received() => StdioEvent::Signal,
        }
    }

    /// Writes without waiting; none if there is nothing, or if the client does not take it.
    fn write_what_goes(&mut self) -> Option<std::io::Result<usize>> {
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

    async fn take_lines(&mut self) {
        // The lines are borrowed from the cutter, and what they want needs the rest of us.
        let mut lines = std::mem::take(&mut self.lines);
        while let Some(line) = lines.next() {
            self.take_line(line).await;
        }
        self.lines = lines;
    }

    async fn take_line(&mut self, line: RawLine<'_>) {
        if self.has_failed {
            return;
        }
        let read = match line {
            RawLine::Whole(line) => bridge::read(line),
            RawLine::TooLong { bytes, .. } => Err(format!("a line of {bytes} bytes is too long")),
        };
        match read {
            Ok(None) => {}
            Ok(Some(incoming)) => self.take_message(incoming).await,
            Err(problem) => self.send_error(Some(problem)),
        }
    }

    async fn take_message(&mut self, incoming: Incoming) {
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
                | Incoming::Abort => self.send_error(Some("there is no session yet: send start first".to_owned())),
            },
            // Of a start that was given up nothing more is wanted.
            State::Starting { give_up: None, .. } => {}
            State::Starting { prompts, .. } => match incoming {
                Incoming::UserMessage(prompt) if prompts.len() < EARLY_PROMPTS_MAX => prompts.push(prompt),
                Incoming::Start { .. } => self.send_error(Some(STARTED.to_owned())),
                Incoming::RegisterTools(_) => self.send_error(Some(TOOLS_TOO_LATE.to_owned())),
                Incoming::Interrupt { cancel_queued } => {
                    // The prompt that would run first is the one to stop. Without one there is nothing to do.
                    let count = if cancel_queued { prompts.len() } else { prompts.len().min(1) };
                    prompts.drain(..count).for_each(|_| self.outbox.reply(bridge::message_cancelled));
                }
                Incoming::UserMessage(_)
                | Incoming::PermissionResponse { .. }
                | Incoming::SetModel(_)
                | Incoming::SetPermissionMode(_)
                | Incoming::ToolCallResult { .. }
                | Incoming::Abort => {
                    self.send_error(Some("the session is only starting: wait for session_init".to_owned()));
                }
            },
            State::Running(running) => {
                let problem = running.take_message(incoming, &mut self.requests).await;
                self.send_error(problem);
            }
            State::Over => {}
        }
    }

    fn start(&mut self, prompt: Prompt, options: StartOptions) {
        if prompt.is_empty() {
            // Nothing is started, so that another start counts.
            return self.send_error(Some(EMPTY_PROMPT.to_owned()));
        }
        let StartOptions { mut session, streams, unstartable, unknown } = options;
        if let Some(why) = unstartable {
            return self.fail(&why);
        }
        for problem in unknown {
            self.send_error(Some(problem));
        }
        if session.permission_mode == Some(PermissionMode::BypassPermissions) && !self.settings.allow_bypass {
            return self.fail("bypassPermissions is only allowed when watari is started with --allow-bypass");
        }
        session.allow_bypass = self.settings.allow_bypass;
        session.claude.clone_from(&self.settings.claude);
        session.supervisor = Supervisor::ThisProgram;
        session.liveness = self.settings.liveness;
        session.program_tools = std::mem::take(&mut self.tools);
        if let Some(limit) = self.settings.permission_timeout {
            session.permission_prompts =
                PermissionPrompts::Ask { answer_within: Some(limit).filter(|limit| !limit.is_zero()) };
        }
        let (give_up, given_up) = oneshot::channel();
        let connecting: Connecting = Box::pin(connect(session, given_up));
        let encoder = Box::new(Encoder::new(streams));
        self.state = State::Starting { connecting, give_up: Some(give_up), prompts: vec![prompt], encoder };
    }

    async fn connected(&mut self, connected: Result<Option<Connected>, String>) {
        let is_given_up = self.state.is_aborting();
        let State::Starting { prompts, encoder, .. } = std::mem::replace(&mut self.state, State::Over) else { return };
        let Connected { client, events, lock } = match connected {
            Ok(Some(connected)) => connected,
            Ok(None) => return self.over(),
            // Nobody wants to know why something was not started that was given up.
            Err(_) if is_given_up => return self.over(),
            Err(why) => return self.fail_at_the_end(&why),
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

    /// Takes an event and all that have come with it, so that they go out together.
    async fn take_events(&mut self, first: Event) {
        let behind = self.outbox.behind();
        if let State::Running(running) = &mut self.state {
            running.encoder.client_is_at(behind);
        }
        let mut next = Some(first);
        while let Some(event) = next {
            let State::Running(running) = &mut self.state else { return };
            if self.has_failed {
                // The client has had its last line; only the end counts.
                if let Event::Ended { exit } = event {
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
            // It has no lock, and nothing that names it can be told.
            if let Event::Unknown { frame } = &event
                && let Some(why) = unusable_session(frame)
            {
                return self.fail(&unusable(&why));
            }
            match running.take_event(event, &mut self.outbox) {
                Taken::Told => {}
                Taken::ToAnswer(ask, answer) => {
                    // One that was closed in the meantime needs no answer.
                    let _refused = running.client.answer(ask, answer).await;
                }
                Taken::ToInterrupt => {
                    let problem = running.take_message(Incoming::Interrupt { cancel_queued: true }, &mut self.requests);
                    if let Some(problem) = problem.await {
                        bridge::error(&problem, Fatal::No, self.outbox.lines());
                    }
                }
                Taken::Ended(exit) => return self.ended(&exit),
            }
            let has_room = self.outbox.has_room() || running.ending == Ending::Aborting;
            next = if has_room { poll_once(running.events.next()).flatten() } else { None };
        }
        self.look_for_the_end();
    }

    /// The CLI has gone, because it was told to or by itself.
    fn ended(&mut self, exit: &Exit) {
        let State::Running(running) = &self.state else { return };
        if running.ending == Ending::No || running.ending == Ending::Draining {
            return self.fail_at_the_end(&gone(exit));
        }
        self.last_lines_within = match running.ending {
            Ending::Aborting if !self.has_failed => LAST_LINES_AFTER_ABORT,
            Ending::No | Ending::Draining | Ending::Closing | Ending::Aborting => LAST_LINES_WITHIN,
        };
        self.over();
    }

    async fn input_ended(&mut self) {
        self.input = None;
        let mut lines = std::mem::take(&mut self.lines);
        if let Some(line) = lines.last() {
            self.take_line(line).await;
        }
        match self.state {
            State::Waiting => self.over(),
            // Everything that the client wanted was interrupted.
            State::Starting { ref prompts, .. } if prompts.is_empty() => self.give_up(),
            // What the client has said is done when it has started.
            State::Starting { .. } | State::Over => {}
            State::Running(_) => self.drain().await,
        }
    }

    /// Nobody answers any more, and what was asked for is done to its end.
    async fn drain(&mut self) {
        let State::Running(running) = &mut self.state else { return };
        running.drain(&mut self.outbox).await;
        self.look_for_the_end();
    }

    fn answered(&mut self, answered: Answered) {
        match (answered, &mut self.state) {
            (Answered::Badly(problem), _) => self.send_error(Some(problem)),
            (Answered::ModelChanged(model), State::Running(running)) => {
                running.encoder.encode_model(model.as_deref(), self.outbox.lines());
            }
            (Answered::Well | Answered::ModelChanged(_), _) => {}
        }
    }

    fn send_error(&mut self, problem: Option<String>) {
        if let Some(problem) = problem.filter(|_| !self.has_failed) {
            self.outbox.reply(|lines| bridge::error(&problem, Fatal::No, lines));
        }
    }
}
