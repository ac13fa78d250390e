//! Checks the CLI: whether it is installed, runs, is a supported version and is logged in.

use std::path::Path;

use watari_sdk::files::programs;
use watari_sdk::{CliVersion, FindError, InspectError, InstalledCli, Login, MINIMUM_CLI_VERSION, Options};
use watari_testkit::claude::PINNED_CLAUDE_VERSION;

use super::plain::shortened;
use super::report::{Check, Cli, Finding};

/// How much of the CLI's stderr is shown.
const STDERR_CHARACTERS_MAX: usize = 200;

pub(super) async fn examine(options: &Options) -> (Cli, Vec<Finding>) {
    let text = |path: &Path| path.display().to_string();
    let mut cli = Cli {
        path: None,
        version: None,
        oldest_supported: MINIMUM_CLI_VERSION,
        newest_tested: PINNED_CLAUDE_VERSION,
        searched: InstalledCli::candidates(options).iter().map(|path| text(path)).collect(),
    };
    let probe = match InstalledCli::find(options) {
        Ok(probe) => probe,
        Err(error) => return (cli, vec![not_found(&error)]),
    };
    cli.path = Some(text(probe.program()));
    let mut findings = vec![found(probe.program())];
    match probe.version().await {
        Ok(version) => {
            findings.push(version_finding(&version));
            // An older CLI may take the arguments for a prompt.
            if !version.is_too_old() {
                findings.push(login_finding(probe.login().await));
            }
            cli.version = Some(version.to_string());
        }
        Err(error) => findings.push(no_version(&error)),
    }
    (cli, findings)
}

/// The CLI that was found. A CLI that another user could replace is only a warning and is run, as a shell would do: it
/// is the user's choice, and on some systems all programs are installed like that.
fn found(program: &Path) -> Finding {
    match programs::examine_program(program) {
        Ok(()) => Finding::ok(Check::Cli, program.display().to_string()),
        Err(trouble) => {
            let (found, _) = trouble.describe(program, "");
            let advice = "remove that permission, or use a Claude Code that only this user or root can change";
            Finding::warning(Check::Cli, found, advice)
        }
    }
}

fn not_found(error: &FindError) -> Finding {
    let (found, advice) = match error {
        FindError::NotInstalled { .. } => (
            "there is no executable `claude` in the search path and the usual places".to_owned(),
            "install it with `npm install -g @anthropic-ai/claude-code`, or give its path with --claude".to_owned(),
        ),
        FindError::PathDoesNotExist { path } => {
            (format!("there is nothing at {}", path.display()), "check the path".to_owned())
        }
        FindError::Directory { path } => {
            (format!("{} is a directory", path.display()), "give the path of the program itself".to_owned())
        }
        FindError::NotExecutable { path } => (
            format!("{} is not executable", path.display()),
            format!("make it executable: `chmod +x {}`", path.display()),
        ),
        FindError::NotAProgram { path } => (
            format!("{} is not a program", path.display()),
            "it may be damaged or partially installed; install it again".to_owned(),
        ),
        FindError::Unreadable { path, source } => {
            (format!("cannot read {}: {source}", path.display()), "give this user permission to read it".to_owned())
        }
    };
    Finding::problem(Check::Cli, found, advice)
}

fn version_finding(version: &CliVersion) -> Finding {
    let newest = CliVersion::read(PINNED_CLAUDE_VERSION);
    if version.is_too_old() {
        let found = format!("{version} is too old; the oldest supported version is {MINIMUM_CLI_VERSION}");
        Finding::problem(Check::Version, found, "update it with `claude update`")
    } else if newest.is_some_and(|newest| version.is_newer_than(&newest)) {
        let found = format!("{version} is untested; the newest tested version is {PINNED_CLAUDE_VERSION}");
        Finding::warning(Check::Version, found, "it may work; run `watari check` to see what has changed")
    } else {
        let found = format!("{version} (tested: {MINIMUM_CLI_VERSION} to {PINNED_CLAUDE_VERSION})");
        Finding::ok(Check::Version, found)
    }
}

fn no_version(error: &InspectError) -> Finding {
    let (found, advice) = match error {
        InspectError::NotRunnable { path: _, source } => {
            (format!("it cannot be run: {source}"), "it may be damaged or built for another machine; install it again")
        }
        InspectError::TimedOut { path: _, within, stderr } => (
            format!("it did not report its version within {} seconds{}", within.as_secs(), quoted(stderr)),
            "run it with --version and see what it waits for",
        ),
        InspectError::Unreadable { path: _, status, stderr } => (
            format!("it did not report its version ({status}){}", quoted(stderr)),
            "run it with --version, or install it again",
        ),
    };
    Finding::problem(Check::Version, found, advice)
}

fn quoted(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; stderr: {}", shortened(stderr, STDERR_CHARACTERS_MAX)) }
}

/// The CLI's stderr is not shown here: it could name a person.
fn login_finding(login: Result<Login, InspectError>) -> Finding {
    match login {
        Ok(Login { logged_in: true, method }) => {
            let by = method.map(|method| format!(" ({method})")).unwrap_or_default();
            Finding::ok(Check::Login, format!("logged in{by}"))
        }
        Ok(Login { logged_in: false, method: _ }) => {
            let advice = "run `claude` once and log in, or set ANTHROPIC_API_KEY";
            Finding::problem(Check::Login, "not logged in", advice)
        }
        Err(error) => {
            let found = match error {
                InspectError::NotRunnable { path: _, source } => format!("it cannot be run: {source}"),
                InspectError::TimedOut { path: _, within, stderr: _ } => {
                    format!("it did not report within {} seconds whether it is logged in", within.as_secs())
                }
                InspectError::Unreadable { path: _, status, stderr: _ } => {
                    format!("it did not report whether it is logged in ({status})")
                }
            };
            Finding::warning(Check::Login, found, "run `claude auth status`")
        }
    }
}
