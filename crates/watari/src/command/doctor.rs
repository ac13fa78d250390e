//! `watari doctor`: finds problems of this machine, and advises what to do about them.

mod cli;
mod folders;
mod limits;
mod orphans;
mod plain;
mod report;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};
use watari_sdk::Options;

use orphans::Orphans;
use report::{Level, Report};

use super::{print_stderr, whole_number};
use crate::printable::printable;
use crate::standard_streams::{wait_for_input, write_all};

/// Check whether Claude Code and Watari work on this machine, and advise what to do if not.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Doctor {
    /// Path of the Claude Code to check [default: the first `claude` in PATH or in the usual install folders]
    #[arg(long, value_name = "PATH")]
    claude: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Terminate orphaned processes
    #[arg(long)]
    terminate_orphans: bool,
    /// Look only for orphans whose session belonged to the process PID, which no longer exists
    #[arg(long, value_name = "PID", value_parser = whole_number, allow_negative_numbers = true)]
    orphans_of: Option<u32>,
}

const AFTER_HELP: &str = "\
Checks the Claude Code CLI, its version and its login; the folders for session files and for sockets; the limits for the
path of a socket and for open files; and orphaned processes. An orphan belongs to a session whose process (watari, or a
program with the SDK) no longer exists. There can be orphans if that process was killed together with its supervisor, or
had no supervisor.

Exit codes: 0 there is no problem (there may be warnings), 1 there is a problem, 2 the command line is wrong.

With --json:
  findings   [{check, level, found, advice}]: check is cli, version, login, state_folder, runtime_folder,
             locks_folder, private_folder, socket_path, open_files, private_files, lock_files or orphans (a check that
             does not apply is left out; docs/files.md describes the folders and files); level is ok, warning or
             problem; advice is absent if the level is ok
  cli        {path, version, oldest_supported, newest_tested, searched}: path and version may be null; searched lists the
             files that Watari tries, in order
  orphans    [{pid, command, owners, terminated}]: owners lists the process ids of the dead processes that owned its
             sessions; terminated is true if --terminate-orphans ended it. Null if the system does not show orphans

Examples:
  watari doctor
  watari doctor --claude ~/old/claude --json
  watari doctor --terminate-orphans
  watari doctor --terminate-orphans --orphans-of 4242";

impl Doctor {
    pub(crate) fn run(self) -> ExitCode {
        match self.examine_and_report() {
            Ok(Level::Ok | Level::Warning) => ExitCode::SUCCESS,
            Ok(Level::Problem) => ExitCode::FAILURE,
            Err(error) => {
                print_stderr(&format!("watari doctor: {}\n", printable(&error.to_string())));
                ExitCode::FAILURE
            }
        }
    }

    fn examine_and_report(&self) -> io::Result<Level> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (report, orphans) = runtime.block_on(self.examine());
        if self.json {
            write_all(io::stdout(), format!("{}\n", report.json()?).as_bytes())?;
        } else {
            write_all(io::stdout(), report.to_string().as_bytes())?;
            offer_termination(orphans, &runtime)?;
        }
        Ok(report.worst())
    }

    async fn examine(&self) -> (Report, Orphans) {
        let options = Options { claude: self.claude.clone(), ..Options::default() };
        let (cli, mut findings) = cli::examine(&options).await;
        let variable = |name: &str| std::env::var_os(name);
        findings.extend(folders::examine(variable));
        findings.extend(limits::examine(variable));
        findings.extend(folders::orphans(variable));
        let mut orphans = Orphans::find(self.orphans_of).await;
        if self.terminate_orphans {
            orphans.terminate().await;
        }
        findings.push(orphans.finding());
        (Report { findings, cli, orphans: orphans.list() }, orphans)
    }
}

/// Asks the user whether to terminate the orphans, if there are any and a terminal to ask on.
fn offer_termination(mut orphans: Orphans, runtime: &Runtime) -> io::Result<()> {
    let is_interactive = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !orphans.can_be_terminated() || !is_interactive {
        return Ok(());
    }
    write_all(io::stderr(), b"terminate them? [y/N] ")?;
    let mut answer = String::new();
    wait_for_input(io::stdin())?;
    io::stdin().read_line(&mut answer)?;
    if is_yes(&answer) {
        runtime.block_on(orphans.terminate());
        write_all(io::stdout(), format!("{}\n", orphans.finding().found).as_bytes())?;
    }
    Ok(())
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        for (answer, yes) in
            [("y\n", true), ("Yes\n", true), ("\n", false), ("", false), ("no\n", false), ("yo\n", false)]
        {
            assert_eq!(is_yes(answer), yes, "{answer:?}");
        }
    }
}
