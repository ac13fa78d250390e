//! The keeper's life: start the CLI, wait for its end or its owner's, end what is left, go.

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

/// How long the CLI has to save its conversation when its owner is gone or in a hurry.
const GRACE: Duration = Duration::from_millis(500);

/// How long to wait before looking again for processes that are still there after they were killed, how often to
/// look before the owner is told that something cannot be ended, and how long to wait from then on.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const SWEEPS_PATIENT: u32 = 250;
const LOOK_AGAIN_LATER: Duration = Duration::from_secs(1);

/// Lives, and ends the process.
#[expect(clippy::exit, reason = "a keeper is a whole process: nothing of the program it was started from runs")]
pub(super) fn live() -> ! {
    // Whoever started it may have blocked them; the CLI would inherit that.
    inherited::unblock_signals();
    let code = match keep() {
        Ok(()) => 0,
        // The owner sees the socket end without a report, and says so.
        Err(_) => 1,
    };
    std::process::exit(code)
}

fn keep() -> io::Result<()> {
    // Not for the CLI: a copy in its hands would keep the socket open.
    let owner = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    let null = files::nothing()?;
    rustix::stdio::dup2_stdin(&null)?;
    // The lock is let go when this returns, after everything that it stands for has ended.
    let Handed { words, streams, lock: _lock } = receive_spawn_request(&owner)?;
    owner.set_nonblocking(true)?;
    // As long as one of us lives, nobody takes it for an orphan.
    let _held = files::hold(&words.folder);
    let wakes = Wakes::listen()?;
    become_parent_of_orphans()?;

    let supervision = match start(&words, streams) {
        Ok(cli) => {
            emit(&owner, Report::Started(cli.as_raw_nonzero().get()));
            Supervision { owner, wakes, cli: Some(cli), until: Until::Exit, owner_is_gone: false, sweeps: 0 }.run()
        }
        Err(error) => {
            emit(&owner, Report::Failed(error.raw_os_error().unwrap_or(0)));
            Ok(())
        }
    };
    remove_folder(&words.folder);
    supervision
}

fn start(words: &SpawnRequest, [stdin, stdout, stderr]: [OwnedFd; 3]) -> io::Result<Pid> {
    let mut command = Command::new(&words.program);
    command.args(&words.arguments).current_dir(&words.directory);
    command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
    inherited::die_with_parent(&mut command);
    let child = command.spawn()?;
    // The child is waited for by `wait`, together with the orphans; dropping its handle does nothing.
    Pid::from_raw(i32::try_from(child.id()).unwrap_or_default()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The CLI ends by itself.
    Exit,
    /// The CLI ends by SIGINT, or its grace is over.
    Grace(Instant),
    /// Nothing is left.
    Nothing,
}

struct Supervision {
    owner: UnixStream,
    wakes: Wakes,
    /// The CLI, until it has ended. Its number cannot be another's before that.
    cli: Option<Pid>,
    until: Until,
    /// An owner who is gone would wake us again and again.
    owner_is_gone: bool,
    /// How often everything was killed.
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

    /// Waits for every child that has ended.
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

    /// Until the owner speaks, a child ends, a signal comes or it is time.
    fn sleep(&self) -> io::Result<()> {
        let limit = match self.until {
            Until::Exit => None,
            Until::Grace(deadline) => Some(deadline.saturating_duration_since(Instant::now())),
            Until::Nothing if self.sweeps < SWEEPS_PATIENT => Some(LOOK_AGAIN),
            Until::Nothing => Some(LOOK_AGAIN_LATER),
        };
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut events = vec![PollFd::new(&self.wakes.pipe, PollFlags::IN)];
        // In its grace the CLI can still be killed at once; after that there is nothing left to hear.
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
            // The owner went away in the middle of a word.
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
            // It was not waited for yet, so this is it, alive or just ended; both are fine.
            let _sent = kill_process(cli, signal);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Left {
    Something,
    Nothing,
}

/// Signals, as something that can be polled.
struct Wakes {
    pipe: UnixStream,
    asked: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Wakes {
    fn listen() -> io::Result<Wakes> {
        let (pipe, sender) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        // Nobody sends these to a keeper but who ends everything there is, as a machine that goes down does: a key
        // on a terminal does not reach it, because it is not in the terminal's process group.
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
    // An owner who is gone is heard of by reading.
    let _told = owner.write_all(&report.bytes());
}

fn report(status: WaitStatus) -> Report {
    match status.terminating_signal() {
        Some(signal) => Report::Signalled(signal),
        None => Report::Exited(status.exit_status().unwrap_or(-1)),
    }
}

fn remove_folder(folder: &Path) {
    if !folder.as_os_str().is_empty() {
        // It may be gone already: the owner removes it too.
        let _removed = std::fs::remove_dir_all(folder);
    }
}

/// Orphans below this process become its children, instead of the system's first process.
#[cfg(all(target_os = "linux", not(watari_portable)))]
fn become_parent_of_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(getpid()))?)
}

#[cfg(not(all(target_os = "linux", not(watari_portable))))]
fn become_parent_of_orphans() -> io::Result<()> {
    Ok(())
}
