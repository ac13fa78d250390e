//! The supervisor's process: starts the CLI, waits for the exit of the CLI or its owner, kills what is left, exits.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use super::talk::{Handed, Order, Report, SpawnRequest, receive_spawn_request};
use crate::files;
use crate::inherited;
use crate::sweep;

/// How long the CLI has to store its conversation after an abort, or after its owner died.
const GRACE: Duration = Duration::from_millis(500);

/// How long to wait between two searches for killed processes, how many searches to make before reporting to the owner
/// that some cannot be killed, and how long to wait from then on.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const SWEEPS_PATIENT: u32 = 250;
const LOOK_AGAIN_LATER: Duration = Duration::from_secs(1);

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
    // The lock is released when this returns, after every process of the session has exited.
    let Handed { request, streams, lock: _lock } = receive_spawn_request(&owner)?;
    owner.set_nonblocking(true)?;
    // As long as the owner or the supervisor lives, the folder is not an orphan.
    let _held = files::hold(&request.folder);
    let wakes = Wakes::listen()?;
    become_parent_of_orphans()?;

    let supervision = match start(&request, streams) {
        Ok(cli) => {
            emit(&owner, Report::Started(cli.as_raw_nonzero().get()));
            Supervision { owner, wakes, cli: Some(cli), until: Until::Exit, owner_is_gone: false, sweeps: 0 }.run()
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
enum Until {
    /// The CLI exits by itself.
    Exit,
    /// The CLI exits after SIGINT, or its grace period is over.
    Grace(Instant),
    /// No process is left.
    Nothing,
}

struct Supervision {
    owner: UnixStream,
    wakes: Wakes,
    /// The CLI, until it is reaped. Its id cannot be reused before that.
    cli: Option<Pid>,
    until: Until,
    /// Set once the owner is gone; polling its socket would then return immediately every time.
    owner_is_gone: bool,
    /// How many times every process was sent SIGKILL.
    sweeps: u32,
}

impl Supervision {
    fn run(mut self) -> io::Result<()> {
        loop {
            if self.reap()? == Left::Nothing {
                return Ok(());
            }
            match self.until {
                Until::Exit => {}
                Until::Grace(deadline) if Instant::now() < deadline => {}
                Until::Grace(_) | Until::Nothing => {
                    self.until = Until::Nothing;
                    let left = sweep::kill_descendants(getpid());
                    self.sweeps += 1;
                    if self.sweeps == SWEEPS_PATIENT {
                        emit(&self.owner, Report::Left(i32::try_from(left).unwrap_or(i32::MAX)));
                    }
                }
            }
            self.sleep()?;
            self.wakes.drain();
            if self.wakes.asked_to_end() {
                self.apply(Order::Abort);
            }
            if self.until != Until::Nothing && !self.owner_is_gone {
                self.listen();
            }
        }
    }

    /// Reaps every child that has exited.
    fn reap(&mut self) -> io::Result<Left> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if Some(pid) == self.cli {
                        self.cli = None;
                        self.until = Until::Nothing;
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
            Until::Exit => None,
            Until::Grace(deadline) => Some(deadline.saturating_duration_since(Instant::now())),
            Until::Nothing if self.sweeps < SWEEPS_PATIENT => Some(LOOK_AGAIN),
            Until::Nothing => Some(LOOK_AGAIN_LATER),
        };
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut events = vec![PollFd::new(&self.wakes.pipe, PollFlags::IN)];
        // During the grace period the owner can still order a kill; after that no order matters.
        if self.until != Until::Nothing && !self.owner_is_gone {
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
            Ok(0) => self.owner_went(),
            Ok(count) => orders[..count].iter().filter_map(|byte| Order::of(*byte)).for_each(|order| self.apply(order)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The owner died while it was writing.
            Err(_) => self.owner_went(),
        }
    }

    fn owner_went(&mut self) {
        self.owner_is_gone = true;
        self.apply(Order::Abort);
    }

    fn apply(&mut self, order: Order) {
        match (order, self.until) {
            (Order::Terminate, _) => self.signal_cli(Signal::TERM),
            (Order::Abort, Until::Exit) => {
                self.signal_cli(Signal::INT);
                self.until = Until::Grace(Instant::now() + GRACE);
            }
            (Order::Abort, Until::Grace(_) | Until::Nothing) => {}
            (Order::Kill, _) => self.until = Until::Nothing,
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
struct Wakes {
    pipe: UnixStream,
    asked: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Wakes {
    fn listen() -> io::Result<Wakes> {
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
        Ok(Wakes { pipe, asked })
    }

    fn asked_to_end(&self) -> bool {
        self.asked.swap(false, std::sync::atomic::Ordering::Relaxed)
    }

    fn drain(&mut self) {
        let mut bytes = [0; 64];
        while matches!(self.pipe.read(&mut bytes), Ok(count) if count > 0) {}
    }
}

fn emit(mut owner: &UnixStream, report: Report) {
    // Reading detects an owner that is gone.
    let _sent = owner.write_all(&report.bytes());
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

/// Makes this process the parent of orphans below it, instead of init.
#[cfg(all(target_os = "linux", not(watari_portable)))]
fn become_parent_of_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(getpid()))?)
}

#[cfg(not(all(target_os = "linux", not(watari_portable))))]
fn become_parent_of_orphans() -> io::Result<()> {
    Ok(())
}
