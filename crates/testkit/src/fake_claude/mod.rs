//! A program that speaks the Claude Code CLI's side of the stream-json protocol by a script, without a model:
//! for tests of faults, races and speed.
//!
//! The variable `FAKE_CLAUDE_SCRIPT` names the script. Flags of the CLI are ignored, except `--version`, and
//! `--session-id=` and `--resume=`, which set the session's id; the default is `FAKE_CLAUDE_SESSION_ID`, or else a
//! constant. Ids of frames are counted and times are fixed, so that two runs of a script write the same.
//!
//! # Default behaviour
//!
//! - A control request is answered with success: `initialize` with a small response, `interrupt` with
//!   `{"still_queued":[]}`, all others with `{}`.
//! - stdin is read only while a step waits or pauses, each time much was written, and when the script is done.
//!   Input that the step does not wait for is stored for later steps (prompts, answers) or answered.
//! - An interrupt is stored, unanswered, if a `wait interrupt` follows in the script before the next `prompt`.
//! - When stdin ends, the fake exits with 0 if the script is done or waits for a prompt, an interrupt or a line.
//!   If it waits for an answer, it continues as if the answer were a denial.
//! - A line on stdin that is not JSON, a user line without the role `user` and a control request without a
//!   `request` make it exit with 1, and a line on stderr. Blank lines and unknown types are ignored.
//! - Output stays in a large buffer until a step waits for something or acts on the process.
//! - Every line of stdin is appended to the file that `FAKE_CLAUDE_LOG` names, as `{"in":…}`, and as
//!   `{"bad":"…"}` if it makes the fake exit. `{"answer":ID,"response":…}` or `{"answer":ID,"error":…}` follows where
//!   a step continues with an answer.
//! - If the script is missing or wrong, it exits with 64 and a line on stderr with the file, the line and the word.
//!
//! # The script
//!
//! One step per line. Blank lines and lines that begin with `#` are ignored. JSON is written on one line, and can be
//! omitted if it is `{}`. `$PROMPT` in a text or in a JSON string is the text of the last prompt, `$SESSION` the
//! session's id. Numbers may be written `1_000_000`.
//!
//! | step | what happens |
//! |---|---|
//! | `prompt` | waits for the next user line, then state `running` and `system/init` |
//! | `text WORDS…` | streams a whole assistant message, one delta per word |
//! | `thinking WORDS…` | the same with a thinking block, which is signed |
//! | `tool ID NAME {input}` | the same with a tool call |
//! | `deltas N [of BYTES] [at RATE/s] [timed]` | the same with a text of N deltas of BYTES bytes (20), as fast as possible or at that rate; each is its number and a space, or with `timed` the nanoseconds of the machine's monotonic clock at the write; the assistant frame contains the whole text, so use `repeat` where that is too long |
//! | `message` … `end` | the blocks between them belong to one message |
//! | `tool_result ID TEXT` | the result of a tool call |
//! | `ask ID TOOL {input}` | `can_use_tool` with ID as request id and as tool use id; waits for the answer, then a `tool_result` says `allowed {updatedInput}` or `denied MESSAGE` |
//! | `ask! ID TOOL {input}` | the same without waiting; `await` writes the `tool_result` |
//! | `hook ID CALLBACK EVENT {input}` | `hook_callback`; waits for the answer |
//! | `mcp ID SERVER {message}` | `mcp_message`; waits for the answer |
//! | `request ID SUBTYPE {fields}` | any other control request; waits for the answer |
//! | `await ID` | waits for the answer to the earlier request with that id |
//! | `cancel ID` | `control_cancel_request` |
//! | `result` | success with the last streamed text, then state `idle` |
//! | `result TEXT` | the same with that text |
//! | `result {fields}` | the same with these fields over the default ones |
//! | `state idle\|running\|requires_action` | `session_state_changed` |
//! | `task started\|progress\|updated\|ended ID {fields}` | `task_started`, `task_progress`, `task_updated`, `task_notification` |
//! | `emit {json}` | that line, as it is |
//! | `noise TEXT` | that line, which need not be JSON |
//! | `line BYTES` | one assistant line of that many bytes, including the newline |
//! | `raw HEX…` | these bytes without a newline, written immediately |
//! | `stderr TEXT` | that line on stderr |
//! | `wait interrupt` | waits for an interrupt, answers it, ends an open message, then the result of an interrupted turn and state `idle` |
//! | `wait line` | waits for the next unread line of stdin, whatever it is |
//! | `pause MILLISECONDS` | continues after that time; input is handled in the default way |
//! | `stall` | never continues; stdin stays unread |
//! | `deaf` | control requests are no longer answered |
//! | `mute` | `initialize` is not answered; only as the first step |
//! | `stop` | SIGSTOP to itself |
//! | `kill` | SIGKILL to itself |
//! | `ignore TERM`, `ignore INT` | the signal has no effect from now on |
//! | `exit N` | exits with that code |
//! | `child` | starts a process with the same environment that sleeps forever, in a session of its own, not the fake's child, ignoring SIGTERM and SIGHUP; its command line contains the session's id |
//! | `signal PATH` | writes a byte to the file or FIFO, for a test that waits for this point |
//! | `repeat N` … `end` | plays the steps between them N times |
//!
//! ```text
//! prompt
//! text You said $PROMPT
//! tool toolu_1 Bash {"command":"ls"}
//! ask toolu_1 Bash {"command":"ls"}
//! text done
//! result
//! ```

mod fields;
mod frames;
mod incoming;
mod input;
mod log;
mod output;
mod own;
mod player;
mod script;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::hand_written;
use frames::Frames;
use input::Input;
use log::Log;
use output::Output;
use player::{Ending, Memory, Player};
use script::{BadLine, Script};

/// The variable that names the script.
pub const SCRIPT_VARIABLE: &str = "FAKE_CLAUDE_SCRIPT";
/// The variable that names the log of what the fake CLI received.
pub const LOG_VARIABLE: &str = "FAKE_CLAUDE_LOG";
/// The variable that sets the session's id if no flag does.
pub const SESSION_VARIABLE: &str = "FAKE_CLAUDE_SESSION_ID";

/// The default session id.
const SESSION: &str = "fa4ec1a0-de00-4000-8000-000000000000";
/// The exit code of a fake CLI that cannot start.
const UNUSABLE: u8 = 64;

/// Why a fake CLI cannot start.
#[derive(Debug, thiserror::Error)]
enum BeginError {
    #[error("{SCRIPT_VARIABLE} names no script")]
    NoScript,
    #[error("cannot read the script {}: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}:{source}", .path.display())]
    BadScript { path: PathBuf, source: BadLine },
    #[error("cannot write the log {}: {source}", .path.display())]
    Log { path: PathBuf, source: io::Error },
    #[error("cannot use stdin and stdout: {0}")]
    Pipes(#[source] io::Error),
}

/// Runs the fake CLI until it exits. `arguments` are those of the process, without the program's name and without what
/// selected the fake CLI.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    if let Some(code) = own::run_if_helper(&arguments) {
        return code;
    }
    if arguments.iter().any(|argument| argument == "--version") {
        let written = writeln!(io::stdout(), "{} (Claude Code)", frames::VERSION);
        return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let ending = match begin(&arguments) {
        Ok((player, script)) => player.play(&script),
        Err(error) => Ending::Failure { code: UNUSABLE, message: error.to_string() },
    };
    match ending {
        Ending::Exit(code) => ExitCode::from(code),
        Ending::Failure { code, message } => {
            // If stderr is closed, nobody reads it; the exit code is enough.
            let _written = writeln!(io::stderr(), "fake-claude: {message}");
            ExitCode::from(code)
        }
    }
}

fn begin(arguments: &[OsString]) -> Result<(Player, Script), BeginError> {
    let script = read_script(&PathBuf::from(env::var_os(SCRIPT_VARIABLE).ok_or(BeginError::NoScript)?))?;
    let log = match env::var_os(LOG_VARIABLE).map(PathBuf::from) {
        Some(path) => Log::at(&path).map_err(|source| BeginError::Log { path, source })?,
        None => Log::default(),
    };
    let cwd = env::current_dir().map_or_else(|_| String::new(), |path| path.to_string_lossy().into_owned());
    let player = Player {
        input: Input::of_this_process().map_err(BeginError::Pipes)?,
        output: Output::of_this_process().map_err(BeginError::Pipes)?,
        log,
        frames: Frames::new(session(arguments), cwd),
        memory: Memory::default(),
    };
    Ok((player, script))
}

fn read_script(path: &Path) -> Result<Script, BeginError> {
    let text =
        hand_written::text_in(path).map_err(|source| BeginError::Unreadable { path: path.to_owned(), source })?;
    Script::parse(&text).map_err(|source| BeginError::BadScript { path: path.to_owned(), source })
}

fn session(arguments: &[OsString]) -> String {
    let of_flag = |name: &str| arguments.iter().find_map(|argument| argument.to_str()?.strip_prefix(name));
    let named = of_flag("--session-id=").or_else(|| of_flag("--resume=")).map(str::to_owned);
    named.or_else(|| env::var(SESSION_VARIABLE).ok()).unwrap_or_else(|| SESSION.to_owned())
}
