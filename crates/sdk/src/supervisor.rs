//! The keeper: a small process per session that sees to it that nothing of the session outlives it.
//!
//! It is the parent of the CLI and, on Linux, the parent of every orphan below it, so that no double fork
//! and no session of its own gets a process away from it. It holds one end of a socket whose other end
//! only its owner has: when that closes, because the owner closed it or died, everything is ended.
//!
//! ```text
//! owner ── program, arguments, directory, stdin, stdout, stderr, lock ──▶ keeper ── starts ──▶ CLI ──▶ …
//! owner ── T (terminate) · A (abort) · K (kill) · end ───────────▶ keeper
//! owner ◀─ started · failed · exited · end (everything is gone) ── keeper
//! ```

mod life;
mod talk;

use std::path::PathBuf;

pub(crate) use talk::{Order, Report, Reports, SpawnRequest, send_spawn_request};

/// Who sees to it that nothing of a session outlives it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Supervisor {
    /// Nobody: what a session started is found and ended when it is closed or dropped, but not when this
    /// program is killed.
    #[default]
    None,
    /// This program, started again: its `main` must begin with [`Supervisor::run_if_supervisor`].
    ThisProgram,
    /// Another program that begins with [`Supervisor::run_if_supervisor`], such as `watari`.
    Program(PathBuf),
}

/// The argument that makes a program a keeper.
pub(crate) const SUPERVISOR_ARGUMENT: &str = "__supervisor";

impl Supervisor {
    /// To be called first in `main`, before any thread is started: when the program was started to be a
    /// keeper, it is one, and ends with the session it keeps. Otherwise this returns at once.
    pub fn run_if_supervisor() {
        let mut arguments = std::env::args_os().skip(1);
        if arguments.next().is_some_and(|argument| argument == SUPERVISOR_ARGUMENT) && arguments.next().is_none() {
            life::live();
        }
    }
}
