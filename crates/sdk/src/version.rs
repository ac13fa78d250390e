//! Versions of the CLI, and the oldest one that works.

use std::fmt;

/// The oldest version of the CLI that sessions work with.
pub const MINIMUM_CLI_VERSION: &str = "2.1.42";

/// The version of a CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliVersion {
    numbers: [u32; 3],
    /// As the CLI spells it.
    text: String,
}

impl CliVersion {
    /// Parses the first word of a text as a version, for example of `2.1.325 (Claude Code)`.
    pub fn read(text: &str) -> Option<CliVersion> {
        let word = text.split_whitespace().next()?;
        let mut numbers = word.split(['.', '-', '+']).map(|number| number.parse().ok());
        let numbers = [numbers.next()??, numbers.next()??, numbers.next()??];
        Some(CliVersion { numbers, text: word.to_owned() })
    }

    /// Whether this version is older than [`MINIMUM_CLI_VERSION`], and so known not to work.
    pub fn is_too_old(&self) -> bool {
        CliVersion::read(MINIMUM_CLI_VERSION).is_some_and(|minimum| minimum.is_newer_than(self))
    }

    /// Whether this version is newer than another. A suffix after the three numbers is ignored.
    pub fn is_newer_than(&self, other: &CliVersion) -> bool {
        self.numbers > other.numbers
    }
}

impl fmt::Display for CliVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Whether a CLI that reports this version is known not to work. An unreadable version counts as working.
pub(crate) fn is_too_old(text: &str) -> bool {
    CliVersion::read(text).is_some_and(|version| version.is_too_old())
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
            assert_eq!(is_too_old(version), too_old, "{version}");
        }
    }
}
