//! Tracks whether a session has background work between its turns.

use std::collections::BTreeSet;

use tokio::sync::watch;
use watari_sdk::{Event, TaskUpdate};

/// How many tasks are tracked. Further tasks are not: once the tracked ones have ended, the session counts as idle,
/// even if others still run.
const TASKS_MAX: usize = 1024;

/// The background work of a CLI.
#[derive(Debug)]
pub(super) struct Background {
    runs: watch::Sender<bool>,
    /// Tasks that were reported one by one.
    tasks: BTreeSet<String>,
    /// Whether the CLI lists its tasks; its list takes precedence. (CLI 2.1.42 does not list them.)
    lists: bool,
}

impl Background {
    pub(super) fn new() -> Background {
        Background { runs: watch::Sender::new(false), tasks: BTreeSet::new(), lists: false }
    }

    /// Whether background work runs, and when that changes.
    pub(super) fn runs(&self) -> watch::Receiver<bool> {
        self.runs.subscribe()
    }

    pub(super) fn observe(&mut self, event: &Event) {
        if let Some(has_tasks) = event.has_background_tasks() {
            self.lists = true;
            self.set(has_tasks);
        } else if let (Event::TaskChanged { task, update, .. }, false) = (event, self.lists) {
            if *update == TaskUpdate::Ended {
                self.tasks.remove(task);
            } else if self.tasks.len() < TASKS_MAX {
                self.tasks.extend(event.started_in_background().map(str::to_owned));
            }
            self.set(!self.tasks.is_empty());
        } else if let Event::CliExited { .. } = event {
            self.tasks.clear();
            self.lists = false;
            self.set(false);
        }
    }

    fn set(&mut self, runs: bool) {
        self.runs.send_if_modified(|before| std::mem::replace(before, runs) != runs);
    }
}

#[cfg(test)]
mod tests {
    use watari_sdk::RawJson;

    use super::*;

    fn listed(tasks: &str) -> Event {
        Event::TasksListed { tasks: RawJson::from(tasks) }
    }

    fn changed(task: &str, update: TaskUpdate) -> Event {
        Event::TaskChanged { task: task.into(), update, raw: RawJson::from("{}") }
    }

    /// Whether background work runs after each of these events.
    fn runs_after(events: &[Event]) -> Vec<bool> {
        let mut background = Background::new();
        let runs = background.runs();
        let after = |event| {
            background.observe(event);
            *runs.borrow()
        };
        events.iter().map(after).collect()
    }

    #[test]
    fn what_the_cli_lists_runs_until_it_lists_it_no_more_or_has_ended() {
        let ended = || Event::CliExited { exit: Box::default() };
        let one = || listed(r#"[{"task_id":"a"}]"#);
        assert_eq!(runs_after(&[one(), listed("[]"), one(), ended()]), [true, false, true, false]);
        // The list takes precedence over events about single tasks: a command in the foreground is a task too.
        let (started, ended) = (changed("a", TaskUpdate::Started), changed("a", TaskUpdate::Ended));
        assert_eq!(runs_after(&[one(), started, ended, listed("[]")]), [true, true, true, false]);
    }

    #[test]
    fn of_a_cli_that_lists_nothing_the_tasks_run_that_started_and_have_not_ended() {
        let events = [
            changed("a", TaskUpdate::Started),
            changed("b", TaskUpdate::Started),
            changed("a", TaskUpdate::Progressed),
            changed("a", TaskUpdate::Ended),
            changed("b", TaskUpdate::Updated),
            changed("b", TaskUpdate::Ended),
        ];
        assert_eq!(runs_after(&events), [true, true, true, true, true, false]);
        let raw = RawJson::from(r#"{"is_backgrounded":false}"#);
        let foreground = Event::TaskChanged { task: "c".into(), update: TaskUpdate::Started, raw };
        assert_eq!(runs_after(&[foreground]), [false]);
        let many: Vec<Event> =
            (0..2 * TASKS_MAX).map(|number| changed(&number.to_string(), TaskUpdate::Started)).collect();
        assert!(runs_after(&many).into_iter().all(|runs| runs));
    }
}
