//! The page about clients of `watari stdio`: its programs are run as a reader would run them.

// Nothing in it depends on the system.
#![cfg(not(watari_portable))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use common::{Page, Programs, names_in, need};
use watari_testkit::processes::none_marked_within;
use watari_testkit::{Sandbox, Script, StubApi};

/// How long a program of the page may take: it takes two seconds, and fails sooner.
const WITHIN: Duration = Duration::from_secs(60);

/// How long a compiler may take.
const COMPILED_WITHIN: Duration = Duration::from_secs(300);

const PAGE: Page = Page("clients/stdio.md");

/// What the page says that its programs print: the last block of plain text.
fn shown() -> String {
    PAGE.blocks("text").pop().unwrap()
}

/// What a program did.
#[derive(Debug)]
struct Run {
    success: bool,
    stdout: String,
    stderr: String,
}

/// A reader with the stub of the page, in a clean room.
struct Reader {
    _stub: StubApi,
    sandbox: Sandbox,
    programs: Programs,
}

impl Reader {
    async fn new() -> Reader {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answers.yaml");
        fs::write(&path, PAGE.block("yaml")).unwrap();
        let stub = StubApi::start(Script::load(&path).unwrap()).await.unwrap();
        let sandbox = Sandbox::new(&stub.base_url()).unwrap();
        let programs = Programs::real(sandbox.root());
        Reader { _stub: stub, sandbox, programs }
    }

    fn save(&self, name: &str, code: &str) {
        fs::write(self.sandbox.cwd().join(name), code).unwrap();
    }

    async fn run<A: AsRef<OsStr>>(&self, within: Duration, command: &[A]) -> Run {
        self.run_with(&self.programs, within, command).await
    }

    async fn run_with<A: AsRef<OsStr>>(&self, programs: &Programs, within: Duration, command: &[A]) -> Run {
        let mut child = tokio::process::Command::new(&command[0]);
        child.args(&command[1..]).current_dir(self.sandbox.cwd()).env_clear().envs(self.sandbox.environment());
        child.env("WATARI", &programs.watari).env("CLAUDE", &programs.claude);
        child.stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(within, child.output()).await;
        let output = output.unwrap_or_else(|_| panic!("it hangs")).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Run { success: output.status.success(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Nothing of any session is left, nor a folder that the program made for itself.
    async fn is_left_alone(&self) {
        none_marked_within(self.sandbox.root().to_str().unwrap(), Duration::from_secs(2)).await.unwrap();
        // The CLI has these two of its own.
        let left = names_in(self.sandbox.tmp()).into_iter().filter(|name| {
            let name = name.to_str().unwrap();
            !name.starts_with("claude-") && name != "cc-socks" && !name.starts_with("hsperfdata_")
        });
        assert_eq!(left.collect::<Vec<_>>(), Vec::<OsString>::new());
        self.programs.assert_nothing_above_was_run();
    }
}

/// Runs a program of the page with programs that do as they should and with others.
async fn try_out<A: AsRef<OsStr>>(reader: &Reader, command: &[A], prints: &str) {
    let run = reader.run(WITHIN, command).await;
    assert_eq!((run.success, run.stdout.as_str(), run.stderr.as_str()), (true, prints, ""));
    reader.is_left_alone().await;
    let others = [
        (Programs { claude: "/nowhere/claude".into(), ..reader.programs.clone() }, "Claude Code CLI not found"),
        (Programs { watari: "/nowhere/watari".into(), ..reader.programs.clone() }, "/nowhere/watari"),
        // One that says nothing and ends.
        (Programs { watari: "true".into(), ..reader.programs.clone() }, "it has ended"),
    ];
    for (programs, why) in others {
        let case = format!("{programs:?}");
        let run = reader.run_with(&programs, WITHIN, command).await;
        assert!(!run.success && run.stderr.contains(why), "{case}: {run:?}");
        reader.is_left_alone().await;
    }
}

/// The Python program, in which a part has been replaced.
fn python_with(part: &str, replacement: &str) -> String {
    let program = PAGE.block("python");
    assert_eq!(program.matches(part).count(), 1, "{part}");
    program.replace(part, replacement)
}

const PYTHON: [&str; 4] = ["python3", "-W", "error", "stdio_client.py"];

#[tokio::test]
async fn the_python_program_prints_the_output_of_the_page() {
    need("python3");
    let reader = Reader::new().await;
    reader.save("stdio_client.py", &PAGE.block("python"));
    try_out(&reader, &PYTHON, &shown()).await;
}

#[tokio::test]
async fn a_python_program_that_fails_in_the_middle_does_not_hang_and_leaves_nothing() {
    need("python3");
    let cases = [
        // In a turn, with a session that waits for an answer.
        ("show(session.messages())\n        show(session.ask(\"Now", "assert False\n        show(session.ask(\"Now"),
        // While the story is streamed.
        ("on_text=session.interrupt", "on_text=lambda: [][0]"),
        // A client that does not interrupt: the story is streamed to its end.
        ("on_text=session.interrupt", "on_text=lambda: None"),
    ];
    for (part, replacement) in cases {
        let reader = Reader::new().await;
        reader.save("stdio_client.py", &python_with(part, replacement));
        let run = reader.run(WITHIN, &PYTHON).await;
        let tells_it_whole = replacement.ends_with("None");
        assert_eq!(run.success, tells_it_whole, "{run:?}");
        assert_ne!(run.stdout, shown());
        reader.is_left_alone().await;
    }
}

/// Needs Gson, where Debian's package has it or where `WATARI_TEST_GSON` says.
#[tokio::test]
async fn the_kotlin_program_prints_the_output_of_the_page() {
    need("kotlinc");
    let gson = std::env::var("WATARI_TEST_GSON").unwrap_or_else(|_| "/usr/share/java/gson.jar".to_owned());
    let jars = format!("client.jar:{gson}");
    let reader = Reader::new().await;
    reader.save("StdioClient.kt", &PAGE.block("kotlin"));
    let compile = ["kotlinc", "StdioClient.kt", "-cp", &gson, "-include-runtime", "-d", "client.jar"];
    let run = reader.run(COMPILED_WITHIN, &compile).await;
    assert!(run.success, "{run:?}");
    // Java does not ask the environment where temporary files go.
    let folder = format!("-Djava.io.tmpdir={}", reader.sandbox.tmp().display());
    let command = ["java", &folder, "-cp", &jars, "StdioClientKt"];
    let prints = shown().replace("{'command': '", "{\"command\":\"").replace("'}", "\"}");
    let prints = prints.replace("exit code 0\n", "").replace("['list.txt']", "[list.txt]");
    try_out(&reader, &command, &prints).await;
}
