//! Inherited signal state: blocked and ignored signals, and the signal on the parent's death. The only file with
//! `unsafe`.
//!
//! With SIGTERM blocked, only SIGKILL terminates a process, and all its children inherit the mask. That is never
//! intended for Watari, so its programs start with no signal blocked. Ignored signals are intended: by `nohup`, and by
//! shells for background jobs.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Unblocks all signals. Call it first in `main`, before any thread is started: each thread has its own mask.
#[expect(unsafe_code, reason = "the standard library and rustix have no safe call that changes the mask")]
pub fn unblock_signals() {
    // SAFETY: the set is initialized by the first call and only read by the second; both are safe to call also between
    // fork and exec.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        // Fails only for an unknown operation.
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Makes a program start with no signal blocked, whatever the mask of the starting thread.
#[expect(unsafe_code, reason = "nothing safe runs code between fork and exec")]
pub(crate) fn start_unblocked(command: &mut Command) {
    if !blocks_signals() {
        // Without code between fork and exec, the system need not copy this process.
        return;
    }
    // SAFETY: between fork and exec only system calls are made that are safe to make there; nothing is allocated and no
    // lock is taken.
    unsafe {
        command.pre_exec(|| {
            unblock_signals();
            Ok(())
        });
    }
}

#[expect(unsafe_code, reason = "the standard library and rustix have no safe call that reads the mask")]
fn blocks_signals() -> bool {
    // SAFETY: the set is initialized by the first call and filled by the second, which changes nothing.
    unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut blocked);
        libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &raw mut blocked);
        (1..NUMBERS_END).any(|signal| libc::sigismember(&raw const blocked, signal) == 1)
    }
}

/// One more than the highest number of a standard signal.
const NUMBERS_END: i32 = 32;

/// Whether this process ignores a signal, by its number. False if the system does not report it.
pub fn is_signal_ignored(signal: i32) -> bool {
    ignored_signals().is_some_and(|ignored| (1..=64).contains(&signal) && ignored >> (signal - 1) & 1 == 1)
}

#[cfg(all(target_os = "linux", not(watari_portable)))]
fn ignored_signals() -> Option<u64> {
    let status = crate::files::read_system("/proc/self/status").ok()?;
    let status = String::from_utf8_lossy(&status).into_owned();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(not(all(target_os = "linux", not(watari_portable))))]
fn ignored_signals() -> Option<u64> {
    None
}

/// Makes the kernel send SIGINT to the CLI if the supervisor is killed: the CLI then stores its conversation,
/// terminates its tools and exits. (The signal is sent when the thread that started the CLI exits: a supervisor has
/// only one.)
#[cfg(all(target_os = "linux", not(watari_portable)))]
#[expect(unsafe_code, reason = "nothing safe runs code between fork and exec")]
pub(crate) fn die_with_parent(command: &mut Command) {
    use rustix::process::{Signal, getpid};

    let supervisor = getpid();
    // SAFETY: between fork and exec only two system calls are made, both safe to make there; nothing is
    // allocated and no lock is taken.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::INT))?;
            let is_alive = rustix::process::getppid() == Some(supervisor);
            if is_alive { Ok(()) } else { Err(std::io::ErrorKind::BrokenPipe.into()) }
        });
    }
}

#[cfg(not(all(target_os = "linux", not(watari_portable))))]
pub(crate) fn die_with_parent(_command: &mut Command) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "the standard library and rustix have no safe call that changes the mask")]
    fn a_program_that_is_started_without_a_supervisor_inherits_no_blocked_signal() {
        // SAFETY: as above; every test is a process of its own.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        }
        let blocked = |prepare: fn(&mut Command)| {
            let mut command = Command::new("grep");
            command.args(["SigBlk", "/proc/self/status"]);
            prepare(&mut command);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        assert_ne!(blocked(|_| {}), "SigBlk:\t0000000000000000\n");
        assert_eq!(blocked(start_unblocked), "SigBlk:\t0000000000000000\n");
    }
}
