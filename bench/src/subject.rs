//! The measured programs: how each is started, and the messages it sends and receives.

use std::path::{Path, PathBuf};
use std::process::Command;

use memchr::memmem;

/// The program between the client and the CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// `watari stdio`.
    Watari,
    /// A bridge on the official SDK for Node.
    Node,
    /// Copies bytes both ways and parses nothing: the cost of the pipes and the scheduler alone.
    Splice,
}

/// The paths of the programs.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The program `watari`.
    pub watari: PathBuf,
    /// The CLI that all of them start.
    pub fake_claude: PathBuf,
    /// The installed Node bridge; none if it is not measured.
    pub node_bridge: Option<PathBuf>,
    /// This program, which is also the splice.
    pub bench: PathBuf,
}

/// The meaning of a line, as far as the bench needs it.
#[derive(Debug, PartialEq, Eq)]
pub enum BridgeMessage<'a> {
    /// The bridge is ready.
    Ready,
    /// The session has started.
    Init,
    /// Text arrived.
    Delta(&'a [u8]),
    /// A whole message of the model.
    Message,
    /// A tool needs permission, with the id of the request.
    Permission(&'a [u8]),
    /// A turn has ended.
    TurnEnded,
    /// The bridge failed.
    Failed,
    /// Anything else.
    Other,
}

/// The argument that makes this program the splice.
pub const SPLICE: &str = "__splice";

impl Subject {
    /// All subjects, in the order of the table.
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
        // Only the search path is inherited.
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        match self {
            Subject::Watari => command.arg("stdio").arg("--claude").arg(&programs.fake_claude),
            Subject::Node => command.arg(programs.node_bridge.as_ref()?).env("BENCH_CLAUDE", &programs.fake_claude),
            Subject::Splice => command.arg(SPLICE).arg(&programs.fake_claude),
        };
        Some(command)
    }

    /// Whether it reports that it is ready. The splice has no messages of its own.
    pub fn reports_ready(self) -> bool {
        match self {
            Subject::Watari | Subject::Node => true,
            Subject::Splice => false,
        }
    }

    /// The lines that start a session with its first prompt.
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

    /// The line that allows a permission request.
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

    /// Parses a line.
    pub fn read(self, line: &[u8]) -> BridgeMessage<'_> {
        match self {
            Subject::Watari | Subject::Node => read_bridge(line),
            Subject::Splice => read_cli(line),
        }
    }
}

/// Both bridges write the type first.
fn read_bridge(line: &[u8]) -> BridgeMessage<'_> {
    match string_behind(line, b"{\"type\":\"") {
        Some(b"stream_content_delta") => {
            string_behind(line, b"\"text\":\"").map_or(BridgeMessage::Failed, BridgeMessage::Delta)
        }
        Some(b"ready") => BridgeMessage::Ready,
        Some(b"session_init") => BridgeMessage::Init,
        Some(b"assistant_message") => BridgeMessage::Message,
        Some(b"permission_request") => {
            string_behind(line, b"\"requestId\":\"").map_or(BridgeMessage::Failed, BridgeMessage::Permission)
        }
        Some(b"turn_result") => BridgeMessage::TurnEnded,
        Some(b"error") | None => BridgeMessage::Failed,
        Some(_) => BridgeMessage::Other,
    }
}

fn read_cli(line: &[u8]) -> BridgeMessage<'_> {
    // The key is not always first; a line without it at the beginning is the result.
    match string_behind(&line[..line.len().min(64)], b"{\"type\":\"") {
        Some(b"stream_event") if has(line, b"\"text_delta\"") => {
            string_behind(line, b"\"text\":\"").map_or(BridgeMessage::Failed, BridgeMessage::Delta)
        }
        Some(b"system") if has(line, b"\"subtype\":\"init\"") => BridgeMessage::Init,
        Some(b"assistant") => BridgeMessage::Message,
        Some(b"control_request") => {
            string_behind(line, b"\"request_id\":\"").map_or(BridgeMessage::Failed, BridgeMessage::Permission)
        }
        Some(_) => BridgeMessage::Other,
        None if has(line, b"\"type\":\"result\"") => BridgeMessage::TurnEnded,
        None => BridgeMessage::Failed,
    }
}

fn has(line: &[u8], pattern: &[u8]) -> bool {
    memmem::find(line, pattern).is_some()
}

/// The string that begins after this pattern. No string of the bench has an escape.
fn string_behind<'a>(line: &'a [u8], pattern: &[u8]) -> Option<&'a [u8]> {
    let rest = &line[memmem::find(line, pattern)? + pattern.len()..];
    Some(&rest[..memchr::memchr(b'"', rest)?])
}
