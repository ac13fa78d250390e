//! Scenarios: conversations with the real CLI as files, and a runner that shows what of the protocol holds with a
//! version.

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
use tokio::sync::watch;

pub use check::{Check, CheckError, Progress};
pub use document::document;
use file::ScenarioFile;
pub use play::PlayError;
use play::{Played, Stage};
pub use report::{ClaimReport, Report, ScenarioReport, Verdict};
pub use table::table;
pub use talk::Cli;
use talk::Until;

use crate::hand_written::{self, InputFileError};

/// The time limit of one form of a scenario.
pub const SCENARIO_LIMIT: Duration = Duration::from_secs(30);

/// A conversation with the CLI that can be played.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its path, or its name if it comes with this crate.
    source: String,
    is_built_in: bool,
    text: String,
    file: ScenarioFile,
}

impl Scenario {
    /// Reads a hand-written scenario; see [`scenario_schema`].
    pub fn load(path: &Path) -> Result<Scenario, InputFileError> {
        let text = hand_written::text_of(path)?;
        Scenario::read(&path.display().to_string(), &text)
    }

    /// All scenarios that come with this crate, in order.
    pub fn all() -> Result<Vec<Scenario>, InputFileError> {
        let built_in = |scenario| Scenario { is_built_in: true, ..scenario };
        BUILT_IN.iter().map(|(name, text)| Scenario::read(name, text).map(built_in)).collect()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Its number, if it has one.
    pub fn number(&self) -> Option<u32> {
        self.file.number
    }

    /// Plays it against a CLI of this version, in the first form that holds, and reports the result.
    pub async fn play(&self, cli: &Cli, version: &str, limit: Duration) -> Result<ScenarioReport, PlayError> {
        let until = Until { limit, stop: watch::channel(false).1 };
        Ok(self.judged(cli, version, &until).await?.0)
    }

    /// Plays it, and returns the messages as well: of the form that holds, else of the first.
    async fn judged(&self, cli: &Cli, version: &str, until: &Until) -> Result<(ScenarioReport, Vec<Value>), PlayError> {
        let started = Instant::now();
        let played = self.play_forms(cli, until).await?;
        let report = verdict::judge(self, &played, version, started.elapsed());
        let shown = played.iter().position(|played| played.breach.is_none()).unwrap_or(0);
        Ok((report, played.into_iter().nth(shown).map(|played| played.messages).unwrap_or_default()))
    }

    /// Plays forms until one holds.
    async fn play_forms(&self, cli: &Cli, until: &Until) -> Result<Vec<Played>, PlayError> {
        let mut played = Vec::new();
        for place in 0..self.file.forms().len() {
            let stage = Stage::build().await?;
            let filled = Scenario::read(&self.source, &stage.fill_in(&self.text))?;
            let Some(form) = filled.file.forms().into_iter().nth(place) else { break };
            let this = stage.play(form, cli, until).await?;
            let holds = this.breach.is_none();
            played.push(this);
            if holds || *until.stop.borrow() {
                break;
            }
        }
        Ok(played)
    }

    fn read(source: &str, text: &str) -> Result<Scenario, InputFileError> {
        let file = hand_written::read(source, text)?;
        Ok(Scenario { source: source.to_owned(), is_built_in: false, text: text.to_owned(), file })
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

/// The numbered scenarios of the document, and then the others.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_files_of_the_folder_are_there_and_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let files: BTreeSet<String> = files.filter(|name| name != "messages.yaml").collect();
        assert_eq!(files, BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).collect());
        let scenarios = Scenario::all().unwrap();
        let names: BTreeSet<&str> = scenarios.iter().map(Scenario::name).collect();
        assert_eq!(names.len(), scenarios.len());
        let numbers: Vec<u32> = scenarios.iter().filter_map(Scenario::number).collect();
        assert_eq!(numbers, (1..=29).collect::<Vec<_>>());
        let kinds = claims::message_kinds().unwrap();
        assert_eq!(kinds.len(), 12);
        for scenario in kinds.iter().flat_map(claims::MessageKind::scenarios) {
            assert!(names.contains(scenario), "a claim is to be seen in {scenario}, which there is not");
        }
    }
}
