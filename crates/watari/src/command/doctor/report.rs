//! What the doctor found, and how it is told.

use std::fmt;

use serde::Serialize;

use super::plain::plain;

/// Everything that was found. Its JSON is described in the help of the command, and others depend on it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) findings: Vec<Finding>,
    pub(super) cli: Cli,
    /// None where the system does not show them.
    pub(super) orphans: Option<Vec<Left>>,
}

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: Check,
    pub(super) level: Level,
    /// What was seen.
    pub(super) found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Check {
    Cli,
    Version,
    Login,
    StateFolder,
    RuntimeFolder,
    LocksFolder,
    PrivateFolder,
    SocketPath,
    OpenFiles,
    PrivateFiles,
    LockFiles,
    Orphans,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    Ok,
    Warning,
    Problem,
}

/// The CLI, as far as it is known.
#[derive(Debug, Serialize)]
pub(super) struct Cli {
    pub(super) path: Option<String>,
    pub(super) version: Option<String>,
    pub(super) oldest_supported: &'static str,
    pub(super) newest_tested: &'static str,
    /// The files that are tried, in this order.
    pub(super) looked: Vec<String>,
}

/// A process that a dead session left behind.
#[derive(Debug, Serialize)]
pub(super) struct Left {
    pub(super) pid: u32,
    pub(super) command: String,
    /// The process ids that the owners of its sessions had.
    pub(super) owners: Vec<u32>,
    pub(super) ended: bool,
}

impl Finding {
    pub(super) fn ok(check: Check, found: impl Into<String>) -> Finding {
        Finding { check, level: Level::Ok, found: found.into(), advice: None }
    }

    pub(super) fn warning(check: Check, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { check, level: Level::Warning, found: found.into(), advice: Some(advice.into()) }
    }

    pub(super) fn problem(check: Check, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { check, level: Level::Problem, found: found.into(), advice: Some(advice.into()) }
    }
}

impl Report {
    pub(super) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// The level of the worst finding.
    pub(super) fn worst(&self) -> Level {
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
    }

    /// What is listed below a finding.
    fn details(&self, finding: &Finding) -> Vec<String> {
        match finding.check {
            // A single one is the path that was given, and the finding names it.
            Check::Cli if self.cli.path.is_none() && self.cli.looked.len() > 1 => self.cli.looked.clone(),
            Check::Orphans => {
                let left = self.orphans.iter().flatten();
                left.map(|left| format!("{} {}", left.pid, left.command)).collect()
            }
            Check::Cli
            | Check::Version
            | Check::Login
            | Check::StateFolder
            | Check::RuntimeFolder
            | Check::LocksFolder
            | Check::PrivateFolder
            | Check::SocketPath
            | Check::OpenFiles
            | Check::PrivateFiles
            | Check::LockFiles => Vec::new(),
        }
    }

    fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let Finding { check, level, found, advice } = finding;
            let details = self.details(finding);
            let colon = if details.is_empty() { "" } else { ":" };
            writeln!(formatter, "{:7}  {:14}  {}{colon}", level.word(), check.describe(), plain(found))?;
            for line in details {
                writeln!(formatter, "{:25}  {}", "", plain(&line))?;
            }
            if let Some(advice) = advice {
                writeln!(formatter, "{:25}{}", "", plain(advice))?;
            }
        }
        let (problems, warnings) = (self.count(Level::Problem), self.count(Level::Warning));
        writeln!(formatter, "\n{}, {}", counted(problems, "problem"), counted(warnings, "warning"))
    }
}

/// `no problem`, `1 problem`, `2 problems`.
pub(super) fn counted(count: usize, thing: &str) -> String {
    match count {
        0 => format!("no {thing}"),
        1 => format!("1 {thing}"),
        // The plural of the words that are counted here.
        count => format!("{count} {thing}{}", if thing.ends_with('s') { "es" } else { "s" }),
    }
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Problem => "problem",
        }
    }
}

impl Check {
    fn describe(self) -> &'static str {
        match self {
            Check::Cli => "cli",
            Check::Version => "version",
            Check::Login => "login",
            Check::StateFolder => "state folder",
            Check::RuntimeFolder => "runtime folder",
            Check::LocksFolder => "locks folder",
            Check::PrivateFolder => "private folder",
            Check::SocketPath => "socket path",
            Check::OpenFiles => "open files",
            Check::PrivateFiles => "private files",
            Check::LockFiles => "lock files",
            Check::Orphans => "leftovers",
        }
    }
}
