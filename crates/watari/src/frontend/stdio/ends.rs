//! Standard input and output, without a thread in between where they are pipes or sockets.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;

use rustix::fs::FileType;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Where the client's lines come from.
pub(super) struct Input(Box<dyn AsyncRead + Unpin>);

/// Where the lines for the client go.
pub(super) struct Output(Box<dyn AsyncWrite + Unpin>);

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
        Ok(Output(if kind == FileType::Fifo {
            Box::new(pipe::Sender::from_owned_fd(stdout.as_fd().try_clone_to_owned()?)?)
        } else if kind == FileType::Socket {
            Box::new(socket(stdout.as_fd().try_clone_to_owned()?)?)
        } else {
            Box::new(tokio::io::stdout())
        }))
    }

    /// Writes what can be written now. Dropping the future loses nothing.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).await
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.0.flush().await
    }
}

fn kind_of(end: impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(end)?.st_mode))
}

fn socket(end: OwnedFd) -> io::Result<UnixStream> {
    let socket = StdUnixStream::from(end);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}
