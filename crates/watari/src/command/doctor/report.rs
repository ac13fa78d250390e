//! The doctor's report, as text and as JSON.

use std::fmt;

use serde::Serialize;

use super::plain::plain;

/// The report. The help of the command documents its JSON, on which other programs depend.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) findings: Vec<Finding>,
    pub(super) cli: Cli,
    /// None where the system does not show them.
    pub(super) orphans: Option<Vec<OrphanEntry>>,
}

/// The result of one check.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: Check,
    pub(super) level: Level,
    /// What the check found.
    pub(super) found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

/// What was checked.
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

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    Ok,
    Warning,
    Problem,
}

/// What is known about the CLI.
#[derive(Debug, Serialize)]
pub(super) struct Cli {
    pub(super) path: Option<String>,
    pub(super) version: Option<String>,
    pub(super) oldest_supported: &'static str,
    pub(super) newest_tested: &'static str,
    /// The files that are tried, in order.
    pub(super) searched: Vec<String>,
}

/// An orphaned process.
#[derive(Debug, Serialize)]
pub(super) struct OrphanEntry {
    pub(super) pid: u32,
    pub(super) command: String,
    /// The process ids of the dead processes that owned its sessions.
    pub(super) owners: Vec<u32>,
    pub(super) terminated: bool,
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

    /// The lines below a finding.
    fn details(&self, finding: &Finding) -> Vec<String> {
        match finding.check {
            // A single file is the path from the command line, which the finding names.
            Check::Cli if self.cli.path.is_none() && self.cli.searched.len() > 1 => self.cli.searched.clone(),
            Check::Orphans => {
                let orphans = self.orphans.iter().flatten();
                orphans.map(|orphan| format!("{} {}", orphan.pid, orphan.command)).collect()
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
            writeln!(formatter, "{:7}  {:14}  {}{colon}", level.name(), check.name(), plain(found))?;
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
        // The plural of the nouns that are counted here.
        count => format!("{count} {thing}{}", if thing.ends_with('s') { "es" } else { "s" }),
    }
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Problem => "problem",
        }
    }
}

impl Check {
    fn name(self) -> &'static str {
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
            Check::Orphans => "orphans",
        }
    }
}
