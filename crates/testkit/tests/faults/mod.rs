//! Plays faults of the API to the real CLIs, and shows in a table what each of them does.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpSocket;
use tokio::net::unix::pipe;
use tokio::task::JoinSet;
use watari_sdk::{RawProcess, RawStart, Supervisor};
use watari_testkit::claude::{OLDEST_CLAUDE_VERSION, PINNED_CLAUDE_VERSION, oldest_claude, pinned_claude};
use watari_testkit::sandbox::{SANDBOX_FLAGS, SKIP_PERMISSIONS};
use watari_testkit::stub_api::Call;
use watari_testkit::{RecordedRequest, Sandbox, Script, StubApi, processes};

/// How long one turn of one CLI may take; the longest here takes five seconds.
const TURN_WITHIN: Duration = Duration::from_secs(30);

/// Something that goes wrong on the side of the API.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    name: &'static str,
    api: Api,
    environment: &'static [(&'static str, &'static str)],
    /// How long at least the oldest and the pinned CLI wait between two requests.
    gaps_ms: [&'static [u64]; 2],
}

#[derive(Debug, Clone)]
enum Api {
    /// It answers by this script, in which `${cwd}` is the folder that the CLI is started in.
    Script(String),
    /// Nobody listens.
    Refuses,
}

impl Fault {
    /// An API that answers by a script. The CLI does not try again unless its environment says so.
    pub(crate) fn new(name: &'static str, script: impl Into<String>) -> Fault {
        Fault { name, api: Api::Script(script.into()), environment: &[], gaps_ms: [&[], &[]] }
    }

    /// An API that is not there.
    pub(crate) fn refused(name: &'static str) -> Fault {
        Fault { name, api: Api::Refuses, environment: &[], gaps_ms: [&[], &[]] }
    }

    /// Adds to the environment of the CLI.
    pub(crate) fn with(self, environment: &'static [(&'static str, &'static str)]) -> Fault {
        Fault { environment, ..self }
    }

    /// Says how long at least both CLIs wait before the second request, the third and so on.
    pub(crate) fn waits_ms(self, gaps_ms: &'static [u64]) -> Fault {
        Fault { gaps_ms: [gaps_ms, gaps_ms], ..self }
    }

    /// Says that the pinned CLI waits otherwise.
    pub(crate) fn pinned_waits_ms(self, gaps_ms: &'static [u64]) -> Fault {
        Fault { gaps_ms: [self.gaps_ms[0], gaps_ms], ..self }
    }
}

/// What both CLIs make of these faults: for each the requests (`s` is for one that streams, `n` for one that does not)
/// and the messages of the CLI up to the result.
pub(crate) async fn table(faults: &[Fault]) -> Result<String> {
    let (oldest, pinned) = (oldest_claude(), pinned_claude());
    let mut lines = Vec::new();
    for fault in faults {
        let [oldest_gaps_ms, pinned_gaps_ms] = fault.gaps_ms;
        // Both at the same time, because a retry mostly waits.
        let seen = tokio::join!(meet(fault, &oldest, oldest_gaps_ms), meet(fault, &pinned, pinned_gaps_ms));
        lines.push(fault.name.to_owned());
        for (version, seen) in [(OLDEST_CLAUDE_VERSION, seen.0), (PINNED_CLAUDE_VERSION, seen.1)] {
            let seen = seen.with_context(|| format!("{} with {version}", fault.name))?;
            lines.push(format!("  {version:<9}{seen}"));
        }
    }
    Ok(lines.join("\n"))
}

/// Plays one fault to one CLI.
async fn meet(fault: &Fault, program: &Path, gaps_ms: &[u64]) -> Result<String> {
    let stub = StubApi::start(Script::new()).await?;
    // Bound and not listening: the port is nobody else's, and every connection is refused.
    let deaf = TcpSocket::new_v4()?;
    deaf.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let base_url = match &fault.api {
        Api::Script(_) => stub.base_url(),
        Api::Refuses => format!("http://{}", deaf.local_addr()?),
    };
    let environment = fault.environment.iter();
    let sandbox = environment.fold(Sandbox::new(&base_url)?, |sandbox, (key, value)| sandbox.with_env(*key, *value));
    let script = match &fault.api {
        Api::Script(script) => script.replace("${cwd}", &sandbox.cwd().to_string_lossy()),
        Api::Refuses => "replies: []".to_owned(),
    };
    stub.replace_script(load(&sandbox, &script)?);
    // Every user can write to the folder above the CLI's: nothing from there may run.
    std::fs::write(sandbox.root().join(".mcp.json"), r#"{"mcpServers": {"above": {"command": "true"}}}"#)?;
    let messages = with_results_at_their_calls(turn(program.to_owned(), &sandbox).await?);
    let requests = in_short(&stub.requests(), gaps_ms);
    Ok(format!("{requests} | {}", counted(messages.iter().map(|message| name_of(message, &script)))))
}

/// Reads the script as a user's is read: from a file.
fn load(sandbox: &Sandbox, script: &str) -> Result<Script> {
    let path = sandbox.root().join("script.yaml");
    std::fs::write(&path, script)?;
    Ok(Script::load(&path)?)
}

/// The messages of one turn, its result included.
async fn turn(program: PathBuf, sandbox: &Sandbox) -> Result<Vec<Value>> {
    let start = RawStart {
        program,
        arguments: SANDBOX_FLAGS.into_iter().chain([SKIP_PERMISSIONS]).map(Into::into).collect(),
        directory: sandbox.cwd().to_owned(),
        environment: sandbox.environment(),
        supervisor: Supervisor::None,
    };
    let mut process = RawProcess::start(start).await?;
    let stdin = process.stdin.take().context("no stdin")?;
    let stdout = process.stdout.take().context("no stdout")?;
    let mut stderr = process.stderr.take().context("no stderr")?;
    let mut complaints = JoinSet::new();
    complaints.spawn(async move {
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes).await.map(|_| String::from_utf8_lossy(&bytes).into_owned())
    });

    let mut messages: Vec<Value> = Vec::new();
    let outcome = tokio::time::timeout(TURN_WITHIN, converse(stdin, stdout, &mut messages)).await;
    let left = process.end().await;
    ensure!(left == 0, "{left} processes could not be ended");
    let marker = sandbox.root().to_string_lossy();
    ensure!(processes::marked(&marker).is_empty(), "left behind: {:?}", processes::marked(&marker));
    let servers: Vec<&Value> =
        messages.iter().filter_map(|message| message["mcp_servers"].as_array()).flatten().collect();
    ensure!(servers.is_empty(), "started: {servers:?}");
    let problem = match outcome {
        Ok(Ok(())) => return Ok(messages),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no result within {TURN_WITHIN:?}"),
    };
    let complaints = complaints.join_next().await.context("no reader of stderr")???;
    bail!("{problem}\nstderr: {complaints}\nmessages: {messages:#?}")
}

/// Says one line and hears everything up to the result. `stdin` stays open until then.
async fn converse(mut stdin: pipe::Sender, stdout: pipe::Receiver, messages: &mut Vec<Value>) -> Result<()> {
    let prompt = json!({"type": "user", "message": {"role": "user", "content": "Go on."}});
    stdin.write_all(format!("{prompt}\n").as_bytes()).await?;
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        messages.push(serde_json::from_str(&line)?);
        if messages.last().is_some_and(|message| message["type"] == "result") {
            return Ok(());
        }
    }
    bail!("it ended without a result")
}

/// Puts the result of a tool right behind its call. The pinned CLI runs a tool beside the stream that called it, so
/// that what else it says of that stream comes before the result or behind it.
fn with_results_at_their_calls(messages: Vec<Value>) -> Vec<Value> {
    let mut ordered: Vec<Value> = Vec::new();
    for message in messages {
        let call = blocks_of(&message).find_map(|block| block["tool_use_id"].as_str());
        let calls = |earlier: &Value| blocks_of(earlier).any(|block| block["id"].as_str() == call);
        let place = call.and_then(|_| ordered.iter().position(calls)).map_or(ordered.len(), |place| place + 1);
        ordered.insert(place, message);
    }
    ordered
}

/// The kinds of the requests, with the waits between them as far as there is a claim about them.
fn in_short(requests: &[RecordedRequest], gaps_ms: &[u64]) -> String {
    if requests.is_empty() {
        return "none".to_owned();
    }
    let mut words = Vec::new();
    for (number, request) in requests.iter().enumerate() {
        if let Some(least) = number.checked_sub(1).and_then(|gap| gaps_ms.get(gap)) {
            let gap = request.at.saturating_sub(requests[number - 1].at);
            let is_long = gap >= Duration::from_millis(*least);
            words.push(if is_long { format!("≥{least}ms") } else { format!("only {gap:?}") });
        }
        words.push(match request.call {
            Call::Main if request.body["stream"] == true => "s".to_owned(),
            Call::Main => "n".to_owned(),
            Call::Agent | Call::Side | Call::Malformed | Call::CountTokens | Call::WarmUp | Call::Unknown => {
                format!("{:?}", request.call)
            }
        });
    }
    words.join(" ")
}

/// What a message is. Words of the script are quoted; the CLI's own are not ours to repeat.
fn name_of(message: &Value, script: &str) -> String {
    let word = |key: &str| message[key].as_str().unwrap_or_default();
    let kind = word("type");
    match kind {
        "system" | "result" => {
            let mark = if message["is_error"] == true { "(is_error)" } else { "" };
            format!("{kind}/{}{mark}", word("subtype"))
        }
        "assistant" | "user" => {
            let mut parts: Vec<String> = blocks_of(message).map(|block| block_name(block, script)).collect();
            if message["isSynthetic"] == true {
                parts.push("synthetic".to_owned());
            }
            if message["error"].is_string() {
                parts.push(format!("error {}", word("error")));
            }
            format!("{kind}({})", parts.join(", "))
        }
        _ => kind.to_owned(),
    }
}

fn blocks_of(message: &Value) -> impl Iterator<Item = &Value> {
    message["message"]["content"].as_array().into_iter().flatten()
}

fn block_name(block: &Value, script: &str) -> String {
    let word = |key: &str| block[key].as_str().unwrap_or_default();
    match word("type") {
        "text" if script.contains(word("text")) => format!("{:?}", word("text")),
        "tool_use" => format!("tool_use {}", word("name")),
        "tool_result" if block["is_error"] == true => "tool_result error".to_owned(),
        kind => kind.to_owned(),
    }
}

/// The names in order; what comes several times in a row is said once.
fn counted(names: impl Iterator<Item = String>) -> String {
    let mut runs: Vec<(String, usize)> = Vec::new();
    for name in names {
        match runs.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            Some(_) | None => runs.push((name, 1)),
        }
    }
    let words = runs.into_iter().map(|(name, count)| if count == 1 { name } else { format!("{name} ×{count}") });
    words.collect::<Vec<_>>().join(", ")
}
