//! A CLI that a keeper keeps.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use watari_protocol::Stop;

use super::{Ending, Plan, StartError, end_marked};
use crate::argv::PrivateFolder;
use crate::keeper::{FirstWords, KEEPER_ARGUMENT, Order, Report, Reports, send_first_words};

/// How long a program that is no keeper may be silent before that is plain.
const FIRST_REPORT_WITHIN: Duration = Duration::from_secs(10);

/// A session's processes, below a keeper.
pub(crate) struct Kept {
    socket: UnixStream,
    keeper: Child,
    reports: Reports,
    ending: Option<Ending>,
    mark: String,
    /// Removed when everything is gone: by the keeper, or by this should the keeper not be able to.
    _folder: PrivateFolder,
}

impl Kept {
    pub(super) async fn start(plan: Plan, streams: [OwnedFd; 3], keeper: PathBuf) -> Result<Kept, StartError> {
        let failed = |source| StartError::Keeper { path: keeper.clone(), source };
        let (ours, theirs) = StdUnixStream::pair().map_err(StartError::System)?;
        let child = Command::new(&keeper)
            .arg(KEEPER_ARGUMENT)
            .env_clear()
            .envs(&plan.environment)
            // It stays in nobody's way: not in a directory that somebody wants to remove, and not in reach
            // of a key on this program's terminal.
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let words = FirstWords {
            program: plan.program.clone().into(),
            arguments: plan.arguments,
            directory: plan.directory.into(),
            folder: plan.folder.path().map(PathBuf::from).unwrap_or_default(),
        };
        let [stdin, stdout, stderr] = &streams;
        send_first_words(&ours, &words, [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()]).map_err(failed)?;
        // Our copies would keep the pipes open after the CLI has ended.
        drop(streams);
        ours.set_nonblocking(true).map_err(failed)?;
        let socket = UnixStream::from_std(ours).map_err(failed)?;
        let mut kept = Kept {
            socket,
            keeper: child,
            reports: Reports::default(),
            ending: None,
            mark: plan.mark,
            _folder: plan.folder,
        };

        let first = tokio::time::timeout(FIRST_REPORT_WITHIN, kept.next_report()).await;
        match first.map_err(|_| failed(io::ErrorKind::TimedOut.into()))?.map_err(failed)? {
            Some(Report::Started(_)) => Ok(kept),
            Some(Report::Failed(number)) => {
                let source = io::Error::from_raw_os_error(number);
                Err(StartError::NotRunnable { path: plan.program, source })
            }
            Some(Report::Exited(_) | Report::Signalled(_)) | None => Err(failed(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    pub(super) fn stop(&mut self, stop: Stop) {
        let order = match stop {
            Stop::CloseStdin => return,
            Stop::Terminate => Order::Terminate,
            Stop::Kill => Order::Kill,
            Stop::Abort => Order::Abort,
        };
        // A byte always finds room: only a few are ever sent. A keeper who is gone is heard of by reading.
        let _sent = self.socket.try_write(&[order.byte()]);
    }

    /// Cancel-safe: reports that have come stay in `reports`, and what they say stays in `ending`.
    pub(super) async fn gone(&mut self) -> Ending {
        loop {
            match self.next_report().await {
                Ok(Some(Report::Exited(code))) => self.ending = Some(Ending { code: Some(code), signal: None }),
                Ok(Some(Report::Signalled(signal))) => {
                    self.ending = Some(Ending { code: None, signal: Some(signal) });
                }
                Ok(Some(Report::Started(_) | Report::Failed(_))) => {}
                Ok(None) | Err(_) => break,
            }
        }
        // It has nothing left to do but to end, so this takes no time.
        let waited = self.keeper.wait().await;
        if !waited.is_ok_and(|status| status.success()) {
            // Somebody killed the keeper: what it kept is found by its mark.
            end_marked(&self.mark).await;
        }
        self.ending.unwrap_or_default()
    }

    /// The next report; none when the keeper has gone.
    async fn next_report(&mut self) -> io::Result<Option<Report>> {
        loop {
            if let Some(report) = self.reports.next() {
                return Ok(Some(report));
            }
            self.socket.readable().await?;
            let mut bytes = [0; 64];
            match self.socket.try_read(&mut bytes) {
                Ok(0) => return Ok(None),
                Ok(count) => self.reports.push(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}
