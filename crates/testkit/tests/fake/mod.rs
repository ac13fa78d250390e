//! Starts the fake CLI with a script, talks to it over plain pipes, and writes down briefly what it says.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A fake with a folder of its own.
pub(crate) struct Fake {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: BufReader<ChildStdout>,
}

impl Fake {
    /// `<folder>` in the script is the fake's folder.
    pub(crate) fn start(script: &str) -> Fake {
        Fake::start_with(script, |command| command)
    }

    pub(crate) fn start_with(script: &str, change: impl FnOnce(&mut Command) -> &mut Command) -> Fake {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        fs::write(folder.path().join("script"), script.replace("<folder>", path)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fake-claude"));
        command
            .env("FAKE_CLAUDE_SCRIPT", folder.path().join("script"))
            .env("FAKE_CLAUDE_LOG", folder.path().join("log"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = change(&mut command).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Fake { folder, child, stdin, stdout }
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line it says, which is waited for.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Ends its stdin, and gives the rest of what it says and how it ended.
    pub(crate) fn rest(mut self) -> Rest {
        drop(self.stdin.take());
        let (mut stdout, mut stderr) = (Vec::new(), String::new());
        self.stdout.read_to_end(&mut stdout).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let status = self.child.wait().unwrap();
        let ending = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit {code}"),
            (None, signal) => format!("signal {}", signal.unwrap()),
        };
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let stderr = stderr.replace(self.folder.path().to_str().unwrap(), "<folder>");
        Rest { stdout, stderr, ending, log }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

pub(crate) struct Rest {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) ending: String,
    pub(crate) log: String,
}

impl Rest {
    pub(crate) fn lines(&self) -> Vec<Value> {
        String::from_utf8_lossy(&self.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn transcript(&self) -> String {
        let said = String::from_utf8_lossy(&self.stdout);
        let mut results: Vec<String> = said.lines().map(brief).collect();
        results.extend(self.stderr.lines().map(|line| format!("stderr: {line}")));
        results.push(self.ending.clone());
        results.join("\n")
    }
}

/// What the fake says to a script when all of `stdin` is there from the start.
pub(crate) fn play(script: &str, stdin: &[String]) -> Rest {
    let mut fake = Fake::start(script);
    for line in stdin {
        // It may have ended before it read everything.
        let _written = writeln!(fake.stdin.as_mut().unwrap(), "{line}");
    }
    fake.rest()
}

pub(crate) fn prompt(text: &str) -> String {
    json!({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}}).to_string()
}

pub(crate) fn request(id: &str, subtype: &str) -> String {
    json!({"type": "control_request", "request_id": id, "request": {"subtype": subtype}}).to_string()
}

pub(crate) fn answer(id: &str, response: Value) -> String {
    let response = json!({"subtype": "success", "request_id": id, "response": response});
    json!({"type": "control_response", "response": response}).to_string()
}

/// A frame without what is the same in all of them; what is no frame as it is.
pub(crate) fn brief(line: &str) -> String {
    let Ok(Value::Object(mut frame)) = serde_json::from_str(line) else { return format!("? {line}") };
    let kind = frame.remove("type").and_then(|kind| Some(kind.as_str()?.to_owned())).unwrap_or_default();
    for common in ["uuid", "session_id", "timestamp", "parent_tool_use_id", "api_message_id", "sdk_host_only"] {
        frame.remove(common);
    }
    let frame = Value::Object(frame);
    let shown = match kind.as_str() {
        "stream_event" => match &frame["event"] {
            event if event["type"] == "content_block_delta" => format!("{} {}", event["index"], event["delta"]),
            event => format!("{} {} {}", event["type"], event["index"], event["content_block"]).replace(" null", ""),
        },
        "assistant" | "user" => frame["message"]["content"].to_string(),
        "system" if frame["subtype"] == "init" => "init".to_owned(),
        "result" => ["subtype", "is_error", "result", "terminal_reason", "num_turns", "user_message_uuids"]
            .map(|name| frame[name].to_string())
            .join(" "),
        "control_response" if frame["response"]["response"]["models"].is_array() => {
            format!("{} initialized", frame["response"]["request_id"])
        }
        _ => frame.to_string(),
    };
    format!("{kind} {shown}")
}
