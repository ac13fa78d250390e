//! Kills the processes of a session without a supervisor that knows them all, and names those that cannot be killed.

use std::time::Duration;

use rustix::process::Pid;
use tokio::time::Instant;
use watari_protocol::{LeftProcess, WhyLeft};

use crate::sweep::{self, REFUSED_EXIT_WITHIN, Sweep};

/// How long to wait before searching again for killed processes, and for how long in all.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_millis(20);
const END_WITHIN: Duration = Duration::from_secs(5);

/// How much of a command line is reported.
const COMMAND_CHARACTERS_MAX: usize = 100;

/// The processes of a session.
///
/// They are found by their mark, or because this process has adopted them. The mark of a process that this user may not
/// signal cannot be read, so without adoption such a process is found only by its process group, or if it was a
/// descendant of the CLI when a signal was sent to the CLI.
pub(super) struct Remains {
    mark: String,
    /// The process group in which the CLI was started. (Its number is not reused while it has a member; once it has
    /// none, it could be: so processes that are found by it are reported, and not killed.)
    group: Option<Pid>,
    /// The processes that were found and that this user may not signal.
    refused: Vec<Pid>,
    /// Since when no process is left but those.
    refused_since: Option<Instant>,
    /// When to stop waiting for the exit of killed processes. It is stored, because the wait may be dropped half-way.
    give_up_at: Option<Instant>,
}

impl Remains {
    pub(super) fn new(mark: String, group: Option<Pid>) -> Remains {
        Remains { mark, group, refused: Vec::new(), refused_since: None, give_up_at: None }
    }

    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// Remembers the descendants of a process that this user may not signal: when the process is gone, nothing shows
    /// whose descendants they were.
    pub(super) fn remember_refused_below(&mut self, ancestor: Pid) {
        self.refused = sweep::refused(&[self.refused.as_slice(), &[ancestor]].concat(), self.group);
    }

    pub(super) fn kill_marked(&self) {
        sweep::kill_marked(&self.mark);
    }

    /// Kills the processes, repeatedly until none is left or the time limits have expired, and returns those that are
    /// left. Cancel-safe: the search is repeated, and the time limits stay.
    pub(super) async fn end(&mut self) -> Vec<LeftProcess> {
        let give_up_at = *self.give_up_at.get_or_insert_with(|| Instant::now() + END_WITHIN);
        loop {
            let Sweep { killed, refused } = sweep::kill_marked_and_adopted(&self.mark);
            self.refused.extend(refused);
            self.refused = sweep::refused(&self.refused, self.group);
            let is_refused = killed.is_empty() && !self.refused.is_empty();
            let since = is_refused.then(|| self.refused_since.unwrap_or_else(Instant::now));
            self.refused_since = since;
            let is_over = killed.is_empty() && self.refused.is_empty()
                || since.is_some_and(|since| since.elapsed() >= REFUSED_EXIT_WITHIN)
                || Instant::now() >= give_up_at;
            if is_over {
                let refused = self.refused.iter().map(|pid| left_process(*pid, WhyLeft::NotPermitted));
                return refused.chain(killed.into_iter().map(|pid| left_process(pid, WhyLeft::Stuck))).collect();
            }
            // The system does not report the exit of a process that is not a child.
            tokio::time::sleep(SWEEP_INTERVAL).await;
        }
    }
}

/// Describes a process that could not be ended.
pub(super) fn left_process(pid: Pid, why: WhyLeft) -> LeftProcess {
    let command = sweep::command(pid);
    let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = |character: char| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
    let command = match command.char_indices().nth(COMMAND_CHARACTERS_MAX) {
        None => command.chars().map(shown).collect(),
        Some(_) => command.chars().map(shown).take(COMMAND_CHARACTERS_MAX - 1).chain(['…']).collect(),
    };
    LeftProcess { pid: pid.as_raw_nonzero().get().cast_unsigned(), command, why }
}
