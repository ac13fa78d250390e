//! What the machine does for a client.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::value::RawValue;

use super::asks::{Answered, OpenAsk};
use super::closing::{Closing, Rung, Stop};
use super::prompts::{PROMPT_BYTES_MAX, PROMPTS_WAITING_BYTES_MAX, PROMPTS_WAITING_MAX};
use super::state::{Phase, Trigger};
use super::{Machine, RequestKind};
use crate::answer::{Answer, HookOutput};
use crate::command::{Accepted, Command, PROMPT_BLOCKS, Prompt, PromptContent, Refused, Request};
use crate::event::{Allowed, AskEnding, AskKind, DropReason, Event, ExitReason, InterruptReceipt, RequestReply};
use crate::id::{AskId, PromptId, RequestId};
use crate::initialize::TOOL_SERVER;
use crate::json::Raw;
use crate::wire::answers::{self, Interrupts};
use crate::wire::mcp;
use crate::wire::outgoing::{self, OutgoingLine};
use crate::wire::request_record;

/// How many requests of ours the CLI may leave unanswered. One more is refused.
const REQUESTS_UNANSWERED_MAX: usize = 1024;

impl Machine {
    /// Carries out a command that the phase permits.
    pub(super) fn carry_out(&mut self, command: Command, now: Instant) -> Result<Accepted, Refused> {
        match command {
            Command::Prompt(prompt) => self.prompt(prompt),
            Command::Interrupt { cancel_queued } => Ok(Accepted::Request(self.interrupt(cancel_queued, now))),
            Command::Answer { ask, answer, by } => self.answer(ask, &answer, by),
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

    fn prompt(&mut self, prompt: Prompt) -> Result<Accepted, Refused> {
        check_content(&prompt.content)?;
        let waiting = self.prompts.waiting().count();
        if waiting >= PROMPTS_WAITING_MAX {
            return Err(Refused::QueueFull { waiting });
        }
        let bytes = self.prompts.waiting_bytes();
        if bytes > 0 && bytes + prompt.content.bytes() > PROMPTS_WAITING_BYTES_MAX {
            return Err(Refused::QueueTooLong { bytes });
        }
        let content = prompt.content.to_raw();
        let id = self.prompts.queue(prompt.content);
        self.tell(Event::PromptAccepted { prompt: id, entry: self.prompts.entry(id), content });
        self.hand_over_prompt();
        Ok(Accepted::Prompt(id))
    }

    /// The CLI is always asked with its plain interrupt: what waits, waits here, so that a prompt which was
    /// handed over still gets its result. (Asked to cancel its queue, the CLI may drop that prompt silently.)
    ///
    /// It is not asked when no turn runs. Before its first prompt an interrupt stops nothing; later it would end the
    /// subagents that work in the background. (Measured on 2.1.325.)
    fn interrupt(&mut self, cancel_queued: bool, now: Instant) -> RequestId {
        let mut cancelled = Vec::new();
        if self.phase == Phase::Starting {
            // The prompt that would run first is the one to stop.
            cancelled.extend(self.prompts.drop_next());
        }
        if cancel_queued {
            cancelled.extend(std::iter::from_fn(|| self.prompts.drop_next()));
        }
        for prompt in &cancelled {
            self.tell(Event::PromptDropped { prompt: *prompt, reason: DropReason::Cancelled });
        }
        if self.phase == Phase::Starting || !self.has_turn() {
            let request = RequestId(self.request_ids.next());
            let reply = RequestReply::Interrupted(self.receipt(cancelled));
            self.tell(Event::RequestAnswered { request, reply });
            return request;
        }
        let of = self.prompts.with_cli();
        if self.runs_by_itself {
            self.cancel_queued_prompt(now);
        }
        let request = self.expect_answer(RequestKind::Interrupt { of, cancelled }, now);
        self.interrupt_sent = true;
        let ends_turn = of.is_none() || self.ran_since_hand_over || self.runs_by_itself;
        self.watchdog.interrupted(request, ends_turn, now);
        self.write_now(outgoing::interrupt(request));
        request
    }

    /// Whether a turn runs, of a prompt or of the CLI's own.
    fn has_turn(&self) -> bool {
        self.prompts.with_cli().is_some() || self.runs_by_itself || self.woke_up
    }

    pub(super) fn receipt(&self, cancelled: Vec<PromptId>) -> InterruptReceipt {
        InterruptReceipt { still_queued: self.prompts.waiting().collect(), cancelled }
    }

    fn answer(&mut self, ask: AskId, answer: &Answer, by: Option<String>) -> Result<Accepted, Refused> {
        let open = self.asks.get(ask).ok_or_else(|| match self.asks.answer_to(ask) {
            Some(Answered { by, ending, .. }) => Refused::AskAnswered { ask, by: by.clone(), ending: *ending },
            None => Refused::AskNotOpen { ask },
        })?;
        let (ending, allowed, line) = spell(open, answer)?;
        let closed = open.answered(ending, by.clone(), allowed);
        self.asks.take(ask);
        if let Some(by) = by {
            self.asks.note_answer(Answered { ask, by, ending });
        }
        self.tell(closed);
        self.write(line);
        Ok(Accepted::Done)
    }

    fn request(&mut self, request: &Request, by: Option<String>, now: Instant) -> Result<Accepted, Refused> {
        self.check_requests()?;
        if let Request::SetTools(tools) = request {
            if !self.config.initialize.has_tools() {
                return Err(Refused::NoTools);
            }
            if self.tool_server_is_taken && !tools.is_empty() {
                return Err(Refused::ToolServerTaken);
            }
            if let Some(tool) = tools.iter().find(|tool| !tool.has_own_name()) {
                return Err(Refused::ToolName { name: tool.name.clone() });
            }
            self.config.initialize.tools.clone_from(tools);
            // Even without a tool the server is there.
            self.config.initialize.offers_tools = true;
        }
        if self.config.initialize.has_tools() {
            check_servers(request)?;
        }
        if let Request::SetModel(Some(model)) = request {
            check_model(model)?;
        }
        let id = self.expect_answer(RequestKind::Other, now);
        // On record before it takes effect: it may change what runs without a question.
        self.tell(Event::RequestSent { request: id, body: request_record::on_record(request), by });
        self.write(outgoing::request(id, request, &self.config.initialize));
        Ok(Accepted::Request(id))
    }

    fn check_requests(&self) -> Result<(), Refused> {
        let unanswered = self.requests.len();
        if unanswered < REQUESTS_UNANSWERED_MAX { Ok(()) } else { Err(Refused::TooManyRequests { unanswered }) }
    }

    fn close(&mut self, now: Instant) {
        // The gentle steps need a CLI that reacts. One that starts may not, and has nothing that it could lose.
        let needs_no_gentleness = match self.phase {
            Phase::Starting => true,
            Phase::Running => self.watchdog.is_stalled(),
            Phase::Idle | Phase::Closing | Phase::Ended => false,
        };
        if needs_no_gentleness {
            return self.abort(now);
        }
        let runs = self.phase == Phase::Running;
        if self.step(Trigger::EndAsked).is_none() {
            return;
        }
        self.exit_reason = ExitReason::Asked;
        while let Some(prompt) = self.prompts.drop_next() {
            self.tell(Event::PromptDropped { prompt, reason: DropReason::SessionEnded });
        }
        // The interrupt withdraws what the CLI asks; what it does not withdraw is refused when stdin closes.
        self.close_asks();
        if runs {
            let request = self.expect_answer(RequestKind::OwnInterrupt, now);
            self.interrupt_sent = true;
            self.write_now(outgoing::interrupt(request));
            self.closing = Some(Closing::on(Rung::Interrupted, now));
        } else {
            self.stop(Stop::CloseStdin);
            self.closing = Some(Closing::on(Rung::StdinClosed, now));
        }
    }

    /// Ends the CLI for a reason of ours.
    pub(super) fn end_for(&mut self, trigger: Trigger, reason: ExitReason, now: Instant) {
        if self.step(trigger).is_none() {
            return;
        }
        self.exit_reason = reason;
        self.close_asks();
        self.stop(Stop::Abort);
        self.closing = Some(Closing::on(Rung::Killed, now));
    }

    fn abort(&mut self, now: Instant) {
        if self.step(Trigger::EndAsked).is_some() {
            // Why a session ends that is ending already was decided before.
            self.exit_reason = ExitReason::Asked;
        }
        self.close_asks();
        // Asked again, it does not wait for the CLI to store its conversation.
        let is_aborting = self.closing.as_ref().is_some_and(|closing| closing.rung == Rung::Killed);
        self.stop(if is_aborting { Stop::Kill } else { Stop::Abort });
        self.closing = Some(Closing::on(Rung::Killed, now));
    }
}

/// A CLI that is started again gets the model's name as an argument.
pub(crate) fn check_model(model: &str) -> Result<(), Refused> {
    let fits = !model.is_empty() && model.len() <= MODEL_BYTES_MAX && !model.contains(char::is_control);
    if fits { Ok(()) } else { Err(Refused::BadModel) }
}

/// How long the name of a model may be.
const MODEL_BYTES_MAX: usize = 256;

/// The servers that a client sets take the place of all others, but not that of the session's own tools.
fn check_servers(request: &Request) -> Result<(), Refused> {
    if let Request::SetMcpServers(servers) = request
        && servers.contains_key(TOOL_SERVER)
    {
        return Err(Refused::ToolServerName);
    }
    if let Request::ToggleMcp { server, .. } = request
        && server == TOOL_SERVER
    {
        return Err(Refused::ToolServerName);
    }
    if let Request::Other { subtype, .. } = request
        && [outgoing::SET_MCP_SERVERS, outgoing::TOGGLE_MCP].contains(&subtype.as_str())
    {
        return Err(Refused::RawMcpServers);
    }
    Ok(())
}

/// The CLI drops a prompt it cannot read without a word, so it is checked here.
fn check_content(content: &PromptContent) -> Result<(), Refused> {
    if content.bytes() > PROMPT_BYTES_MAX {
        return Err(Refused::PromptTooLong { bytes: content.bytes() });
    }
    match content {
        PromptContent::Text(text) if text.is_empty() => Err(Refused::EmptyPrompt),
        PromptContent::Text(_) => Ok(()),
        PromptContent::Blocks(blocks) => check_blocks(blocks),
    }
}

fn check_blocks(blocks: &Raw) -> Result<(), Refused> {
    #[derive(serde::Deserialize)]
    struct Head<'a> {
        r#type: String,
        #[serde(borrow, default)]
        text: Option<&'a RawValue>,
    }
    let blocks: Vec<&RawValue> = blocks.parse().map_err(|_| Refused::BadBlocks)?;
    if blocks.is_empty() {
        return Err(Refused::EmptyPrompt);
    }
    for (place, block) in blocks.iter().enumerate() {
        let Head { r#type: given, text } = serde_json::from_str(block.get()).map_err(|_| Refused::BadBlocks)?;
        if !PROMPT_BLOCKS.contains(&given.as_str()) {
            return Err(Refused::BadBlock { place, given: given.chars().take(60).collect() });
        }
        if given == "text" && !text.is_some_and(|text| text.get().starts_with('"')) {
            return Err(Refused::BadBlocks);
        }
    }
    Ok(())
}

/// How an answer ends an ask, what it allows beyond what was asked, and the line that the CLI is sent.
fn spell(open: &OpenAsk, answer: &Answer) -> Result<(AskEnding, Allowed, OutgoingLine), Refused> {
    let id = open.request_id.as_str();
    let plainly = |ending, line| Ok((ending, Allowed::default(), line));
    let wrong = |kind, takes| Err(Refused::WrongAnswer { ask: open.id, kind, takes });
    match (&open.kind, answer) {
        (
            AskKind::Permission(ask) | AskKind::Question(ask) | AskKind::Plan(ask),
            Answer::Allow { input, permissions },
        ) => {
            let given = edited(input.as_ref())?;
            let allowed = Allowed::compared(Some(&ask.input), given.cloned(), permissions.clone());
            let line = answers::consent(id, given.unwrap_or(&ask.input), permissions.as_ref());
            Ok((AskEnding::Allowed, allowed, line))
        }
        (AskKind::Permission(_) | AskKind::Question(_) | AskKind::Plan(_), Answer::Deny { message, interrupt }) => {
            let interrupts = if *interrupt { Interrupts::Yes } else { Interrupts::No };
            plainly(AskEnding::Denied, answers::denial(id, message, interrupts))
        }
        (AskKind::Question(ask), Answer::Choose(choices)) => {
            let input = answers::chosen(&ask.input, choices);
            let line = answers::consent(id, &input, None);
            Ok((AskEnding::Answered, Allowed::compared(Some(&ask.input), Some(input), None), line))
        }
        (AskKind::Hook(ask), Answer::Hook(output)) => {
            if let HookOutput::Allow { input } = output {
                edited(input.as_ref())?;
            }
            match answers::is_taken(&ask.event, output) {
                Ok(()) => {
                    let (input, permissions) = answers::granted_by_hook(output);
                    let asked = input.as_ref().and_then(|_| answers::tool_input(ask));
                    let allowed = Allowed::compared(asked.as_ref(), input, permissions);
                    Ok((AskEnding::Answered, allowed, answers::hook(id, &ask.event, output)))
                }
                Err(takes) => wrong("a hook of an event that knows no such answer", takes),
            }
        }
        (AskKind::Form(_), Answer::Submit(content)) => {
            let allowed = Allowed { input: Some(content.clone()), ..Allowed::default() };
            Ok((AskEnding::Answered, allowed, answers::form(id, "accept", Some(content))))
        }
        (AskKind::Form(_), Answer::Decline) => plainly(AskEnding::Denied, answers::form(id, "decline", None)),
        (AskKind::Form(_), Answer::Dismiss) => plainly(AskEnding::Denied, answers::form(id, "cancel", None)),
        (AskKind::ToolCall(ask), Answer::ToolResult { content, is_error }) => {
            // Something else than a list would reach the model as a broken tool.
            content.parse::<Vec<&RawValue>>().map_err(|_| Refused::BadToolResult)?;
            plainly(AskEnding::Answered, mcp::result(id, &ask.call, content, *is_error))
        }
        (AskKind::ToolCall(ask), Answer::Deny { message, .. }) => {
            plainly(AskEnding::Denied, mcp::failure(id, &ask.call, message))
        }
        (AskKind::ToolCall(_), _) => wrong("a call of a tool", "a tool's result or deny"),
        (AskKind::Permission(_), _) => wrong("a permission", "allow or deny"),
        (AskKind::Question(_), _) => wrong("a question", "choose, allow or deny"),
        (AskKind::Plan(_), _) => wrong("a plan", "allow or deny"),
        (AskKind::Hook(_), _) => wrong("a hook", "a hook's output"),
        (AskKind::Form(_), _) => wrong("a form", "submit, decline or dismiss"),
    }
}

/// The input a tool is to be run with instead of its own. One with nothing in it is none, as it is for the CLI.
fn edited(input: Option<&Raw>) -> Result<Option<&Raw>, Refused> {
    let Some(input) = input else { return Ok(None) };
    let members: BTreeMap<String, &RawValue> = input.parse().map_err(|_| Refused::BadInput)?;
    Ok((!members.is_empty()).then_some(input))
}
