//! The page about testing without a key: what it shows is run as a reader would run it.

// Nothing in it depends on the system.
#![cfg(not(watari_portable))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Map, Value};
use tempfile::TempDir;
use watari_testkit::Script;
use watari_testkit::claude::pinned_claude;
use watari_testkit::processes::none_marked_within;

const WATARI: &str = env!("CARGO_BIN_EXE_watari");

/// How long a program may take: longer than the limit that those of the page set themselves.
const WITHIN: Duration = Duration::from_secs(75);

/// The code blocks of the page in this language.
fn blocks(language: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/testing-without-a-key.md");
    let page = fs::read_to_string(page).unwrap();
    let fenced = page.split("\n```").skip(1).step_by(2);
    fenced
        .filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'))
        .map(|code| format!("{code}\n"))
        .collect()
}

/// The only code block of the page in this language.
fn block(language: &str) -> String {
    let [block] = blocks(language).try_into().unwrap_or_else(|found: Vec<_>| panic!("{} of {language}", found.len()));
    block
}

/// The programs that those of the page start.
#[derive(Debug)]
struct Programs {
    watari: OsString,
    claude: OsString,
}

impl Programs {
    fn real() -> Programs {
        Programs { watari: WATARI.into(), claude: pinned_claude().into() }
    }
}

/// Where a reader tries a program of the page.
struct Reader {
    root: TempDir,
}

impl Reader {
    fn new() -> Reader {
        let reader = Reader { root: tempfile::Builder::new().prefix("wt-").tempdir().unwrap() };
        for name in ["code", "tmp", "own"] {
            fs::create_dir(reader.folder(name)).unwrap();
        }
        reader
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn save(&self, name: &str, code: &str) {
        fs::write(self.folder("code").join(name), code).unwrap();
    }

    /// Runs a command of the page: whether it succeeds, and what it prints.
    async fn run<const COUNT: usize>(&self, programs: Programs, command: [&str; COUNT]) -> (bool, String) {
        let mut child = tokio::process::Command::new(command[0]);
        child.args(&command[1..]).current_dir(self.folder("code"));
        child.env("WATARI", programs.watari).env("CLAUDE", programs.claude);
        // The reader's own login and settings, which no test may touch.
        child.env("CLAUDE_CONFIG_DIR", self.folder("own")).env("TMPDIR", self.folder("tmp"));
        // Nobody listens there, and the loopback needs no proxy.
        child.env("http_proxy", "http://127.0.0.1:9").env("HTTP_PROXY", "http://127.0.0.1:9");
        child.stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(WITHIN, child.output()).await.unwrap_or_else(|_| panic!("it hangs")).unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
    }

    /// Runs a test of the page. It succeeds with programs that do as they should and fails with others, and it leaves
    /// nothing behind.
    async fn run_test<const COUNT: usize>(&self, command: [&str; COUNT]) {
        let cases = [
            (Programs::real(), true),
            (Programs { claude: "true".into(), ..Programs::real() }, false),
            (Programs { watari: "there-is-no-watari".into(), ..Programs::real() }, false),
        ];
        for (programs, succeeds) in cases {
            let case = format!("{programs:?}");
            let (success, printed) = self.run(programs, command).await;
            assert_eq!(success, succeeds, "{case}: {printed}");
            assert_eq!(names_in(&self.folder("tmp")), Vec::<OsString>::new(), "{case}");
            self.is_left_alone().await;
        }
    }

    async fn is_left_alone(&self) {
        none_marked_within(self.root.path().to_str().unwrap(), Duration::from_secs(5)).await.unwrap();
        assert_eq!(names_in(&self.folder("own")), Vec::<OsString>::new());
    }
}

fn names_in(folder: &Path) -> Vec<OsString> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// Whether this program is on the `PATH`; says so if not.
#[expect(clippy::print_stderr, reason = "who runs the tests should know what was not tested")]
fn is_installed(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|folder| folder.join(program).is_file());
    if !found {
        eprintln!("{program} is not on the PATH: its program of the page was not run");
    }
    found
}

#[test]
fn every_script_of_the_page_is_one() {
    let scripts = blocks("yaml");
    assert!(scripts.len() > 5, "only {} scripts were found", scripts.len());
    let folder = tempfile::tempdir().unwrap();
    for script in scripts {
        let path = folder.path().join("script.yaml");
        fs::write(&path, &script).unwrap();
        if let Err(error) = Script::load(&path) {
            panic!("{error}\n{script}");
        }
    }
}

#[tokio::test]
async fn the_variables_of_the_page_are_those_that_are_printed() {
    let reader = Reader::new();
    let (success, printed) = reader.run(Programs::real(), [WATARI, "stub", "--until-eof"]).await;
    let without_port = |text: &str| {
        let lines = text.lines().map(|line| line.split_once("127.0.0.1:").map_or(line, |(before, _)| before));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(success);
    assert_eq!(without_port(&printed), without_port(&block("text")));
}

#[tokio::test]
async fn the_shell_program_prints_the_answer_and_keeps_a_record() {
    let reader = Reader::new();
    reader.save("try.sh", &block("bash"));
    let (success, printed) = reader.run(Programs::real(), ["bash", "try.sh"]).await;
    assert_eq!((success, printed.as_str()), (true, "You have to buy milk.\n"));
    reader.is_left_alone().await;

    let folders = names_in(&reader.folder("tmp"));
    let record = fs::read_to_string(reader.folder("tmp").join(&folders[0]).join("requests.jsonl")).unwrap();
    let requests: Vec<Map<String, Value>> = record.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Map<String, Value> = serde_json::from_str(&block("json")).unwrap();
    let second = &requests[1];
    assert_eq!(shown.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for name in ["number", "call", "method", "path"] {
        assert_eq!(shown[name], second[name]);
    }
    for (name, value) in shown["headers"].as_object().unwrap() {
        assert_eq!(second["headers"][name], *value);
    }
    assert!(second["body"].to_string().contains(r#""content":"milk, two bottles""#));
}

#[tokio::test]
async fn the_python_program_is_a_test() {
    if !is_installed("python3") {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "there must be a python3");
        return;
    }
    let reader = Reader::new();
    reader.save("test_agent.py", &block("python"));
    reader.run_test(["python3", "-W", "error", "test_agent.py"]).await;
}

#[tokio::test]
async fn the_node_program_is_a_test() {
    let reader = Reader::new();
    reader.save("agent.test.mjs", &block("js"));
    reader.run_test(["node", "--test", "agent.test.mjs"]).await;
}

#[tokio::test]
async fn the_go_program_is_a_test() {
    if !is_installed("go") {
        return;
    }
    let reader = Reader::new();
    reader.save("agent_test.go", &block("go"));
    reader.run_test(["go", "test", "agent_test.go"]).await;
}

#[tokio::test]
async fn the_kotlin_program_is_a_test() {
    if !is_installed("kotlinc") {
        return;
    }
    let reader = Reader::new();
    reader.save("AgentTest.kt", &block("kotlin"));
    let compile = ["kotlinc", "AgentTest.kt", "-include-runtime", "-d", "test.jar"];
    let (success, printed) = reader.run(Programs::real(), compile).await;
    assert!(success, "{printed}");
    // Java does not ask the environment where temporary files go.
    let folder = format!("-Djava.io.tmpdir={}", reader.folder("tmp").display());
    reader.run_test(["java", &folder, "-jar", "test.jar"]).await;
}
