//! Another user of the same machine, who tries to replace the files that Watari passes to the CLI.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tokio::process::Command;

use crate::common::{self, WATARI};
use crate::host::Room;

/// The user `nobody`, who has no rights.
const ANOTHER_USER: u32 = 65534;

/// Every way to replace a file: the file itself, its folder, or the folder above.
const ATTACK: &str = r#"folder=$(dirname "$1"); rm -f "$1"; echo "$2" > "$1"; mv "$folder" "$folder-moved"; mkdir "$folder";
    echo "$2" > "$1"; mv "$(dirname "$folder")" "$folder-moved"; mkdir -p "$folder"; echo "$2" > "$1""#;

/// `watari socket` in folders that others may use: only its own checks exclude them.
pub(crate) fn with_open_umask(room: &Room, flags: &[&str]) -> Command {
    with_umask("000", room, flags)
}

/// `watari socket` with this umask.
pub(crate) fn with_umask(umask: &str, room: &Room, flags: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\""), WATARI, "socket", "--cwd"])
        .arg(room.sandbox.cwd());
    command.arg("--claude").arg(&room.claude).args(flags);
    command
}

/// The same room in which another user has all the time in the world before the CLI reads the configuration of its MCP
/// servers, and puts another in its place. After that, `then` is run by a shell with the configuration's path in
/// `$file`.
pub(crate) fn attacked(room: Room, then: &str, evil: &str) -> Room {
    let attack = room.sandbox.root().join("attack");
    fs::write(&attack, ATTACK).unwrap();
    let script = format!(
        "for argument; do case $argument in --mcp-config=*) file=${{argument#--mcp-config=}};; esac; done\n\
         setpriv --reuid {ANOTHER_USER} --clear-groups sh '{}' \"$file\" '{evil}' 2>/dev/null\n\
         {then}\nexec '{}' \"$@\"",
        attack.display(),
        room.claude.display(),
    );
    let claude = common::program(&room.sandbox.root().join("attacked"), &script);
    // Every folder on the path that is not Watari's own is open to others.
    for (folder, mode) in [("", 0o755), ("home", 0o755), ("tmp", 0o1777)] {
        fs::set_permissions(room.sandbox.root().join(folder), fs::Permissions::from_mode(mode)).unwrap();
    }
    Room { claude, ..room }
}
