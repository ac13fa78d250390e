//! Claims about single messages, and whether they hold.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::file::{Expected, VersionKey};
use super::pattern::matches;
use super::report::{ClaimReport, Verdict};
use super::version;
use crate::hand_written::{self, InputFileError};

/// A kind of message, with claims about it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageKind {
    pub(super) name: String,
    pub(super) about: String,
    /// A sample, with the names that the CLI uses.
    pub(super) sample: Map<String, Value>,
    pub(super) claims: Vec<Claim>,
}

/// A claim about a message.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    says: String,
    /// What holds instead, if the claim does not.
    instead: Option<Instead>,
    /// The scenario that shows it.
    scenario: String,
    holds_if: Test,
    #[serde(default)]
    expected: BTreeMap<VersionKey, Expected>,
}

/// What holds instead, and how that is detected.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Instead {
    says: String,
    if_seen: Vec<Map<String, Value>>,
}

/// When a claim holds: everything that is given must be true.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    /// The first message of all matches.
    first: Option<Map<String, Value>>,
    /// Messages match these, in this order.
    #[serde(default)]
    seen: Vec<Map<String, Value>>,
    /// No message matches.
    never: Option<Map<String, Value>>,
    /// Exactly one message matches.
    once: Option<Map<String, Value>>,
}

#[cfg(test)]
impl MessageKind {
    /// The scenarios that show its claims.
    pub(super) fn scenarios(&self) -> impl Iterator<Item = &str> {
        self.claims.iter().map(|claim| claim.scenario.as_str())
    }
}

/// All kinds of messages with claims.
pub(super) fn message_kinds() -> Result<Vec<MessageKind>, InputFileError> {
    hand_written::read("messages.yaml", include_str!("../../scenarios/messages.yaml"))
}

/// Tests every claim whose scenario was played to the end of a turn; `received` has the messages of each scenario by
/// name. Claims of other scenarios are skipped.
pub(super) fn test_all(
    kinds: &[MessageKind],
    received: &BTreeMap<String, Vec<Value>>,
    version: &str,
) -> Vec<ClaimReport> {
    let claims = kinds.iter().flat_map(|kind| kind.claims.iter().map(move |claim| (kind, claim)));
    let tested = claims.filter_map(|(kind, claim)| {
        let messages = received.get(&claim.scenario)?;
        messages.iter().find(|message| message["type"] == "result")?;
        let (verdict, seen) = match claim.holds_if.passes(messages) {
            true => (Verdict::Holds, Expected::Holds),
            false => (Verdict::Changed, Expected::Changed),
        };
        let is_so = |instead: &&Instead| verdict != Verdict::Holds && come(&instead.if_seen, messages);
        let expected = claim.expected.get(&VersionKey(version::nearest(version).to_owned())).copied();
        let expected = expected.unwrap_or(Expected::Holds);
        Some(ClaimReport {
            message: kind.name.clone(),
            says: claim.says.clone(),
            instead: claim.instead.as_ref().filter(is_so).map(|instead| instead.says.clone()),
            verdict,
            expected: if expected == Expected::Holds { Verdict::Holds } else { Verdict::Changed },
            as_expected: seen >= expected,
        })
    });
    tested.collect()
}

impl Test {
    fn passes(&self, messages: &[Value]) -> bool {
        let Test { first, seen, never, once } = self;
        let is_first = |pattern| messages.first().is_some_and(|message| fits(pattern, message));
        let count = |pattern| messages.iter().filter(|message| fits(pattern, message)).count();
        first.as_ref().is_none_or(is_first)
            && come(seen, messages)
            && never.as_ref().is_none_or(|pattern| count(pattern) == 0)
            && once.as_ref().is_none_or(|pattern| count(pattern) == 1)
    }
}

/// Whether messages match these patterns, in this order.
fn come(patterns: &[Map<String, Value>], messages: &[Value]) -> bool {
    let mut messages = messages.iter();
    patterns.iter().all(|pattern| messages.any(|message| fits(pattern, message)))
}

fn fits(pattern: &Map<String, Value>, message: &Value) -> bool {
    matches(&Value::Object(pattern.clone()), message)
}
