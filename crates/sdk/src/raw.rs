//! A CLI with direct access to its three streams, for tests and tools that speak its wire format.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use tokio::net::unix::pipe;
use watari_protocol::Stop;

use crate::process::{self, Process, StartError};
use crate::supervisor::Supervisor;

/// How to start a [`RawProcess`].
#[derive(Debug, Clone, Default)]
pub struct RawStart {
    /// The path of the CLI; it is not searched for.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// The process that terminates its process tree.
    pub supervisor: Supervisor,
}

/// A CLI with direct access to its three streams. Dropping this terminates its process tree.
pub struct RawProcess {
    /// Its stdin, until the caller takes it.
    pub stdin: Option<pipe::Sender>,
    /// Its stdout, until the caller takes it.
    pub stdout: Option<pipe::Receiver>,
    /// Its stderr, until the caller takes it. The caller must read it, or the CLI blocks.
    pub stderr: Option<pipe::Receiver>,
    process: Process,
}

impl RawProcess {
    /// Starts a CLI.
    pub async fn start(start: RawStart) -> Result<RawProcess, StartError> {
        let started = process::start_raw(start).await?;
        Ok(RawProcess {
            stdin: Some(started.stdin),
            stdout: Some(started.stdout),
            stderr: Some(started.stderr),
            process: started.process,
        })
    }

    /// Terminates it immediately, and waits until no process of it is left that can be killed. Returns how many cannot.
    pub async fn end(mut self) -> u32 {
        drop(self.stdin.take());
        self.process.stop(Stop::Abort);
        self.process.exited().await.left
    }
}
