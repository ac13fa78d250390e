//! Orphaned processes: they belong to sessions whose process (watari, or a program with the SDK) no longer exists.

use watari_sdk::{Orphan, OrphansError, orphans, terminate_orphans};

use super::plain::shortened;
use super::report::{Check, Finding, OrphanEntry, counted};

/// How much of a command line is shown.
const COMMAND_CHARACTERS_MAX: usize = 80;

/// The orphans that were found, and the result of their termination.
#[derive(Debug)]
pub(super) struct Orphans {
    found: Result<Vec<Orphan>, OrphansError>,
    /// The orphans that are left after the termination; none if it was not requested.
    after: Option<Vec<Orphan>>,
}

impl Orphans {
    /// Looks for the orphans of the former process with this id, or of any process.
    pub(super) async fn find(owner: Option<u32>) -> Orphans {
        let is_wanted = |orphan: &Orphan| owner.is_none_or(|owner| orphan.owners().contains(&owner));
        let found = orphans().await.map(|found| found.into_iter().filter(is_wanted).collect());
        Orphans { found, after: None }
    }

    pub(super) fn can_be_terminated(&self) -> bool {
        self.after.is_none() && !self.found().is_empty()
    }

    pub(super) async fn terminate(&mut self) {
        if self.can_be_terminated() {
            self.after = Some(terminate_orphans(self.found()).await);
        }
    }

    pub(super) fn finding(&self) -> Finding {
        let found = match &self.found {
            Ok(found) => found,
            Err(unknown) => return Finding::ok(Check::Orphans, unknown.to_string()),
        };
        match &self.after {
            None if found.is_empty() => Finding::ok(Check::Orphans, none_found()),
            None => {
                let found = format!("{} of sessions whose owner was killed", counted(found.len(), "process"));
                Finding::warning(Check::Orphans, found, "terminate them with `watari doctor --terminate-orphans`")
            }
            Some(after) if after.is_empty() => {
                let found =
                    format!("terminated {} of sessions whose owner was killed", counted(found.len(), "process"));
                Finding::ok(Check::Orphans, found)
            }
            Some(after) => {
                let found = format!("{} of killed sessions cannot be terminated", counted(after.len(), "process"));
                let pids: Vec<String> = after.iter().map(|left| left.pid.to_string()).collect();
                Finding::warning(Check::Orphans, found, format!("try `kill -9 {}`", pids.join(" ")))
            }
        }
    }

    /// All orphans, for the report; none if the system does not show them.
    pub(super) fn list(&self) -> Option<Vec<OrphanEntry>> {
        let found = self.found.as_ref().ok()?;
        let after = self.after.as_deref().unwrap_or(found);
        let ended = found.iter().filter(|orphan| !after.iter().any(|left| left.pid == orphan.pid));
        Some(
            ended
                .map(|orphan| OrphanEntry { terminated: true, ..listed(orphan) })
                .chain(after.iter().map(listed))
                .collect(),
        )
    }

    fn found(&self) -> &[Orphan] {
        self.found.as_deref().unwrap_or_default()
    }
}

/// The environment of a process that runs as another user, and so its session, is hidden from everybody but root.
fn none_found() -> &'static str {
    if rustix::process::geteuid().is_root() {
        "none"
    } else {
        "none of this user's (what runs as another user, for example after sudo, cannot be checked)"
    }
}

fn listed(orphan: &Orphan) -> OrphanEntry {
    let command = shortened(&orphan.command, COMMAND_CHARACTERS_MAX);
    OrphanEntry { pid: orphan.pid, command, owners: orphan.owners(), terminated: false }
}
