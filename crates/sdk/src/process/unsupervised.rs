//! A CLI without a supervisor: its processes are found by process group and by a mark in their environment.

use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::Instant;
use watari_protocol::{ProcessEnd, Stop};

use super::{GRACE, Plan, StartError, kill_session_processes, start_error};
use crate::files::PrivateFolder;
use crate::inherited;
use crate::sweep;

/// A session's processes, with this program as the CLI's parent.
pub(crate) struct Unsupervised {
    cli: Child,
    mark: String,
    kill_at: Option<Instant>,
    process_end: Option<ProcessEnd>,
    _folder: PrivateFolder,
}

impl Unsupervised {
    pub(super) fn start(plan: Plan, [stdin, stdout, stderr]: [OwnedFd; 3]) -> Result<Unsupervised, StartError> {
        let mut command = Command::new(&plan.program);
        inherited::start_unblocked(command.as_std_mut());
        let cli = command
            .args(&plan.arguments)
            .current_dir(&plan.directory)
            .env_clear()
            .envs(&plan.environment)
            .process_group(0)
            .stdin(Stdio::from(stdin))
            .stdout(Stdio::from(stdout))
            .stderr(Stdio::from(stderr))
            .spawn()
            .map_err(|error| start_error(error, |source| StartError::NotRunnable { path: plan.program, source }))?;
        Ok(Unsupervised { cli, mark: plan.mark, kill_at: None, process_end: None, _folder: plan.folder })
    }

    pub(super) fn stop(&mut self, stop: Stop) {
        match stop {
            Stop::CloseStdin => {}
            Stop::Terminate => self.signal_cli(Signal::TERM),
            Stop::Kill => self.kill(),
            Stop::Abort => {
                self.signal_cli(Signal::INT);
                self.kill_at.get_or_insert(Instant::now() + GRACE);
            }
        }
    }

    /// Cancel-safe: the child remembers its exit status, and the search for the rest is repeated.
    pub(super) async fn exited(&mut self) -> ProcessEnd {
        let process_end = match self.process_end {
            Some(process_end) => process_end,
            None => self.cli_ended().await,
        };
        self.process_end = Some(process_end);
        ProcessEnd { left: kill_session_processes(&self.mark).await, ..process_end }
    }

    async fn cli_ended(&mut self) -> ProcessEnd {
        loop {
            let status = match self.kill_at {
                None => self.cli.wait().await,
                Some(deadline) => match tokio::time::timeout_at(deadline, self.cli.wait()).await {
                    Ok(status) => status,
                    Err(_) => {
                        self.kill();
                        self.kill_at = None;
                        continue;
                    }
                },
            };
            return status.map_or_else(|_| ProcessEnd::default(), |status| process_end_of(&status));
        }
    }

    fn pid(&self) -> Option<Pid> {
        // `None` once it was reaped: its id may then belong to another process.
        self.cli.id().and_then(|id| Pid::from_raw(id.cast_signed()))
    }

    fn signal_cli(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            let _sent = kill_process(pid, signal);
        }
    }

    fn kill(&self) {
        if let Some(pid) = self.pid() {
            let _sent = kill_process_group(pid, Signal::KILL);
        }
        sweep::kill_marked(&self.mark);
    }
}

impl Drop for Unsupervised {
    /// Kills the processes if the runtime was dropped before the session ended.
    fn drop(&mut self) {
        if self.process_end.is_none() {
            self.kill();
        }
    }
}

fn process_end_of(status: &std::process::ExitStatus) -> ProcessEnd {
    use std::os::unix::process::ExitStatusExt;
    ProcessEnd { code: status.code(), signal: status.signal(), left: 0 }
}
