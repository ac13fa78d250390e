//! What `--untrusted` does about git: a repository's own configuration names programs that git runs, also in commands that
//! only read (`core.fsmonitor`, `diff.NAME.command`, `filter.NAME.process`, hooks, …). The CLI runs git by itself, and takes
//! `git status` for a command that needs no approval.
//!
//! The CLI does not find git by its name (`Options::without_git`). What is here is for a git that is found all the same,
//! because a profile of the user's shell changes the search path, or a command names git by its path.

use std::collections::BTreeMap;

use watari_sdk::{Environment, RawJson, Settings};

/// Git finds no repository, so that it reads no configuration of one: nothing else outweighs drivers, which the repository
/// names as it likes.
const NO_REPOSITORY: (&str, &str) = ("GIT_DIR", "/dev/null");

/// For a git that a person allowed to find the repository: what the command line, and so the environment, outweighs.
const OVERRIDES: [(&str, &str); 6] = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.sshCommand", "ssh"),
    ("credential.helper", ""),
    ("log.showSignature", "false"),
];

/// Rules by which git asks, also where the CLI would take the command for one that only reads.
const GIT_ASKS: &str = r#"{"permissions":{"ask":["Bash(git:*)","Bash(git *)"]}}"#;

/// The settings of a session in a folder that is not trusted.
pub(super) fn settings() -> Settings {
    Settings::Inline(RawJson::from(GIT_ASKS))
}

/// The environment of its CLI, which everything that the CLI starts inherits.
pub(super) fn environment() -> Environment {
    environment_after(std::env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0))
}

/// The overrides come behind those that the operator's environment has already: the last one of a name counts.
fn environment_after(given: usize) -> Environment {
    let mut set = BTreeMap::from([NO_REPOSITORY].map(|(name, value)| (name.to_owned(), Some(value.to_owned()))));
    for (at, (key, value)) in OVERRIDES.into_iter().enumerate() {
        let number = given.saturating_add(at);
        set.insert(format!("GIT_CONFIG_KEY_{number}"), Some(key.to_owned()));
        set.insert(format!("GIT_CONFIG_VALUE_{number}"), Some(value.to_owned()));
    }
    set.insert("GIT_CONFIG_COUNT".to_owned(), Some(given.saturating_add(OVERRIDES.len()).to_string()));
    Environment { inherit: true, set }
}
