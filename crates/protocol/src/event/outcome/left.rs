//! The processes of a session that still run when it has ended.

use serde::{Deserialize, Serialize};

use super::Exit;

/// A process of a session that still runs when the session has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftProcess {
    /// Its process id.
    pub pid: u32,
    /// The beginning of its command line; empty if the system does not show it.
    pub command: String,
    /// Why it still runs.
    pub why: WhyLeft,
}

/// Why a process could not be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum WhyLeft {
    /// The system does not let the user of the session send it a signal: it runs as another user, for example as root
    /// after `sudo`.
    NotPermitted,
    /// It was sent SIGKILL and has not exited: it waits for the system, for example for a lost disk.
    Stuck,
}

/// How many processes a text names.
const NAMED_MAX: usize = 8;

impl Exit {
    /// Returns an error text that names the processes that still run and says what to do about them; none if no process
    /// is left.
    pub fn left_text(&self) -> Option<String> {
        let of = |why| self.left_processes.iter().filter(move |left| left.why == why).collect::<Vec<_>>();
        let (refused, stuck) = (of(WhyLeft::NotPermitted), of(WhyLeft::Stuck));
        let unnamed = (self.left as usize).saturating_sub(self.left_processes.len());
        let mut texts = Vec::new();
        if !refused.is_empty() {
            let pids: Vec<String> = refused.iter().take(NAMED_MAX).map(|left| left.pid.to_string()).collect();
            texts.push(format!(
                "{} could not be ended, because this user may not signal {}: {}; run `kill -9 {}` as root, or ask an \
                 administrator to do it",
                counted(refused.len()),
                if refused.len() == 1 { "it" } else { "them" },
                named(&refused),
                pids.join(" "),
            ));
        }
        if !stuck.is_empty() {
            texts.push(format!(
                "{} did not exit after SIGKILL: {}; probably a disk or another device does not answer: check it",
                counted(stuck.len()),
                named(&stuck),
            ));
        }
        if unnamed > 0 {
            texts.push(format!("{} could not be ended and cannot be named; ask an administrator", counted(unnamed)));
        }
        Some(texts.join("; ")).filter(|text| !text.is_empty())
    }
}

fn counted(count: usize) -> String {
    if count == 1 { "1 process of the session".to_owned() } else { format!("{count} processes of the session") }
}

fn named(left: &[&LeftProcess]) -> String {
    let name = |left: &&LeftProcess| match left.command.as_str() {
        "" => left.pid.to_string(),
        command => format!("{} ({command})", left.pid),
    };
    let names: Vec<String> = left.iter().take(NAMED_MAX).map(name).collect();
    let more = left.len() - names.len();
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    names.join(", ") + &rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(left: u32, processes: &[(u32, &str, WhyLeft)]) -> String {
        let process = |(pid, command, why): &(u32, &str, WhyLeft)| LeftProcess {
            pid: *pid,
            command: (*command).to_owned(),
            why: *why,
        };
        let exit = Exit { left, left_processes: processes.iter().map(process).collect(), ..Exit::default() };
        exit.left_text().unwrap_or_default()
    }

    #[test]
    fn an_exit_names_the_processes_that_are_left_and_says_what_to_do() {
        use WhyLeft::{NotPermitted, Stuck};
        let many: Vec<(u32, &str, WhyLeft)> = (1..=10).map(|pid| (pid, "", NotPermitted)).collect();
        let texts = [
            text(0, &[]),
            text(1, &[(71, "sleep 600", NotPermitted)]),
            text(3, &[(71, "sudo apt", NotPermitted), (72, "cat /mnt/x", Stuck), (73, "", NotPermitted)]),
            text(10, &many),
            text(1, &[]),
        ];
        insta::assert_snapshot!(texts.join("\n"), @"

        1 process of the session could not be ended, because this user may not signal it: 71 (sleep 600); run `kill -9 71` as root, or ask an administrator to do it
        2 processes of the session could not be ended, because this user may not signal them: 71 (sudo apt), 73; run `kill -9 71 73` as root, or ask an administrator to do it; 1 process of the session did not exit after SIGKILL: 72 (cat /mnt/x); probably a disk or another device does not answer: check it
        10 processes of the session could not be ended, because this user may not signal them: 1, 2, 3, 4, 5, 6, 7, 8 and 2 more; run `kill -9 1 2 3 4 5 6 7 8` as root, or ask an administrator to do it
        1 process of the session could not be ended and cannot be named; ask an administrator
        ");
    }
}
