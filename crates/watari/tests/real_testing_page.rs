//! The page about testing without a key: what it shows is run as a reader would run it.

// Nothing in it depends on the system.
#![cfg(not(watari_portable))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use common::{Page, Programs, WATARI, names_in, need};
use serde_json::{Map, Value};
use tempfile::TempDir;
use watari_testkit::Script;
use watari_testkit::processes::none_marked_within;

/// How long a program may take: longer than the limit that those of the page set themselves.
const WITHIN: Duration = Duration::from_secs(75);

const PAGE: Page = Page("testing-without-a-key.md");

/// Where a reader tries a program of the page.
struct Reader {
    root: TempDir,
    programs: Programs,
}

impl Reader {
    fn new() -> Reader {
        let root = tempfile::Builder::new().prefix("wt-").tempdir().unwrap();
        let reader = Reader { programs: Programs::real(root.path()), root };
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
    async fn run<const COUNT: usize>(&self, command: [&str; COUNT]) -> (bool, String) {
        self.run_with(&self.programs, command).await
    }

    async fn run_with<const COUNT: usize>(&self, programs: &Programs, command: [&str; COUNT]) -> (bool, String) {
        let mut child = tokio::process::Command::new(command[0]);
        child.args(&command[1..]).current_dir(self.folder("code"));
        child.env("WATARI", &programs.watari).env("CLAUDE", &programs.claude);
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
            (self.programs.clone(), true),
            (Programs { claude: "true".into(), ..self.programs.clone() }, false),
            (Programs { watari: "there-is-no-watari".into(), ..self.programs.clone() }, false),
        ];
        for (programs, succeeds) in cases {
            let case = format!("{programs:?}");
            let (success, printed) = self.run_with(&programs, command).await;
            assert_eq!(success, succeeds, "{case}: {printed}");
            assert_eq!(names_in(&self.folder("tmp")), Vec::<OsString>::new(), "{case}");
            self.is_left_alone().await;
        }
    }

    async fn is_left_alone(&self) {
        none_marked_within(self.root.path().to_str().unwrap(), Duration::from_secs(5)).await.unwrap();
        assert_eq!(names_in(&self.folder("own")), Vec::<OsString>::new());
        self.programs.assert_nothing_above_was_run();
    }
}

#[test]
fn every_script_of_the_page_is_valid() {
    let scripts = PAGE.blocks("yaml");
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
    let (success, printed) = reader.run([WATARI, "stub", "--until-eof"]).await;
    let without_port = |text: &str| {
        let lines = text.lines().map(|line| line.split_once("127.0.0.1:").map_or(line, |(before, _)| before));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(success);
    assert_eq!(without_port(&printed), without_port(&PAGE.block("text")));
}

#[tokio::test]
async fn the_shell_program_prints_the_answer_and_keeps_a_record() {
    let reader = Reader::new();
    reader.save("try.sh", &PAGE.block("bash"));
    let (success, printed) = reader.run(["bash", "try.sh"]).await;
    assert_eq!((success, printed.as_str()), (true, "You have to buy milk.\n"));
    reader.is_left_alone().await;

    let folders = names_in(&reader.folder("tmp"));
    let record = fs::read_to_string(reader.folder("tmp").join(&folders[0]).join("requests.jsonl")).unwrap();
    let requests: Vec<Map<String, Value>> = record.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Map<String, Value> = serde_json::from_str(&PAGE.block("json")).unwrap();
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
    need("python3");
    let reader = Reader::new();
    reader.save("test_agent.py", &PAGE.block("python"));
    reader.run_test(["python3", "-W", "error", "test_agent.py"]).await;
}

#[tokio::test]
async fn the_node_program_is_a_test() {
    let reader = Reader::new();
    reader.save("agent.test.mjs", &PAGE.block("js"));
    reader.run_test(["node", "--test", "agent.test.mjs"]).await;
}

#[tokio::test]
async fn the_go_program_is_a_test() {
    need("go");
    let reader = Reader::new();
    reader.save("agent_test.go", &PAGE.block("go"));
    reader.run_test(["go", "test", "agent_test.go"]).await;
}

#[tokio::test]
async fn the_kotlin_program_is_a_test() {
    need("kotlinc");
    let reader = Reader::new();
    reader.save("AgentTest.kt", &PAGE.block("kotlin"));
    let compile = ["kotlinc", "AgentTest.kt", "-include-runtime", "-d", "test.jar"];
    let (success, printed) = reader.run(compile).await;
    assert!(success, "{printed}");
    // Java does not ask the environment where temporary files go.
    let folder = format!("-Djava.io.tmpdir={}", reader.folder("tmp").display());
    reader.run_test(["java", &folder, "-jar", "test.jar"]).await;
}
