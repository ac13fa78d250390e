//! Playing many scenarios against one CLI.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinSet;

use super::report::{Report, ScenarioReport};
use super::talk::Cli;
use super::{PlayError, Scenario, claims, verdict, version};
use crate::hand_written::BadFile;

/// What is to be checked.
#[derive(Debug)]
pub struct Check {
    /// The CLI.
    pub cli: Cli,
    /// Its version.
    pub version: String,
    /// What is played.
    pub scenarios: Vec<Scenario>,
    /// How long one form of a scenario may take.
    pub limit: Duration,
    /// How many are played at once.
    pub at_once: usize,
}

/// Why a check came to no result.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A file that comes with this crate is wrong.
    #[error(transparent)]
    File(#[from] BadFile),
    /// A scenario could not be played.
    #[error("cannot play the scenario {scenario}: {source}")]
    Play {
        /// Its name.
        scenario: String,
        /// Why.
        source: PlayError,
    },
    /// The CLI holds no conversation at all.
    #[error("the CLI holds no conversation, so nothing was checked: {reason}; {}", advice(.said.as_deref()))]
    NoConversation {
        /// How that was seen.
        reason: String,
        /// What it complained of.
        said: Option<String>,
    },
    /// It was told to stop. Nothing of it runs any more.
    #[error("stopped before everything was checked")]
    Stopped,
    /// A scenario broke off in the middle: a mistake of ours.
    #[error("a scenario broke off; this is a mistake in watari")]
    BrokeOff,
}

fn advice(said: Option<&str>) -> String {
    match said {
        Some(said) => format!("it said:\n{said}"),
        None => "try it by hand, or give it more time".to_owned(),
    }
}

/// A scenario was played.
#[derive(Debug)]
pub struct Progress<'a> {
    /// How many are done.
    pub done: usize,
    /// How many there are.
    pub all: usize,
    /// How it came out.
    pub report: &'a ScenarioReport,
}

/// What came of one scenario.
struct Outcome {
    place: usize,
    report: ScenarioReport,
    /// The messages of the form that holds, else of the first.
    messages: Vec<Value>,
    /// Whether the CLI ended or waited without having said anything.
    is_silent: bool,
}

impl Check {
    /// Plays all scenarios. When this is dropped, what runs is ended.
    pub async fn run(self, mut progress: impl FnMut(Progress<'_>)) -> Result<Report, CheckError> {
        let kinds = claims::message_kinds()?;
        let all = self.scenarios.len();
        let mut waiting = self.scenarios.iter().cloned().enumerate();
        let mut outcomes: Vec<Outcome> = Vec::new();
        let mut running = JoinSet::new();
        let start = |running: &mut JoinSet<_>, (place, scenario): (usize, Scenario)| {
            let (cli, version, limit) = (self.cli.clone(), self.version.clone(), self.limit);
            running.spawn(async move { play(place, &scenario, &cli, &version, limit).await });
        };
        // The first goes alone: a CLI that says nothing would keep all the others waiting.
        if let Some(first) = waiting.next() {
            start(&mut running, first);
        }
        while let Some(finished) = running.join_next().await {
            let outcome = finished.map_err(|_| CheckError::BrokeOff)??;
            if *self.cli.stop.borrow() {
                // Those that still run have heard it too.
                while running.join_next().await.is_some() {}
                return Err(CheckError::Stopped);
            }
            if outcomes.is_empty() && outcome.is_silent && outcome.report.number.is_some() {
                let reason = outcome.report.reason.unwrap_or_default();
                return Err(CheckError::NoConversation { reason, said: outcome.report.said });
            }
            progress(Progress { done: outcomes.len() + 1, all, report: &outcome.report });
            outcomes.push(outcome);
            while running.len() < self.at_once.max(1)
                && let Some(next) = waiting.next()
            {
                start(&mut running, next);
            }
        }
        outcomes.sort_by_key(|outcome| outcome.place);
        let (scenarios, heard): (Vec<_>, BTreeMap<_, _>) = outcomes
            .into_iter()
            .map(|outcome| (outcome.report.clone(), (outcome.report.name, outcome.messages)))
            .unzip();
        let claims = claims::test_all(&kinds, &heard, &self.version);
        let as_expected = scenarios.iter().all(|scenario: &ScenarioReport| scenario.as_expected)
            && claims.iter().all(|claim| claim.as_expected);
        let expected_of = version::nearest(&self.version).to_owned();
        Ok(Report { version: self.version, expected_of, as_expected, scenarios, claims })
    }
}

async fn play(
    place: usize,
    scenario: &Scenario,
    cli: &Cli,
    version: &str,
    limit: Duration,
) -> Result<Outcome, CheckError> {
    let started = Instant::now();
    let played = scenario.play_forms(cli, limit).await;
    let played = played.map_err(|source| CheckError::Play { scenario: scenario.name().to_owned(), source })?;
    let report = verdict::judge(scenario, &played, version, started.elapsed());
    let is_silent = played.iter().all(|played| played.messages.is_empty());
    let shown = played.iter().position(|played| played.breach.is_none()).unwrap_or(0);
    let messages = played.into_iter().nth(shown).map(|played| played.messages).unwrap_or_default();
    Ok(Outcome { place, report, messages, is_silent })
}
