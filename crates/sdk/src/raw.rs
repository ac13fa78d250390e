//! A CLI whose three streams a program has to itself, for those who speak with it in its own words.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use tokio::net::unix::pipe;
use watari_protocol::Stop;

use crate::process::{self, Process, StartError};
use crate::supervisor::Supervisor;

/// How a CLI is started by hand.
#[derive(Debug, Clone, Default)]
pub struct RawStart {
    /// The CLI; a path, not a name to be searched for.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The directory it is started in.
    pub directory: PathBuf,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// Who sees to it that nothing of it outlives it.
    pub supervisor: Supervisor,
}

/// A CLI that was started by hand. When this is dropped, it is ended with everything it started.
pub struct RawProcess {
    /// Where it reads from, until it is taken.
    pub stdin: Option<pipe::Sender>,
    /// What it says, until it is taken.
    pub stdout: Option<pipe::Receiver>,
    /// What it complains of, until it is taken. Somebody has to read it, or the CLI waits.
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

    /// Ends it at once, and waits until nothing of it is left; tells how many processes the system did not let go of.
    pub async fn end(mut self) -> u32 {
        drop(self.stdin.take());
        self.process.stop(Stop::Abort);
        self.process.gone().await.left
    }
}
