//! `watari doctor`: what of this machine is in the way, and what to do about it.

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

use super::say;
use crate::printable::printable;
use crate::standard_streams::{wait_for_input, write_all};

/// Look at this machine: is there a Claude Code, will it work, and what to do if not.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Doctor {
    /// Look at this Claude Code instead of the one that is found
    #[arg(long, value_name = "PATH")]
    claude: Option<PathBuf>,
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
    /// End the processes that dead sessions left behind
    #[arg(long)]
    terminate_orphans: bool,
    /// Look only for what the program with this process id left behind
    #[arg(long, value_name = "PID")]
    orphans_of: Option<u32>,
}

const AFTER_HELP: &str = "\
What is looked at: the Claude Code CLI, its version and its login; the folders for what is kept and for sockets;
the length of a socket's path and the number of open files; processes of sessions whose program is dead.

It exits with 0 when there is no problem (there may be warnings), and with 1 when there is one.

With --json:
  findings   [{check, level, found, advice}]: check is cli, version, login, state_folder, runtime_folder,
             locks_folder, private_folder, socket_path, open_files, private_files, lock_files or leftovers (one that
             makes no sense is left out); level is ok, warning or problem; advice is there unless the level is ok
  cli        {path, version, oldest_supported, newest_tested, looked}: path and version may be null; looked has the
             files that are tried, in this order
  leftovers  [{pid, command, owners, ended}], or null where the system does not show them

Examples:
  watari doctor
  watari doctor --claude ~/old/claude --json
  watari doctor --end-leftovers
  watari doctor --end-leftovers --leftovers-of 4242";

impl Doctor {
    pub(crate) fn run(self) -> ExitCode {
        match self.examine_and_report() {
            Ok(Level::Ok | Level::Warning) => ExitCode::SUCCESS,
            Ok(Level::Problem) => ExitCode::FAILURE,
            Err(error) => {
                say(&format!("watari doctor: {}\n", printable(&error.to_string())));
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
            ask_to_end(orphans, &runtime)?;
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
            orphans.end().await;
        }
        findings.push(orphans.finding());
        (Report { findings, cli, orphans: orphans.list() }, orphans)
    }
}

/// Asks whether leftovers should be ended, if there are some and somebody is there to answer.
fn ask_to_end(mut orphans: Orphans, runtime: &Runtime) -> io::Result<()> {
    let is_somebody_there = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !orphans.can_be_ended() || !is_somebody_there {
        return Ok(());
    }
    write_all(io::stderr(), b"end them? [y/N] ")?;
    let mut answer = String::new();
    wait_for_input(io::stdin())?;
    io::stdin().read_line(&mut answer)?;
    if is_yes(&answer) {
        runtime.block_on(orphans.end());
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
