//! What sessions left behind whose program is dead.

use watari_sdk::{Leftover, LeftoversUnknown, end_leftovers, leftovers};

use super::plain::shortened;
use super::report::{Check, Finding, Left, counted};

/// How much is shown of a command line.
const COMMAND_CHARACTERS_MAX: usize = 80;

/// What was found, and what became of it.
#[derive(Debug)]
pub(super) struct Leftovers {
    found: Result<Vec<Leftover>, LeftoversUnknown>,
    /// What is still there after everything was ended; none when nobody tried.
    after: Option<Vec<Leftover>>,
}

impl Leftovers {
    /// Looks for what the program with this process id left behind, or any program.
    pub(super) async fn find(owner: Option<u32>) -> Leftovers {
        let is_wanted = |leftover: &Leftover| owner.is_none_or(|owner| leftover.owners().contains(&owner));
        let found = leftovers().await.map(|found| found.into_iter().filter(is_wanted).collect());
        Leftovers { found, after: None }
    }

    pub(super) fn can_be_ended(&self) -> bool {
        self.after.is_none() && !self.found().is_empty()
    }

    pub(super) async fn end(&mut self) {
        if self.can_be_ended() {
            self.after = Some(end_leftovers(self.found()).await);
        }
    }

    pub(super) fn finding(&self) -> Finding {
        let found = match &self.found {
            Ok(found) => found,
            Err(unknown) => return Finding::ok(Check::Leftovers, format!("not known: {unknown}")),
        };
        match &self.after {
            None if found.is_empty() => Finding::ok(Check::Leftovers, "none"),
            None => {
                let found = format!("{} of sessions whose program is dead", counted(found.len(), "process"));
                Finding::warning(Check::Leftovers, found, "end them with `watari doctor --end-leftovers`")
            }
            Some(after) if after.is_empty() => {
                let found = format!("ended {} of sessions whose program is dead", counted(found.len(), "process"));
                Finding::ok(Check::Leftovers, found)
            }
            Some(after) => {
                let found = format!("{} of dead sessions cannot be ended", counted(after.len(), "process"));
                let pids: Vec<String> = after.iter().map(|left| left.pid.to_string()).collect();
                Finding::warning(Check::Leftovers, found, format!("try `kill -9 {}` by hand", pids.join(" ")))
            }
        }
    }

    /// What is to be listed; none where it is not known.
    pub(super) fn list(&self) -> Option<Vec<Left>> {
        let found = self.found.as_ref().ok()?;
        let after = self.after.as_deref().unwrap_or(found);
        let ended = found.iter().filter(|leftover| !after.iter().any(|left| left.pid == leftover.pid));
        Some(ended.map(|leftover| Left { ended: true, ..listed(leftover) }).chain(after.iter().map(listed)).collect())
    }

    fn found(&self) -> &[Leftover] {
        self.found.as_deref().unwrap_or_default()
    }
}

fn listed(leftover: &Leftover) -> Left {
    let command = shortened(&leftover.command, COMMAND_CHARACTERS_MAX);
    Left { pid: leftover.pid, command, owners: leftover.owners(), ended: false }
}
