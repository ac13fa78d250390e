//! The supervisor: a small process per session that terminates the session's process tree.
//!
//! It is the parent of the CLI and, on Linux, of every orphan below it, so that no process escapes by a double fork or
//! `setsid`. It holds one end of a socket whose other end only its owner has. When the owner closes that end or dies,
//! the supervisor terminates everything.
//!
//! ```text
//! owner ── program, arguments, directory, stdin, stdout, stderr, lock ──▶ supervisor ── starts ──▶ CLI ──▶ …
//! owner ── T (terminate) · A (abort) · K (kill) · end of stream ───────────▶ supervisor
//! owner ◀─ started · failed · exited · processes left · end of stream ──── supervisor
//! ```

mod life;
mod talk;

use std::path::PathBuf;

pub(crate) use talk::{Order, Report, Reports, SpawnRequest, send_spawn_request};

/// The program that supervises a session: a second process that terminates the session's process tree, even if this
/// program is killed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Supervisor {
    /// None: this program itself finds and kills the session's processes when the session is closed or dropped. If this
    /// program is killed, they stay.
    #[default]
    None,
    /// This program, started a second time: its `main` must begin with [`Supervisor::run_if_supervisor`]. A test has no
    /// `main` of its own: use another variant there.
    ThisProgram,
    /// Another program whose `main` begins with [`Supervisor::run_if_supervisor`], such as `watari`.
    Program(PathBuf),
}

/// The argument that makes a program a supervisor.
pub(crate) const SUPERVISOR_ARGUMENT: &str = "__supervisor";

impl Supervisor {
    /// Runs the supervisor and exits the process, if Watari started this program as a supervisor; otherwise returns
    /// immediately. Call it first in `main`, before any thread is started: `#[tokio::main]` starts threads, so it must
    /// be on another function.
    pub fn run_if_supervisor() {
        let mut arguments = std::env::args_os().skip(1);
        if arguments.next().is_some_and(|argument| argument == SUPERVISOR_ARGUMENT) && arguments.next().is_none() {
            life::run_and_exit();
        }
    }
}
