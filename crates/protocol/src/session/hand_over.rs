//! What becomes of a prompt from when it is handed to the CLI: taken up, lost, cancelled or interrupted.

use std::time::Instant;

use super::closing::Rung;
use super::state::{Phase, Trigger};
use super::{Machine, RequestKind};
use crate::event::{DropReason, Event, TurnCause};
use crate::id::PromptId;
use crate::json::Raw;
use crate::wire::control::{read_cancelled, read_still_queued};
use crate::wire::message::PromptNews;
use crate::wire::outgoing;
use crate::wire::system::CliState;

impl Machine {
    /// Hands the next prompt over, if the CLI has none and may have one.
    ///
    /// While the CLI runs a turn of its own the prompt waits here, where an interrupt can drop it. In the CLI's queue it
    /// could not, and 2.1.42 would answer it together with that turn.
    pub(super) fn hand_over_prompt(&mut self) {
        let runs_its_own = (self.runs_by_itself || self.woke_up) && self.cli_state != Some(CliState::Idle);
        if !matches!(self.phase, Phase::Idle | Phase::Running) || runs_its_own {
            return;
        }
        let Some((id, content)) = self.prompts.hand_over() else {
            return;
        };
        self.step(Trigger::TurnBegan);
        // What was to be interrupted is over.
        (self.ran_since_hand_over, self.is_prompt_queued, self.interrupt_sent) = (false, false, false);
        self.tell(Event::TurnStarted { cause: TurnCause::Prompt(id) });
        let line = outgoing::prompt(&self.prompts.entry(id), &content);
        self.write(line);
    }

    /// Takes the prompt that was interrupted out of the CLI's queue: behind a turn of its own it would stay there, and run.
    pub(super) fn cancel_queued_prompt(&mut self, now: Instant) {
        if let Some(prompt) = self.prompts.with_cli().filter(|_| self.is_prompt_queued) {
            let request = self.expect_answer(RequestKind::CancelPrompt(prompt), now);
            self.write_now(outgoing::cancel_prompt(request, &self.prompts.entry(prompt)));
        }
    }

    /// The CLI has nothing to do and gave no result for the prompt it had: it will not give one.
    pub(super) fn prompt_lost(&mut self) {
        if self.end_says_why() {
            return;
        }
        if let Some(prompt) = self.prompts.finish() {
            self.ran_since_hand_over = false;
            self.watchdog.turn_ended();
            self.tell(Event::PromptDropped { prompt, reason: DropReason::Lost });
            self.hand_over_prompt();
        }
    }

    pub(super) fn prompt_told(&mut self, uuid: &str, news: PromptNews, now: Instant) {
        self.cli_tells_of_prompts = true;
        let with_cli = self.prompts.with_cli();
        let Some(prompt) = with_cli.filter(|prompt| self.prompts.entry(*prompt).as_str() == uuid) else { return };
        match news {
            PromptNews::Started => (self.ran_since_hand_over, self.is_prompt_queued) = (true, false),
            PromptNews::Cancelled => self.prompt_cancelled(prompt, now),
            PromptNews::Other if self.ran_since_hand_over => {}
            PromptNews::Other => self.prompt_queued(now),
        }
    }

    /// The CLI has the prompt in its queue. If a turn shows, it is not the prompt's.
    fn prompt_queued(&mut self, now: Instant) {
        self.is_prompt_queued = true;
        if self.turn_shows {
            self.own_turn_began();
            if self.interrupt_sent {
                self.cancel_queued_prompt(now);
            }
        }
    }

    /// The CLI says that it has taken a prompt out of its queue, or not. It says the first also by the prompt's id.
    pub(super) fn prompt_cancel_answered(&mut self, prompt: PromptId, answer: &Raw) {
        if self.prompts.with_cli() == Some(prompt) && !self.ran_since_hand_over && read_cancelled(answer) {
            self.prompt_cancelled(prompt, self.now);
        }
    }

    fn prompt_cancelled(&mut self, prompt: PromptId, now: Instant) {
        if self.end_says_why() {
            return;
        }
        self.prompts.finish();
        if !self.runs_by_itself {
            // Else the turn that is to end is the CLI's own.
            self.watchdog.turn_ended();
        }
        self.tell(Event::PromptDropped { prompt, reason: DropReason::Cancelled });
        self.hand_over_prompt();
        if self.cli_state != Some(CliState::Running) {
            self.went_idle();
        }
        self.interrupted_for_closing(now);
    }

    /// Whether the CLI says, in its answer to an interrupt, that it still has a prompt: it will run it. (2.1.325 keeps it in its
    /// queue while a command runs in the background.)
    pub(super) fn is_queued(&self, prompt: Option<PromptId>, answer: &Raw) -> bool {
        prompt.is_some_and(|prompt| {
            let entry = self.prompts.entry(prompt);
            read_still_queued(answer).iter().any(|queued| queued == entry.as_str())
        })
    }

    /// Interrupts the CLI once more when it shows that a turn runs which was interrupted before: an interrupt that reaches the
    /// CLI before it has begun the turn is answered and has no effect. (Measured on 2.1.325 and 2.1.42.)
    pub(super) fn interrupt_again(&mut self, now: Instant) {
        let may_write = self.closing.as_ref().is_none_or(|closing| closing.rung == Rung::Interrupted);
        if !self.interrupt_sent || !may_write {
            return;
        }
        let request = self.expect_answer(RequestKind::OwnInterrupt, now);
        // Before the turn shows, the CLI may answer and go on all the same.
        self.watchdog.interrupted(request, self.turn_shows, now);
        self.write_now(outgoing::interrupt(request));
    }
}
