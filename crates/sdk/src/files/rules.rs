//! The rules for files: the mode of each kind, and how it is opened. `docs/files.md` explains the words in capitals in
//! `place` (STATE, RUNTIME, KEY, …).

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
pub const EVENTS_TEMPORARY: FileRule = FileRule {
    what: "events of a session, being restored",
    place: "STATE/sessions/KEY/events.jsonl~",
    access: Access::ReadAppend,
    create: Create::IfMissing,
    removed: "renamed to events.jsonl",
    ..OURS
};

/// The record of a session, while it is written.
pub const RECORD_TEMPORARY: FileRule = FileRule {
    what: "record of a session (its key, conversation, directory and state), being written",
    place: "STATE/sessions/KEY/record.json~",
    access: Access::ReadWrite,
    create: Create::Emptied,
    removed: "renamed to record.json",
    ..OURS
};

/// The record of a session.
pub const RECORD: FileRule = FileRule {
    what: "record of a session, after it was written and renamed",
    place: "STATE/sessions/KEY/record.json",
    mode: None,
    removed: "by the user",
    ..OURS
};

/// A lock.
pub const LOCK: FileRule = FileRule {
    what: "lock of a session, a conversation or a socket's path",
    place: "STATE/sessions/KEY/lock, STATE/locks/NAME, CLAUDE_CONFIG/projects/.watari-locks/SESSION_ID",
    access: Access::ReadWrite,
    create: Create::IfMissing,
    removed: "by its holder, or by the next one",
    ..OURS
};

/// The log of a host.
pub const HOST_LOG: FileRule = FileRule {
    what: "log of a host: what it did and what went wrong",
    place: "STATE/sessions/KEY/host.log",
    access: Access::Append,
    create: Create::IfMissing,
    removed: "by the user; renamed to host.log.1 at 1 MiB",
    ..OURS
};

/// The log of a host, at a path that the user named.
pub const NAMED_LOG: FileRule = FileRule {
    what: "the same, at a path that the user named",
    place: "watari socket --log PATH",
    access: Access::Append,
    create: Create::IfMissing,
    link: Link::FollowedIfOurs,
    accepts: Accepts::RegularFileOrDevice,
    removed: "by the user; renamed to PATH.1 at 1 MiB. If another file is there, it is not overwritten: logging stops, after a line that says so",
    ..OURS
};

/// A file for the CLI, for values that are secret or long.
pub const PRIVATE_FILE: FileRule = FileRule {
    what: "MCP configuration and settings for one CLI process",
    place: "RUNTIME/private/NAME/{mcp,settings}.json",
    access: Access::ReadWrite,
    create: Create::New,
    removed: "with its folder",
    ..OURS
};

/// A program that replaces another one for one CLI process.
pub const PRIVATE_PROGRAM: FileRule = FileRule {
    what: "program that fails in the place of git (`--untrusted`)",
    place: "RUNTIME/private/NAME/git",
    mode: Some(0o700),
    ..PRIVATE_FILE
};

/// The Claude Code executable, of which the first bytes are read.
pub const PROGRAM: FileRule = FileRule {
    what: "Claude Code executable (its first bytes)",
    place: "--claude PATH, or found on the PATH",
    mode: None,
    link: Link::Any,
    removed: "never",
    ..OURS
};

/// The transcript of a conversation, which the CLI writes.
pub const TRANSCRIPT: FileRule = FileRule {
    what: "transcript of a conversation (to find the latest one and to detect other writers)",
    place: "CLAUDE_CONFIG/projects/…/SESSION_ID.jsonl",
    mode: None,
    link: Link::Any,
    removed: "never",
    ..OURS
};

/// A file with MCP servers or settings for the CLI, at a path from a user or a client.
pub const USER_CONFIG: FileRule = FileRule {
    what: "MCP servers or settings that a user or a client named",
    place: "watari socket --mcp-config FILE, `options.settings` of `start`",
    mode: None,
    link: Link::Any,
    removed: "never",
    ..OURS
};

/// A script or a scenario that a person wrote.
pub const HAND_WRITTEN: FileRule = FileRule {
    what: "script or scenario that a user named",
    place: "watari stub FILE, watari check --scenario FILE",
    mode: None,
    link: Link::Any,
    accepts: Accepts::AnythingWithoutWaiting,
    removed: "never",
    ..OURS
};

/// The record of a stub's requests, at a path that the user named.
pub const STUB_RECORDING: FileRule = FileRule {
    what: "requests that a stub received",
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
    what: "file of a scenario of `watari check`",
    place: "TMP/wt-NAME/…",
    access: Access::ReadWrite,
    create: Create::Emptied,
    removed: "with its folder",
    ..OURS
};

/// What the fake CLI and the recorder write for tests.
pub const TEST_LOG: FileRule = FileRule {
    what: "log of the fake CLI and of the recorder (only in Watari's own tests)",
    place: "named by a variable of the test",
    access: Access::Append,
    create: Create::IfMissing,
    link: Link::Any,
    accepts: Accepts::Anything,
    removed: "by the test",
    ..OURS
};

/// A file of the system.
pub const SYSTEM: FileRule =
    FileRule { what: "file of the system", place: "/proc/…", mode: None, link: Link::Any, removed: "never", ..OURS };

/// The null device.
pub const DEV_NULL: FileRule = FileRule {
    what: "null device",
    place: "/dev/null",
    mode: None,
    access: Access::ReadWrite,
    accepts: Accepts::RegularFileOrDevice,
    removed: "never",
    ..OURS
};

/// A pipe that this process has as its standard input. It is opened again, because other processes share its flags.
pub const STANDARD_INPUT: FileRule = FileRule {
    what: "standard input, if it is an unnamed pipe (opened again, so that making it non-blocking does not affect other \
           processes)",
    place: "/proc/self/fd/N",
    mode: None,
    link: Link::Any,
    accepts: Accepts::Pipe,
    removed: "never",
    ..OURS
};

/// A pipe that this process has as its standard output or error.
pub const STANDARD_OUTPUT: FileRule = FileRule {
    what: "standard output or error, if it is a pipe (opened again too)",
    access: Access::Append,
    ..STANDARD_INPUT
};

/// Every rule for files.
pub const FILES: [&FileRule; 20] = [
    &EVENTS,
    &EVENTS_TEMPORARY,
    &RECORD_TEMPORARY,
    &RECORD,
    &LOCK,
    &HOST_LOG,
    &NAMED_LOG,
    &PRIVATE_FILE,
    &PRIVATE_PROGRAM,
    &PROGRAM,
    &TRANSCRIPT,
    &USER_CONFIG,
    &HAND_WRITTEN,
    &STUB_RECORDING,
    &CHECK_FILE,
    &TEST_LOG,
    &SYSTEM,
    &DEV_NULL,
    &STANDARD_INPUT,
    &STANDARD_OUTPUT,
];
