//! How the machine carries out commands.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::value::RawValue;

use super::asks::{AnsweredAsk, OpenAsk};
use super::closing::{Closing, ClosingStep, Stop};
use super::prompts::{PROMPT_BYTES_MAX, PROMPTS_WAITING_BYTES_MAX, PROMPTS_WAITING_MAX};
use super::state::{Phase, Trigger};
use super::{Machine, RequestKind};
use crate::answer::{Answer, HookOutput};
use crate::command::{Accepted, Command, PROMPT_BLOCK_TYPES, Prompt, PromptContent, Request};
use crate::event::{AskKind, AskResolution, DropReason, Event, ExitReason, Grant, InterruptReceipt, RequestReply};
use crate::id::{AskId, PromptId, RequestId};
use crate::initialize::TOOL_SERVER;
use crate::json::RawJson;
use crate::refusal::Refusal;
use crate::wire::answers::{self, ElicitationAction, Interrupts};
use crate::wire::mcp;
use crate::wire::outgoing::{self, OutgoingLine};
use crate::wire::request_record;

/// How many requests may be unanswered. One more is refused.
const REQUESTS_UNANSWERED_MAX: usize = 1024;

impl Machine {
    /// Carries out a command that the phase permits.
    pub(super) fn carry_out(&mut self, command: Command, now: Instant) -> Result<Accepted, Refusal> {
        match command {
            Command::Prompt(prompt) => self.prompt(prompt),
            Command::Interrupt { cancel_queued } => Ok(Accepted::Request(self.interrupt(cancel_queued, now))),
            Command::Answer { ask, answer, by } => self.answer_ask(ask, &answer, by),
            Command::Request { request, by } => self.request(&request, by, now),
            Command::Close => {
                self.close(now);
                Ok(Accepted::Done)
            }
            Command::Abort => {
                self.abort(now);
                Ok(Accepted::Done)
            }
        }
    }

    fn prompt(&mut self, prompt: Prompt) -> Result<Accepted, Refusal> {
        check_content(&prompt.content)?;
        let waiting = self.prompts.waiting().count();
        if waiting >= PROMPTS_WAITING_MAX {
            return Err(Refusal::TooManyPrompts { waiting });
        }
        let bytes = self.prompts.waiting_bytes();
        if bytes > 0 && bytes + prompt.content.bytes() > PROMPTS_WAITING_BYTES_MAX {
            return Err(Refusal::PromptsTooLarge { bytes });
        }
        let content = prompt.content.to_raw();
        let id = self.prompts.queue(prompt.content);
        self.emit(Event::PromptAccepted { prompt: id, entry: self.prompts.entry(id), content });
        self.hand_over_prompt();
        Ok(Accepted::Prompt(id))
    }

    /// Interrupts the running turn. Even with `cancel_queued`, the CLI receives a plain interrupt: the prompts to
    /// cancel wait here, and a CLI that is asked to cancel its own queue may silently drop the prompt that it holds,
    /// without a result.
    ///
    /// If no turn runs, the CLI receives nothing. Before its first prompt an interrupt would stop nothing; later it
    /// would end the subagents that work in the background. (Measured on 2.1.325.)
    fn interrupt(&mut self, cancel_queued: bool, now: Instant) -> RequestId {
        let mut cancelled = Vec::new();
        if self.phase == Phase::Starting {
            // Interrupt the prompt that would run first.
            cancelled.extend(self.prompts.drop_next());
        }
        if cancel_queued {
            cancelled.extend(std::iter::from_fn(|| self.prompts.drop_next()));
        }
        for prompt in &cancelled {
            self.emit(Event::PromptDropped { prompt: *prompt, reason: DropReason::Cancelled });
        }
        if self.phase == Phase::Starting || !self.has_turn() {
            let request = RequestId(self.request_ids.next());
            let reply = RequestReply::Interrupted(self.interrupt_receipt(cancelled));
            self.emit(Event::RequestAnswered { request, reply });
            return request;
        }
        let of = self.prompts.in_flight();
        if self.cli_turn_running {
            self.cancel_queued_prompt(now);
        }
        let request = self.expect_answer(RequestKind::Interrupt { of, cancelled }, now);
        self.interrupt_sent = true;
        // A prompt that is unseen may have no turn any more, so that nothing else would end it.
        let is_turn_known = self.prompt_started || self.cli_turn_running || self.init_received;
        let must_end_turn = of.is_none() || is_turn_known || self.unseen_deadline.is_some();
        self.watchdog.interrupted(request, must_end_turn, now);
        self.write_now(outgoing::interrupt(request));
        request
    }

    /// Returns whether a turn runs, of a prompt or of the CLI itself.
    fn has_turn(&self) -> bool {
        self.prompts.in_flight().is_some() || self.cli_turn_running || self.cli_turn_expected
    }

    pub(super) fn interrupt_receipt(&self, cancelled: Vec<PromptId>) -> InterruptReceipt {
        InterruptReceipt { still_queued: self.prompts.waiting().collect(), cancelled }
    }

    fn answer_ask(&mut self, ask: AskId, answer: &Answer, by: Option<String>) -> Result<Accepted, Refusal> {
        let open = self.asks.get(ask).ok_or_else(|| match self.asks.answer_to(ask) {
            Some(AnsweredAsk { by, resolution, .. }) => {
                Refusal::AskAnswered { ask, by: by.clone(), resolution: *resolution }
            }
            None => Refusal::AskNotOpen { ask },
        })?;
        let (resolution, grant, line) = encode_answer(open, answer)?;
        let resolved = open.answered_event(resolution, by.clone(), grant);
        self.asks.take(ask);
        if let Some(by) = by {
            self.asks.record_answer(AnsweredAsk { ask, by, resolution });
        }
        self.emit(resolved);
        self.write(line);
        Ok(Accepted::Done)
    }

    fn request(&mut self, request: &Request, by: Option<String>, now: Instant) -> Result<Accepted, Refusal> {
        self.check_requests()?;
        if let Request::SetTools(tools) = request {
            if !self.config.initialize.has_tools() {
                return Err(Refusal::NoTools);
            }
            if self.tool_server_is_taken && !tools.is_empty() {
                return Err(Refusal::ServerNameConflict);
            }
            if let Some(tool) = tools.iter().find(|tool| !tool.has_unambiguous_name()) {
                return Err(Refusal::AmbiguousToolName { name: tool.name.clone() });
            }
            self.config.initialize.tools.clone_from(tools);
            // The CLI has the server from now on, even if the list of tools is empty.
            self.config.initialize.tools_can_be_added = true;
        }
        if self.config.initialize.has_tools() {
            check_servers(request)?;
        }
        if let Request::SetModel(Some(model)) = request {
            check_model(model)?;
        }
        let id = self.expect_answer(RequestKind::Other, now);
        // The event comes before the line, so that the request is stored before it takes effect: it may change what
        // runs without asking.
        self.emit(Event::RequestSent { request: id, body: request_record::to_record(request), by });
        self.write(outgoing::request(id, request, &self.config.initialize));
        Ok(Accepted::Request(id))
    }

    fn check_requests(&self) -> Result<(), Refusal> {
        let unanswered = self.requests.len();
        if unanswered < REQUESTS_UNANSWERED_MAX { Ok(()) } else { Err(Refusal::TooManyRequests { unanswered }) }
    }

    fn close(&mut self, now: Instant) {
        // The first steps of the ladder need a CLI that reacts. A CLI that is starting may not react, and has nothing
        // to lose.
        let must_abort = match self.phase {
            Phase::Starting => true,
            Phase::Running => self.watchdog.is_stalled(),
            Phase::Idle | Phase::Closing | Phase::Ended => false,
        };
        if must_abort {
            return self.abort(now);
        }
        let runs = self.phase == Phase::Running;
        if self.transition(Trigger::CloseBegan).is_none() {
            return;
        }
        self.exit_reason = ExitReason::Requested;
        while let Some(prompt) = self.prompts.drop_next() {
            self.emit(Event::PromptDropped { prompt, reason: DropReason::CliExited });
        }
        // No answers are written: the CLI withdraws the asks of an interrupted turn, and itself denies those that are
        // still open when its stdin closes.
        self.close_asks();
        if runs {
            let request = self.expect_answer(RequestKind::WatariInterrupt, now);
            self.interrupt_sent = true;
            self.write_now(outgoing::interrupt(request));
            self.closing = Some(Closing::at_step(ClosingStep::Interrupted, now));
        } else {
            self.stop(Stop::CloseStdin);
            self.closing = Some(Closing::at_step(ClosingStep::StdinClosed, now));
        }
    }

    /// Ends the CLI for a reason other than a command.
    pub(super) fn end_for(&mut self, trigger: Trigger, reason: ExitReason, now: Instant) {
        if self.transition(trigger).is_none() {
            return;
        }
        self.exit_reason = reason;
        self.close_asks();
        self.stop(Stop::Abort);
        self.closing = Some(Closing::at_step(ClosingStep::AbortedOrKilled, now));
    }

    fn abort(&mut self, now: Instant) {
        if self.transition(Trigger::CloseBegan).is_some() {
            // If the session was already ending, its exit reason stays.
            self.exit_reason = ExitReason::Requested;
        }
        self.close_asks();
        // A second abort does not wait for the CLI to store its conversation.
        let is_aborting = self.closing.as_ref().is_some_and(|closing| closing.step == ClosingStep::AbortedOrKilled);
        self.stop(if is_aborting { Stop::Kill } else { Stop::Abort });
        self.closing = Some(Closing::at_step(ClosingStep::AbortedOrKilled, now));
    }
}

/// Checks a model name, because a restarted CLI receives it as an argument.
pub(crate) fn check_model(model: &str) -> Result<(), Refusal> {
    let fits = !model.is_empty() && model.len() <= MODEL_BYTES_MAX && !model.contains(char::is_control);
    if fits { Ok(()) } else { Err(Refusal::BadModel) }
}

/// The maximum length of a model name.
const MODEL_BYTES_MAX: usize = 256;

/// Refuses requests that would replace or disable the server of the session's own tools.
fn check_servers(request: &Request) -> Result<(), Refusal> {
    if let Request::SetMcpServers(servers) = request
        && servers.contains_key(TOOL_SERVER)
    {
        return Err(Refusal::ReservedServerName);
    }
    if let Request::ToggleMcp { server, .. } = request
        && server == TOOL_SERVER
    {
        return Err(Refusal::ReservedServerName);
    }
    if let Request::Other { subtype, .. } = request
        && [outgoing::SET_MCP_SERVERS, outgoing::TOGGLE_MCP].contains(&subtype.as_str())
    {
        return Err(Refusal::RawMcpServers);
    }
    Ok(())
}

/// Checks a prompt, because the CLI silently drops a prompt that it cannot read.
fn check_content(content: &PromptContent) -> Result<(), Refusal> {
    if content.bytes() > PROMPT_BYTES_MAX {
        return Err(Refusal::PromptTooLong { bytes: content.bytes() });
    }
    match content {
        PromptContent::Text(text) if text.is_empty() => Err(Refusal::EmptyPrompt),
        PromptContent::Text(_) => Ok(()),
        PromptContent::Blocks(blocks) => check_blocks(blocks),
    }
}

fn check_blocks(blocks: &RawJson) -> Result<(), Refusal> {
    #[derive(serde::Deserialize)]
    struct Head<'a> {
        r#type: String,
        #[serde(borrow, default)]
        text: Option<&'a RawValue>,
    }
    let blocks: Vec<&RawValue> = blocks.parse().map_err(|_| Refusal::MalformedBlocks)?;
    if blocks.is_empty() {
        return Err(Refusal::EmptyPrompt);
    }
    for (index, block) in blocks.iter().enumerate() {
        let Head { r#type: kind, text } = serde_json::from_str(block.get()).map_err(|_| Refusal::MalformedBlocks)?;
        if !PROMPT_BLOCK_TYPES.contains(&kind.as_str()) {
            return Err(Refusal::BlockTypeNotAllowed { index, given: kind.chars().take(60).collect() });
        }
        if kind == "text" && !text.is_some_and(|text| text.get().starts_with('"')) {
            return Err(Refusal::MalformedBlocks);
        }
    }
    Ok(())
}

/// Returns how an answer resolves an ask, what it allows beyond what was asked, and the line for the CLI.
fn encode_answer(open: &OpenAsk, answer: &Answer) -> Result<(AskResolution, Grant, OutgoingLine), Refusal> {
    let id = open.cli_request_id.as_str();
    let plainly = |resolution, line| Ok((resolution, Grant::default(), line));
    let wrong = |kind, accepted| Err(Refusal::WrongAnswer { ask: open.id, kind, accepted });
    match (&open.kind, answer) {
        (
            AskKind::Permission(ask) | AskKind::Question(ask) | AskKind::Plan(ask),
            Answer::Allow { input, permissions },
        ) => {
            let edited = edited_input(input.as_ref())?;
            let grant = Grant::from_answer(Some(&ask.input), edited.cloned(), permissions.clone());
            let line = answers::allow(id, edited.unwrap_or(&ask.input), permissions.as_ref());
            Ok((AskResolution::Allowed, grant, line))
        }
        (AskKind::Permission(_) | AskKind::Question(_) | AskKind::Plan(_), Answer::Deny { message, interrupt }) => {
            let interrupts = if *interrupt { Interrupts::Yes } else { Interrupts::No };
            plainly(AskResolution::Denied, answers::deny(id, message, interrupts))
        }
        (AskKind::Question(ask), Answer::Choose(choices)) => {
            let input = answers::chosen(&ask.input, choices);
            let line = answers::allow(id, &input, None);
            Ok((AskResolution::Answered, Grant::from_answer(Some(&ask.input), Some(input), None), line))
        }
        (AskKind::Hook(ask), Answer::Hook(output)) => {
            if let HookOutput::Allow { input } = output {
                edited_input(input.as_ref())?;
            }
            match answers::check_hook_output(&ask.event, output) {
                Ok(()) => {
                    let (input, permissions) = answers::granted_by_hook(output);
                    let asked = input.as_ref().and_then(|_| answers::tool_input(ask));
                    let grant = Grant::from_answer(asked.as_ref(), input, permissions);
                    Ok((AskResolution::Answered, grant, answers::hook(id, &ask.event, output)))
                }
                Err(accepted) => wrong("a hook whose event has no such output", accepted),
            }
        }
        (AskKind::Elicitation(_), Answer::Accept(content)) => {
            let grant = Grant { input: Some(content.clone()), ..Grant::default() };
            Ok((AskResolution::Answered, grant, answers::elicitation(id, ElicitationAction::Accept, Some(content))))
        }
        (AskKind::Elicitation(_), Answer::Decline) => {
            plainly(AskResolution::Denied, answers::elicitation(id, ElicitationAction::Decline, None))
        }
        (AskKind::Elicitation(_), Answer::Cancel) => {
            plainly(AskResolution::Denied, answers::elicitation(id, ElicitationAction::Cancel, None))
        }
        (AskKind::ToolCall(ask), Answer::ToolResult { content, is_error }) => {
            // Anything but a list would look like a broken tool to the model.
            content.parse::<Vec<&RawValue>>().map_err(|_| Refusal::BadToolResult)?;
            plainly(AskResolution::Answered, mcp::result(id, &ask.call, content, *is_error))
        }
        (AskKind::ToolCall(ask), Answer::Deny { message, .. }) => {
            plainly(AskResolution::Denied, mcp::failure(id, &ask.call, message))
        }
        (AskKind::ToolCall(_), _) => wrong("a tool call", "a tool result or deny"),
        (AskKind::Permission(_), _) => wrong("a permission request", "allow or deny"),
        (AskKind::Question(_), _) => wrong("a question", "choose, allow or deny"),
        (AskKind::Plan(_), _) => wrong("a plan", "allow or deny"),
        (AskKind::Hook(_), _) => wrong("a hook", "a hook output"),
        (AskKind::Elicitation(_), _) => wrong("an elicitation", "accept, decline or cancel"),
    }
}

/// Returns the input that replaces the tool's own. An empty object counts as none, as it does for the CLI.
fn edited_input(input: Option<&RawJson>) -> Result<Option<&RawJson>, Refusal> {
    let Some(input) = input else { return Ok(None) };
    let members: BTreeMap<String, &RawValue> = input.parse().map_err(|_| Refusal::BadInput)?;
    Ok((!members.is_empty()).then_some(input))
}
