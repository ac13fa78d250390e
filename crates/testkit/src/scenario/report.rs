//! What a check found, as data.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What holds with one CLI.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The version of the CLI.
    pub version: String,
    /// The version whose results are expected: the same one if it was tested, else the nearest that was.
    pub expected_of: String,
    /// Whether everything is at least as good as expected.
    pub as_expected: bool,
    /// The scenarios, in their order.
    pub scenarios: Vec<ScenarioReport>,
    /// What is said of single messages, in its order.
    pub claims: Vec<ClaimReport>,
}

/// How one scenario came out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScenarioReport {
    /// Its number, if it has one.
    pub number: Option<u32>,
    /// Its name.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// How it came out.
    pub verdict: Verdict,
    /// How the form that holds differs from the first one, if it does.
    pub form: Option<String>,
    /// Why it does not hold, or why the first form does not.
    pub reason: Option<String>,
    /// What the CLI itself said of it.
    pub said: Option<String>,
    /// What came, in a few words: of the form that holds, else of the first.
    pub sequence: Vec<String>,
    /// How it should have come out.
    pub expected: Verdict,
    /// Whether it came out at least as well as expected.
    pub as_expected: bool,
    /// How long it took, all forms together.
    #[serde(rename = "seconds", serialize_with = "as_seconds", deserialize_with = "from_seconds")]
    pub took: Duration,
}

/// How something that is said of a message came out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClaimReport {
    /// The message it is said of.
    pub message: String,
    /// What is said.
    pub says: String,
    /// What is so instead, as far as is known.
    pub instead: Option<String>,
    /// How it came out.
    pub verdict: Verdict,
    /// How it should have come out.
    pub expected: Verdict,
    /// Whether it came out at least as well as expected.
    pub as_expected: bool,
}

/// How something came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The tools it is about are not there.
    Gone,
    /// Something else came.
    Changed,
    /// It holds.
    Holds,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Gone => "gone",
            Verdict::Changed => "changed",
            Verdict::Holds => "holds",
        }
    }
}

impl Report {
    /// How many scenarios came out so.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.scenarios.iter().filter(|scenario| scenario.verdict == verdict).count()
    }
}

fn as_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    // Milliseconds are enough.
    serializer.serialize_f64((duration.as_secs_f64() * 1000.0).round() / 1000.0)
}

fn from_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)
}
