//! A CLI below a supervisor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Pid;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::Instant;
use watari_protocol::{LeftProcess, ProcessEnd, Stop, WhyLeft};

use super::remains::{Remains, left_process};
use super::{GRACE, Plan, StartError, marked_ended_within, start_error};
use crate::adoption::{self, ChildExits, OwnChild};
use crate::files::{self, PrivateFolder};
use crate::supervisor::{Order, Report, Reports, SUPERVISOR_ARGUMENT, SpawnRequest, send_spawn_request};

/// How long a supervisor may take for its first report. A program that is not a supervisor never sends one.
const FIRST_REPORT_WITHIN: Duration = Duration::from_secs(10);

/// How long a supervisor may take to kill everything, or to report that it cannot, which it does after five seconds.
const ENDED_WITHIN: Duration = Duration::from_secs(8);

/// How long it may take after a kill that follows an abort: the supervisor itself may be stopped (SIGSTOP).
const KILLED_WITHIN: Duration = Duration::from_secs(1);

/// A session's processes, below a supervisor.
pub(crate) struct Supervised {
    socket: UnixStream,
    supervisor: Child,
    /// Outlives the handle, which waits for the process.
    _own: OwnChild,
    child_exits: ChildExits,
    reports: Reports,
    process_end: ProcessEnd,
    /// The deadline for the supervisor to kill everything, or to report that it cannot.
    give_up_at: Option<Instant>,
    /// For the case that the supervisor is killed.
    remains: Remains,
    /// Removed when every process has exited: by the supervisor, or on drop if the supervisor could not.
    _folder: PrivateFolder,
}

impl Supervised {
    pub(super) async fn start(
        plan: Plan,
        streams: [OwnedFd; 3],
        supervisor: PathBuf,
    ) -> Result<Supervised, StartError> {
        let (ours, theirs) = StdUnixStream::pair().map_err(StartError::System)?;
        let nothing = files::open_dev_null().map_err(StartError::NoDevNull)?;
        let child = Command::new(&supervisor)
            .arg(SUPERVISOR_ARGUMENT)
            .env_clear()
            .envs(&plan.environment)
            // The root directory, so that no directory is blocked from removal; a process group of its own, so that
            // keys on this program's terminal do not reach the supervisor.
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(nothing.try_clone().map_err(StartError::System)?)
            .stderr(nothing)
            .spawn()
            .map_err(|error| {
                start_error(error, |source| StartError::Supervisor { path: supervisor.clone(), source })
            })?;
        let own = OwnChild::new(child.id());
        let folder = plan.folder.path().map(PathBuf::from).unwrap_or_default();
        let (program, arguments) = (plan.program.clone().into(), plan.arguments);
        let request = SpawnRequest { program, arguments, directory: plan.directory.into(), folder };
        match hand_over(ours, &request, streams, plan.lock).await {
            Ok((socket, reports, Report::Started(_))) => Ok(Supervised {
                socket,
                // The CLI is in the supervisor's process group.
                remains: Remains::new(plan.mark, pid_of(&child)),
                supervisor: child,
                _own: own,
                child_exits: ChildExits::listen(),
                reports,
                process_end: ProcessEnd::default(),
                give_up_at: None,
                _folder: plan.folder,
            }),
            Ok((_, _, Report::Failed(number))) => {
                dismiss(child).await;
                let error = io::Error::from_raw_os_error(number);
                Err(start_error(error, |source| StartError::NotRunnable { path: plan.program, source }))
            }
            Ok((
                _,
                _,
                Report::Exited(_)
                | Report::Signalled(_)
                | Report::NotPermitted(_)
                | Report::Stuck(_)
                | Report::KeepsTrying,
            )) => {
                dismiss(child).await;
                Err(StartError::Supervisor { path: supervisor, source: io::ErrorKind::InvalidData.into() })
            }
            Err(source) => {
                let mut remains = Remains::new(plan.mark, pid_of(&child));
                dismiss(child).await;
                // It may have started the CLI before it was killed, or before the time limit.
                let _left = end_remains(&mut remains).await;
                Err(StartError::Supervisor { path: supervisor, source })
            }
        }
    }

    pub(super) fn stop(&mut self, stop: Stop) {
        let order = match stop {
            Stop::CloseStdin => return,
            Stop::Terminate => Order::Terminate,
            Stop::Kill => Order::Kill,
            Stop::Abort => Order::Abort,
        };
        if order != Order::Terminate {
            let now = Instant::now();
            let was_requested = self.give_up_at.is_some();
            let give_up_at = self.give_up_at.get_or_insert(now + ENDED_WITHIN);
            if order == Order::Kill && was_requested {
                *give_up_at = (*give_up_at).min(now + KILLED_WITHIN);
            }
        }
        // A byte always fits: only a few are ever sent. Reading detects a supervisor that has exited.
        let _sent = self.socket.try_write(&[order.byte()]);
    }

    /// Cancel-safe: received bytes stay in `reports`, and their content in `process_end`.
    pub(super) async fn exited(&mut self) -> ProcessEnd {
        loop {
            let report = tokio::select! {
                // Each may be dropped half-way: see above, and the others have no state.
                report = next_report(&self.socket, &mut self.reports) => report,
                () = until(self.give_up_at) => {
                    // The supervisor does not even report that it cannot: it was stopped. Its processes are found like
                    // those of one that was killed.
                    if let Some(supervisor) = pid_of(&self.supervisor) {
                        self.remains.remember_refused_below(supervisor);
                    }
                    let _killed = self.supervisor.start_kill();
                    self.give_up_at = None;
                    continue;
                }
                () = self.child_exits.next() => {
                    adoption::reap();
                    continue;
                }
            };
            match report {
                Ok(Some(Report::Exited(code))) => self.process_end.code = Some(code),
                Ok(Some(Report::Signalled(signal))) => self.process_end.signal = Some(signal),
                Ok(Some(Report::NotPermitted(pid))) => self.note_left(pid, WhyLeft::NotPermitted),
                Ok(Some(Report::Stuck(pid))) => self.note_left(pid, WhyLeft::Stuck),
                Ok(Some(Report::KeepsTrying)) => return self.process_end.clone(),
                Ok(Some(Report::Started(_) | Report::Failed(_))) => {}
                Ok(None) | Err(_) => break,
            }
        }
        // The supervisor has closed its socket and is exiting, so this takes no time.
        let waited = self.supervisor.wait().await;
        if !waited.is_ok_and(|status| status.success()) {
            self.process_end.left_processes = end_remains(&mut self.remains).await;
            self.process_end.left = u32::try_from(self.process_end.left_processes.len()).unwrap_or(u32::MAX);
        }
        self.process_end.clone()
    }

    fn note_left(&mut self, pid: i32, why: WhyLeft) {
        self.process_end.left += 1;
        // 0 stands for a process that the system does not show.
        self.process_end.left_processes.extend(Pid::from_raw(pid).map(|pid| left_process(pid, why)));
    }
}

/// The process id of a child, until it is reaped.
fn pid_of(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| Pid::from_raw(id.cast_signed()))
}

/// Sends the request and the descriptors to a supervisor that was just started, and waits for its first report.
async fn hand_over(
    ours: StdUnixStream,
    request: &SpawnRequest,
    streams: [OwnedFd; 3],
    lock: Option<Arc<File>>,
) -> io::Result<(UnixStream, Reports, Report)> {
    let [stdin, stdout, stderr] = &streams;
    let lock = lock.as_ref().map(|lock| lock.as_fd());
    send_spawn_request(&ours, request, [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()], lock)?;
    // Our copies would keep the pipes open after the CLI has exited.
    drop(streams);
    ours.set_nonblocking(true)?;
    let socket = UnixStream::from_std(ours)?;
    let mut reports = Reports::default();
    let first = tokio::time::timeout(FIRST_REPORT_WITHIN, next_report(&socket, &mut reports)).await;
    match first.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? {
        Some(report) => Ok((socket, reports, report)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Terminates the processes of a supervisor that was killed. The kernel has sent SIGINT to the CLI, which gets time to
/// store its conversation; the processes left after that are found by their mark, or because this process has adopted
/// them. Returns those that cannot be terminated.
async fn end_remains(remains: &mut Remains) -> Vec<LeftProcess> {
    marked_ended_within(remains.mark(), GRACE).await;
    remains.end().await
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Kills a supervisor that has no CLI, or a program that is not a supervisor.
async fn dismiss(mut child: Child) {
    // Both fail only if it has already exited.
    let _killed = child.start_kill();
    let _waited = child.wait().await;
}

/// Returns the next report, or `None` when the supervisor has exited.
async fn next_report(socket: &UnixStream, reports: &mut Reports) -> io::Result<Option<Report>> {
    loop {
        if let Some(report) = reports.next() {
            return Ok(Some(report));
        }
        socket.readable().await?;
        let mut bytes = [0; 64];
        match socket.try_read(&mut bytes) {
            Ok(0) => return Ok(None),
            Ok(count) => reports.push(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
