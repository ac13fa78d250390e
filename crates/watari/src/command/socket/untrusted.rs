//! How `--untrusted` restricts git. A repository's configuration names programs that git runs, even in read-only
//! commands (`core.fsmonitor`, `diff.NAME.command`, `filter.NAME.process`, hooks, …). The CLI runs git by itself, and
//! treats `git status` as a command that needs no approval.
//!
//! `Options::without_git` hides git from the CLI's search path. This module covers a git that runs nevertheless,
//! because a profile of the user's shell changes the search path, or because a command names git by its path.

use std::collections::BTreeMap;

use watari_sdk::{Environment, RawJson, Settings};

/// Makes git find no repository, so that it does not read the repository's configuration. Filter and diff drivers cannot
/// be overridden one by one, because the repository chooses their names.
const NO_REPOSITORY: (&str, &str) = ("GIT_DIR", "/dev/null");

/// Overrides of the repository's settings, for a git command that finds it anyway, because a user approved that.
const OVERRIDES: [(&str, &str); 6] = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.sshCommand", "ssh"),
    ("credential.helper", ""),
    ("log.showSignature", "false"),
];

/// Rules that require approval for git, even for commands that the CLI considers read-only.
const GIT_ASKS: &str = r#"{"permissions":{"ask":["Bash(git:*)","Bash(git *)"]}}"#;

/// The settings of a session in an untrusted folder.
pub(super) fn settings() -> Settings {
    Settings::Inline(RawJson::from(GIT_ASKS))
}

/// The environment of the CLI, which all its child processes inherit.
pub(super) fn environment() -> Environment {
    environment_after(std::env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0))
}

/// Appends the overrides to the `count` entries of the operator's environment: git uses the last entry of a name.
fn environment_after(count: usize) -> Environment {
    let mut set = BTreeMap::from([NO_REPOSITORY].map(|(name, value)| (name.to_owned(), Some(value.to_owned()))));
    for (at, (key, value)) in OVERRIDES.into_iter().enumerate() {
        let number = count.saturating_add(at);
        set.insert(format!("GIT_CONFIG_KEY_{number}"), Some(key.to_owned()));
        set.insert(format!("GIT_CONFIG_VALUE_{number}"), Some(value.to_owned()));
    }
    set.insert("GIT_CONFIG_COUNT".to_owned(), Some(count.saturating_add(OVERRIDES.len()).to_string()));
    Environment { inherit: true, set }
}
