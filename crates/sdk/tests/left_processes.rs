//! Processes of a session that the program may not signal, when no supervisor knows them: they are found and reported.
//!
//! Each test starts itself again as an ordinary user. What the CLI (a script) starts becomes root with a copy of
//! `setpriv` that has the setuid bit.

#![cfg(all(target_os = "linux", not(watari_portable)))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use watari_sdk::{Client, Environment, Exit, Options, Supervisor};
use watari_testkit::processes::{children_of, marked};

/// An ordinary user, and the variable that names his folder.
const USER: u32 = 65533;
const FOLDER: &str = "LEFT_PROCESSES_FOLDER";

/// How long the end may take: a second for the process that is root, half a second for the CLI, and a margin.
const ENDED_WITHIN: Duration = Duration::from_secs(4);

/// The CLI: it starts a process that becomes root, in the way that the file `how` says, and answers the opening request.
const CLAUDE: &str = r#"#!/bin/sh
[ "$1" = --version ] && echo '2.1.325 (Claude Code)' && exit
here="${0%/*}"
( $(cat "$here/how") "$here/become-root" --reuid 0 --regid 0 --clear-groups "$here/as-root" || echo no > "$here/fifo" ) < /dev/null > /dev/null 2>&1 &
read -r is_root < "$here/fifo"
[ $is_root = yes ] || { echo 'the folder for temporary files has the mount option nosuid' >&2; exit 1; }
read -r opening
echo '{"type":"control_response","response":{"subtype":"success","request_id":"watari_1","response":{"claude_code_version":"2.1.325"}}}'
cat > /dev/null
"#;

const AS_ROOT: &str = "#!/bin/sh\necho yes > \"${0%/*}/fifo\"\nexec tail -f /dev/null\n";

const REPORTED: &str = "1: 1 process of the session could not be ended, because this user may not signal it: PID (tail \
                        -f /dev/null); run `kill -9 PID` as root, or ask an administrator to do it";

/// Runs the test with this name as the user, and returns what it printed after `left: `, with the process that is left
/// as PID.
fn as_user(test: &str, how: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (name, content) in [("claude", CLAUDE), ("as-root", AS_ROOT), ("how", how)] {
        fs::write(path(name), content).unwrap();
        fs::set_permissions(path(name), Permissions::from_mode(0o755)).unwrap();
    }
    let copies = [
        (std::env::current_exe().unwrap(), "test"),
        (PathBuf::from("/usr/bin/setpriv"), "become-root"),
        (PathBuf::from(env!("CARGO_BIN_EXE_watari-supervisor")), "supervisor"),
    ];
    for (from, name) in copies {
        assert!(Command::new("cp").arg(from).arg(path(name)).status().unwrap().success());
    }
    assert!(Command::new("mkfifo").args(["-m", "666"]).arg(path("fifo")).status().unwrap().success());
    fs::set_permissions(path("become-root"), Permissions::from_mode(0o4755)).unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    chown(folder.path(), Some(USER), Some(USER)).unwrap();

    let mut inner = Command::new("setpriv");
    let user = USER.to_string();
    inner.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).arg(path("test"));
    inner.args(["--exact", test, "--nocapture"]).env(FOLDER, folder.path()).current_dir(folder.path());
    let output = inner.output().unwrap();
    let left = marked(folder.path().to_str().unwrap());
    for left in &left {
        Command::new("kill").args(["-9", &left.pid.to_string()]).status().unwrap();
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let text = printed.lines().find_map(|line| Some(line.split_once("left: ")?.1));
    let text = text.unwrap_or_else(|| panic!("{printed}{}", String::from_utf8_lossy(&output.stderr)));
    let [left] = left.as_slice() else { panic!("{left:?}") };
    text.replace(&left.pid.to_string(), "PID")
}

/// The folder, if this is the test as it runs as the user.
fn folder_of_user() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

async fn connect(folder: &Path, supervisor: Supervisor) -> Client {
    let variables =
        [("PATH".to_owned(), std::env::var("PATH").unwrap()), (FOLDER.to_owned(), folder.display().to_string())];
    let options = Options {
        claude: Some(folder.join("claude")),
        cwd: Some(folder.to_owned()),
        environment: Environment::only(variables),
        supervisor,
        ..Options::default()
    };
    Client::connect(options).await.unwrap().0
}

#[expect(clippy::print_stdout, reason = "the test that has started this one reads it")]
async fn report(end: impl Future<Output = Exit>) {
    let exit = tokio::time::timeout(ENDED_WITHIN, end).await.unwrap();
    println!("left: {}: {}", exit.left, exit.left_text().unwrap_or_default());
}

#[tokio::test]
async fn without_a_supervisor_a_process_of_root_in_the_cli_s_group_is_reported_at_a_close_needs_root() {
    if let Some(folder) = folder_of_user() {
        return report(connect(&folder, Supervisor::None).await.close()).await;
    }
    let test = "without_a_supervisor_a_process_of_root_in_the_cli_s_group_is_reported_at_a_close_needs_root";
    assert_eq!(as_user(test, "env"), REPORTED);
}

#[tokio::test]
async fn without_a_supervisor_a_process_of_root_in_another_session_is_reported_at_an_abort_needs_root() {
    if let Some(folder) = folder_of_user() {
        return report(connect(&folder, Supervisor::None).await.abort()).await;
    }
    let test = "without_a_supervisor_a_process_of_root_in_another_session_is_reported_at_an_abort_needs_root";
    assert_eq!(as_user(test, "setsid"), REPORTED);
}

#[tokio::test]
async fn a_process_of_root_is_reported_when_the_supervisor_was_killed_needs_root() {
    if let Some(folder) = folder_of_user() {
        let client = connect(&folder, Supervisor::Program(folder.join("supervisor"))).await;
        let supervisors = children_of(std::process::id());
        let [supervisor] = supervisors.as_slice() else { panic!("{supervisors:?}") };
        assert!(Command::new("kill").args(["-9", &supervisor.pid.to_string()]).status().unwrap().success());
        return report(client.close()).await;
    }
    let test = "a_process_of_root_is_reported_when_the_supervisor_was_killed_needs_root";
    assert_eq!(as_user(test, "env"), REPORTED);
}
