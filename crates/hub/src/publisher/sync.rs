//! Syncs the log to the disk, so that it survives a crash of the machine.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use watari_sdk::threads::{self, ThreadTask};

use crate::session_files::SessionFiles;

/// Syncs the log in a separate thread.
#[derive(Debug, Default)]
pub(super) struct Fsync {
    running: Option<ThreadTask<io::Result<()>>>,
    is_wanted: bool,
}

impl Fsync {
    pub(super) fn want(&mut self, files: &SessionFiles) {
        self.is_wanted = true;
        self.begin(files);
    }

    fn begin(&mut self, files: &SessionFiles) {
        if self.running.is_none() && self.is_wanted {
            let storage = Arc::clone(files.log.storage());
            match threads::spawn(move || storage.sync_data()) {
                Ok(running) => (self.running, self.is_wanted) = (Some(running), false),
                // The request stays pending, and the next event that needs a sync tries again.
                Err(error) => tracing::warn!(
                    "cannot start to sync the log, which may not survive a crash of the machine yet: {error}"
                ),
            }
        }
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>, files: &SessionFiles) -> Poll<()> {
        let Some(running) = &mut self.running else { return Poll::Pending };
        if let Some(Err(error)) = ready!(Pin::new(running).poll(context)) {
            tracing::warn!("cannot sync the log, which may not survive a crash of the machine: {error}");
        }
        self.running = None;
        self.begin(files);
        Poll::Ready(())
    }
}
