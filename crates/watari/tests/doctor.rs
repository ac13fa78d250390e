//! `watari doctor` as a user meets it, with scripts in place of the CLI.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use watari_hub::socket::PATH_BYTES_MAX;

/// A machine with an empty home.
struct Machine {
    folder: TempDir,
    /// Variables beside HOME and PATH.
    variables: Vec<(String, String)>,
    open_files_max: u32,
}

/// The output of a run of the doctor.
struct DoctorRun {
    code: i32,
    stdout: String,
}

/// A CLI that answers everything as it should.
const HEALTHY: &str = r#"
case "$*" in
    --version) echo "2.1.325 (a script)" ;;
    "auth status") echo '{"loggedIn": true, "authMethod": "api_key"}' ;;
    *) exit 9 ;;
esac"#;

/// A process id that no process has, because it is above the highest one.
const NOBODY: u32 = 4_194_304 + 7;

impl Machine {
    fn new() -> Machine {
        // A short path, whatever TMPDIR says: a socket's path has a limit.
        let folder = tempfile::Builder::new().prefix("wd-").tempdir_in("/tmp").unwrap();
        for name in ["home", "bin"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Machine { folder, variables: Vec::new(), open_files_max: 512 }
    }

    /// A machine whose CLI runs this script.
    fn with_claude(script: &str) -> Machine {
        let machine = Machine::new();
        machine.write_program("bin/claude", &format!("#!/bin/sh\n{script}\n"));
        machine
    }

    /// A machine whose CLI prints this when it is asked for its login.
    fn with_login(answer: &str) -> Machine {
        Machine::with_claude(&format!("if [ \"$1\" = --version ]; then echo 2.1.325; else {answer}; fi"))
    }

    fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Machine {
        self.variables.push((name.into(), value.into()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn write_program(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn make_folder(&self, name: &str, mode: u32) {
        fs::create_dir_all(self.path(name)).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Runs the doctor. Unless the arguments name an owner, it looks for orphans of no process: other tests have some.
    fn doctor(&self, arguments: &[&str]) -> DoctorRun {
        let nobody = NOBODY.to_string();
        let of: &[&str] = if arguments.contains(&"--orphans-of") { &[] } else { &["--orphans-of", &nobody] };
        let output = Command::new("/bin/sh")
            .args(["-c", &format!("ulimit -n {} && exec \"$0\" doctor \"$@\"", self.open_files_max)])
            .arg(env!("CARGO_BIN_EXE_watari"))
            .args(arguments)
            .args(of)
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", self.path("bin"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stdout = stdout.replace(self.folder.path().to_str().unwrap(), "[machine]");
        DoctorRun { code: output.status.code().unwrap(), stdout }
    }

    /// All files below the home.
    fn made_at_home(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path("home")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl DoctorRun {
    /// The exit code, and the lines about one check.
    fn about(&self, check: &str) -> String {
        let is_head = |line: &str| !line.starts_with(' ');
        let of_check = |line: &str| line.get(9..).is_some_and(|rest| rest.starts_with(&format!("{check} ")));
        let mut lines = self.stdout.lines().skip_while(|line| !(is_head(line) && of_check(line)));
        let head = lines.next().unwrap_or("nothing");
        let rest: Vec<&str> = lines.take_while(|line| !is_head(line) && !line.is_empty()).collect();
        format!("exit {}\n{head}\n{}", self.code, rest.join("\n"))
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

#[test]
fn a_home_on_a_disk_without_room_is_a_warning_needs_mounts() {
    for options in ["size=16k", "nr_inodes=8"] {
        let machine = Machine::with_claude(HEALTHY);
        let mount = format!("mount -t tmpfs -o {options},mode=700 none '{}'", machine.text("home"));
        let output = Command::new("unshare")
            .args(["-m", "sh", "-c", &format!("{mount} && PATH=$BIN exec \"$@\""), "sh"])
            .args([env!("CARGO_BIN_EXE_watari"), "doctor", "--orphans-of", &NOBODY.to_string()])
            .env("HOME", machine.path("home"))
            .env("BIN", machine.path("bin"))
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("XDG_STATE_HOME")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let stdout =
            String::from_utf8(output.stdout).unwrap().replace(machine.folder.path().to_str().unwrap(), "[machine]");
        let printed = DoctorRun { code: output.status.code().unwrap(), stdout };
        let finding = printed.about("state folder").split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = "exit 0 warning state folder the disk of [machine]/home/.local/state/watari is full free space there, \
                        or set XDG_STATE_HOME to a folder on another disk";
        assert_eq!(finding, expected, "{options}");
    }
}

#[test]
fn a_healthy_machine_has_no_problem_and_nothing_is_left_on_it() {
    let machine = Machine::with_claude(HEALTHY);
    let printed = machine.doctor(&[]);
    let runtime = machine.path("home/.local/state/watari/run");
    let bytes = runtime.as_os_str().len() + "/0123456789ab.sock".len();
    let (report, _) = printed.stdout.split_once("ok       orphans").unwrap();
    let report = report.replace(&format!("{bytes} bytes of at most {PATH_BYTES_MAX}"), "[so many] bytes");
    insta::assert_snapshot!(report, @"
    ok       cli             [machine]/bin/claude
    ok       version         2.1.325 (tested: 2.1.42 to 2.1.325)
    ok       login           logged in (api_key)
    ok       state folder    [machine]/home/.local/state/watari (will be created)
    ok       runtime folder  [machine]/home/.local/state/watari/run (will be created)
    ok       socket path     [so many] bytes
    ok       open files      at most 512
    ");
    assert!(printed.stdout.ends_with("\nno problem, no warning\n"), "{}", printed.stdout);
    assert_eq!((printed.code, machine.made_at_home()), (0, Vec::new()));
}

#[test]
fn the_same_as_json() {
    let machine = Machine::with_login("exit 1");
    let printed = machine.doctor(&["--json"]);
    let mut json = printed.json();
    let findings = json["findings"].as_array_mut().unwrap();
    // These depend on the system.
    findings.retain(|finding| !["socket_path", "orphans"].contains(&finding["check"].as_str().unwrap()));
    assert!(json.as_object_mut().unwrap().remove("orphans").is_some());
    assert_eq!(printed.code, 0);
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap(), @r#"
    {
      "cli": {
        "newest_tested": "2.1.325",
        "oldest_supported": "2.1.42",
        "path": "[machine]/bin/claude",
        "searched": [
          "[machine]/bin/claude",
          "[machine]/home/.local/bin/claude",
          "[machine]/home/.claude/local/claude",
          "[machine]/home/.npm-global/bin/claude",
          "[machine]/home/node_modules/.bin/claude",
          "[machine]/home/.yarn/bin/claude",
          "/usr/local/bin/claude",
          "/opt/homebrew/bin/claude"
        ],
        "version": "2.1.325"
      },
      "findings": [
        {
          "check": "cli",
          "found": "[machine]/bin/claude",
          "level": "ok"
        },
        {
          "check": "version",
          "found": "2.1.325 (tested: 2.1.42 to 2.1.325)",
          "level": "ok"
        },
        {
          "advice": "run `claude auth status`",
          "check": "login",
          "found": "it did not report whether it is logged in (exit status: 1)",
          "level": "warning"
        },
        {
          "check": "state_folder",
          "found": "[machine]/home/.local/state/watari (will be created)",
          "level": "ok"
        },
        {
          "check": "runtime_folder",
          "found": "[machine]/home/.local/state/watari/run (will be created)",
          "level": "ok"
        },
        {
          "check": "open_files",
          "found": "at most 512",
          "level": "ok"
        }
      ]
    }
    "#);
}

#[test]
fn without_a_cli_every_searched_path_is_named() {
    // Two places are fixed, and this machine may have a CLI there.
    if ["/usr/local/bin/claude", "/opt/homebrew/bin/claude"].iter().any(|path| Path::new(path).exists()) {
        return;
    }
    let printed = Machine::new().doctor(&[]);
    assert_eq!(
        (printed.about("version"), printed.about("login")),
        ("exit 1\nnothing\n".into(), "exit 1\nnothing\n".into())
    );
    insta::assert_snapshot!(printed.about("cli"), @"
    exit 1
    problem  cli             there is no executable `claude` in the search path and the usual places:
                               [machine]/bin/claude
                               [machine]/home/.local/bin/claude
                               [machine]/home/.claude/local/claude
                               [machine]/home/.npm-global/bin/claude
                               [machine]/home/node_modules/.bin/claude
                               [machine]/home/.yarn/bin/claude
                               /usr/local/bin/claude
                               /opt/homebrew/bin/claude
                             install it with `npm install -g @anthropic-ai/claude-code`, or give its path with --claude
    ");
}

#[test]
fn a_wrong_path_is_reported_with_the_reason() {
    let machine = Machine::new();
    fs::write(machine.path("plain"), "#!/bin/sh\n").unwrap();
    machine.write_program("damaged", "\x7fELF and no more");
    let about = |name: &str| machine.doctor(&["--claude", &machine.text(name)]).about("cli");
    insta::assert_snapshot!(["missing", "bin", "plain", "damaged"].map(about).join("\n"), @"
    exit 1
    problem  cli             there is nothing at [machine]/missing
                             check the path
    exit 1
    problem  cli             [machine]/bin is a directory
                             give the path of the program itself
    exit 1
    problem  cli             [machine]/plain is not executable
                             make it executable: `chmod +x [machine]/plain`
    exit 1
    problem  cli             [machine]/damaged is not a program
                             it may be damaged or partially installed; install it again
    ");
}

#[test]
fn an_old_cli_is_a_problem_and_gets_no_further_question() {
    let machine = Machine::with_claude("[ \"$*\" = --version ] && echo 2.1.41 || touch \"$HOME/asked\"");
    let printed = machine.doctor(&[]);
    insta::assert_snapshot!(printed.about("version"), @"
    exit 1
    problem  version         2.1.41 is too old; the oldest supported version is 2.1.42
                             update it with `claude update`
    ");
    assert_eq!((printed.about("login"), machine.made_at_home()), ("exit 1\nnothing\n".into(), Vec::new()));
}

#[test]
fn a_new_cli_is_a_warning() {
    let machine = Machine::with_claude(&HEALTHY.replace("2.1.325", "2.2.0-beta.1"));
    insta::assert_snapshot!(machine.doctor(&[]).about("version"), @"
    exit 0
    warning  version         2.2.0-beta.1 is untested; the newest tested version is 2.1.325
                             it may work; run `watari check` to see what has changed
    ");
}

#[test]
fn a_cli_that_cannot_run_is_reported_with_the_reason() {
    let machine = Machine::new();
    machine.write_program("bin/claude", "#!/nowhere/node\n");
    machine.write_program("broken", "#!/bin/sh\nprintf 'first\\n\\033[31msecond' >&2; exit 3\n");
    machine.write_program("odd", "#!/bin/sh\necho hello\n");
    let about = |name: &str| machine.doctor(&["--claude", &machine.text(name)]).about("version");
    insta::assert_snapshot!(["bin/claude", "broken", "odd"].map(about).join("\n"), @r"
    exit 1
    problem  version         it cannot be run: No such file or directory (os error 2)
                             it may be damaged or built for another machine; install it again
    exit 1
    problem  version         it did not report its version (exit status: 3); stderr: first \u{1b}[31msecond
                             run it with --version, or install it again
    exit 1
    problem  version         it did not report its version (exit status: 0)
                             run it with --version, or install it again
    ");
}

#[test]
fn a_cli_that_hangs_is_terminated_and_leaves_nothing() {
    let machine = Machine::with_claude("echo 'waiting for a dog' >&2; sleep 60; echo 2.1.325");
    // With `ps`, by which processes are found where there is nothing better.
    let search_path = format!("{}:/usr/bin:/bin", machine.text("bin"));
    let machine = machine.set("PATH", search_path);
    insta::assert_snapshot!(machine.doctor(&[]).about("version"), @"
    exit 1
    problem  version         it did not report its version within 5 seconds; stderr: waiting for a dog
                             run it with --version and see what it waits for
    ");
    let left = watari_testkit::processes::marked(machine.folder.path().to_str().unwrap());
    assert_eq!(left, []);
}

#[test]
fn the_login_is_reported_without_the_account() {
    let all = r#"{"loggedIn": true, "authMethod": "claude.ai", "email": "ann@example.com", "orgName": "Acme"}"#;
    let machine = Machine::with_login(&format!("echo '{all}'; echo ann@example.com >&2"));
    let printed = machine.doctor(&[]);
    insta::assert_snapshot!(printed.about("login"), @"
    exit 0
    ok       login           logged in (claude.ai)
    ");
    for text in [printed.stdout, machine.doctor(&["--json"]).stdout] {
        assert!(!text.contains("ann@") && !text.contains("Acme"), "{text}");
    }
}

#[test]
fn no_login_is_a_problem_and_an_answer_that_cannot_be_read_a_warning() {
    let about = |answer: &str| Machine::with_login(answer).doctor(&[]).about("login");
    let no = r#"echo '{"loggedIn": false, "authMethod": "none"}'; exit 1"#;
    insta::assert_snapshot!([no, "echo 'ask me later'", "echo secret >&2; exit 4"].map(about).join("\n"), @"
    exit 1
    problem  login           not logged in
                             run `claude` once and log in, or set ANTHROPIC_API_KEY
    exit 0
    warning  login           it did not report whether it is logged in (exit status: 0)
                             run `claude auth status`
    exit 0
    warning  login           it did not report whether it is logged in (exit status: 4)
                             run `claude auth status`
    ");
}

#[test]
fn nothing_of_the_working_directory_is_asked() {
    let machine = Machine::with_login(r#"[ "$PWD" = / ] && echo '{"loggedIn": true}'"#);
    insta::assert_snapshot!(machine.doctor(&[]).about("login"), @"
    exit 0
    ok       login           logged in
    ");
}

#[test]
fn a_socket_path_that_is_too_long_is_a_problem() {
    let machine = Machine::with_claude(HEALTHY).set("XDG_RUNTIME_DIR", format!("/tmp/{}", "x".repeat(100)));
    let printed = machine.doctor(&[]).about("socket path");
    let printed = printed.replace("at most 102", "at most 106").replace("at most 77", "at most 81");
    insta::assert_snapshot!(printed, @"
    exit 1
    problem  socket path     a socket's path would have 130 bytes, but at most 106 are allowed
                             set XDG_RUNTIME_DIR to a path of at most 81 bytes
    ");
}

#[test]
fn folders_that_are_open_to_others_are_reported() {
    let machine = Machine::with_claude(HEALTHY);
    machine.make_folder("home/.local/state/watari", 0o750);
    machine.make_folder("run/watari", 0o711);
    let machine = machine.set("XDG_STATE_HOME", "not/absolute");
    let runtime = machine.text("run");
    let machine = machine.set("XDG_RUNTIME_DIR", runtime);
    let printed = machine.doctor(&[]);
    insta::assert_snapshot!(format!("{}\n{}", printed.about("state folder"), printed.about("runtime folder")), @"
    exit 1
    warning  state folder    [machine]/home/.local/state/watari is open to others (mode 750)
                             run `chmod 700 [machine]/home/.local/state/watari`
    exit 1
    problem  runtime folder  [machine]/run/watari is open to others (mode 711)
                             run `chmod 700 [machine]/run/watari`
    ");
    machine.make_folder("home/.local/state/watari", 0o700);
    machine.make_folder("run/watari", 0o700);
    let printed = machine.doctor(&[]);
    insta::assert_snapshot!(format!("{}\n{}", printed.about("state folder"), printed.about("runtime folder")), @"
    exit 0
    ok       state folder    [machine]/home/.local/state/watari

    exit 0
    ok       runtime folder  [machine]/run/watari
    ");
}

#[test]
fn the_folders_of_locks_and_private_files_are_checked_and_orphans_removed() {
    let machine = Machine::with_claude(HEALTHY);
    let (state, run) = ("home/.local/state/watari", "home/.local/state/watari/run");
    let (locks, private) = (format!("{state}/locks"), format!("{run}/private"));
    let orphan = machine.path(&locks).join("0f0e0d0c-0b0a-4908-8706-050403020100");
    for folder in [state, run] {
        machine.make_folder(folder, 0o700);
    }
    machine.make_folder(&locks, 0o770);
    machine.make_folder(&private, 0o755);
    fs::write(&orphan, "watari stdio, process 17").unwrap();
    let about = |printed: &DoctorRun| {
        ["locks folder", "private folder", "lock files"].map(|check| printed.about(check)).join("\n")
    };
    insta::assert_snapshot!(about(&machine.doctor(&[])), @"
    exit 1
    problem  locks folder    [machine]/home/.local/state/watari/locks is open to others (mode 770)
                             run `chmod 700 [machine]/home/.local/state/watari/locks`
    exit 1
    problem  private folder  [machine]/home/.local/state/watari/run/private is open to others (mode 755)
                             run `chmod 700 [machine]/home/.local/state/watari/run/private`
    exit 1
    nothing
    ");
    assert!(orphan.exists());
    machine.make_folder(&locks, 0o700);
    machine.make_folder(&private, 0o700);
    insta::assert_snapshot!(about(&machine.doctor(&[])), @"
    exit 0
    ok       locks folder    [machine]/home/.local/state/watari/locks

    exit 0
    ok       private folder  [machine]/home/.local/state/watari/run/private

    exit 0
    ok       lock files      removed the files of 1 killed session
    ");
    assert!(!orphan.exists());
    let foreign = machine.path(&locks).join("notes");
    fs::write(&foreign, "").unwrap();
    insta::assert_snapshot!(machine.doctor(&[]).about("lock files"), @"
    exit 0
    warning  lock files      1 item in [machine]/home/.local/state/watari/locks that Watari did not create
                             find out who put it there, and remove it
    ");
    assert!(foreign.exists());
}

#[test]
fn folders_that_cannot_be_created_are_reported() {
    let machine = Machine::with_claude(HEALTHY);
    fs::write(machine.path("file"), "").unwrap();
    std::os::unix::fs::symlink(machine.path("missing"), machine.path("link")).unwrap();
    let (state, runtime) = (machine.text("file/state"), machine.text("link"));
    let machine = machine.set("XDG_STATE_HOME", state).set("XDG_RUNTIME_DIR", runtime);
    let printed = machine.doctor(&[]);
    insta::assert_snapshot!(format!("{}\n{}", printed.about("state folder"), printed.about("runtime folder")), @"
    exit 1
    problem  state folder    [machine]/file/state/watari cannot be used: [machine]/file is not a folder
                             move it away, or set XDG_STATE_HOME to another folder
    exit 1
    problem  runtime folder  [machine]/link/watari cannot be created: [machine]/link is a dangling symbolic link
                             remove that link, or set XDG_RUNTIME_DIR to another folder
    ");
}

#[test]
fn a_cli_that_another_user_could_replace_is_a_warning() {
    let machine = Machine::with_claude(HEALTHY);
    let bin = machine.path("bin");
    fs::set_permissions(&bin, fs::Permissions::from_mode(0o777)).unwrap();
    let mut received = vec![machine.doctor(&[]).about("cli")];
    fs::set_permissions(&bin, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(bin.join("claude"), fs::Permissions::from_mode(0o775)).unwrap();
    received.push(machine.doctor(&[]).about("cli"));
    insta::assert_snapshot!(received.join("\n"), @"
    exit 0
    warning  cli             others can replace [machine]/bin/claude: they can write to [machine]/bin (mode 777)
                             remove that permission, or use a Claude Code that only this user or root can change
    exit 0
    warning  cli             others can replace [machine]/bin/claude: they can write to [machine]/bin/claude (mode 775)
                             remove that permission, or use a Claude Code that only this user or root can change
    ");
}

#[test]
fn an_unusable_folder_is_reported_with_the_variable_that_sets_its_path() {
    let machine = Machine::with_claude(HEALTHY);
    fs::write(machine.path("file"), "").unwrap();
    let state = machine.text("file/state");
    let printed = machine.set("XDG_STATE_HOME", state).doctor(&[]);
    insta::assert_snapshot!(format!("{}\n{}", printed.about("state folder"), printed.about("runtime folder")), @"
    exit 1
    problem  state folder    [machine]/file/state/watari cannot be used: [machine]/file is not a folder
                             move it away, or set XDG_STATE_HOME to another folder
    exit 1
    problem  runtime folder  [machine]/file/state/watari/run cannot be used: [machine]/file is not a folder
                             move it away, or set XDG_STATE_HOME to another folder
    ");
}

#[test]
fn without_a_home_there_is_no_folder() {
    let machine = Machine::with_claude(HEALTHY).set("HOME", "");
    let printed = machine.doctor(&[]);
    insta::assert_snapshot!(format!("{}\n{}", printed.about("state folder"), printed.about("runtime folder")), @"
    exit 1
    problem  state folder    neither XDG_STATE_HOME nor HOME is an absolute path
                             set HOME to an absolute path
    exit 1
    problem  runtime folder  neither XDG_RUNTIME_DIR nor HOME is an absolute path
                             set HOME to an absolute path
    ");
}

#[test]
fn few_open_files_are_a_warning() {
    let machine = Machine { open_files_max: 100, ..Machine::with_claude(HEALTHY) };
    insta::assert_snapshot!(machine.doctor(&[]).about("open files"), @"
    exit 0
    warning  open files      at most 100, which is few for several sessions
                             raise it with `ulimit -n 1024` in the shell that starts watari
    ");
}

#[cfg(all(target_os = "linux", not(watari_portable)))]
mod orphans {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Child;

    use super::*;

    /// A process that carries the marks of sessions with these owners, until it is dropped.
    struct Marked(Child);

    impl Marked {
        fn start(owners: &[u32]) -> Marked {
            let marks = owners.iter().map(|owner| (format!("WATARI_SESSION_{owner}_ab"), "1"));
            Marked(Command::new("sleep").arg("600").envs(marks).spawn().unwrap())
        }

        fn is_alive(&mut self) -> bool {
            self.0.try_wait().unwrap().is_none()
        }
    }

    impl Drop for Marked {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    fn orphans_of(owner: u32, machine: &Machine, arguments: &[&str]) -> DoctorRun {
        machine.doctor(&[&["--orphans-of", &owner.to_string()], arguments].concat())
    }

    /// Without what an ordinary user's doctor says about processes that it cannot check.
    fn without_limits(printed: &str) -> String {
        let limits = " of this user's (what runs as another user, for example after sudo, cannot be checked)";
        assert_eq!(printed.contains(limits), !rustix::process::geteuid().is_root(), "{printed}");
        printed.replace(limits, "")
    }

    fn without_pid(printed: &str, process: &Child) -> String {
        printed.replace(&format!(" {} ", process.id()), " [pid] ")
    }

    #[test]
    fn orphans_of_a_killed_session_are_listed_and_terminated_on_request() {
        let machine = Machine::with_claude(HEALTHY);
        let owner = NOBODY + 1;
        let mut left = Marked::start(&[owner]);

        let printed = orphans_of(owner, &machine, &[]).about("orphans");
        insta::assert_snapshot!(without_pid(&printed, &left.0), @"
        exit 0
        warning  orphans         1 process of sessions whose owner was killed:
                                   [pid] sleep 600
                                 terminate them with `watari doctor --terminate-orphans`
        ");
        assert!(left.is_alive());

        let printed = orphans_of(owner, &machine, &["--json"]).json();
        assert_eq!(printed["orphans"][0]["owners"], serde_json::json!([owner]));
        assert_eq!(printed["orphans"][0]["terminated"], false);

        let printed = orphans_of(owner, &machine, &["--terminate-orphans"]).about("orphans");
        insta::assert_snapshot!(without_pid(&printed, &left.0), @"
        exit 0
        ok       orphans         terminated 1 process of sessions whose owner was killed:
                                   [pid] sleep 600
        ");
        assert_eq!(left.0.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn the_name_of_an_orphan_cannot_harm_the_terminal() {
        let machine = Machine::with_claude(HEALTHY);
        let owner = NOBODY + 2;
        let script = format!("read -r line # \x1b]0;gotcha\x07 \u{202e} {}", "x".repeat(100));
        let mut left = Command::new("/bin/sh")
            .args(["-c", &script])
            .env(format!("WATARI_SESSION_{owner}_ab"), "1")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let printed = orphans_of(owner, &machine, &[]).about("orphans");
        drop(left.stdin.take());
        left.wait().unwrap();
        insta::assert_snapshot!(without_pid(&printed, &left), @"
        exit 0
        warning  orphans         1 process of sessions whose owner was killed:
                                   [pid] /bin/sh -c read -r line # �]0;gotcha� � xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
                                 terminate them with `watari doctor --terminate-orphans`
        ");
    }

    #[test]
    fn processes_of_a_live_session_are_not_orphans() {
        let machine = Machine::with_claude(HEALTHY);
        let owner = Marked::start(&[]);
        let (alive, dead) = (owner.0.id(), NOBODY + 3);
        let mut kept = [Marked::start(&[alive]), Marked::start(&[alive, dead]), Marked::start(&[dead, alive])];
        for owner in [alive, dead] {
            let printed = orphans_of(owner, &machine, &["--terminate-orphans"]).about("orphans");
            assert_eq!(without_limits(&printed), "exit 0\nok       orphans         none\n");
        }
        assert!(kept.iter_mut().all(Marked::is_alive));
    }

    #[test]
    fn the_session_that_runs_the_doctor_has_no_orphans() {
        let owner = NOBODY + 4;
        let mut kept = Marked::start(&[owner]);
        let machine = Machine::with_claude(HEALTHY).set(format!("WATARI_SESSION_{owner}_ab"), "1");
        let printed = orphans_of(owner, &machine, &["--terminate-orphans"]).about("orphans");
        assert_eq!(without_limits(&printed), "exit 0\nok       orphans         none\n");
        assert!(kept.is_alive());
    }
}

#[cfg(not(all(target_os = "linux", not(watari_portable))))]
#[test]
fn unreadable_marks_of_processes_are_reported() {
    let machine = Machine::with_claude(HEALTHY);
    insta::assert_snapshot!(machine.doctor(&["--terminate-orphans"]).about("orphans"), @"
    exit 0
    ok       orphans         cannot detect orphaned processes: this system hides other processes' environments
    ");
    assert_eq!(machine.doctor(&["--json"]).json()["orphans"], Value::Null);
}
