//! The protocol between a supervisor and its owner, over a socket that is the supervisor's stdin.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// The owner's first message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SpawnRequest {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: OsString,
    /// The session's private folder, to be removed when every process has exited; empty means none.
    pub(crate) folder: PathBuf,
}

/// An order of the owner, one byte. The end of the stream means `Abort`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// SIGTERM to the CLI.
    Terminate,
    /// SIGINT to the CLI, a short grace period, then SIGKILL to every process.
    Abort,
    /// SIGKILL to every process.
    Kill,
}

impl Order {
    pub(crate) fn byte(self) -> u8 {
        match self {
            Order::Terminate => b'T',
            Order::Abort => b'A',
            Order::Kill => b'K',
        }
    }

    pub(super) fn of(byte: u8) -> Option<Order> {
        [Order::Terminate, Order::Abort, Order::Kill].into_iter().find(|order| order.byte() == byte)
    }
}

/// A report of the supervisor, five bytes. The end of the stream means that no process is left, except those reported
/// as `NotPermitted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// The CLI runs, under this process id.
    Started(i32),
    /// The CLI could not be started: the system's error number.
    Failed(i32),
    /// The CLI exited with this code.
    Exited(i32),
    /// The CLI was terminated by this signal.
    Signalled(i32),
    /// The supervisor's user may not signal this process, so the supervisor does not wait for its exit.
    NotPermitted(i32),
    /// This process was sent SIGKILL and has not exited; 0 if the system does not show it.
    Stuck(i32),
    /// The supervisor keeps trying to kill the processes that it has reported, and the owner need not wait.
    KeepsTrying,
}

const REPORT_BYTES: usize = 5;

impl Report {
    pub(super) fn bytes(self) -> [u8; REPORT_BYTES] {
        let (kind, number) = match self {
            Report::Started(number) => (b's', number),
            Report::Failed(number) => (b'f', number),
            Report::Exited(number) => (b'e', number),
            Report::Signalled(number) => (b'k', number),
            Report::NotPermitted(number) => (b'p', number),
            Report::Stuck(number) => (b'd', number),
            Report::KeepsTrying => (b't', 0),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [kind, a, b, c, d]
    }

    fn of([kind, number @ ..]: [u8; REPORT_BYTES]) -> Option<Report> {
        let number = i32::from_le_bytes(number);
        match kind {
            b's' => Some(Report::Started(number)),
            b'f' => Some(Report::Failed(number)),
            b'e' => Some(Report::Exited(number)),
            b'k' => Some(Report::Signalled(number)),
            b'p' => Some(Report::NotPermitted(number)),
            b'd' => Some(Report::Stuck(number)),
            b't' => Some(Report::KeepsTrying),
            _ => None,
        }
    }
}

/// Assembles reports from pieces of the stream.
#[derive(Debug, Default)]
pub(crate) struct Reports(Vec<u8>);

impl Reports {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn next(&mut self) -> Option<Report> {
        let bytes: [u8; REPORT_BYTES] = self.0.get(..REPORT_BYTES)?.try_into().ok()?;
        self.0.drain(..REPORT_BYTES);
        Report::of(bytes)
    }
}

/// Sends the first message, with the CLI's three streams and a lock to hold as long as any process lives.
pub(crate) fn send_spawn_request(
    socket: &UnixStream,
    request: &SpawnRequest,
    streams: [BorrowedFd<'_>; 3],
    lock: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut body = Vec::new();
    let strings = [&request.program, &request.directory, &request.folder.clone().into_os_string()];
    for string in strings.into_iter().chain(&request.arguments) {
        // No string contains a zero byte, so a zero byte can end each.
        body.extend_from_slice(string.as_bytes());
        body.push(0);
    }
    let length = u32::try_from(body.len()).map_err(|_| io::Error::from(io::ErrorKind::ArgumentListTooLong))?;
    let head = length.to_le_bytes();

    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = streams.into_iter().chain(lock).collect();
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    // Four bytes are never split, so the streams are sent with exactly these.
    sendmsg(socket, &[IoSlice::new(&head)], &mut ancillary, SendFlags::empty())?;
    (&*socket).write_all(&body)
}

/// The first message, as the supervisor receives it.
pub(super) struct ReceivedRequest {
    pub(super) request: SpawnRequest,
    /// The CLI's stdin, stdout and stderr.
    pub(super) streams: [OwnedFd; 3],
    /// Held as long as the supervisor lives. It shares the open file with the owner's descriptor, so the lock is
    /// released only when both are closed.
    pub(super) lock: Option<OwnedFd>,
}

/// Receives the first message.
pub(super) fn receive_spawn_request(socket: &UnixStream) -> io::Result<ReceivedRequest> {
    let mut head = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut head)], &mut ancillary, RecvFlags::empty())?;
    if received.bytes != head.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut streams: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|message| if let RecvAncillaryMessage::ScmRights(streams) = message { Some(streams) } else { None })
        .flatten()
        .collect();
    for stream in &streams {
        // The CLI gets copies of the streams, and does not get the lock.
        rustix::io::fcntl_setfd(stream, rustix::io::FdFlags::CLOEXEC)?;
    }
    let lock = (streams.len() == 4).then(|| streams.pop()).flatten();
    let streams = <[OwnedFd; 3]>::try_from(streams).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;

    let mut body = vec![0; u32::from_le_bytes(head) as usize];
    (&*socket).read_exact(&mut body)?;
    let mut strings = body.split(|byte| *byte == 0).map(|string| OsString::from_vec(string.to_vec()));
    let mut next = || strings.next().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData));
    let (program, directory, folder) = (next()?, next()?, next()?.into());
    let mut arguments: Vec<OsString> = strings.collect();
    // The empty string after the last zero byte is not an argument.
    arguments.pop();
    Ok(ReceivedRequest { request: SpawnRequest { program, arguments, directory, folder }, streams, lock })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spawn_request_arrives_unchanged_with_its_descriptors() {
        let (owner, supervisor) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let sent = SpawnRequest {
            program: "/bin/x".into(),
            arguments: vec!["--a=b".into(), "".into(), OsString::from_vec(vec![0xff, b'\n'])],
            directory: "/tmp".into(),
            folder: "/tmp/folder".into(),
        };
        let streams = || [reader.as_fd(), writer.as_fd(), writer.as_fd()];
        send_spawn_request(&owner, &sent, streams(), None).unwrap();
        assert!(receive_spawn_request(&supervisor).unwrap().lock.is_none());
        send_spawn_request(&owner, &sent, streams(), Some(writer.as_fd())).unwrap();
        let ReceivedRequest { request, streams: [_, second, _], lock } = receive_spawn_request(&supervisor).unwrap();
        assert_eq!(request, sent);
        drop(lock.unwrap());
        drop(writer);
        std::fs::File::from(second).write_all(b"through the passed stream").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through the passed stream");
    }

    #[test]
    fn reports_arrive_whole_whatever_the_pieces() {
        let started = [Report::Started(-1), Report::Failed(2), Report::Exited(143), Report::Signalled(9)];
        let left = [Report::NotPermitted(71), Report::Stuck(72), Report::KeepsTrying];
        let sent = [started.as_slice(), left.as_slice()].concat();
        let bytes: Vec<u8> = sent.iter().flat_map(|report| report.bytes()).collect();
        let mut reports = Reports::default();
        let mut received = Vec::new();
        for byte in bytes {
            reports.push(&[byte]);
            received.extend(reports.next());
        }
        assert_eq!(received, sent);
    }
}
