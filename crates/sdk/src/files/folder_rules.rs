//! The rules for folders and sockets, for the table in the docs (`docs/files.md`), which explains the words in capitals.
//! `folders.rs` and `sockets.rs` implement the rules.

/// How one kind of folder is created. Every folder has the mode 0700, whatever the umask.
#[derive(Debug, Clone, Copy)]
pub struct FolderRule {
    /// What it is for.
    pub what: &'static str,
    /// Where it is.
    pub place: &'static str,
    /// What is checked before it is used.
    pub checked: &'static str,
    /// Who removes it, and when.
    pub removed: &'static str,
}

/// What is checked of a permanent folder.
const CHECKED: &str = "owned by this user, closed to others; the path to it is safe";

/// Every rule for folders.
pub const FOLDERS: [FolderRule; 6] = [
    FolderRule {
        what: "sessions and locks",
        place: "STATE, STATE/sessions, STATE/sessions/KEY, STATE/locks",
        checked: CHECKED,
        removed: "by the user",
    },
    FolderRule {
        what: "locks of conversations (if this folder cannot be used, they are in STATE/locks)",
        place: "CLAUDE_CONFIG/projects/.watari-locks",
        checked: CHECKED,
        removed: "by the user",
    },
    FolderRule {
        what: "sockets of live sessions",
        place: "RUNTIME",
        checked: CHECKED,
        removed: "by the system or the user",
    },
    FolderRule {
        what: "private files of one CLI process",
        place: "RUNTIME/private/NAME",
        checked: CHECKED,
        removed: "when the CLI has exited; if everything was killed, by the next start of Watari or by `watari doctor`",
    },
    FolderRule {
        what: "temporary files of `watari check` and of tests",
        place: "TMP/wt-NAME",
        checked: "new, in a folder where no other user can replace it",
        removed: "after use",
    },
    FolderRule {
        what: "CLIs fetched for `watari check`",
        place: "CACHE/claude-code",
        checked: "the path to the program is safe, and so is every file of its version; otherwise nothing is installed or run",
        removed: "by the user",
    },
];

/// How sockets are created.
pub const SOCKET: FolderRule = FolderRule {
    what: "sockets of a session: the native dialect, and that of docs/clients/socket.md (--socket PATH replaces its path)",
    place: "RUNTIME/KEY.sock, RUNTIME/KEY.agent.sock",
    checked: "an existing socket is replaced only if this user owns it and no process listens on it; the path to its folder is \
              safe; only processes of this user can connect",
    removed: "by its host, or replaced by the next host",
};
