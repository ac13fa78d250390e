//! The rules for folders and sockets, for the table in the docs. `folders.rs` and `sockets.rs` keep them.

/// How one kind of folder is made. All have the mode 0700, whatever the umask.
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

/// What is checked of a folder that stays.
const CHECKED: &str = "a folder of this user's, closed to others; every folder and link on the way from the root to it is this \
                       user's or root's, and no other user may write to these folders (unless they are sticky)";

/// Every rule for folders.
pub const FOLDERS: [FolderRule; 6] = [
    FolderRule {
        what: "sessions and locks",
        place: "STATE, STATE/sessions, STATE/sessions/KEY, STATE/locks",
        checked: CHECKED,
        removed: "by the user",
    },
    FolderRule {
        what: "locks of conversations; if it cannot be used, they are in STATE/locks",
        place: "CLAUDE/projects/.watari-locks",
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
        removed: "when the process has ended, by its supervisor or its owner; when both were killed, by the next start or `watari doctor`",
    },
    FolderRule {
        what: "temporary files of `watari check` and of tests",
        place: "TMP/wt-NAME",
        checked: "new, in a folder in which no other user can replace it",
        removed: "when it is no longer needed",
    },
    FolderRule {
        what: "CLIs fetched for `watari check`",
        place: "CACHE/claude-code",
        checked: "every folder and link from the root to the program, and everything in the install of its version, is this user's or \
                  root's, and no other user may write to it (unless it is a sticky folder); else nothing is installed or run",
        removed: "by the user",
    },
];

/// How sockets are made.
pub const SOCKET: FolderRule = FolderRule {
    what: "sockets of a session",
    place: "RUNTIME/KEY.sock, RUNTIME/KEY.agent.sock, watari socket --socket PATH",
    checked: "mode 0600 from the first moment; a socket in its place is replaced only if it is this user's and nobody listens; \
              looked at without waiting; its folder is checked as those of Watari are, but may be open to reading, or sticky; the system says who connects, and only this user may",
    removed: "by its host, or replaced by the next one",
};
