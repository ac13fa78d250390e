//! Files that a host creates are readable only by its user, whatever the umask, and no private file remains.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod attacker;
mod common;
mod host;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use attacker::{attacked, with_open_umask, with_umask};
use common::{WATARI, names_in, output_of};
use host::{Room, WITHIN};
use rustix::process::{Pid, Signal, kill_process};
use watari_testkit::processes::children_of;

const ONE_TURN: &str = "prompt\ntext Hello\nresult\n";

/// MCP servers that are passed to the CLI in a file.
const SERVERS: &str = r#"{"mcpServers":{"mine":{"command":"true","env":{"TOKEN":"secret"}}}}"#;

/// Everything below a folder, with its mode.
fn modes_below(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for name in names_in(folder) {
        let path = folder.join(name);
        let metadata = fs::symlink_metadata(&path).unwrap();
        found.push((path.clone(), metadata.mode() & 0o777));
        if metadata.is_dir() {
            found.extend(modes_below(&path));
        }
    }
    found
}

/// The private folders of CLI processes.
fn private_folders(room: &Room) -> Vec<PathBuf> {
    let folder = room.state().join("run/private");
    if folder.exists() { names_in(&folder).into_iter().map(|name| folder.join(name)).collect() } else { Vec::new() }
}

#[tokio::test]
async fn with_an_open_umask_no_file_of_a_host_is_open_to_others() {
    let room = Room::fake(ONE_TURN);
    let host = room.start(with_open_umask(&room, &["--mcp-config", SERVERS])).await;
    let mut client = host.client_with_init().await;
    client.say("hi").await;
    client.until("done").await;
    let found = modes_below(&room.state());
    let open: Vec<_> = found.iter().filter(|(_, mode)| mode & 0o077 != 0).collect();
    assert!(open.is_empty(), "{open:?}");
    let names: Vec<_> = found.iter().filter_map(|(path, _)| path.file_name()?.to_str()).collect();
    for name in ["mcp.json", "events.jsonl", "record.json", "host.log", "lock"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    // What is for one user is not made among what is for all.
    assert_eq!(names_in(&room.sandbox.root().join("tmp")), Vec::<std::ffi::OsString>::new());
    host.stop().await;
    assert_eq!(private_folders(&room), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn with_a_closed_umask_every_file_of_a_host_has_the_mode_of_its_rule() {
    for umask in ["177", "777"] {
        let room = Room::fake(ONE_TURN);
        let log = room.sandbox.root().join("named.log");
        let flags = ["--mcp-config", SERVERS, "--log", log.to_str().unwrap()];
        let host = room.start(with_umask(umask, &room, &flags)).await;
        let mut client = host.client_with_init().await;
        client.say("hi").await;
        client.until("done").await;
        let mut found = modes_below(&room.sandbox.home().join(".local"));
        found.push((log.clone(), fs::metadata(&log).unwrap().mode() & 0o777));
        let is_wrong = |(path, mode): &&(PathBuf, u32)| *mode != if path.is_dir() { 0o700 } else { 0o600 };
        let wrong: Vec<_> = found.iter().filter(is_wrong).collect();
        assert!(found.len() > 10 && wrong.is_empty(), "umask {umask}: {wrong:#?}");
        host.stop().await;
    }
}

#[tokio::test]
async fn another_user_cannot_replace_files_for_the_cli_needs_root() {
    let room = Room::fake(ONE_TURN);
    let seen = room.sandbox.root().join("seen");
    let room = attacked(room, &format!("cp \"$file\" '{}'", seen.display()), "evil");
    let host = room.start(with_open_umask(&room, &["--mcp-config", SERVERS])).await;
    let mut client = host.client_with_init().await;
    client.say("hi").await;
    client.until("done").await;
    assert_eq!(fs::read_to_string(&seen).unwrap(), SERVERS);
    host.stop().await;
}

#[tokio::test]
async fn private_files_of_a_host_that_was_killed_with_its_supervisor_are_removed_by_the_next_start_and_by_the_doctor() {
    let room = Room::fake(ONE_TURN);
    for is_doctor in [false, true] {
        let host = room.host(&["--mcp-config", SERVERS]).await;
        host.client_with_init().await;
        let left = private_folders(&room);
        assert_eq!(left.len(), 1, "{left:?}");
        let supervisors = children_of(host.pid());
        let [supervisor] = supervisors.as_slice() else { panic!("{supervisors:?}") };
        // The host must not see the end of the other, or it would tidy up.
        host.signal(Signal::STOP);
        kill_process(Pid::from_raw(supervisor.pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
        host.kill().await;
        room.is_empty_within(Duration::from_secs(3)).await;
        assert_eq!(private_folders(&room), left);
        if is_doctor {
            let mut doctor = std::process::Command::new(WATARI);
            doctor.args(["doctor", "--claude"]).arg(&room.claude).env_clear().envs(room.sandbox.environment());
            let run = output_of(&mut doctor);
            assert!(run.stdout.contains("private files   removed the files of 1 killed session"), "{}", run.stdout);
        } else {
            room.host(&[]).await.stop().await;
        }
        assert_eq!(private_folders(&room), Vec::<PathBuf>::new());
    }
}

#[test]
fn no_file_is_removed_through_another_user_s_private_folder_needs_root() {
    let room = Room::fake(ONE_TURN);
    let root = room.sandbox.root();
    let (sticky, ours) = (root.join("sticky"), root.join("ours"));
    fs::create_dir_all(ours.join("precious")).unwrap();
    fs::create_dir_all(ours.join("17-0123456789abcdef")).unwrap();
    fs::create_dir(&sticky).unwrap();
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&sticky, fs::Permissions::from_mode(0o1777)).unwrap();
    let attack = "mkdir \"$0/watari\" && ln -s \"$1\" \"$0/watari/private\"";
    let mut attacker = std::process::Command::new("setpriv");
    attacker
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", attack])
        .args([&sticky, &ours]);
    assert!(attacker.status().unwrap().success());
    let mut doctor = std::process::Command::new(WATARI);
    doctor.args(["doctor", "--claude"]).arg(&room.claude).env_clear().envs(room.sandbox.environment());
    let run = output_of(doctor.env("XDG_RUNTIME_DIR", &sticky));
    assert!(
        run.stdout.contains("sticky/watari is owned by user 65534") && !run.stdout.contains("removed"),
        "{}",
        run.stdout
    );
    assert_eq!(names_in(&ours).len(), 2);
    // A file with another name is not Watari's, even if no other user can write there.
    let private = root.join("runtime/watari/private");
    fs::create_dir_all(private.join("precious")).unwrap();
    for folder in ["runtime", "runtime/watari", "runtime/watari/private"] {
        fs::set_permissions(root.join(folder), fs::Permissions::from_mode(0o700)).unwrap();
    }
    output_of(doctor.env("XDG_RUNTIME_DIR", root.join("runtime")));
    assert_eq!(names_in(&private), ["precious"]);
}

#[tokio::test]
async fn private_files_of_a_live_session_are_not_orphans() {
    let room = Room::fake(ONE_TURN);
    let first = room.host(&["--mcp-config", SERVERS]).await;
    first.client_with_init().await;
    let second = room.host(&["--mcp-config", SERVERS]).await;
    second.client_with_init().await;
    assert_eq!(private_folders(&room).len(), 2);
    second.stop().await;
    assert_eq!(private_folders(&room).len(), 1);
    first.stop().await;
}

#[tokio::test]
async fn a_runtime_folder_below_one_of_another_user_is_refused_needs_root() {
    let room = Room::fake(ONE_TURN);
    for is_link in [false, true] {
        let theirs = room.sandbox.root().join(format!("theirs{is_link}"));
        fs::create_dir(&theirs).unwrap();
        std::os::unix::fs::chown(&theirs, Some(65534), Some(65534)).unwrap();
        let named = if is_link { room.sandbox.root().join("link") } else { theirs.clone() };
        if is_link {
            std::os::unix::fs::symlink(&theirs, &named).unwrap();
        }
        let mut child = room.command(&[]).env("XDG_RUNTIME_DIR", &named).spawn().unwrap();
        let (code, stderr) = host::end_of(&mut child).await;
        let (named, theirs) = (named.display(), theirs.display());
        let why = format!("watari: user 65534 can replace {named}/watari: {theirs} belongs to that user: ");
        assert!(code == Some(1) && stderr.starts_with(&why), "{stderr}");
    }
}

#[tokio::test]
async fn a_runtime_folder_below_one_that_others_can_write_to_is_refused() {
    let room = Room::fake(ONE_TURN);
    let shared = room.sandbox.root().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o775)).unwrap();
    let mut command = room.command(&[]);
    let mut child = command.env("XDG_RUNTIME_DIR", &shared).spawn().unwrap();
    let (code, stderr) = tokio::time::timeout(WITHIN, host::end_of(&mut child)).await.unwrap();
    let shared = shared.display();
    assert_eq!(
        (code, stderr),
        (
            Some(1),
            format!(
                "watari: others can replace {shared}/watari: they can write to {shared} (mode 775): run `chmod go-w {shared}`, \
                 or set XDG_RUNTIME_DIR to another folder\n"
            )
        )
    );
}
