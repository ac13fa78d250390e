//! A CLI without a supervisor: its processes are found by process group and by a mark in their environment.

use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::Instant;
use watari_protocol::{ProcessEnd, Stop};

use super::remains::Remains;
use super::{GRACE, Plan, StartError, start_error};
use crate::adoption::OwnChild;
use crate::files::PrivateFolder;
use crate::inherited;
use crate::sweep::{self, REFUSED_EXIT_WITHIN};

/// A session's processes, with this program as the CLI's parent.
pub(crate) struct Unsupervised {
    cli: Child,
    _own: OwnChild,
    remains: Remains,
    kill_at: Option<Instant>,
    /// When to stop waiting for a CLI that this user may not signal.
    give_up_at: Option<Instant>,
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
        let own = OwnChild::new(cli.id());
        let remains = Remains::new(plan.mark, cli.id().and_then(|id| Pid::from_raw(id.cast_signed())));
        Ok(Unsupervised {
            cli,
            _own: own,
            remains,
            kill_at: None,
            give_up_at: None,
            process_end: None,
            _folder: plan.folder,
        })
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
        let process_end = match &self.process_end {
            Some(process_end) => process_end.clone(),
            None => self.cli_ended().await,
        };
        self.process_end = Some(process_end.clone());
        let left_processes = self.remains.end().await;
        ProcessEnd { left: u32::try_from(left_processes.len()).unwrap_or(u32::MAX), left_processes, ..process_end }
    }

    async fn cli_ended(&mut self) -> ProcessEnd {
        loop {
            let status = match [self.kill_at, self.give_up_at].into_iter().flatten().min() {
                None => self.cli.wait().await,
                Some(deadline) => match tokio::time::timeout_at(deadline, self.cli.wait()).await {
                    Ok(status) => status,
                    Err(_) if self.kill_at.take().is_some() => {
                        self.kill();
                        continue;
                    }
                    Err(_) => return ProcessEnd::default(),
                },
            };
            return status.map_or_else(|_| ProcessEnd::default(), |status| process_end_of(&status));
        }
    }

    fn pid(&self) -> Option<Pid> {
        // `None` once it was reaped: its id may then belong to another process.
        self.cli.id().and_then(|id| Pid::from_raw(id.cast_signed()))
    }

    fn signal_cli(&mut self, signal: Signal) {
        if let Some(pid) = self.pid() {
            self.remains.remember_refused_below(pid);
            let _sent = kill_process(pid, signal);
        }
    }

    fn kill(&mut self) {
        if let Some(pid) = self.pid() {
            self.remains.remember_refused_below(pid);
            // A program that changes its user has no readable mark, even if this user may signal it.
            sweep::kill_descendants(pid);
            let _sent = kill_process_group(pid, Signal::KILL);
            if kill_process(pid, Signal::KILL) == Err(Errno::PERM) {
                self.give_up_at.get_or_insert(Instant::now() + REFUSED_EXIT_WITHIN);
            }
        }
        self.remains.kill_marked();
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
    ProcessEnd { code: status.code(), signal: status.signal(), ..ProcessEnd::default() }
}
