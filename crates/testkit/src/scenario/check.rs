//! Plays many scenarios against one CLI.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::report::{Report, ScenarioReport};
use super::talk::{Cli, Until};
use super::{PlayError, Scenario, claims, version};
use crate::hand_written::InputFileError;

/// A check of one CLI.
#[derive(Debug)]
pub struct Check {
    /// The CLI.
    pub cli: Cli,
    /// Its version.
    pub version: String,
    /// The scenarios to play.
    pub scenarios: Vec<Scenario>,
    /// The time limit of one form of a scenario.
    pub limit: Duration,
    /// How many are played concurrently.
    pub at_once: usize,
}

/// Why a check has no result.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A file that comes with this crate is wrong.
    #[error(transparent)]
    File(#[from] InputFileError),
    /// A scenario could not be played.
    #[error("cannot play the scenario {scenario}: {source}")]
    Play {
        /// Its name.
        scenario: String,
        /// The reason.
        source: PlayError,
    },
    /// The CLI did not talk at all.
    #[error("the CLI holds no conversation, so nothing was checked: {reason}; {}", advice(.said.as_deref()))]
    NoConversation {
        /// How that was detected.
        reason: String,
        /// Its stderr.
        said: Option<String>,
    },
    /// The check was stopped.
    #[error("stopped before everything was checked")]
    Stopped,
    /// A scenario panicked: a bug in Watari.
    #[error("a scenario failed unexpectedly; this is a bug in watari")]
    BrokeOff,
}

fn advice(said: Option<&str>) -> String {
    match said {
        Some(said) => format!("it said:\n{said}"),
        None => "try the CLI by hand, or raise the time limit".to_owned(),
    }
}

/// The progress of a check: a scenario was played.
#[derive(Debug)]
pub struct Progress<'a> {
    /// How many are done.
    pub done: usize,
    /// How many there are.
    pub all: usize,
    /// Its result.
    pub report: &'a ScenarioReport,
}

/// The outcome of one scenario.
struct Outcome {
    place: usize,
    report: ScenarioReport,
    messages: Vec<Value>,
}

impl Check {
    /// Plays all scenarios, or until `stop` resolves. When it returns, nothing of it runs any more.
    pub async fn run(
        self,
        stop: impl Future<Output = ()>,
        mut progress: impl FnMut(Progress<'_>),
    ) -> Result<Report, CheckError> {
        let kinds = claims::message_kinds()?;
        let (send_stop, stop_receiver) = watch::channel(false);
        let until = Until { limit: self.limit, stop: stop_receiver };
        let mut running = JoinSet::new();
        let mut outcomes: Vec<Outcome> = Vec::new();
        let played = {
            let play = self.play(&until, &mut running, &mut outcomes, &mut progress);
            tokio::select! {
                // Cancel-safe: running scenarios are in `running`.
                played = play => played,
                // Dropped when nothing is left to stop.
                () = stop => Err(CheckError::Stopped),
            }
        };
        // An orderly end: every running scenario ends its CLI and removes its folders.
        let _sent = send_stop.send(true);
        while running.join_next().await.is_some() {}
        played?;
        outcomes.sort_by_key(|outcome| outcome.place);
        let received = self.scenarios.iter().zip(&outcomes).filter(|(scenario, _)| scenario.is_built_in);
        let received =
            received.map(|(scenario, outcome)| (scenario.name().to_owned(), outcome.messages.clone())).collect();
        let claims = claims::test_all(&kinds, &received, &self.version);
        let scenarios: Vec<ScenarioReport> = outcomes.into_iter().map(|outcome| outcome.report).collect();
        let as_expected =
            scenarios.iter().all(|scenario| scenario.as_expected) && claims.iter().all(|claim| claim.as_expected);
        let expected_of = version::nearest(&self.version).to_owned();
        Ok(Report { version: self.version, expected_of, as_expected, scenarios, claims })
    }

    async fn play(
        &self,
        until: &Until,
        running: &mut JoinSet<Result<Outcome, CheckError>>,
        outcomes: &mut Vec<Outcome>,
        progress: &mut impl FnMut(Progress<'_>),
    ) -> Result<(), CheckError> {
        let mut waiting = self.scenarios.iter().cloned().enumerate();
        // The first one runs alone: a CLI that says nothing would block all the others.
        let mut at_once = 1;
        loop {
            while running.len() < at_once
                && let Some((place, scenario)) = waiting.next()
            {
                let (cli, version, until) = (self.cli.clone(), self.version.clone(), until.clone());
                running.spawn(async move { play(place, &scenario, &cli, &version, &until).await });
            }
            let Some(finished) = running.join_next().await else { return Ok(()) };
            let outcome = finished.map_err(|_| CheckError::BrokeOff)??;
            let is_built_in = self.scenarios.get(outcome.place).is_some_and(|scenario| scenario.is_built_in);
            if outcomes.is_empty() && is_built_in && !outcome.messages.iter().any(is_of_the_protocol) {
                let reason = outcome.report.reason.unwrap_or_default();
                return Err(CheckError::NoConversation { reason, said: outcome.report.said });
            }
            progress(Progress { done: outcomes.len() + 1, all: self.scenarios.len(), report: &outcome.report });
            outcomes.push(outcome);
            at_once = self.at_once.max(1);
        }
    }
}

async fn play(
    place: usize,
    scenario: &Scenario,
    cli: &Cli,
    version: &str,
    until: &Until,
) -> Result<Outcome, CheckError> {
    let judged = scenario.judged(cli, version, until).await;
    let (report, messages) =
        judged.map_err(|source| CheckError::Play { scenario: scenario.name().to_owned(), source })?;
    Ok(Outcome { place, report, messages })
}

/// Whether every CLI sends such a message in every conversation.
fn is_of_the_protocol(message: &Value) -> bool {
    ["system", "assistant", "result"].iter().any(|kind| message["type"] == *kind)
}
