//! What happens to a prompt after it is handed to the CLI: it is started, lost, cancelled or interrupted.
//!
//! The CLI answers every interrupt, but one that it reads before the `init` frame of a turn may stop nothing (measured
//! on 2.1.325 and 2.1.42). The machine therefore remembers an interrupt (`interrupt_sent`) until its turn has ended:
//! - When the interrupted turn begins, the interrupt is sent again ([`Machine::interrupt_again`]).
//! - A prompt in the CLI's queue, behind a turn that the CLI started itself, is cancelled there with a request of its
//!   own ([`Machine::cancel_queued_prompt`]): an interrupt does not remove it.
//! - If an idle CLI answers the interrupt, has not started the prompt, and does not list it as queued, then the CLI
//!   does not have the prompt: it is lost ([`Machine::prompt_lost`]).

use std::time::{Duration, Instant};

use super::closing::ClosingStep;
use super::state::{Phase, Trigger};
use super::{Machine, RequestKind};
use crate::event::{DropReason, Event, TurnCause};
use crate::id::PromptId;
use crate::json::RawJson;
use crate::wire::control::{read_cancelled, read_still_queued};
use crate::wire::message::PromptUpdate;
use crate::wire::outgoing;
use crate::wire::system::CliState;

/// How long a prompt may stay unseen after a turn that the CLI started itself: longer than a hook, a command or a
/// compaction takes. A result that comes later would be taken for that of the next prompt.
const UNSEEN_WITHIN: Duration = Duration::from_secs(600);

impl Machine {
    /// Hands the next prompt to the CLI, if the CLI holds none and may receive one.
    ///
    /// While the CLI runs a turn that it started itself, the prompt waits here, where an interrupt can drop it. In the
    /// CLI it would wait in a queue from which an interrupt does not remove it, or would be merged into that turn, as
    /// 2.1.42 does.
    pub(super) fn hand_over_prompt(&mut self) {
        let cli_turn_runs = (self.cli_turn_running || self.cli_turn_expected) && self.cli_state != Some(CliState::Idle);
        if !matches!(self.phase, Phase::Idle | Phase::Running) || cli_turn_runs {
            return;
        }
        let Some((id, content)) = self.prompts.hand_over() else {
            return;
        };
        self.transition(Trigger::TurnBegan);
        // An earlier interrupt was for a turn that has ended.
        (self.prompt_started, self.prompt_queued_in_cli, self.interrupt_sent) = (false, false, false);
        self.unseen_deadline = None;
        self.emit(Event::TurnStarted { cause: TurnCause::Prompt(id) });
        let line = outgoing::prompt(&self.prompts.entry(id), &content);
        self.write(line);
    }

    /// Cancels the interrupted prompt in the CLI's queue. Without this it would run after the turn that the CLI started
    /// itself.
    pub(super) fn cancel_queued_prompt(&mut self, now: Instant) {
        if let Some(prompt) = self.prompts.in_flight().filter(|_| self.prompt_queued_in_cli) {
            let request = self.expect_answer(RequestKind::CancelPrompt(prompt), now);
            self.write_now(outgoing::cancel_prompt(request, &self.prompts.entry(prompt)));
        }
    }

    /// Limits the time in which the CLI must show that it has the prompt in flight. A hook may delay the turn for minutes.
    /// Further turns of the CLI's own do not extend the limit: a model that polls would extend it forever.
    pub(super) fn limit_unseen_prompt(&mut self, now: Instant) {
        let is_unseen = self.prompts.in_flight().is_some() && !self.prompt_started && !self.prompt_queued_in_cli;
        self.unseen_deadline = self.unseen_deadline.or(now.checked_add(UNSEEN_WITHIN)).filter(|_| is_unseen);
    }

    /// Returns when the prompt is given up, if nothing more shows that the CLI has it. A turn that the CLI started itself
    /// may still end with the prompt.
    pub(super) fn unseen_deadline(&self) -> Option<Instant> {
        self.unseen_deadline.filter(|_| self.phase == Phase::Running && !self.cli_turn_running)
    }

    pub(super) fn check_unseen_prompt(&mut self, now: Instant) {
        if self.unseen_deadline().is_some_and(|deadline| deadline <= now) {
            self.give_up_unseen_prompt();
        }
    }

    /// Returns whether the prompt in flight is *unseen*: a turn that the CLI started itself has ended, and nothing has shown
    /// since that the CLI has the prompt. The CLI may answer requests, but no turn is known to run.
    pub(super) fn is_prompt_unseen(&self) -> bool {
        self.unseen_deadline().is_some() && !self.init_received
    }

    /// Drops the prompt that the CLI has not shown for too long, or that an interrupt has not brought to light.
    pub(super) fn give_up_unseen_prompt(&mut self) {
        (self.unseen_deadline, self.interrupt_sent) = (None, false);
        self.prompt_lost();
        self.went_idle();
    }

    /// Drops the prompt that the CLI holds: the CLI will not send a result for it.
    pub(super) fn prompt_lost(&mut self) {
        if self.was_ended_for_tool_server() {
            return;
        }
        if let Some(prompt) = self.prompts.take_in_flight() {
            (self.prompt_started, self.unseen_deadline) = (false, None);
            self.watchdog.turn_ended();
            self.emit(Event::PromptDropped { prompt, reason: DropReason::Lost });
            self.hand_over_prompt();
        }
    }

    pub(super) fn prompt_reported(&mut self, uuid: &str, update: PromptUpdate, now: Instant) {
        self.cli_reports_prompts = true;
        let in_flight = self.prompts.in_flight();
        let Some(prompt) = in_flight.filter(|prompt| self.prompts.entry(*prompt).as_str() == uuid) else {
            if in_flight.is_some() && update == PromptUpdate::Started && !self.prompt_started {
                // What the CLI has scheduled by itself is reported like a prompt, and the result of its turn can look
                // exactly like that of a prompt. (Measured on 2.1.325 with `ScheduleWakeup`.)
                self.cli_turn_began();
            }
            return;
        };
        self.unseen_deadline = None;
        match update {
            // A prompt that was merged into another turn may be reported only when it is done.
            PromptUpdate::Started | PromptUpdate::Done => {
                (self.prompt_started, self.prompt_queued_in_cli) = (true, false);
            }
            PromptUpdate::Cancelled => self.prompt_cancelled(prompt, now),
            PromptUpdate::Queued if self.prompt_started => {}
            PromptUpdate::Queued => self.prompt_queued(now),
        }
    }

    /// Handles the report that the prompt is in the CLI's queue. A turn whose `init` frame has arrived is therefore not
    /// the prompt's: the CLI started it itself.
    fn prompt_queued(&mut self, now: Instant) {
        self.prompt_queued_in_cli = true;
        if self.init_received {
            self.cli_turn_began();
            if self.interrupt_sent {
                self.cancel_queued_prompt(now);
            }
        }
    }

    /// Handles the reply to a cancel request: whether the CLI removed the prompt from its queue. If it did, it also
    /// reports the prompt by its id as cancelled; either report may come first.
    pub(super) fn handle_cancel_reply(&mut self, prompt: PromptId, answer: &RawJson) {
        if self.prompts.in_flight() == Some(prompt) && !self.prompt_started && read_cancelled(answer) {
            self.prompt_cancelled(prompt, self.now);
        }
    }

    fn prompt_cancelled(&mut self, prompt: PromptId, now: Instant) {
        if self.was_ended_for_tool_server() {
            return;
        }
        self.prompts.take_in_flight();
        if !self.cli_turn_running {
            // Otherwise the pending interrupt is also for the turn that the CLI started itself, and stays.
            self.watchdog.turn_ended();
        }
        // A prompt that was merged into a turn of the CLI is cancelled with that turn, and may have done something.
        let reason = if self.prompt_started { DropReason::Lost } else { DropReason::Cancelled };
        self.emit(Event::PromptDropped { prompt, reason });
        self.hand_over_prompt();
        if self.cli_state != Some(CliState::Running) {
            self.went_idle();
        }
        self.continue_closing_after_turn(now);
    }

    /// Returns whether the CLI's answer to an interrupt lists a prompt as queued: then the CLI will run it. (2.1.325
    /// leaves it in its queue while a command runs in the background.)
    pub(super) fn is_queued(&self, prompt: Option<PromptId>, answer: &RawJson) -> bool {
        prompt.is_some_and(|prompt| {
            let entry = self.prompts.entry(prompt);
            read_still_queued(answer).iter().any(|queued| queued == entry.as_str())
        })
    }

    /// Repeats a pending interrupt when the interrupted turn begins: the first may have come too early to stop it.
    pub(super) fn interrupt_again(&mut self, now: Instant) {
        let may_write = self.closing.as_ref().is_none_or(|closing| closing.step == ClosingStep::Interrupted);
        if !self.interrupt_sent || !may_write {
            return;
        }
        let request = self.expect_answer(RequestKind::WatariInterrupt, now);
        // Before the `init` frame, the CLI may answer the interrupt and still run the turn.
        self.watchdog.interrupted(request, self.init_received, now);
        self.write_now(outgoing::interrupt(request));
    }
}
