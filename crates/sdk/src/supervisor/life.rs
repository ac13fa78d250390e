//! The supervisor's process: starts the CLI, waits for the exit of the CLI or its owner, kills what is left, exits. It
//! does not wait for processes that its user may not signal: it reports them.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use super::talk::{Order, ReceivedRequest, Report, SpawnRequest, receive_spawn_request};
use crate::adoption::become_parent_of_orphans;
use crate::files;
use crate::inherited;
use crate::sweep::{self, REFUSED_EXIT_WITHIN, Sweep};

/// How long the CLI has to store its conversation after an abort, or after its owner died.
const GRACE: Duration = Duration::from_millis(500);

/// How long to wait between two searches for killed processes, how many searches to make before reporting to the owner
/// that some cannot be killed, and how long to wait from then on.
const SWEEP_INTERVAL: Duration = Duration::from_millis(20);
const SWEEPS_BEFORE_REPORT: u32 = 250;
const SWEEP_INTERVAL_LATER: Duration = Duration::from_secs(1);

/// How many processes are reported at most, so that the reports fit into the socket.
const REPORTED_MAX: usize = 1000;

/// Runs the supervisor, and exits the process.
#[expect(clippy::exit, reason = "a supervisor is a whole process: no other code of its program runs")]
pub(super) fn run_and_exit() -> ! {
    // The parent may have blocked signals, and the CLI would inherit the mask.
    inherited::unblock_signals();
    let code = match supervise() {
        Ok(()) => 0,
        // The owner sees the socket end without a report, and returns an error.
        Err(_) => 1,
    };
    std::process::exit(code)
}

fn supervise() -> io::Result<()> {
    // Not for the CLI: its copy would keep the socket open.
    let owner = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    let null = files::open_dev_null()?;
    rustix::stdio::dup2_stdin(&null)?;
    // The lock is released when this returns: after the exit of every process of the session that this user may signal.
    // The others would hold it for as long as they like, and nobody could learn from the lock who they are.
    let ReceivedRequest { request, streams, lock: _lock } = receive_spawn_request(&owner)?;
    owner.set_nonblocking(true)?;
    // As long as the owner or the supervisor lives, the folder is not an orphan.
    let _held = files::hold(&request.folder);
    let wakes = SignalPipe::listen()?;
    become_parent_of_orphans()?;

    let supervision = match start(&request, streams) {
        Ok(cli) => {
            emit(&owner, Report::Started(cli.as_raw_nonzero().get()));
            Supervision {
                owner,
                wakes,
                cli: Some(cli),
                until: WaitingFor::CliExit,
                owner_is_gone: false,
                sweeps: Sweeps::default(),
            }
            .run()
        }
        Err(error) => {
            emit(&owner, Report::Failed(error.raw_os_error().unwrap_or(0)));
            Ok(())
        }
    };
    remove_folder(&request.folder);
    supervision
}

fn start(request: &SpawnRequest, [stdin, stdout, stderr]: [OwnedFd; 3]) -> io::Result<Pid> {
    let mut command = Command::new(&request.program);
    command.args(&request.arguments).current_dir(&request.directory);
    command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
    inherited::die_with_parent(&mut command);
    let child = command.spawn()?;
    // `wait` reaps the child together with the orphans; dropping its handle does nothing.
    Pid::from_raw(i32::try_from(child.id()).unwrap_or_default()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// What the supervisor waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitingFor {
    /// The CLI exits by itself.
    CliExit,
    /// The CLI exits after SIGINT, or its grace period is over.
    Grace(Instant),
    /// No process is left.
    AllKilled,
}

struct Supervision {
    owner: UnixStream,
    wakes: SignalPipe,
    /// The CLI, until it is reaped. Its id cannot be reused before that.
    cli: Option<Pid>,
    until: WaitingFor,
    /// Set once the owner is gone; polling its socket would then return immediately every time.
    owner_is_gone: bool,
    sweeps: Sweeps,
}

/// The attempts to kill every process.
#[derive(Default)]
struct Sweeps {
    count: u32,
    /// The processes that the last one has sent SIGKILL.
    killed: Vec<Pid>,
    /// Since when no process is left but those that this user may not signal.
    refused_since: Option<Instant>,
}

impl Supervision {
    fn run(mut self) -> io::Result<()> {
        loop {
            if self.reap()? == Left::Nothing {
                return Ok(());
            }
            match self.until {
                WaitingFor::CliExit => {}
                WaitingFor::Grace(deadline) if Instant::now() < deadline => {}
                WaitingFor::Grace(_) | WaitingFor::AllKilled => {
                    self.until = WaitingFor::AllKilled;
                    if self.sweep() == Left::Nothing {
                        return Ok(());
                    }
                }
            }
            self.sleep()?;
            self.wakes.drain();
            if self.wakes.asked_to_end() {
                self.apply(Order::Abort);
            }
            if self.until != WaitingFor::AllKilled && !self.owner_is_gone {
                self.listen();
            }
        }
    }

    /// Kills every process. Returns whether there is any left to wait for.
    fn sweep(&mut self) -> Left {
        let Sweep { killed, refused } = sweep::kill_descendants(getpid());
        self.sweeps.count += 1;
        // A process that was found for the first time is about to exit.
        let stuck: Vec<Pid> = killed.iter().copied().filter(|pid| self.sweeps.killed.contains(pid)).collect();
        self.sweeps.killed = killed;
        let is_refused = stuck.is_empty() && !refused.is_empty();
        // They may exit by themselves, now that the others are dead: `sudo` does.
        let since = is_refused.then(|| self.sweeps.refused_since.unwrap_or_else(Instant::now));
        self.sweeps.refused_since = since;
        let is_over = since.is_some_and(|since| since.elapsed() >= REFUSED_EXIT_WITHIN);
        if is_over || self.sweeps.count == SWEEPS_BEFORE_REPORT {
            self.report_left(&refused, &stuck);
        }
        if is_over {
            return Left::Nothing;
        }
        if self.sweeps.count == SWEEPS_BEFORE_REPORT {
            emit(&self.owner, Report::KeepsTrying);
        }
        Left::Something
    }

    fn report_left(&self, refused: &[Pid], stuck: &[Pid]) {
        let number = |pid: &Pid| pid.as_raw_nonzero().get();
        let refused = refused.iter().map(|pid| Report::NotPermitted(number(pid)));
        let stuck = stuck.iter().map(|pid| Report::Stuck(number(pid)));
        let mut left: Vec<Report> = refused.chain(stuck).take(REPORTED_MAX).collect();
        if left.is_empty() {
            // There is a child, but the system does not show it.
            left.push(Report::Stuck(0));
        }
        emit_all(&self.owner, &left);
    }

    /// Reaps every child that has exited.
    fn reap(&mut self) -> io::Result<Left> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if Some(pid) == self.cli {
                        self.cli = None;
                        self.until = WaitingFor::AllKilled;
                        emit(&self.owner, report(status));
                    }
                }
                Ok(None) => return Ok(Left::Something),
                Err(rustix::io::Errno::CHILD) => return Ok(Left::Nothing),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sleeps until the owner sends an order, a child exits, a signal arrives or the time limit expires.
    fn sleep(&self) -> io::Result<()> {
        let limit = match self.until {
            WaitingFor::CliExit => None,
            WaitingFor::Grace(deadline) => Some(deadline.saturating_duration_since(Instant::now())),
            WaitingFor::AllKilled if self.sweeps.count < SWEEPS_BEFORE_REPORT => Some(SWEEP_INTERVAL),
            WaitingFor::AllKilled => Some(SWEEP_INTERVAL_LATER),
        };
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut events = vec![PollFd::new(&self.wakes.pipe, PollFlags::IN)];
        // During the grace period the owner can still order a kill; after that no order matters.
        if self.until != WaitingFor::AllKilled && !self.owner_is_gone {
            events.push(PollFd::new(&self.owner, PollFlags::IN));
        }
        match poll(&mut events, limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn listen(&mut self) {
        let mut orders = [0; 16];
        match self.owner.read(&mut orders) {
            Ok(0) => self.owner_gone(),
            Ok(count) => orders[..count].iter().filter_map(|byte| Order::of(*byte)).for_each(|order| self.apply(order)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The owner died while it was writing.
            Err(_) => self.owner_gone(),
        }
    }

    fn owner_gone(&mut self) {
        self.owner_is_gone = true;
        self.apply(Order::Abort);
    }

    fn apply(&mut self, order: Order) {
        match (order, self.until) {
            (Order::Terminate, _) => self.signal_cli(Signal::TERM),
            (Order::Abort, WaitingFor::CliExit) => {
                self.signal_cli(Signal::INT);
                self.until = WaitingFor::Grace(Instant::now() + GRACE);
            }
            (Order::Abort, WaitingFor::Grace(_) | WaitingFor::AllKilled) => {}
            (Order::Kill, _) => self.until = WaitingFor::AllKilled,
        }
    }

    fn signal_cli(&self, signal: Signal) {
        if let Some(cli) = self.cli {
            // It was not reaped yet, so the id is still the CLI's, whether it runs or has just exited.
            let _sent = kill_process(cli, signal);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Left {
    Something,
    Nothing,
}

/// Signals that can be polled.
struct SignalPipe {
    pipe: UnixStream,
    asked: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl SignalPipe {
    fn listen() -> io::Result<SignalPipe> {
        let (pipe, sender) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        // These come from a system that shuts down: keys on a terminal do not reach a supervisor, because it is not in
        // the terminal's foreground process group.
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, std::sync::Arc::clone(&asked))?;
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        signal_hook::low_level::pipe::register(SIGCHLD, sender)?;
        Ok(SignalPipe { pipe, asked })
    }

    fn asked_to_end(&self) -> bool {
        self.asked.swap(false, std::sync::atomic::Ordering::Relaxed)
    }

    fn drain(&mut self) {
        let mut bytes = [0; 64];
        while matches!(self.pipe.read(&mut bytes), Ok(count) if count > 0) {}
    }
}

fn emit(owner: &UnixStream, report: Report) {
    emit_all(owner, &[report]);
}

/// Sends reports in one write: many small ones would fill the socket of an owner that does not read at the moment.
fn emit_all(mut owner: &UnixStream, reports: &[Report]) {
    let bytes: Vec<u8> = reports.iter().flat_map(|report| report.bytes()).collect();
    // Reading detects an owner that is gone.
    let _sent = owner.write_all(&bytes);
}

fn report(status: WaitStatus) -> Report {
    match status.terminating_signal() {
        Some(signal) => Report::Signalled(signal),
        None => Report::Exited(status.exit_status().unwrap_or(-1)),
    }
}

fn remove_folder(folder: &Path) {
    if !folder.as_os_str().is_empty() {
        // The owner removes it too, and may have been faster.
        let _removed = std::fs::remove_dir_all(folder);
    }
}
