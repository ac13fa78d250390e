//! `watari stub` as a test in any language meets it.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::output_of;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A stub that runs; it is ended when this is dropped.
struct Stub {
    child: Child,
    environment: BTreeMap<String, String>,
}

impl Stub {
    fn start(arguments: &[&str]) -> Stub {
        let mut command = Command::new(env!("CARGO_BIN_EXE_watari"));
        let command = command.arg("stub").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It closes its output when it has printed everything.
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let environment = lines.map(|line| line.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap());
        let environment = environment.collect();
        Stub { child, environment }
    }

    /// The address for requests to the stub itself.
    fn control(&self, what: &str) -> String {
        let url = &self.environment["WATARI_STUB_URL"];
        format!("{}/{what}", url.strip_prefix(&self.environment["ANTHROPIC_BASE_URL"]).unwrap())
    }

    /// Sends a request, and gives back the status and the body.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let address = self.environment["ANTHROPIC_BASE_URL"].strip_prefix("http://").unwrap();
        let mut connection = TcpStream::connect(address).unwrap();
        let length = body.len();
        write!(
            connection,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    /// What the model says, to a call that does not stream.
    fn model_says(&self) -> String {
        let call = json!({"model": "m", "tools": [{"name": "Bash"}], "messages": []}).to_string();
        let (_, body) = self.ask("POST", "/v1/messages", "x-api-key: secret\r\n", &call);
        serde_json::from_str::<Value>(&body).unwrap()["content"][0]["text"].as_str().unwrap_or("nothing").to_owned()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        self.child.wait().unwrap();
    }
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn it_prints_the_environment_and_answers_from_its_scripts_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let first = write(folder.path(), "first.yaml", "replies: [{text: one}, {text: two}]");
    let second = write(folder.path(), "second.json", r#"{"replies": [{"text": "three"}]}"#);
    let stub = Stub::start(&[&first, &second]);
    let names: Vec<&str> = stub.environment.keys().map(String::as_str).collect();
    insta::assert_snapshot!(names.join(" "), @"ANTHROPIC_API_KEY ANTHROPIC_BASE_URL CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC CLAUDE_CODE_MAX_RETRIES DISABLE_TELEMETRY NO_PROXY WATARI_STUB_URL no_proxy");
    assert_eq!(stub.environment["ANTHROPIC_API_KEY"], "stub");
    let printed: Vec<String> = (0..4).map(|_| stub.model_says()).collect();
    assert_eq!(printed, ["one", "two", "three", "three"]);
}

#[test]
fn no_value_of_a_header_or_parameter_is_recorded_unless_it_is_known_to_hold_no_key() {
    const KEYS: [&str; 8] = [
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "x-auth-token",
        "x-amz-security-token",
        "cf-access-client-secret",
        "cookie",
        "x-anything",
    ];
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("requests.jsonl");
    let stub = Stub::start(&["--record", record.to_str().unwrap()]);
    let headers: String = KEYS.iter().map(|name| format!("{name}: s3cr3t\r\n")).collect();
    let harmless = "anthropic-version: 2023-06-01\r\nx-stainless-lang: js\r\nproxy-authorization: stub\r\n";
    stub.ask("HEAD", "/v1/messages?beta=true&api_key=s3cr3t&key=&s3cr3t", &(headers + harmless), "");
    let recorded = std::fs::read_to_string(&record).unwrap();
    let (_, over_http) = stub.ask("GET", &stub.control("requests"), "", "");
    let request: Value = serde_json::from_str(&recorded).unwrap();
    assert!(!recorded.contains("s3cr3t") && !over_http.contains("s3cr3t"), "{recorded}{over_http}");
    KEYS.iter().for_each(|name| assert_eq!(request["headers"][name], "hidden", "{name}"));
    assert_eq!(request["path"], "/v1/messages?beta=true&api_key=hidden&key=hidden&hidden");
    let kept = ["anthropic-version", "x-stainless-lang", "proxy-authorization"].map(|name| &request["headers"][name]);
    assert_eq!(kept, ["2023-06-01", "js", "stub"]);
}

#[test]
fn requests_are_recorded_and_served_over_http_without_keys() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("requests.jsonl");
    let stub = Stub::start(&["--record", record.to_str().unwrap()]);
    stub.model_says();
    stub.ask("HEAD", "/api/hello", "authorization: Bearer secret\r\n", "");
    let lines = std::fs::read_to_string(&record).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (status, body) = stub.ask("GET", &stub.control("requests"), "", "");
    assert_eq!((status, serde_json::from_str::<Vec<Value>>(&body).unwrap()), (200, lines.clone()));
    assert_eq!(lines.iter().map(|line| &line["call"]).collect::<Vec<_>>(), ["main", "warm_up"]);
    assert_eq!(
        (&lines[0]["headers"]["x-api-key"], &lines[1]["headers"]["authorization"]),
        (&json!("hidden"), &json!("hidden"))
    );
    assert_eq!((&lines[0]["number"], &lines[0]["body"]["model"]), (&json!(1), &json!("m")));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&record).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_script_is_replaced_whole_or_not_at_all() {
    let stub = Stub::start(&[]);
    assert_eq!(stub.model_says(), "Hello!");
    let (status, body) = stub.ask("PUT", &stub.control("script"), "", "replies: [{text: other}]");
    assert_eq!((status, body.as_str(), stub.model_says().as_str()), (204, "", "other"));
    let (_, requests) = stub.ask("GET", &stub.control("requests"), "", "");
    let requests = serde_json::from_str::<Vec<Value>>(&requests).unwrap();
    assert_eq!(requests.len(), 1, "it began again");
    assert_eq!(requests[0]["number"], 2, "but numbers go on");
    let (status, body) = stub.ask("PUT", &stub.control("script"), "", "replies: [{txet: wrong}]");
    assert_eq!((status, stub.model_says().as_str()), (400, "other"));
    assert!(body.contains("the body:1:12: unknown field `txet`"), "{body}");
}

#[test]
fn a_request_without_the_secret_is_refused() {
    let stub = Stub::start(&[]);
    // Without the secret, only the API can be used.
    assert_eq!(stub.ask("PUT", "/stub/script", "", "replies: [{text: evil}]").0, 404);
    assert_eq!(stub.ask("GET", "/stub/0123456789abcdef/requests", "", "").0, 404);
    assert_eq!(stub.model_says(), "Hello!");
    assert_eq!(stub.ask("POST", "/v1/messages", "origin: https://evil.example\r\n", "{}").0, 403);
    let address = stub.environment["ANTHROPIC_BASE_URL"].strip_prefix("http://").unwrap();
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET /v1/messages HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

#[test]
fn the_record_of_a_stub_that_has_the_port_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("requests.jsonl");
    std::fs::write(&record, "from before\n").unwrap();
    let stub = Stub::start(&["--record", record.to_str().unwrap()]);
    stub.model_says();
    let port = stub.environment["ANTHROPIC_BASE_URL"].rsplit_once(':').unwrap().1;
    let mut second = Command::new(env!("CARGO_BIN_EXE_watari"));
    let second = output_of(second.args(["stub", "--port", port, "--record"]).arg(&record));
    assert_eq!(second.code, Some(1), "{}", second.stderr);
    stub.model_says();
    let lines = std::fs::read_to_string(&record).unwrap();
    let numbers: Vec<u64> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2]);
    let full = Stub::start(&["--record", "/dev/full"]);
    assert_eq!(full.ask("POST", "/v1/messages", "", "{}").0, 500, "what cannot be recorded is not answered");
}

#[test]
fn it_stops_by_a_signal_or_with_its_input() {
    for (signal, flags) in [(Signal::INT, vec![]), (Signal::TERM, vec!["--until-eof"]), (Signal::HUP, vec![])] {
        let mut stub = Stub::start(&flags);
        kill_process(Pid::from_child(&stub.child), signal).unwrap();
        assert_eq!(stub.child.wait().unwrap().code(), Some(0), "{signal:?}");
    }
    let mut stub = Stub::start(&["--until-eof"]);
    stub.child.stdin.as_mut().unwrap().write_all(b"not yet\n").unwrap();
    assert_eq!(stub.model_says(), "Hello!");
    drop(stub.child.stdin.take());
    assert_eq!(stub.child.wait().unwrap().code(), Some(0));
}

#[test]
fn each_mistake_is_reported_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let run = |arguments: &[&str]| {
        let run = output_of(Command::new(env!("CARGO_BIN_EXE_watari")).arg("stub").args(arguments));
        run.as_text(folder.path()).replace(&port, "PORT")
    };
    let wrong = write(folder.path(), "wrong.yaml", "replies:\n  - text: fine\n  - txet: wrong\n");
    let both = write(folder.path(), "both.yaml", "replies:\n  - status: 500\n    text: and a text\n");
    let runs = [
        run(&[&wrong]),
        run(&[&both]),
        run(&[folder.path().join("missing.yaml").to_str().unwrap()]),
        run(&["--port", &port]),
        run(&["--port", "70000"]),
        run(&["--record", folder.path().to_str().unwrap()]),
    ];
    insta::assert_snapshot!(runs.join("\n"), @"
    watari: invalid script: FOLDER/wrong.yaml:3:5: unknown field `txet`, expected one of thinking, text, tool, input, id, blocks, stop_reason, usage, pace_ms, chunk_chars, delay_ms, fault, status, message, body, content_type, headers
      |
    1 | replies:
    2 |   - text: fine
    3 |   - txet: wrong
      |     ^ unknown field `txet`, expected one of thinking, text, tool, input, id, blocks, stop_reason, usage, pace_ms, chunk_chars, delay_ms, fault, status, message, body, content_type, headers
    exit Some(1)

    watari: invalid script: FOLDER/both.yaml:2:5: a reply is a message or has a status, not both
      |
    1 | replies:
    2 |   - status: 500
      |     ^ a reply is a message or has a status, not both
    3 |     text: and a text
      |
    exit Some(1)

    watari: invalid script: cannot read FOLDER/missing.yaml: No such file or directory (os error 2); check the path
    exit Some(1)

    watari: port PORT of 127.0.0.1 is in use; choose another, or none for a free one
    exit Some(1)

    error: invalid value '70000' for '--port <N>': 70000 is not in 0..=65535

    For more information, try '--help'.
    exit Some(2)

    watari: cannot write to FOLDER: it is a folder, not a file; give another file
    exit Some(1)
    ");
}

/// A pipe with a name in a folder of its own.
fn named_pipe() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from(0o600)).unwrap();
    (folder, path)
}

#[test]
fn a_script_is_read_from_a_pipe_whose_writer_opens_it_later() {
    let (_folder, path) = named_pipe();
    let writer = {
        let path = path.clone();
        // Opening it waits until the stub has opened it too.
        std::thread::spawn(move || std::fs::write(path, "replies:\n  - text: Through a pipe.\n").unwrap())
    };
    let stub = Stub::start(&[path.to_str().unwrap()]);
    writer.join().unwrap();
    assert_eq!(stub.model_says(), "Through a pipe.");
}

#[test]
fn a_pipe_without_a_script_is_an_error_and_not_an_empty_script() {
    let (folder, path) = named_pipe();
    let mut command = Command::new(env!("CARGO_BIN_EXE_watari"));
    let run = output_of(command.arg("stub").arg(&path));
    insta::assert_snapshot!(run.as_text(folder.path()), @r"
    watari: invalid script: cannot read FOLDER/pipe: nothing came through the pipe for 10s; check the path
    exit Some(1)
    ");
}

#[test]
fn a_pipe_as_record_is_refused_immediately() {
    let (folder, path) = named_pipe();
    for is_read in [false, true] {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
        let _reader = is_read.then(|| rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_watari"));
        let run = output_of(command.args(["stub", "--record"]).arg(&path));
        let what = if is_read { "a pipe" } else { "a pipe or a socket" };
        let printed = run.as_text(folder.path());
        assert!(printed.contains(&format!("it is {what}, not a file")) && run.code == Some(1), "{printed}");
    }
}
