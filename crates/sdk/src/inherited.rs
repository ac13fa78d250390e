//! What a process inherits: blocked and ignored signals, the signal on the parent's death, and open descriptors. The
//! only file with `unsafe`.
//!
//! With SIGTERM blocked, only SIGKILL terminates a process, and all its children inherit the mask. That is never
//! intended for Watari, so its programs start with no signal blocked. Ignored signals are intended: by `nohup`, and by
//! shells for background jobs.
//!
//! A shell passes on every descriptor that it has opened, such as that of a lock or a pipe. They are meant for this
//! program at most: a daemon that holds them blocks whoever waits for the lock or for the end of the pipe.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, getrlimit};

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

/// Keeps the open descriptors that this process has inherited, other than standard input, output and error, from the
/// programs that it starts. They stay open here. Call it first in `main`, before anything opens a descriptor for a child.
pub fn keep_inherited_descriptors() {
    if !mark_all_at_once() {
        for number in open_descriptors() {
            mark(number);
        }
    }
}

/// The first descriptor that is not standard input, output or error.
const FIRST: u32 = 3;

/// The highest number that is tried if the system does not list the open descriptors.
const TRIED_MAX: u64 = 65_536;

#[cfg(all(target_os = "linux", not(watari_portable)))]
#[expect(unsafe_code, reason = "the standard library and rustix do not have this call")]
fn mark_all_at_once() -> bool {
    // SAFETY: the call reads and writes no memory of this process. It only sets a flag of descriptors, which no owner of
    // one relies on: those that this program opens have it already.
    unsafe { libc::syscall(libc::SYS_close_range, FIRST, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) == 0 }
}

#[cfg(not(all(target_os = "linux", not(watari_portable))))]
fn mark_all_at_once() -> bool {
    false
}

/// The open descriptors, or, if the system does not list them, all numbers that one may have.
fn open_descriptors() -> Vec<i32> {
    let listed = std::fs::read_dir("/dev/fd").map(|entries| {
        let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        numbers.collect::<Vec<_>>()
    });
    let limit = || getrlimit(Resource::Nofile).current.unwrap_or(TRIED_MAX).min(TRIED_MAX);
    let numbers = listed.unwrap_or_else(|_| (0..u32::try_from(limit()).unwrap_or(0)).collect());
    numbers.into_iter().filter(|number| *number >= FIRST).map(u32::cast_signed).collect()
}

#[expect(unsafe_code, reason = "the standard library and rustix change only descriptors whose owner is known")]
fn mark(number: i32) {
    // SAFETY: as above. A number that is not open is an error, which does not matter.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
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
    fn an_inherited_descriptor_is_not_passed_on_even_where_it_must_be_searched_for() {
        use std::os::fd::AsRawFd;

        let opened = std::fs::File::open("/dev/null").unwrap();
        for how in [keep_inherited_descriptors, || open_descriptors().into_iter().for_each(mark)] {
            rustix::io::fcntl_setfd(&opened, rustix::io::FdFlags::empty()).unwrap();
            assert!(open_descriptors().contains(&opened.as_raw_fd()));
            how();
            assert_eq!(rustix::io::fcntl_getfd(&opened).unwrap(), rustix::io::FdFlags::CLOEXEC);
        }
        assert!([0, 1, 2].iter().all(|number| !open_descriptors().contains(number)));
    }

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
