//! What events report about hooks and background tasks.

use serde::{Deserialize, Serialize};

use super::Event;
use crate::wire::system::{is_in_foreground, lists_tasks};

/// What [`Event::HookChanged`] reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum HookUpdate {
    /// The hook started.
    Started,
    /// The hook wrote output.
    Progressed,
    /// The hook ended.
    Ended,
}

/// What [`Event::TaskChanged`] reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum TaskUpdate {
    /// The task started.
    Started,
    /// The task progressed.
    Progressed,
    /// A field of the task changed, such as its status; `raw` has the changed fields.
    Updated,
    /// The task ended; the CLI may start a turn because of it.
    Ended,
}

impl Event {
    /// Returns whether background tasks run, if this event is the CLI's list of them. A list that cannot be parsed
    /// counts as one with tasks. (CLI 2.1.42 sends no lists.)
    pub fn has_background_tasks(&self) -> Option<bool> {
        if let Event::TasksListed { tasks } = self { Some(lists_tasks(tasks)) } else { None }
    }

    /// Returns the id of the task, if this event reports that a task started in the background. (The turn waits for a
    /// task in the foreground, such as a command that takes some seconds.)
    pub fn started_in_background(&self) -> Option<&str> {
        let Event::TaskChanged { task, update: TaskUpdate::Started, raw } = self else { return None };
        (!is_in_foreground(raw)).then_some(task)
    }
}
