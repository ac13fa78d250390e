//! Scenarios as files.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::version;
use crate::stub_api::ScriptFile;

/// One conversation with the CLI: the user's prompts, the model's replies, and the messages expected of the CLI.
///
/// In every text, `${cwd}` is replaced by the CLI's working directory and `${stub}` by the address of the stub.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Scenario of watari check")]
pub(super) struct ScenarioFile {
    /// Its name, in lower case.
    pub(super) name: String,
    /// Its number, if it has one.
    pub(super) number: Option<u32>,
    /// What it shows, in a few words.
    pub(super) title: String,
    /// Further explanation.
    pub(super) about: Option<String>,
    /// Files to create in the CLI's working directory, by relative path.
    #[serde(default)]
    files: Files,
    /// Further flags of the CLI.
    #[serde(default)]
    flags: Vec<String>,
    /// Whether tools run without permission requests, which most scenarios are not about. A newer form inherits this.
    #[serde(default = "yes")]
    skip_permissions: bool,
    /// Further variables in the CLI's environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The model's replies, as in a script of `watari stub`.
    #[serde(default)]
    script: ScriptFile,
    /// What is sent to the CLI, and what is expected of it.
    transcript: Transcript,
    /// The tools that must run, in the order of their calls.
    #[serde(default)]
    tools: Vec<ToolRun>,
    /// Files that must exist at the end, each with a text that it contains.
    #[serde(default)]
    leaves: Files,
    /// Texts that requests to the API must contain, each in a model call of its own, in this order.
    #[serde(default)]
    requested: Vec<String>,
    /// Other ways to play it, for versions with which this one does not work. They are tried in order.
    #[serde(default)]
    newer_forms: Vec<NewerForm>,
    /// The expected result by version; the default is that it holds. For a version that is not listed, the nearest
    /// tested version counts.
    #[serde(default)]
    pub(super) expected: BTreeMap<VersionKey, Expected>,
}

/// Another way to play a scenario: what it omits is as in the first form.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewerForm {
    /// How it differs, in a few words.
    how: String,
    files: Option<Files>,
    flags: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    script: Option<ScriptFile>,
    transcript: Option<Transcript>,
    tools: Option<Vec<ToolRun>>,
    leaves: Option<Files>,
}

/// Texts by the relative paths of their files.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(try_from = "BTreeMap<String, String>")]
struct Files(BTreeMap<String, String>);

/// What is sent to the CLI, and what is expected of it: at least one message.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<Step>")]
struct Transcript(Vec<Step>);

/// A version such as 2.1.325.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub(super) struct VersionKey(pub(super) String);

/// One step of a transcript.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    /// A prompt of the user.
    User(String),
    /// A line that is sent to the CLI as it is.
    Send(Map<String, Value>),
    /// An answer to the CLI's last request.
    Answer(Map<String, Value>),
    /// A message that must come before the turn ends. Every key of it must be there and match, lists match by position,
    /// a placeholder such as `<text>` or `<anything>` matches any value of its kind, and messages that are not expected
    /// are skipped.
    Expect(Map<String, Value>),
}

/// A tool that must run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(try_from = "ToolRunFields")]
pub(super) struct ToolRun {
    pub(super) name: String,
    pub(super) result: Option<String>,
    pub(super) fails: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ToolRunFields {
    /// Its name.
    name: String,
    /// A text that its result contains.
    result: Option<String>,
    /// Whether it must fail. Then `result` is required, because a tool can fail for many reasons.
    #[serde(default)]
    fails: bool,
}

/// The expected result of a scenario with one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Expected {
    /// A tool it is about no longer exists.
    Gone,
    /// Something else happens.
    Changed,
    /// It holds in a newer form.
    NewerForm,
    /// It holds.
    Holds,
}

/// One complete way to play a scenario.
#[derive(Debug, Clone)]
pub(super) struct Form {
    pub(super) how: Option<String>,
    pub(super) files: BTreeMap<String, String>,
    pub(super) flags: Vec<String>,
    pub(super) skip_permissions: bool,
    pub(super) env: BTreeMap<String, String>,
    pub(super) script: ScriptFile,
    pub(super) transcript: Vec<Step>,
    pub(super) tools: Vec<ToolRun>,
    pub(super) leaves: BTreeMap<String, String>,
    pub(super) requested: Vec<String>,
}

fn yes() -> bool {
    true
}

impl ScenarioFile {
    /// The ways to play it, oldest first.
    pub(super) fn forms(&self) -> Vec<Form> {
        let first = Form {
            how: None,
            files: self.files.0.clone(),
            flags: self.flags.clone(),
            skip_permissions: self.skip_permissions,
            env: self.env.clone(),
            script: self.script.clone(),
            transcript: self.transcript.0.clone(),
            tools: self.tools.clone(),
            leaves: self.leaves.0.clone(),
            requested: self.requested.clone(),
        };
        let newer: Vec<Form> = self.newer_forms.iter().map(|newer| newer.over(&first)).collect();
        [first].into_iter().chain(newer).collect()
    }
}

impl NewerForm {
    fn over(&self, first: &Form) -> Form {
        let NewerForm { how, files, flags, env, script, transcript, tools, leaves } = self.clone();
        Form {
            how: Some(how),
            files: files.map_or_else(|| first.files.clone(), |files| files.0),
            flags: flags.unwrap_or_else(|| first.flags.clone()),
            skip_permissions: first.skip_permissions,
            env: env.unwrap_or_else(|| first.env.clone()),
            script: script.unwrap_or_else(|| first.script.clone()),
            transcript: transcript.map_or_else(|| first.transcript.clone(), |transcript| transcript.0),
            tools: tools.unwrap_or_else(|| first.tools.clone()),
            leaves: leaves.map_or_else(|| first.leaves.clone(), |leaves| leaves.0),
            requested: first.requested.clone(),
        }
    }
}

impl TryFrom<BTreeMap<String, String>> for Files {
    type Error = String;

    fn try_from(files: BTreeMap<String, String>) -> Result<Self, String> {
        let is_part = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let is_within = |path: &str| !path.is_empty() && Path::new(path).components().all(is_part);
        match files.keys().find(|path| !is_within(path)) {
            Some(path) => Err(format!("{path:?} is not a path within the directory; use one such as notes/a.txt")),
            None => Ok(Files(files)),
        }
    }
}

impl TryFrom<Vec<Step>> for Transcript {
    type Error = String;

    fn try_from(steps: Vec<Step>) -> Result<Self, String> {
        let mut has_question = false;
        for step in &steps {
            match step {
                Step::Expect(expected) => has_question |= expected.get("type") == Some(&"control_request".into()),
                Step::Answer(_) if !has_question => {
                    return Err("an answer needs an expected control_request before it".to_owned());
                }
                Step::User(_) | Step::Send(_) | Step::Answer(_) => {}
            }
        }
        if !steps.iter().any(|step| matches!(step, Step::Expect(_))) {
            return Err("no message is expected, so the scenario would always hold; add an expect".to_owned());
        }
        Ok(Transcript(steps))
    }
}

impl TryFrom<String> for VersionKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match version::numbers(&text) {
            Some(_) => Ok(VersionKey(text)),
            None => Err(format!("{text:?} is not a version; write one such as 2.1.325")),
        }
    }
}

impl TryFrom<ToolRunFields> for ToolRun {
    type Error = String;

    fn try_from(fields: ToolRunFields) -> Result<Self, String> {
        let ToolRunFields { name, result, fails } = fields;
        if fails && result.is_none() {
            return Err(format!("{name} must fail, but no reason is given; add a text of its result"));
        }
        Ok(ToolRun { name, result, fails })
    }
}
