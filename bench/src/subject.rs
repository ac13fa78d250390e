//! Who is measured: how each is started, and the words in which it is talked with.

use std::path::{Path, PathBuf};
use std::process::Command;

use memchr::memmem;

/// Who stands between the client and the CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// `watari stdio`.
    Watari,
    /// A bridge on the official SDK for Node.
    Node,
    /// Copies bytes both ways and understands nothing: what the pipes and the scheduler cost by themselves.
    Splice,
}

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The program `watari`.
    pub watari: PathBuf,
    /// The CLI that all of them start.
    pub fake_claude: PathBuf,
    /// The Node bridge, installed; none if it is not measured.
    pub node_bridge: Option<PathBuf>,
    /// This program, which is also the splice.
    pub bench: PathBuf,
}

/// What a line says, as far as the bench cares.
#[derive(Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// It can be talked to.
    Ready,
    /// The session has begun.
    Init,
    /// Text arrived.
    Delta(&'a [u8]),
    /// A whole message of the model.
    Message,
    /// A tool is asked for, by this name of the request.
    Permission(&'a [u8]),
    /// A turn is over.
    TurnEnded,
    /// It failed.
    Failed,
    /// Anything else.
    Other,
}

/// The argument that makes this program the splice.
pub const SPLICE: &str = "__splice";

impl Subject {
    /// All of them, in the order of the table.
    pub const ALL: [Subject; 3] = [Subject::Watari, Subject::Node, Subject::Splice];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Watari => "watari",
            Subject::Node => "Node",
            Subject::Splice => "splice",
        }
    }

    /// Its command line; none if it is not installed.
    pub fn command(self, programs: &Programs) -> Option<Command> {
        let mut command = match self {
            Subject::Watari => Command::new(&programs.watari),
            Subject::Node => Command::new("node"),
            Subject::Splice => Command::new(&programs.bench),
        };
        // Nothing is inherited but the way to programs.
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        match self {
            Subject::Watari => command.arg("stdio").arg("--claude").arg(&programs.fake_claude),
            Subject::Node => command.arg(programs.node_bridge.as_ref()?).env("BENCH_CLAUDE", &programs.fake_claude),
            Subject::Splice => command.arg(SPLICE).arg(&programs.fake_claude),
        };
        Some(command)
    }

    /// Whether it says that it can be talked to. The splice has nothing to say of its own.
    pub fn says_ready(self) -> bool {
        match self {
            Subject::Watari | Subject::Node => true,
            Subject::Splice => false,
        }
    }

    /// The lines that begin a session with its first prompt.
    pub fn start(self, cwd: &Path) -> String {
        match self {
            Subject::Watari | Subject::Node => {
                let cwd = cwd.display();
                format!(r#"{{"type":"start","prompt":"go","options":{{"cwd":"{cwd}","permissionMode":"default"}}}}"#)
                    + "\n"
            }
            Subject::Splice => {
                let initialize = r#"{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}"#;
                format!("{initialize}\n{}", self.prompt())
            }
        }
    }

    /// The line of another prompt.
    pub fn prompt(self) -> &'static str {
        match self {
            Subject::Watari | Subject::Node => "{\"type\":\"user_message\",\"text\":\"go on\"}\n",
            Subject::Splice => "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"go on\"}}\n",
        }
    }

    /// The line that allows what was asked for.
    pub fn allow(self, request: &str) -> String {
        let allow = r#"{"behavior":"allow","updatedInput":{"command":"ls"}}"#;
        match self {
            Subject::Watari | Subject::Node => {
                format!(r#"{{"type":"permission_response","requestId":"{request}","result":{allow}}}"#) + "\n"
            }
            Subject::Splice => {
                let response = format!(r#"{{"subtype":"success","request_id":"{request}","response":{allow}}}"#);
                format!(r#"{{"type":"control_response","response":{response}}}"#) + "\n"
            }
        }
    }

    /// Reads a line.
    pub fn read(self, line: &[u8]) -> Said<'_> {
        match self {
            Subject::Watari | Subject::Node => read_bridge(line),
            Subject::Splice => read_cli(line),
        }
    }
}

/// Both bridges write the type first.
fn read_bridge(line: &[u8]) -> Said<'_> {
    match string_behind(line, b"{\"type\":\"") {
        Some(b"stream_content_delta") => string_behind(line, b"\"text\":\"").map_or(Said::Failed, Said::Delta),
        Some(b"ready") => Said::Ready,
        Some(b"session_init") => Said::Init,
        Some(b"assistant_message") => Said::Message,
        Some(b"permission_request") => string_behind(line, b"\"requestId\":\"").map_or(Said::Failed, Said::Permission),
        Some(b"turn_result") => Said::TurnEnded,
        Some(b"error") | None => Said::Failed,
        Some(_) => Said::Other,
    }
}

fn read_cli(line: &[u8]) -> Said<'_> {
    // The key is not always the first; a line without it at its beginning is the result.
    match string_behind(&line[..line.len().min(64)], b"{\"type\":\"") {
        Some(b"stream_event") if has(line, b"\"text_delta\"") => {
            string_behind(line, b"\"text\":\"").map_or(Said::Failed, Said::Delta)
        }
        Some(b"system") if has(line, b"\"subtype\":\"init\"") => Said::Init,
        Some(b"assistant") => Said::Message,
        Some(b"control_request") => string_behind(line, b"\"request_id\":\"").map_or(Said::Failed, Said::Permission),
        Some(_) => Said::Other,
        None if has(line, b"\"type\":\"result\"") => Said::TurnEnded,
        None => Said::Failed,
    }
}

fn has(line: &[u8], words: &[u8]) -> bool {
    memmem::find(line, words).is_some()
}

/// The string that begins behind these words. No string of the bench has an escape.
fn string_behind<'a>(line: &'a [u8], words: &[u8]) -> Option<&'a [u8]> {
    let rest = &line[memmem::find(line, words)? + words.len()..];
    Some(&rest[..memchr::memchr(b'"', rest)?])
}
