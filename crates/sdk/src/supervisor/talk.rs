//! What a keeper and its owner say to each other, over a socket that is the keeper's stdin.

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

/// What the owner says first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SpawnRequest {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: OsString,
    /// A folder that is the session's own, to be removed when everything has ended; empty means none.
    pub(crate) folder: PathBuf,
}

/// What the owner may say later, a byte each. The end of the socket says the same as `Abort`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// SIGTERM to the CLI.
    Terminate,
    /// SIGINT to the CLI, a short grace, then SIGKILL to everything.
    Abort,
    /// SIGKILL to everything.
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

/// What the keeper reports, in five bytes each. The end of the socket says that everything is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// The CLI runs, under this process id.
    Started(i32),
    /// The CLI could not be run: the system's error number.
    Failed(i32),
    /// The CLI ended with this code.
    Exited(i32),
    /// The CLI was ended by this signal.
    Signalled(i32),
    /// So many processes cannot be ended. The keeper goes on trying, and the owner need not wait.
    Left(i32),
}

const REPORT_BYTES: usize = 5;

impl Report {
    pub(super) fn bytes(self) -> [u8; REPORT_BYTES] {
        let (kind, number) = match self {
            Report::Started(number) => (b's', number),
            Report::Failed(number) => (b'f', number),
            Report::Exited(number) => (b'e', number),
            Report::Signalled(number) => (b'k', number),
            Report::Left(number) => (b'l', number),
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
            b'l' => Some(Report::Left(number)),
            _ => None,
        }
    }
}

/// Gathers reports from the pieces they come in.
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

/// Says the first words, and hands the CLI's three streams over with them, and a lock to hold as long as anything lives.
pub(crate) fn send_spawn_request(
    socket: &UnixStream,
    words: &SpawnRequest,
    streams: [BorrowedFd<'_>; 3],
    lock: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut body = Vec::new();
    let strings = [&words.program, &words.directory, &words.folder.clone().into_os_string()];
    for string in strings.into_iter().chain(&words.arguments) {
        // No argument has a zero byte in it, so it can end one.
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

/// What a keeper is given to begin with.
pub(super) struct Handed {
    pub(super) words: SpawnRequest,
    /// The CLI's.
    pub(super) streams: [OwnedFd; 3],
    /// Held as long as the keeper lives. Its copy is of the same open file as the owner's, so the lock is free only when
    /// both are gone.
    pub(super) lock: Option<OwnedFd>,
}

/// Hears the first words.
pub(super) fn receive_spawn_request(socket: &UnixStream) -> io::Result<Handed> {
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
        // The CLI's own streams are copies of them, and the lock is not for the CLI.
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
    // What follows the last zero byte is not an argument.
    arguments.pop();
    Ok(Handed { words: SpawnRequest { program, arguments, directory, folder }, streams, lock })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_arrive_as_they_were_said_with_the_streams() {
        let (owner, supervisor) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let words = SpawnRequest {
            program: "/bin/x".into(),
            arguments: vec!["--a=b".into(), "".into(), OsString::from_vec(vec![0xff, b'\n'])],
            directory: "/tmp".into(),
            folder: "/tmp/folder".into(),
        };
        let streams = || [reader.as_fd(), writer.as_fd(), writer.as_fd()];
        send_spawn_request(&owner, &words, streams(), None).unwrap();
        assert!(receive_spawn_request(&supervisor).unwrap().lock.is_none());
        send_spawn_request(&owner, &words, streams(), Some(writer.as_fd())).unwrap();
        let Handed { words: received, streams: [_, second, _], lock } = receive_spawn_request(&supervisor).unwrap();
        assert_eq!(received, words);
        drop(lock.unwrap());
        drop(writer);
        std::fs::File::from(second).write_all(b"through the passed stream").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through the passed stream");
    }

    #[test]
    fn reports_arrive_whole_whatever_the_pieces() {
        let said = [Report::Started(-1), Report::Failed(2), Report::Exited(143), Report::Signalled(9), Report::Left(1)];
        let bytes: Vec<u8> = said.iter().flat_map(|report| report.bytes()).collect();
        let mut reports = Reports::default();
        let mut received = Vec::new();
        for byte in bytes {
            reports.push(&[byte]);
            received.extend(reports.next());
        }
        assert_eq!(received, said);
    }
}
