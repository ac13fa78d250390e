//! The CLI's version: which are known to work, and asking for it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use crate::process::Started;

/// The oldest CLI that sessions work with.
pub const MINIMUM_CLI_VERSION: &str = "2.1.42";

/// How long a CLI may take to say its version.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A version, as three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version([u32; 3]);

impl Version {
    /// Reads the first word of a text as a version, such as `2.1.325 (Claude Code)`.
    fn read(text: &str) -> Option<Version> {
        let word = text.split_whitespace().next()?;
        let mut numbers = word.split(['.', '-', '+']).map(|number| number.parse().ok());
        Some(Version([numbers.next()??, numbers.next()??, numbers.next()??]))
    }

    /// Whether a CLI of this version is known not to work. One whose version cannot be read may.
    pub(crate) fn is_too_old(text: &str) -> bool {
        match (Version::read(text), Version::read(MINIMUM_CLI_VERSION)) {
            (Some(found), Some(minimum)) => found < minimum,
            (None, _) | (_, None) => false,
        }
    }
}

/// How to ask a CLI for its version.
pub(crate) struct Probe {
    program: PathBuf,
    environment: BTreeMap<OsString, OsString>,
}

impl Probe {
    pub(crate) fn of(started: &Started) -> Probe {
        Probe { program: started.program.clone(), environment: started.environment.clone() }
    }

    /// What the CLI says; none when it says nothing that is a version.
    pub(crate) async fn ask(&self) -> Option<String> {
        let asked = tokio::process::Command::new(&self.program)
            .arg("--version")
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(ANSWER_WITHIN, asked).await.ok()?.ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let word = text.split_whitespace().next()?;
        Version::read(word).map(|_| word.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (version, too_old) in [
            ("2.1.325 (Claude Code)", false),
            ("2.1.42", false),
            ("2.1.9", true),
            ("1.0.3", true),
            ("10.0.0", false),
            ("2.1.41-beta.1", true),
            ("unknown", false),
            ("", false),
        ] {
            assert_eq!(Version::is_too_old(version), too_old, "{version}");
        }
    }
}
