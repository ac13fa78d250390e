//! How the machine handles requests of the CLI: most become asks, the others are answered immediately.

use std::time::{Duration, Instant};

use super::Machine;
use super::state::Phase;
use crate::event::{AskKind, AskResolution, Event};
use crate::wire::answers;
use crate::wire::control::{ControlBody, ControlRequest, DefaultAnswer};
use crate::wire::mcp;

/// How long a tool of the program or of a client may take. The client that runs it may have disconnected for good, and
/// the turn and every later prompt would wait for it.
const TOOL_RETURNS_WITHIN: Duration = Duration::from_secs(10 * 60);

impl Machine {
    /// Handles a request of the CLI: opens an ask, or answers the request immediately.
    pub(super) fn handle_control_request(&mut self, request: ControlRequest<'_>, now: Instant) {
        let id = &*request.request_id;
        if self.asks.is_open(id) {
            // A repeated request is ignored.
            return;
        }
        let is_for_tools = matches!(
            request.body,
            ControlBody::ToolServerMessage(_)
                | ControlBody::CallCancelled { .. }
                | ControlBody::Ask(AskKind::ToolCall(_))
        );
        if is_for_tools && !self.config.initialize.has_tools() {
            // This session has no tool server, so the message is for another server with that name.
            return self.write(answers::unsupported(id, mcp::MCP_MESSAGE));
        }
        match request.body {
            ControlBody::Ask(AskKind::Hook(ask)) if self.config.initialize.hook(ask.hook).is_none() => {
                self.write(answers::by_default(
                    id,
                    &DefaultAnswer::Hook { event: ask.event },
                    "No hook with this id is registered",
                ));
            }
            ControlBody::Ask(kind) if self.phase != Phase::Closing => {
                let default_answer = DefaultAnswer::of(&kind);
                let deadline = self.deadline_of(&kind, now);
                match self.asks.open(id, kind, deadline) {
                    Some(opened) => self.emit(opened),
                    None => self.write(answers::by_default(id, &default_answer, "Too many requests are open")),
                }
            }
            ControlBody::Ask(kind) => {
                self.write(answers::by_default(id, &DefaultAnswer::of(&kind), "The session is closing"))
            }
            ControlBody::Unreadable { default_answer, frame } => {
                self.emit(Event::Unknown { frame });
                self.write(answers::by_default(id, &default_answer, "The request could not be read"));
            }
            ControlBody::ToolServerMessage(question) => {
                self.write(mcp::answer(id, &question, &self.config.initialize.tools));
            }
            ControlBody::CallCancelled { call, notification } => {
                if let Some(ask) = self.asks.take_cancelled_call(&call) {
                    // A cancelled call needs no response, and a late result is refused.
                    self.emit(ask.resolved_event(AskResolution::Withdrawn));
                }
                self.write(mcp::answer(id, &notification, &self.config.initialize.tools));
            }
            ControlBody::Unsupported { subtype, frame } => {
                self.emit(Event::Unknown { frame });
                self.write(answers::unsupported(id, &subtype));
            }
        }
    }

    /// Returns the deadline of an ask.
    fn deadline_of(&self, kind: &AskKind, now: Instant) -> Option<Instant> {
        let limit = match kind {
            AskKind::Permission(_) | AskKind::Question(_) | AskKind::Plan(_) | AskKind::Elicitation(_) => {
                self.config.answer_timeout
            }
            AskKind::Hook(ask) => self.config.initialize.hook(ask.hook).map(|hook| hook.answer_timeout),
            AskKind::ToolCall(_) => Some(TOOL_RETURNS_WITHIN),
        };
        limit.and_then(|limit| now.checked_add(limit))
    }
}
