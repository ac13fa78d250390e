//! Files and folders of other users on the path of a host's files: what other users could change is refused and left
//! unchanged.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use host::{Room, WITHIN, end_of};
use rustix::fs::{CWD, Mode, XattrFlags, mkfifoat, setxattr};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader};

const ONE_TURN: &str = "prompt\ntext Hello\nresult\n";

/// The user `nobody`, who has no rights.
const ANOTHER_USER: u32 = 65534;

fn give_away(path: &Path) {
    lchown(path, Some(ANOTHER_USER), Some(ANOTHER_USER)).unwrap();
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn folder(path: PathBuf, bits: u32) -> PathBuf {
    fs::create_dir(&path).unwrap();
    mode(&path, bits);
    path
}

/// A link in the place of a path.
fn link(path: PathBuf, target: &Path) -> PathBuf {
    symlink(target, &path).unwrap();
    path
}

/// An access list by which another user may write to a folder, as the system stores it.
fn let_another_user_write(folder: &Path) -> bool {
    const NOBODY: u32 = u32::MAX;
    // The owner, the named user, the group, the mask, the others: tag, rights, user.
    let entries: [(u16, u16, u32); 5] =
        [(1, 7, NOBODY), (2, 7, ANOTHER_USER), (4, 0, NOBODY), (16, 7, NOBODY), (32, 0, NOBODY)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, user) in entries {
        list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        list.extend(user.to_le_bytes());
    }
    setxattr(folder, "system.posix_acl_access", &list, XattrFlags::empty()).is_ok()
}

/// The standard error of a refused host, with the room as ROOM, and its exit code.
async fn refusal(room: &Room, variable: &str, value: &Path, flags: &[&str]) -> String {
    let mut command = room.command(flags);
    if !variable.is_empty() {
        command.env(variable, value);
    }
    let mut child = command.spawn().unwrap();
    let mut output = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    if tokio::time::timeout(WITHIN, out.read_line(&mut output)).await.unwrap().unwrap() > 0 {
        common::signal_process(child.id().unwrap(), Signal::TERM);
        end_of(&mut child).await;
        return "the host started".to_owned();
    }
    let (code, stderr) = end_of(&mut child).await;
    format!("{stderr}exit {code:?}").replace(room.sandbox.root().to_str().unwrap(), "ROOM")
}

#[tokio::test]
async fn a_runtime_or_state_folder_is_refused_if_another_user_owns_a_part_of_its_path_needs_root() {
    let room = Room::fake(ONE_TURN);
    let root = room.sandbox.root();
    let ours = folder(root.join("ours"), 0o700);
    let sticky = folder(root.join("sticky"), 0o1777);
    // A link of theirs in the middle of a chain, in a folder in which everybody may make one.
    let middle = link(sticky.join("middle"), &ours);
    give_away(&middle);
    let chain = link(root.join("chain"), &middle);
    // A link of ours in the middle, in a folder of theirs.
    let theirs = folder(root.join("theirs"), 0o755);
    give_away(&theirs);
    let through = link(root.join("through"), &link(theirs.join("link"), &ours));
    // A link of theirs in the place of the folder itself.
    folder(ours.join("target"), 0o700);
    give_away(&link(sticky.join("watari"), &ours.join("target")));
    // A folder on the way back up.
    let back = theirs.join("../ours");
    let mut received = Vec::new();
    for variable in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME"] {
        for value in [&chain, &through, &sticky, &back] {
            received.push(refusal(&room, variable, value, &[]).await);
        }
    }
    insta::assert_snapshot!(received.join("\n"), @"
    watari: user 65534 can replace ROOM/chain/watari: ROOM/sticky/middle belongs to that user: set XDG_RUNTIME_DIR to a folder of this user's, below folders of this user's or root's
    exit Some(1)
    watari: user 65534 can replace ROOM/through/watari: ROOM/theirs belongs to that user: set XDG_RUNTIME_DIR to a folder of this user's, below folders of this user's or root's
    exit Some(1)
    watari: user 65534 can replace ROOM/sticky/watari: ROOM/sticky/watari belongs to that user: set XDG_RUNTIME_DIR to a folder of this user's, below folders of this user's or root's
    exit Some(1)
    watari: user 65534 can replace ROOM/theirs/../ours/watari: ROOM/theirs belongs to that user: set XDG_RUNTIME_DIR to a folder of this user's, below folders of this user's or root's
    exit Some(1)
    watari: user 65534 can replace ROOM/chain/watari/run: ROOM/sticky/middle belongs to that user: set XDG_STATE_HOME to a folder of this user's, below folders of this user's or root's
    exit Some(1)
    watari: user 65534 can replace ROOM/through/watari/run: ROOM/theirs belongs to that user: set XDG_STATE_HOME to a folder of this user's, below folders of this user's or root's
    exit Some(1)
    watari: user 65534 can replace ROOM/sticky/watari/run: ROOM/sticky/watari belongs to that user: set XDG_STATE_HOME to a folder of this user's, below folders of this user's or root's
    exit Some(1)
    watari: user 65534 can replace ROOM/theirs/../ours/watari/run: ROOM/theirs belongs to that user: set XDG_STATE_HOME to a folder of this user's, below folders of this user's or root's
    exit Some(1)
    ");
}

#[tokio::test]
async fn a_runtime_folder_that_an_access_list_or_a_group_opens_to_others_is_refused() {
    let room = Room::fake(ONE_TURN);
    let root = room.sandbox.root();
    let listed = folder(root.join("listed"), 0o700);
    let above = folder(root.join("above"), 0o700);
    folder(listed.join("watari"), 0o700);
    let has_access_lists = let_another_user_write(&above) && let_another_user_write(&listed.join("watari"));
    assert!(has_access_lists, "the file system of TMPDIR has no access lists: set TMPDIR to a folder that has them");
    let group = folder(root.join("group"), 0o770);
    let mut received = Vec::new();
    for value in [&above, &listed, &group] {
        received.push(refusal(&room, "XDG_RUNTIME_DIR", value, &[]).await);
    }
    insta::assert_snapshot!(received.join("\n"), @"
    watari: others can replace ROOM/above/watari: they can write to ROOM/above (mode 770): run `chmod go-w ROOM/above`, or set XDG_RUNTIME_DIR to another folder
    exit Some(1)
    watari: ROOM/listed/watari is open to others (mode 770): run `chmod 700 ROOM/listed/watari`
    exit Some(1)
    watari: others can replace ROOM/group/watari: they can write to ROOM/group (mode 770): run `chmod go-w ROOM/group`, or set XDG_RUNTIME_DIR to another folder
    exit Some(1)
    ");
}

#[tokio::test]
async fn a_runtime_folder_through_own_links_in_a_sticky_folder_works() {
    let room = Room::fake(ONE_TURN);
    let root = room.sandbox.root().to_owned();
    let ours = folder(root.join("ours"), 0o700);
    let sticky = folder(root.join("sticky"), 0o1777);
    let chain = link(root.join("chain"), &link(sticky.join("middle"), &ours));
    let room = Room { sandbox: room.sandbox.with_env("XDG_RUNTIME_DIR", chain.to_str().unwrap()), ..room };
    let host = room.host(&[]).await;
    assert_eq!(fs::metadata(ours.join("watari")).unwrap().mode() & 0o777, 0o700);
    host.stop().await;
}

#[tokio::test]
async fn a_log_is_refused_if_another_user_owns_its_file_or_a_link_in_its_path_needs_root() {
    let room = Room::fake(ONE_TURN);
    let root = room.sandbox.root();
    let precious = root.join("precious");
    fs::write(&precious, "precious").unwrap();
    let ours = folder(root.join("ours"), 0o700);
    let sticky = folder(root.join("sticky"), 0o1777);
    let file = sticky.join("file");
    fs::write(&file, "theirs").unwrap();
    give_away(&file);
    let direct = link(sticky.join("direct"), &precious);
    give_away(&direct);
    let chain = link(root.join("chain"), &direct);
    let to_new = link(sticky.join("to-new"), &root.join("new"));
    give_away(&to_new);
    let folder_link = link(sticky.join("folder"), &ours);
    give_away(&folder_link);
    let second_name = sticky.join("second-name");
    fs::hard_link(&precious, &second_name).unwrap();
    let mut received = Vec::new();
    for path in [&file, &direct, &chain, &to_new, &folder_link.join("new"), &second_name] {
        received.push(refusal(&room, "", path, &["--log", path.to_str().unwrap()]).await);
    }
    insta::assert_snapshot!(received.join("\n"), @"
    watari: cannot log to ROOM/sticky/file: user 65534 owns it; choose a file of this user
    exit Some(1)
    watari: cannot log to ROOM/sticky/direct: it is a symbolic link of user 65534; choose a file
    exit Some(1)
    watari: cannot log to ROOM/chain: it leads through ROOM/sticky/direct, a symbolic link of user 65534; choose the file itself
    exit Some(1)
    watari: cannot log to ROOM/sticky/to-new: it is a symbolic link of user 65534; choose a file
    exit Some(1)
    watari: cannot log to ROOM/sticky/folder/new: it leads through ROOM/sticky/folder, a symbolic link of user 65534; choose the file itself
    exit Some(1)
    watari: cannot log to ROOM/sticky/second-name: the file has 2 names (hard links), and another user may have created this one; choose another file
    exit Some(1)
    ");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert_eq!((root.join("new").exists(), common::names_in(&ours).len()), (false, 0));
    assert_eq!(room.sessions(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_log_through_own_links_works_and_a_path_that_is_not_a_file_is_named() {
    let room = Room::fake(ONE_TURN);
    let root = room.sandbox.root();
    let chain = link(root.join("chain"), &link(root.join("middle"), Path::new("new.log")));
    let host = room.host(&["--log", chain.to_str().unwrap()]).await;
    let log = fs::read_to_string(root.join("new.log")).unwrap();
    assert!(log.contains("the host started"), "{log}");
    assert_eq!(fs::metadata(root.join("new.log")).unwrap().mode() & 0o777, 0o600);
    host.stop().await;
    let pipe = root.join("pipe");
    mkfifoat(CWD, &pipe, Mode::from(0o600)).unwrap();
    let looped = link(root.join("loop"), &root.join("loop"));
    let mut received = Vec::new();
    for path in [root, &pipe, &looped, &root.join("new.log/x"), &root.join("nowhere/x"), Path::new("/dev/stdin")] {
        received.push(refusal(&room, "", path, &["--log", path.to_str().unwrap()]).await);
    }
    for path in ["/dev/stderr", "/proc/self/fd/1", "/dev/fd/77"] {
        received.push(refusal(&room, "", Path::new(""), &["--log", path]).await);
    }
    insta::assert_snapshot!(received.join("\n"), @"
    watari: cannot log to ROOM: it is a folder, not a file
    exit Some(1)
    watari: cannot log to ROOM/pipe: it is a pipe or a socket, not a file
    exit Some(1)
    watari: cannot log to ROOM/loop: Too many levels of symbolic links (os error 40)
    exit Some(1)
    watari: cannot log to ROOM/new.log/x: Not a directory (os error 20)
    exit Some(1)
    watari: cannot log to ROOM/nowhere/x: No such file or directory (os error 2)
    exit Some(1)
    the host started
    watari: cannot log to /dev/stderr: it is a pipe, not a file
    exit Some(1)
    watari: cannot log to /proc/self/fd/1: it is a pipe, not a file
    exit Some(1)
    watari: cannot log to /dev/fd/77: No such file or directory (os error 2)
    exit Some(1)
    ");
}

#[tokio::test]
async fn a_socket_in_a_folder_where_others_could_replace_it_is_refused_needs_root() {
    let room = Room::fake(ONE_TURN);
    let root = room.sandbox.root();
    let theirs = folder(root.join("theirs"), 0o777);
    give_away(&theirs);
    let shared = folder(root.join("shared"), 0o777);
    let ours = folder(root.join("ours"), 0o700);
    let sticky = folder(root.join("sticky"), 0o1777);
    let through = link(sticky.join("link"), &ours);
    give_away(&through);
    let mut received = Vec::new();
    for folder in [&theirs, &shared, &through] {
        let path = folder.join("s.sock");
        received.push(refusal(&room, "", folder, &["--socket", path.to_str().unwrap()]).await);
        assert_eq!(common::names_in(folder).len(), 0);
    }
    insta::assert_snapshot!(received.join("\n"), @"
    watari: user 65534 can replace ROOM/theirs/s.sock: ROOM/theirs belongs to that user: choose a path in a folder of this user's, to which no other user can write unless it is sticky
    exit Some(1)
    watari: others can replace ROOM/shared/s.sock: they can write to ROOM/shared (mode 777): choose a path in a folder of this user's, to which no other user can write unless it is sticky
    exit Some(1)
    watari: user 65534 can replace ROOM/sticky/link/s.sock: ROOM/sticky/link belongs to that user: choose a path in a folder of this user's, to which no other user can write unless it is sticky
    exit Some(1)
    ");
    let path = sticky.join("s.sock");
    room.host(&["--socket", path.to_str().unwrap()]).await.stop().await;
}
