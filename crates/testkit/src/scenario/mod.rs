//! Conversations with the real CLI as files, and playing them: what of its protocol holds with a version.

mod check;
mod claims;
mod document;
mod file;
mod pattern;
mod play;
mod report;
mod shape;
mod table;
mod talk;
mod verdict;
mod version;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

pub use check::{Check, CheckError, Progress};
pub use document::document;
use file::ScenarioFile;
pub use play::PlayError;
use play::{Played, Stage};
pub use report::{ClaimReport, Report, ScenarioReport, Verdict};
pub use table::table;
pub use talk::Cli;

use crate::hand_written::{self, BadFile};

/// How long one form of a scenario may take.
pub const SCENARIO_LIMIT: Duration = Duration::from_secs(30);

/// One conversation with the CLI that can be played.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What it was read from: a path, or the name of one that comes with this crate.
    source: String,
    text: String,
    file: ScenarioFile,
}

impl Scenario {
    /// Reads a scenario that somebody wrote; [`scenario_schema`] says how.
    pub fn load(path: &Path) -> Result<Scenario, BadFile> {
        let text = hand_written::text_of(path)?;
        Scenario::read(&path.display().to_string(), &text)
    }

    /// All scenarios that come with this crate, in their order.
    pub fn all() -> Result<Vec<Scenario>, BadFile> {
        BUILT_IN.iter().map(|(name, text)| Scenario::read(name, text)).collect()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Its number, if it is one of the numbered ones.
    pub fn number(&self) -> Option<u32> {
        self.file.number
    }

    /// Plays it against a CLI, in the first form that holds, and tells how it came out.
    pub async fn play(&self, cli: &Cli, version: &str, limit: Duration) -> Result<ScenarioReport, PlayError> {
        let started = Instant::now();
        let played = self.play_forms(cli, limit).await?;
        Ok(verdict::judge(self, &played, version, started.elapsed()))
    }

    fn read(source: &str, text: &str) -> Result<Scenario, BadFile> {
        let file = hand_written::read(source, text)?;
        Ok(Scenario { source: source.to_owned(), text: text.to_owned(), file })
    }

    /// Plays forms until one holds.
    async fn play_forms(&self, cli: &Cli, limit: Duration) -> Result<Vec<Played>, PlayError> {
        let mut played = Vec::new();
        for place in 0..self.file.forms().len() {
            let stage = Stage::build().await?;
            let filled = Scenario::read(&self.source, &stage.fill_in(&self.text))?;
            let Some(form) = filled.file.forms().into_iter().nth(place) else { break };
            let this = stage.play(self.name(), form, cli, limit).await?;
            let holds = this.breach.is_none();
            played.push(this);
            if holds {
                break;
            }
        }
        Ok(played)
    }
}

/// The JSON Schema of scenario files.
pub fn scenario_schema() -> Value {
    schemars::schema_for!(ScenarioFile).into()
}

macro_rules! built_in {
    ($($name:literal,)*) => {
        [$(($name, include_str!(concat!("../../scenarios/", $name)))),*]
    };
}

/// The scenarios of the document by their numbers, and then those beyond it.
const BUILT_IN: [(&str, &str); 41] = built_in![
    "01-simple-text.yaml",
    "02-bash-single.yaml",
    "03-bash-two-step.yaml",
    "04-text-and-tool.yaml",
    "05-parallel-tools.yaml",
    "06-multi-turn.yaml",
    "07-max-tokens.yaml",
    "08-thinking.yaml",
    "09-read.yaml",
    "10-write.yaml",
    "11-edit.yaml",
    "12-glob.yaml",
    "13-grep.yaml",
    "14-todo-write.yaml",
    "15-tool-chain.yaml",
    "16-thinking-tool.yaml",
    "17-request-recording.yaml",
    "18-notebook-edit.yaml",
    "19-ask-user-question.yaml",
    "20-enter-plan-mode.yaml",
    "21-web-fetch.yaml",
    "22-tool-error.yaml",
    "23-api-sse-error.yaml",
    "24-multi-text.yaml",
    "25-team-create.yaml",
    "26-team-delete.yaml",
    "27-send-message.yaml",
    "28-task-teammate.yaml",
    "29-team-lifecycle.yaml",
    "30-tool-messages.yaml",
    "31-init-every-turn.yaml",
    "32-agent-background.yaml",
    "33-agent-blocking.yaml",
    "34-max-tokens-recovers.yaml",
    "35-max-turns.yaml",
    "36-api-http-error.yaml",
    "37-api-fallback.yaml",
    "38-empty-answer.yaml",
    "39-partial-messages.yaml",
    "40-permission-asked.yaml",
    "41-interrupt.yaml",
];
