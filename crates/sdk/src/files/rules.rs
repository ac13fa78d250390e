//! The rules: for each kind of file its mode and how it is opened.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// How one kind of file is made or opened.
#[derive(Debug, Clone, Copy)]
pub struct FileRule {
    /// What it is.
    pub what: &'static str,
    /// Where it is.
    pub place: &'static str,
    /// The mode it is created with, whatever the umask; none when it is never created.
    pub mode: Option<u32>,
    /// Who removes it, and when.
    pub removed: &'static str,
    access: Access,
    create: Create,
    link: Link,
    accepts: Accepts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    ReadWrite,
    Append,
    ReadAppend,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Create {
    Never,
    IfMissing,
    New,
    Emptied,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// The last part of the path may not be a symbolic link.
    Refused,
    /// It may be one of this user's or root's, and so may the file: what is written there others must not choose or read.
    FollowedIfOurs,
    Followed,
}

/// What may stand at the path. What is refused is refused without waiting for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accepts {
    RegularFile,
    RegularFileOrDevice,
    /// Also a pipe, which is not waited for here: whoever reads it has a limit for that.
    AnythingWithoutWaiting,
    /// Also a pipe, which is waited for.
    Anything,
    /// Nothing but a pipe.
    Pipe,
}

impl FileRule {
    /// Opens a file of this kind, or makes it. Never waits, unless the rule says so.
    #[expect(clippy::disallowed_methods, reason = "this is the place for it")]
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let mut options = File::options();
        match self.access {
            Access::Read => options.read(true),
            Access::ReadWrite => options.read(true).write(true),
            Access::Append => options.append(true),
            Access::ReadAppend => options.read(true).append(true),
        };
        match self.create {
            Create::Never => &mut options,
            Create::IfMissing => options.create(true),
            Create::New => options.create_new(true),
            Create::Emptied => options.create(true).truncate(true),
        };
        let mut flags = OFlags::NOCTTY;
        flags.set(OFlags::NOFOLLOW, self.link == Link::Refused);
        flags.set(OFlags::NONBLOCK, self.accepts != Accepts::Anything);
        // A file that is never created needs no mode.
        options.mode(self.mode.unwrap_or(0)).custom_flags(flags.bits().cast_signed());
        if self.link == Link::FollowedIfOurs {
            check_link(path)?;
        }
        let file = options.open(path).map_err(|error| in_plain_words(error, self.link))?;
        self.check(&file).map(|()| file)
    }

    /// Opens a file of this kind to read it, if it is there.
    pub fn open_existing(&self, path: &Path) -> io::Result<File> {
        FileRule { mode: None, access: Access::Read, create: Create::Never, ..*self }.open(path)
    }

    fn check(&self, file: &File) -> io::Result<()> {
        if [Accepts::Anything, Accepts::AnythingWithoutWaiting].contains(&self.accepts) {
            return Ok(());
        }
        let metadata = file.metadata()?;
        let kind = metadata.file_type();
        if kind.is_file() && self.link == Link::FollowedIfOurs && metadata.uid() != geteuid().as_raw() {
            return Err(io::Error::other(format!("it is a file of user {}; name one of this user's", metadata.uid())));
        }
        if self.accepts == Accepts::Pipe {
            return if kind.is_fifo() { Ok(()) } else { Err(io::Error::other("it is not a pipe")) };
        }
        let is_device = kind.is_char_device() && self.accepts == Accepts::RegularFileOrDevice;
        let what = if kind.is_file() || is_device {
            return Ok(());
        } else if kind.is_fifo() {
            "a pipe"
        } else if kind.is_dir() {
            "a folder"
        } else {
            "something else"
        };
        Err(io::Error::other(format!("it is {what}, not a file")))
    }

    /// How it is opened, for the table in the docs.
    pub fn flags(&self) -> String {
        let access = match self.access {
            Access::Read => "read",
            Access::ReadWrite => "read, write",
            Access::Append => "append",
            Access::ReadAppend => "read, append",
        };
        let create = match self.create {
            Create::Never => "",
            Create::IfMissing => ", create",
            Create::New => ", create new",
            Create::Emptied => ", create, truncate",
        };
        let link = match self.link {
            Link::Refused => ", no symbolic link",
            Link::FollowedIfOurs => ", only this user's file and link",
            Link::Followed => "",
        };
        let accepts = match self.accepts {
            Accepts::RegularFile => ", regular file only, never blocks",
            Accepts::RegularFileOrDevice => ", regular file or device only, never blocks",
            Accepts::AnythingWithoutWaiting => ", may be a pipe, which has ten seconds",
            Accepts::Anything => ", may be a pipe and then waits for it",
            Accepts::Pipe => ", pipe only, never blocks",
        };
        format!("{access}{create}{link}{accepts}")
    }
}

/// That a link at a path is not another user's.
fn check_link(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(link) if link.is_symlink() && ![0, geteuid().as_raw()].contains(&link.uid()) => {
            Err(io::Error::other(format!("it is a symbolic link of user {}; name a file", link.uid())))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The system's word for a link that is not followed is about loops.
fn in_plain_words(error: io::Error, link: Link) -> io::Error {
    match rustix::io::Errno::from_io_error(&error) {
        Some(rustix::io::Errno::LOOP) if link == Link::Refused => io::Error::other("it is a symbolic link, not a file"),
        Some(rustix::io::Errno::NXIO) => io::Error::other("it is a pipe or a socket, not a file"),
        _ => error,
    }
}

const OURS: FileRule = FileRule {
    what: "",
    place: "",
    mode: Some(0o600),
    removed: "",
    access: Access::Read,
    create: Create::Never,
    link: Link::Refused,
    accepts: Accepts::RegularFile,
};

/// The events of a session.
pub const EVENTS: FileRule = FileRule {
    what: "events of a session",
    place: "STATE/sessions/KEY/events.jsonl",
    access: Access::ReadAppend,
    create: Create::IfMissing,
    removed: "by the user",
    ..OURS
};

/// The events of a session, while they are restored.
pub const EVENTS_ASIDE: FileRule = FileRule {
    what: "events of a session, being restored",
    place: "STATE/sessions/KEY/events.jsonl~",
    access: Access::ReadAppend,
    create: Create::IfMissing,
    removed: "renamed to events.jsonl",
    ..OURS
};

/// The record of a session, while it is written.
pub const RECORD_ASIDE: FileRule = FileRule {
    what: "record of a session, being written",
    place: "STATE/sessions/KEY/record.json~",
    access: Access::ReadWrite,
    create: Create::Emptied,
    removed: "renamed to record.json",
    ..OURS
};

/// The record of a session.
pub const RECORD: FileRule = FileRule {
    what: "record of a session",
    place: "STATE/sessions/KEY/record.json",
    mode: None,
    removed: "by the user",
    ..OURS
};

/// A lock.
pub const LOCK: FileRule = FileRule {
    what: "lock of a session, a conversation or a socket's path",
    place: "STATE/sessions/KEY/lock, STATE/locks/NAME",
    access: Access::ReadWrite,
    create: Create::IfMissing,
    removed: "by its holder, or by the next one",
    ..OURS
};

/// The log of a host.
pub const HOST_LOG: FileRule = FileRule {
    what: "log of a host",
    place: "STATE/sessions/KEY/host.log",
    access: Access::Append,
    create: Create::IfMissing,
    removed: "by the user; renamed to host.log.1 at 1 MiB",
    ..OURS
};

/// The log of a host, at a path that the user named.
pub const NAMED_LOG: FileRule = FileRule {
    what: "log of a host, at a path that the user named",
    place: "watari socket --log PATH",
    access: Access::Append,
    create: Create::IfMissing,
    link: Link::FollowedIfOurs,
    accepts: Accepts::RegularFileOrDevice,
    removed: "by the user; renamed to PATH.1 at 1 MiB, unless that is a file of somebody else's",
    ..OURS
};

/// What the CLI is given in a file because it is secret or long.
pub const PRIVATE_FILE: FileRule = FileRule {
    what: "MCP configuration and settings for one CLI process",
    place: "RUNTIME/private/NAME/{mcp,settings}.json",
    access: Access::ReadWrite,
    create: Create::New,
    removed: "with its folder",
    ..OURS
};

/// The Claude Code executable, of which the beginning is looked at.
pub const PROGRAM: FileRule = FileRule {
    what: "Claude Code executable (its first bytes)",
    place: "--claude PATH, or found on the PATH",
    mode: None,
    link: Link::Followed,
    removed: "never",
    ..OURS
};

/// The transcript of a conversation, which the CLI writes.
pub const TRANSCRIPT: FileRule = FileRule {
    what: "transcript of a conversation (what others add to it)",
    place: "~/.claude/projects/…/SESSION_ID.jsonl",
    mode: None,
    link: Link::Followed,
    removed: "never",
    ..OURS
};

/// A script or a scenario that somebody wrote.
pub const HAND_WRITTEN: FileRule = FileRule {
    what: "script or scenario that a user named",
    place: "watari stub FILE, watari check --scenarios FILE",
    mode: None,
    link: Link::Followed,
    accepts: Accepts::AnythingWithoutWaiting,
    removed: "never",
    ..OURS
};

/// The record of a stub's requests, at a path that the user named.
pub const WANTED_RECORD: FileRule = FileRule {
    what: "requests that a stub has got",
    place: "watari stub --record PATH",
    access: Access::Append,
    create: Create::IfMissing,
    link: Link::FollowedIfOurs,
    accepts: Accepts::RegularFileOrDevice,
    removed: "by the user",
    ..OURS
};

/// A file that a scenario needs, in the check's own temporary folder.
pub const CHECK_FILE: FileRule = FileRule {
    what: "file of a scenario",
    place: "TMP/wt-NAME/…",
    access: Access::ReadWrite,
    create: Create::Emptied,
    removed: "with its folder",
    ..OURS
};

/// What the fake CLI and the recorder write for tests.
pub const TEST_LOG: FileRule = FileRule {
    what: "log of the fake CLI and of the recorder",
    place: "named by a variable of the test's",
    access: Access::Append,
    create: Create::IfMissing,
    link: Link::Followed,
    accepts: Accepts::Anything,
    removed: "by the test",
    ..OURS
};

/// A file of the system's.
pub const SYSTEM: FileRule = FileRule {
    what: "file of the system's",
    place: "/proc/…",
    mode: None,
    link: Link::Followed,
    removed: "never",
    ..OURS
};

/// What swallows everything.
pub const NOTHING: FileRule = FileRule {
    what: "no output",
    place: "/dev/null",
    mode: None,
    access: Access::ReadWrite,
    accepts: Accepts::RegularFileOrDevice,
    removed: "never",
    ..OURS
};

/// A pipe that this program was given as its standard input. It is opened anew, because others share its flags.
pub const GIVEN_INPUT: FileRule = FileRule {
    what: "standard input, when it is a pipe without a name",
    place: "/proc/self/fd/N",
    mode: None,
    link: Link::Followed,
    accepts: Accepts::Pipe,
    removed: "never",
    ..OURS
};

/// A pipe that this program was given as its standard output or error.
pub const GIVEN_OUTPUT: FileRule =
    FileRule { what: "standard output or error, when it is a pipe", access: Access::Append, ..GIVEN_INPUT };

/// Every rule for files.
pub const FILES: [&FileRule; 18] = [
    &EVENTS,
    &EVENTS_ASIDE,
    &RECORD_ASIDE,
    &RECORD,
    &LOCK,
    &HOST_LOG,
    &NAMED_LOG,
    &PRIVATE_FILE,
    &PROGRAM,
    &TRANSCRIPT,
    &HAND_WRITTEN,
    &WANTED_RECORD,
    &CHECK_FILE,
    &TEST_LOG,
    &SYSTEM,
    &NOTHING,
    &GIVEN_INPUT,
    &GIVEN_OUTPUT,
];
