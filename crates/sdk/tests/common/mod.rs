//! Helpers for tests of a session: a stub of the API, a sandbox, the real CLI, and transcripts.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use watari_sdk::{
    AskId, AskKind, AskResolution, Client, Delta, Environment, Event, Events, Options, Supervisor, TurnEnding,
};
use watari_testkit::claude::pinned_claude;
use watari_testkit::sandbox::claude_without_project;
use watari_testkit::{Reply, Sandbox, Script, StubApi};

/// A sandbox with a stub of the API.
pub(crate) struct Room {
    pub(crate) stub: StubApi,
    pub(crate) sandbox: Sandbox,
}

impl Room {
    pub(crate) async fn new(script: Script) -> Room {
        let stub = StubApi::start(script).await.unwrap();
        let sandbox = Sandbox::new(&stub.base_url()).unwrap();
        Room { stub, sandbox }
    }

    pub(crate) async fn with_replies(replies: impl IntoIterator<Item = Reply>) -> Room {
        Room::new(replies.into_iter().fold(Script::new(), Script::reply)).await
    }

    /// Options for the real CLI in this sandbox: no settings files, and the stub as its API.
    pub(crate) fn options(&self) -> Options {
        Options {
            claude: Some(pinned_claude()),
            cwd: Some(self.sandbox.cwd().to_owned()),
            environment: Environment::only(self.sandbox.environment()),
            supervisor: supervisor(),
            setting_sources: Some(Vec::new()),
            ..Options::default()
        }
    }

    /// The same options, with permission requests as asks.
    pub(crate) fn asking_options(&self) -> Options {
        Options { permission_prompts: watari_sdk::PermissionPrompts::Ask { answer_timeout: None }, ..self.options() }
    }

    /// A `PATH` for programs that start the CLI by themselves. Its `claude` does not read the configuration of folders
    /// above its own.
    pub(crate) fn path_with_claude(&self) -> String {
        let folder = self.sandbox.root().join("bin");
        std::fs::create_dir(&folder).unwrap();
        claude_without_project(&pinned_claude(), &folder).unwrap();
        format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
    }

    /// Configures an MCP server in the folder above the CLI's, and returns the file that the server creates when it
    /// runs.
    pub(crate) fn bait(&self) -> PathBuf {
        let made = self.sandbox.root().join("made-by-the-bait");
        let servers = serde_json::json!({"mcpServers": {"above": {"command": "touch", "args": [made]}}});
        std::fs::write(self.sandbox.root().join(".mcp.json"), servers.to_string()).unwrap();
        made
    }

    pub(crate) async fn connect(&self) -> Talk {
        Talk::connect(self.options()).await
    }

    /// A text that every process of this sandbox has in its environment.
    pub(crate) fn marker(&self) -> &str {
        self.sandbox.root().to_str().unwrap()
    }
}

/// A pipe in the sandbox's directory to which a command writes when it has reached a point.
pub(crate) struct Signal(tokio::net::unix::pipe::Receiver);

impl Room {
    pub(crate) fn signal(&self, name: &str) -> Signal {
        let path = self.sandbox.cwd().join(name);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        // Open for writing too, so that it does not report its end before the first writer opens it.
        Signal(tokio::net::unix::pipe::OpenOptions::new().read_write(true).open_receiver(path).unwrap())
    }
}

impl Signal {
    pub(crate) async fn written(&self) {
        self.0.readable().await.unwrap();
    }
}

/// A program of `examples/`, which cargo builds beside the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name)
}

/// A program of another crate of the workspace, which `cargo nextest run --workspace` builds.
pub(crate) fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(|deps| deps.parent()).unwrap().join(name);
    assert!(path.exists(), "{} is not built: run cargo build --workspace", path.display());
    path
}

pub(crate) fn supervisor() -> Supervisor {
    Supervisor::Program(PathBuf::from(env!("CARGO_BIN_EXE_watari-supervisor")))
}

/// A session and its events.
pub(crate) struct Talk {
    pub(crate) client: Client,
    pub(crate) events: Events,
}

impl Talk {
    pub(crate) async fn connect(options: Options) -> Talk {
        let (client, events) = Client::connect(options).await.unwrap();
        Talk { client, events }
    }

    /// Reads until a wanted event, and returns all events up to and including it.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut seen = Vec::new();
        loop {
            let event = self.events.next().await.unwrap_or_else(|| panic!("the session ended first: {seen:#?}"));
            seen.push(event);
            if wanted(&seen[seen.len() - 1]) {
                return seen;
            }
        }
    }

    pub(crate) async fn until_idle(&mut self) -> Vec<Event> {
        self.until(|event| matches!(event, Event::BecameIdle)).await
    }

    pub(crate) async fn until_turn_finished(&mut self) -> Vec<Event> {
        self.until(|event| matches!(event, Event::TurnFinished { .. })).await
    }

    pub(crate) async fn until_asked(&mut self) -> Vec<Event> {
        self.until(|event| matches!(event, Event::AskOpened { .. })).await
    }

    /// Reads all remaining events.
    pub(crate) async fn rest(mut self) -> Vec<Event> {
        let mut seen = Vec::new();
        while let Some(event) = self.events.next().await {
            seen.push(event);
        }
        seen
    }
}

/// Describes events as a transcript, one line each, without details that differ from run to run.
pub(crate) fn transcript(events: &[Event]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for event in events {
        let line = describe(event);
        // Deltas of one block are one line, so that the API's chunks do not matter.
        match (lines.last_mut(), event) {
            (Some(last), Event::BlockDelta { block, delta, .. }) if last.starts_with(&grew(*block, delta)) => {
                last.push_str(delta.text());
            }
            _ => lines.extend(line),
        }
    }
    lines.join("\n")
}

fn grew(block: watari_sdk::BlockId, delta: &Delta) -> String {
    let kind = match delta {
        Delta::Text(_) => "text",
        Delta::Thinking(_) => "thinking",
        Delta::Input(_) => "input",
        #[cfg(not(feature = "exhaustive"))]
        _ => "newer",
    };
    format!("block {block} grew {kind}: ")
}

fn describe(event: &Event) -> Option<String> {
    Some(match event {
        Event::Ready { .. } => "ready".to_owned(),
        Event::SessionOpened { .. } => "session opened".to_owned(),
        Event::TurnStarted { cause } => format!("turn started: {cause:?}"),
        Event::MessageStarted { message, .. } => format!("message {message} started"),
        Event::BlockStarted { block, index, kind, .. } => format!("block {block} started at {index}: {kind:?}"),
        Event::BlockDelta { block, delta, .. } => format!("{}{}", grew(*block, delta), delta.text()),
        Event::BlockFinished { block, parent, streamed, content, .. } => {
            let by = parent.as_ref().map(|parent| format!(" by subagent of {parent}")).unwrap_or_default();
            let how = if *streamed { "" } else { ", not streamed" };
            format!("block {block} finished{by}{how}: {}", content.raw.as_str())
        }
        Event::BlockDiscarded { block } => format!("block {block} discarded"),
        Event::MessageRetracted { message } => format!("message {message} retracted"),
        Event::MessageFinished { message, blocks, stop_reason } => {
            let blocks: Vec<u64> = blocks.iter().map(|block| block.0).collect();
            format!("message {message} finished with {blocks:?}, {}", stop_reason.as_deref().unwrap_or("no reason"))
        }
        Event::ToolReturned { tool_use, is_error, content, .. } => {
            let how = if *is_error { "failed" } else { "returned" };
            format!("tool {tool_use} {how}: {}", content.as_str())
        }
        Event::AskOpened { ask, kind } => match kind {
            AskKind::Permission(permission) => {
                format!("ask {ask} opened: {} {}", permission.tool, permission.input.as_str())
            }
            AskKind::Question(question) => format!("ask {ask} opened: question {}", question.input.as_str()),
            AskKind::Plan(_) => format!("ask {ask} opened: plan"),
            AskKind::Hook(hook) => format!("ask {ask} opened: hook {} {}", hook.hook, hook.event),
            AskKind::ToolCall(call) => format!("ask {ask} opened: {} of ours with {:?}", call.tool, call.input),
            AskKind::Elicitation(form) => format!("ask {ask} opened: form of {}: {}", form.server, form.message),
            #[cfg(not(feature = "exhaustive"))]
            _ => format!("ask {ask} opened"),
        },
        Event::AskResolved { ask, resolution, .. } => format!("ask {ask} closed: {resolution:?}"),
        Event::TurnFinished { cause, outcome } => {
            let text = outcome.result.as_deref().unwrap_or_default();
            format!("turn finished: {cause:?} {:?} {} {text:?}", outcome.ending, outcome.subtype)
        }
        Event::PromptDropped { prompt, reason } => format!("prompt {prompt} dropped: {reason:?}"),
        Event::BecameIdle => "idle".to_owned(),
        Event::CliExited { exit } => format!("ended: {:?} code {:?} signal {:?}", exit.reason, exit.code, exit.signal),
        Event::TaskChanged { update, .. } => format!("task {update:?}"),
        Event::UnparsedLineSkipped { beginning, bytes } => format!("noise of {bytes} bytes: {beginning}"),
        Event::RequestAnswered { request, reply } => {
            format!("request {request} answered: {reply:?}")
        }
        Event::ToolProgressed { tool_use, .. } => format!("tool {tool_use} runs"),
        Event::StatusChanged { permission_mode: Some(mode), .. } => format!("permission mode {mode}"),
        Event::ApiRetryScheduled { attempt, status, .. } => format!("API retried: {attempt} {status:?}"),
        Event::HookChanged { event, update, .. } => format!("hook {event} {update:?}"),
        Event::PermissionDenied { tool, .. } => format!("permission refused: {tool}"),
        Event::Compacted { .. } => "compacted".to_owned(),
        Event::ConversationCleared { .. } => "conversation cleared".to_owned(),
        Event::TitleChanged { title } => format!("title: {title}"),
        Event::CliStalled { .. } => "stalled".to_owned(),
        Event::RequestSent { request, .. } => format!("request {request} sent"),
        Event::ResumedElsewhere { entrypoint, .. } => format!("resumed elsewhere by {entrypoint}"),
        Event::CliRecovered { .. } => "recovered".to_owned(),
        Event::EventsDropped { count } => format!("{count} events dropped"),
        Event::TranscriptWritten { .. } => "transcript written".to_owned(),
        Event::PromptSuggested { .. } => "prompt suggested".to_owned(),
        // Status reports of the CLI differ between versions.
        Event::StatusChanged { .. }
        | Event::Unknown { .. }
        | Event::PromptAccepted { .. }
        | Event::ContextInjected { .. }
        | Event::TasksListed { .. }
        | Event::CommandsListed { .. }
        | Event::ThinkingCounted { .. }
        | Event::NoticeReported { .. } => return None,
        #[cfg(not(feature = "exhaustive"))]
        _ => return None,
    })
}

/// A session in another program, which can be killed.
pub(crate) struct Program {
    pub(crate) child: tokio::process::Child,
    pub(crate) stdin: tokio::process::ChildStdin,
    pub(crate) stdout: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Program {
    pub(crate) fn chat(room: &Room) -> Program {
        let mut child = tokio::process::Command::new(example("chat"))
            .env_clear()
            .envs(room.sandbox.environment())
            .env("PATH", room.path_with_claude())
            .current_dir(room.sandbox.cwd())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Program { child, stdin, stdout }
    }

    pub(crate) async fn say(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn receive(&mut self, wanted: &str) {
        while let Some(line) = self.stdout.next_line().await.unwrap() {
            if line.contains(wanted) {
                return;
            }
        }
        panic!("the program ended before it printed {wanted:?}");
    }
}

/// The parts of events that many tests check.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) endings: Vec<TurnEnding>,
    pub(crate) asks_opened: usize,
    pub(crate) asks_closed: Vec<(AskId, AskResolution)>,
}

pub(crate) fn summarize(events: &[Event]) -> Summary {
    let mut summary = Summary { endings: Vec::new(), asks_opened: 0, asks_closed: Vec::new() };
    for event in events {
        match event {
            Event::TurnFinished { outcome, .. } => summary.endings.push(outcome.ending),
            Event::AskOpened { .. } => summary.asks_opened += 1,
            Event::AskResolved { ask, resolution, .. } => summary.asks_closed.push((*ask, *resolution)),
            _ => {}
        }
    }
    summary
}

/// Returns the last open ask of each kind.
pub(crate) fn open_asks(events: &[Event]) -> BTreeMap<&'static str, AskId> {
    let mut asks = BTreeMap::new();
    for event in events {
        if let Event::AskOpened { ask, kind } = event {
            let kind = match kind {
                AskKind::Permission(_) => "permission",
                AskKind::Question(_) => "question",
                AskKind::Plan(_) => "plan",
                AskKind::Hook(_) => "hook",
                AskKind::Elicitation(_) => "form",
                AskKind::ToolCall(_) => "tool call",
                #[cfg(not(feature = "exhaustive"))]
                _ => "newer",
            };
            asks.insert(kind, *ask);
        }
    }
    asks
}

/// Kills the CLI of a sandbox, as a crash of the machine would.
pub(crate) fn kill_cli(room: &Room) {
    let processes = watari_testkit::processes::marked(room.marker());
    let cli: Vec<_> =
        processes.iter().filter(|process| process.command.contains("--input-format=stream-json")).collect();
    assert_eq!(cli.len(), 1, "{processes:#?}");
    assert!(std::process::Command::new("kill").args(["-KILL", &cli[0].pid.to_string()]).status().unwrap().success());
}

/// A small MCP server that asks for a name when its tool is called, and returns the name.
pub(crate) const ASKING_SERVER: &str = r#"
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
    *'"method":"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"el","version":"1"}}}\n' "$id" ;;
    *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"greet","description":"greets","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"method":"tools/call"'*)
        printf '{"jsonrpc":"2.0","id":900,"method":"elicitation/create","params":{"message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}\n'
        read -r answer
        action=$(printf '%s' "$answer" | sed -n 's/.*"action":"\([a-z]*\)".*/\1/p')
        name=$(printf '%s' "$answer" | sed -n 's/.*"name":"\([a-zA-Z]*\)".*/\1/p')
        printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s %s"}]}}\n' "$id" "$action" "$name" ;;
    esac
done
"#;
