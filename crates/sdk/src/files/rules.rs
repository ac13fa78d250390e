//! The rules: for each kind of file its mode and how it is opened.

use super::rule::{Accepts, Access, Create, FileRule, Link};

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
    place: "STATE/sessions/KEY/lock, STATE/locks/NAME, CLAUDE/projects/.watari-locks/SESSION_ID",
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
    removed: "by the user; renamed to PATH.1 at 1 MiB; if that is not a log of a host, the log stops with a line that says so",
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

/// A program that stands for another in one CLI process.
pub const PRIVATE_PROGRAM: FileRule = FileRule {
    what: "a program that fails in the place of git (`--untrusted`)",
    place: "RUNTIME/private/NAME/git",
    mode: Some(0o700),
    ..PRIVATE_FILE
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

/// MCP servers or settings that somebody named for the CLI.
pub const GIVEN: FileRule = FileRule {
    what: "MCP servers or settings that a user or a client named",
    place: "watari socket --mcp-config FILE, `options.settings` of `start`",
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
pub const FILES: [&FileRule; 20] = [
    &EVENTS,
    &EVENTS_ASIDE,
    &RECORD_ASIDE,
    &RECORD,
    &LOCK,
    &HOST_LOG,
    &NAMED_LOG,
    &PRIVATE_FILE,
    &PRIVATE_PROGRAM,
    &PROGRAM,
    &TRANSCRIPT,
    &GIVEN,
    &HAND_WRITTEN,
    &WANTED_RECORD,
    &CHECK_FILE,
    &TEST_LOG,
    &SYSTEM,
    &NOTHING,
    &GIVEN_INPUT,
    &GIVEN_OUTPUT,
];
