//! Standard input and output, without a thread in between where they are pipes or sockets.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;

use rustix::fs::FileType;
#[cfg(target_os = "linux")]
use tokio::io::Interest;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Where the client's lines come from.
pub(super) struct Input(Box<dyn AsyncRead + Send + Unpin>);

/// Where the lines for the client go.
pub(super) enum Output {
    Pipe(pipe::Sender),
    Socket {
        socket: UnixStream,
        /// The same socket once more, on which nothing is written: only its end is waited for.
        #[cfg(target_os = "linux")]
        watched: UnixStream,
    },
    /// A file or a terminal, through a thread.
    Other(tokio::io::Stdout),
}

impl Input {
    pub(super) fn open() -> io::Result<Input> {
        let stdin = io::stdin();
        let kind = kind_of(&stdin)?;
        Ok(Input(if kind == FileType::Fifo {
            Box::new(pipe::Receiver::from_owned_fd(stdin.as_fd().try_clone_to_owned()?)?)
        } else if kind == FileType::Socket {
            Box::new(socket(stdin.as_fd().try_clone_to_owned()?)?)
        } else {
            Box::new(tokio::io::stdin())
        }))
    }

    /// Adds what there is; zero at the end. Dropping the future loses nothing.
    pub(super) async fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        self.0.read_buf(bytes).await
    }
}

impl Output {
    pub(super) fn open() -> io::Result<Output> {
        let stdout = io::stdout();
        let kind = kind_of(&stdout)?;
        Ok(if kind == FileType::Fifo {
            Output::Pipe(pipe::Sender::from_owned_fd(stdout.as_fd().try_clone_to_owned()?)?)
        } else if kind == FileType::Socket {
            Output::Socket {
                socket: socket(stdout.as_fd().try_clone_to_owned()?)?,
                #[cfg(target_os = "linux")]
                watched: socket(stdout.as_fd().try_clone_to_owned()?)?,
            }
        } else {
            Output::Other(tokio::io::stdout())
        })
    }

    /// Writes what can be written now; with nothing to write, waits until the client has closed its end, which is an
    /// error. Dropping the future loses nothing.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Err(self.closed().await);
        }
        match self {
            Output::Pipe(pipe) => pipe.write(bytes).await,
            Output::Socket { socket, .. } => socket.write(bytes).await,
            Output::Other(stdout) => stdout.write(bytes).await,
        }
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Pipe(pipe) => pipe.flush().await,
            Output::Socket { socket, .. } => socket.flush().await,
            Output::Other(stdout) => stdout.flush().await,
        }
    }

    /// A pipe tells when nobody is left to read it. A socket tells when its other end is closed, or shut down both ways:
    /// one that is shut down for writing only is no more than the end of the input, and one that is shut down for
    /// reading only is, as of a file or a terminal, only heard of when something is written.
    async fn closed(&self) -> io::Error {
        #[cfg(target_os = "linux")]
        {
            let closed = match self {
                Output::Pipe(pipe) => pipe.ready(Interest::ERROR).await.map(drop),
                Output::Socket { watched, .. } => end_of(watched).await,
                Output::Other(_) => std::future::pending().await,
            };
            closed.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
        }
        #[cfg(not(target_os = "linux"))]
        std::future::pending().await
    }
}

/// Waits until a socket is closed in both directions.
#[cfg(target_os = "linux")]
async fn end_of(socket: &UnixStream) -> io::Result<()> {
    while !socket.ready(Interest::WRITABLE).await?.is_write_closed() {
        // There is room to write, which is what is waited for elsewhere: here it is put aside until there is news.
        let put_aside = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _nothing = socket.try_io(Interest::WRITABLE, put_aside);
    }
    Ok(())
}

fn kind_of(end: impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(end)?.st_mode))
}

fn socket(end: OwnedFd) -> io::Result<UnixStream> {
    let socket = StdUnixStream::from(end);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}
