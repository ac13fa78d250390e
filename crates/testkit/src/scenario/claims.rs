//! What is said of single messages, and whether it is so.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::file::Expected;
use super::pattern::matches;
use super::report::{ClaimReport, Verdict};
use super::version;
use crate::hand_written::{self, BadFile};

/// A kind of message, what it is, and what is said of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageKind {
    pub(super) name: String,
    pub(super) about: String,
    /// How it looks, by the names that the CLI uses.
    pub(super) sample: Map<String, Value>,
    pub(super) claims: Vec<Claim>,
}

/// Something that is said of a message.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    says: String,
    /// What is so instead, where it is not so.
    instead: Option<String>,
    /// The scenario in which it can be seen.
    scenario: String,
    holds_if: Test,
    #[serde(default)]
    expected: BTreeMap<String, Expected>,
}

/// How it is seen whether a claim holds.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Test {
    /// The first message of all matches.
    First(Map<String, Value>),
    /// Messages come that match, in this order.
    Seen(Vec<Map<String, Value>>),
    /// No message matches.
    Never(Map<String, Value>),
    /// Just one message matches.
    Once(Map<String, Value>),
}

/// All kinds of messages that something is said of.
pub(super) fn message_kinds() -> Result<Vec<MessageKind>, BadFile> {
    hand_written::read("messages.yaml", include_str!("../../scenarios/messages.yaml"))
}

/// Tests every claim whose scenario was played; `heard` has the messages of each by its name.
pub(super) fn test_all(kinds: &[MessageKind], heard: &BTreeMap<String, Vec<Value>>, version: &str) -> Vec<ClaimReport> {
    let claims = kinds.iter().flat_map(|kind| kind.claims.iter().map(move |claim| (kind, claim)));
    let tested = claims.filter_map(|(kind, claim)| {
        let holds = claim.holds_if.passes(heard.get(&claim.scenario)?);
        let (verdict, seen) =
            if holds { (Verdict::Holds, Expected::Holds) } else { (Verdict::Changed, Expected::Changed) };
        let expected = claim.expected.get(version::nearest(version)).copied().unwrap_or(Expected::Holds);
        Some(ClaimReport {
            message: kind.name.clone(),
            says: claim.says.clone(),
            instead: claim.instead.clone().filter(|_| verdict != Verdict::Holds),
            verdict,
            expected: if expected == Expected::Holds { Verdict::Holds } else { Verdict::Changed },
            as_expected: seen >= expected,
        })
    });
    tested.collect()
}

impl Test {
    fn passes(&self, messages: &[Value]) -> bool {
        let count = |pattern: &Map<String, Value>| {
            let pattern = Value::Object(pattern.clone());
            messages.iter().filter(|message| matches(&pattern, message)).count()
        };
        match self {
            Test::First(pattern) => {
                messages.first().is_some_and(|first| matches(&Value::Object(pattern.clone()), first))
            }
            Test::Seen(patterns) => {
                let mut messages = messages.iter();
                patterns.iter().all(|pattern| {
                    let pattern = Value::Object(pattern.clone());
                    messages.any(|message| matches(&pattern, message))
                })
            }
            Test::Never(pattern) => count(pattern) == 0,
            Test::Once(pattern) => count(pattern) == 1,
        }
    }
}
