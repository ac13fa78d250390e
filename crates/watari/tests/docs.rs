//! Documents that are printed from the code: what is committed must be what the code says.
//!
//! `UPDATE_DOCS=1 cargo nextest run -p watari --test docs` writes them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
#[path = "../src/dialect/schema/doc_links.rs"]
mod doc_links;

use std::fmt::Write;
use std::fs;
use std::process::Command;

use common::{is_committed, output_of, root};
use watari_protocol::native::EPHEMERAL_TYPES;
use watari_protocol::{Phase, RefusalCode, TRANSITIONS};
use watari_sdk::files::{FILES, FOLDER_MODE, FOLDERS, SOCKET};
use watari_testkit::scenario::scenario_schema;
use watari_testkit::stub_api::stub_script_schema;

#[test]
fn the_schemas_of_files_that_people_write_are_those_of_the_types_that_read_them() {
    is_committed("schema/stub-script.json", &format!("{:#}\n", stub_script_schema()));
    is_committed("schema/scenario.json", &format!("{:#}\n", scenario_schema()));
}

#[test]
fn the_schema_of_a_dialect_is_what_the_program_prints() {
    for dialect in ["bridge", "socket", "native"] {
        let run = output_of(Command::new(env!("CARGO_BIN_EXE_watari")).args(["schema", dialect]));
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        is_committed(&format!("schema/{dialect}.json"), &run.stdout);
    }
}

#[test]
fn the_rules_for_files_are_those_by_which_they_are_opened() {
    let mut page = FILES_INTRODUCTION.to_owned();
    page.push_str("\n| what | where | mode | opened to | removed |\n|---|---|---|---|---|\n");
    for rule in FILES {
        let mode = rule.mode.map_or("-".to_owned(), |mode| format!("{mode:04o}"));
        writeln!(page, "| {} | {} | {mode} | {} | {} |", rule.what, rule.place, rule.flags(), rule.removed).unwrap();
    }
    page.push_str(
        "\n## Folders and sockets\n\nThe path to a folder is *safe* if every folder and link on it, from `/` down, \
         belongs to this user or to the user root, and no other user can write to these folders, except to sticky ones \
         such as `/tmp`.\n\n| what | where | mode | checked | removed |\n|---|---|---|---|---|\n",
    );
    for (rule, mode) in FOLDERS.iter().map(|rule| (rule, FOLDER_MODE)).chain([(&SOCKET, 0o600)]) {
        writeln!(page, "| {} | {} | {mode:04o} | {} | {} |", rule.what, rule.place, rule.checked, rule.removed)
            .unwrap();
    }
    is_committed("files.md", &page);
}

/// The beginning of `files.md`.
const FILES_INTRODUCTION: &str = "\
# Files, folders and sockets

This list is printed from `crates/sdk/src/files/rules.rs`, the only part of the code that may create and open files, so
it is complete.

- STATE is `$XDG_STATE_HOME/watari` or `~/.local/state/watari`.
- RUNTIME is `$XDG_RUNTIME_DIR/watari` or `STATE/run`.
- CACHE is `$WATARI_CACHE`, `$XDG_CACHE_HOME/watari` or `~/.cache/watari`.
- CLAUDE_CONFIG is `$CLAUDE_CONFIG_DIR` or `~/.claude`.
- TMP is `/tmp`, or `$TMPDIR` if `/tmp` cannot be used.
- KEY is Watari's key of a session, SESSION_ID the CLI's id of its conversation, and NAME a generated name.

To remove an old session of `watari socket`, delete STATE/sessions/KEY while no host runs it. The CLI still has the
conversation, so it can be resumed, but its earlier events cannot be replayed.

## Files

Unless the table says otherwise, Watari follows no symbolic link at the end of the path, opens only regular files, and
opening never blocks. The mode is the one with which Watari creates the file; without a mode, Watari only opens it.
";

#[test]
fn the_states_of_a_session_are_drawn_from_its_table() {
    let mut page = STATES_INTRODUCTION.to_owned();
    page.push_str("\n```mermaid\nstateDiagram-v2\n    [*] --> Starting\n");
    for (from, trigger, to) in TRANSITIONS {
        writeln!(page, "    {from:?} --> {to:?}: {}", words(&format!("{trigger:?}"))).unwrap();
    }
    page.push_str("    Ended --> [*]\n```\n\n| from | when | to |\n|---|---|---|\n");
    for (from, trigger, to) in TRANSITIONS {
        writeln!(page, "| {from} | {} | {to} |", words(&format!("{trigger:?}"))).unwrap();
    }
    let source = fs::read_to_string(root().join("crates/protocol/src/session/state.rs")).unwrap();
    for (title, name) in [("States", "Phase"), ("What changes the state", "Trigger")] {
        writeln!(page, "\n## {title}\n").unwrap();
        for member in members(&source, &format!("pub enum {name} {{")) {
            writeln!(page, "- {}: {}", words(&member.name), member.doc).unwrap();
        }
    }
    is_committed("session-states.md", &page);
    // Every phase can be left, and the last one is reached from everywhere.
    for phase in [Phase::Starting, Phase::Idle, Phase::Running, Phase::Closing] {
        assert!(TRANSITIONS.iter().any(|(from, _, to)| *from == phase && *to == Phase::Ended), "{phase} cannot end");
    }
}

/// The beginning of `session-states.md`.
const STATES_INTRODUCTION: &str = "\
# The states of a session

These are the states of one run of the CLI, and all changes between them; no others occur. A session of `watari socket`
can have several runs, one after the other: when the CLI has exited, the next prompt starts it again, beginning with
*starting*. The `state` in the `hello` of its sockets is `starting`, `idle`, `running`, or `down` when no CLI runs; while
the session is *closing*, it still has the value from before.

Printed from `crates/protocol/src/session/state.rs`.
";

#[test]
fn the_codes_of_refusals_are_listed_from_their_declarations() {
    let source = fs::read_to_string(root().join("crates/protocol/src/refusal/code.rs")).unwrap();
    let codes = members(&source, "pub enum RefusalCode {");
    assert!(codes.iter().map(|code| snake(&code.name)).eq(RefusalCode::ALL.map(|code| code.to_string())));
    let mut page = REFUSALS_INTRODUCTION.to_owned();
    page.push_str("\n| code | meaning, and what to do |\n|---|---|\n");
    for code in codes {
        writeln!(page, "| `{}` | {} |", snake(&code.name), code.doc).unwrap();
    }
    is_committed("refusals.md", &page);
}

/// The beginning of `refusals.md`.
const REFUSALS_INTRODUCTION: &str = "\
# Why a command is refused

A command that is refused has changed nothing. Every refusal has a `code` for programs and a `message` for people. A code
never changes its meaning; a message may. New codes can be added: treat an unknown one as a refusal without a known
reason.

- In the native dialect, `refused` has the code, and so has `error`.
- In the socket dialect, an `error` of the kinds `line` and `refused` has it.
- In the bridge dialect, an `error` about a message of the client has it. Errors of the session have none.

Printed from `crates/protocol/src/refusal/code.rs`.
";

/// `CliExited` as `cli exited`.
fn words(name: &str) -> String {
    let spaced = name.chars().flat_map(|letter| if letter.is_uppercase() { vec![' ', letter] } else { vec![letter] });
    spaced.collect::<String>().trim().to_lowercase()
}

#[test]
fn the_events_are_listed_from_their_declarations() {
    let crates = root().join("crates");
    let read = |path: &str| fs::read_to_string(crates.join(path)).unwrap();
    let events = members(&read("protocol/src/event.rs"), "pub enum Event {");
    let mut page = EVENTS_INTRODUCTION.to_owned();
    page.push_str("\n## The events of one turn\n\nWith Claude Code 2.1.325, a plain turn has these events, in this order. (2.1.42 sends no `status_changed`.)\n\n");
    for (number, (name, repeated)) in (1..).zip(plain_turn(&read("protocol/tests/machine.rs"))) {
        let event = events.iter().find(|event| snake(&event.name) == name).unwrap();
        let (first, _) = event.doc.split_once(". ").unwrap_or((event.doc.trim_end_matches('.'), ""));
        let repeated = if repeated { " (repeated)" } else { "" };
        writeln!(page, "{number}. [`{name}`](#{name}){repeated}: {first}.").unwrap();
    }
    page.push_str(AFTER_PLAIN_TURN);
    page.push_str("\n# Events of a session\n\n");
    write_events(&mut page, &events);
    page.push_str(HOST_EVENTS_INTRODUCTION);
    write_events(&mut page, &members(&read("protocol/src/event/host.rs"), "pub enum HostEvent {"));
    page.push_str(TYPES_INTRODUCTION);
    for (file, name) in TYPES {
        write_type(&mut page, &read(&format!("protocol/src/{file}")), name);
    }
    assert!(page.matches("\n## ").count() > 60, "the declarations were not read");
    is_committed("events.md", &format!("{}\n", page.trim_end()));
}

/// The beginning of `events.md`.
const EVENTS_INTRODUCTION: &str = "\
# Events

These are the events of Watari's own dialect, called *native*. There are two ways to receive them:

- `watari socket` has two sockets. The second one, `RUNTIME/KEY.sock`, speaks this dialect: one event per line, as in
  `{\"seq\":\"1:12\",\"type\":\"ask_opened\",\"ask\":1,...}`. [clients/native.md](clients/native.md) describes what a
  client writes.
- The Rust crate `watari-sdk` emits the same events as values: `ask_opened` is `Event::AskOpened { ask, kind }`.

You do not need this page for `watari stdio` and for the first socket of `watari socket`. They use other messages, which
[clients/stdio.md](clients/stdio.md) and [clients/socket.md](clients/socket.md) describe; a message with the same name,
such as `ready`, can mean something else there.

Words:

- A *turn* is the work from a prompt to its result. An *ask* is a question to which the CLI waits for an answer, such as
  a permission request. A *host* is the `watari socket` process that runs the session; in the Rust crate there is none,
  and your program is the only client.
- A *durable* event is stored by the host and can be replayed. On the socket it begins with its position,
  `\"seq\":\"EPOCH:NUMBER\"`. An event marked *ephemeral* is not stored; it begins with `\"after\"`, the position of the
  durable event before it. You can ignore ephemeral events, except `caught_up`: the text of all `block_delta` events
  comes again, complete, in `block_finished`, and the others only show progress or a passing problem.

[schema/native.json](schema/native.json) has all events as a JSON Schema. Ignore events and fields that you do not know.
This page is printed from the source: `crates/protocol/src/event.rs` and the folder beside it.
";

const AFTER_PLAIN_TURN: &str = "
`ready` comes once, when the CLI has started. `session_opened` comes only in the first turn, and when the conversation's
id changes. If the CLI does not stream, a message has only `block_finished` events, with `streamed` false. A tool adds,
before the next message: `block_finished` with the tool use, `ask_opened` and `ask_resolved` if the tool needs
permission, and `tool_returned`.

Every accepted prompt has exactly one end: `turn_finished` or `prompt_dropped`. You can send the next prompt at any time;
`became_idle` says that nothing is left to run.
";

const HOST_EVENTS_INTRODUCTION: &str = "\
# Events of a host

The host of a session (`watari socket`) adds these events to those above. The Rust crate does not emit them.

";

const TYPES_INTRODUCTION: &str = "\
# Types

- *string*, *integer*, *number* and *boolean* are those of JSON. An *optional* field is null or absent if it has no value.
- `PromptId`, `AskId`, `BlockId`, `RequestId` and `HookId` are integers, unique within the session.
- `SessionId` and `EntryId` are UUIDs of the CLI: of a conversation, and of an entry in it.
- `MessageId` and `ToolUseId` are strings of the API. `Key` is a string, Watari's name for the session.
- `RawJson` is any JSON value, unchanged from the CLI or the API.
- `Block` is a content block in the shape of the Messages API. In Rust it also has the block's `BlockKind`.

";

/// The types whose values or fields are listed, with their files.
const TYPES: [(&str, &str); 32] = [
    ("event/session.rs", "CliInfo"),
    ("event/session.rs", "SessionInfo"),
    ("event/outcome.rs", "TurnCause"),
    ("event/outcome.rs", "TurnOutcome"),
    ("event/outcome.rs", "TurnEnding"),
    ("event/outcome.rs", "TurnFailure"),
    ("event/outcome.rs", "Usage"),
    ("event/outcome.rs", "DropReason"),
    ("event/block.rs", "BlockKind"),
    ("event/block.rs", "Delta"),
    ("event/block.rs", "BlockSource"),
    ("event/block.rs", "Author"),
    ("event/ask.rs", "AskKind"),
    ("event/ask.rs", "PermissionAsk"),
    ("event/ask.rs", "HookAsk"),
    ("event/ask.rs", "ElicitationAsk"),
    ("event/ask.rs", "ToolCallAsk"),
    ("event/ask.rs", "AskSummary"),
    ("event/ask.rs", "AskTag"),
    ("event/ask.rs", "AskResolution"),
    ("event/ask.rs", "Grant"),
    ("event/outcome.rs", "RequestReply"),
    ("event/outcome.rs", "InterruptReceipt"),
    ("event/outcome.rs", "RequestFailure"),
    ("event/outcome.rs", "Exit"),
    ("event/outcome.rs", "ExitReason"),
    ("event/outcome/left.rs", "LeftProcess"),
    ("event/outcome/left.rs", "WhyLeft"),
    ("event/outcome.rs", "UnresponsiveTo"),
    ("event/update.rs", "TaskUpdate"),
    ("event/update.rs", "HookUpdate"),
    ("event/notice.rs", "NoticeKind"),
];

/// The types that the introduction of the types explains.
const EXPLAINED: [&str; 16] = [
    "string",
    "integer",
    "number",
    "boolean",
    "PromptId",
    "AskId",
    "BlockId",
    "RequestId",
    "HookId",
    "SessionId",
    "EntryId",
    "MessageId",
    "ToolUseId",
    "Key",
    "RawJson",
    "Block",
];

/// The events of the transcript of one plain turn, in order, and whether each is repeated.
fn plain_turn(source: &str) -> Vec<(String, bool)> {
    let (_, test) = source.split_once("fn the_events_of_one_plain_turn_come_in_this_order()").unwrap();
    let (test, _) = test.split_once("\n}\n").unwrap();
    let mut events: Vec<(String, bool)> = Vec::new();
    for line in test.lines().filter_map(|line| line.trim().strip_prefix("* ")) {
        let name = line.split(' ').next().unwrap();
        match events.last_mut().filter(|(last, _)| last == name) {
            Some((_, repeated)) => *repeated = true,
            None => events.push((name.to_owned(), false)),
        }
    }
    assert!(events.len() > 10, "the transcript was not read");
    events
}

fn write_events(page: &mut String, events: &[Member]) {
    for event in events {
        let name = snake(&event.name);
        let mark = if EPHEMERAL_TYPES.contains(&name.as_str()) { "*Ephemeral.* " } else { "" };
        writeln!(page, "## `{name}`\n\n{mark}{}\n", event.doc).unwrap();
        write_fields(page, &event.fields, "");
        if !event.fields.is_empty() {
            page.push('\n');
        }
    }
}

/// Lists the values of an enum, or the fields of a struct.
fn write_type(page: &mut String, source: &str, name: &str) {
    let (heads, is_enum) = match source.contains(&format!("pub enum {name} {{")) {
        true => (format!("pub enum {name} {{"), true),
        false => (format!("pub struct {name} {{"), false),
    };
    let (before, _) = source.split_once(&heads).unwrap();
    let declared: Vec<&str> = before.lines().rev().take_while(|line| !line.is_empty()).collect();
    let doc: Vec<&str> = declared.iter().rev().filter_map(|line| line.strip_prefix("/// ")).collect();
    let doc = doc_links::replaced(&doc.join(" "));
    let members = members(source, &heads);
    writeln!(page, "## {name}\n\n{doc}{}\n", if is_enum { in_json(&declared, &members) } else { String::new() })
        .unwrap();
    for member in &members {
        match (is_enum, &member.kind) {
            (true, kind) => {
                let kind = kind.as_ref().map_or_else(String::new, |kind| format!(" ({})", linked(kind)));
                writeln!(page, "- `{}`{kind}: {}", snake(&member.name), member.doc).unwrap();
                write_fields(page, &member.fields, "  ");
            }
            (false, _) => write_fields(page, std::slice::from_ref(member), ""),
        }
    }
    page.push('\n');
}

/// Says how the values of an enum look in JSON.
fn in_json(declared: &[&str], members: &[Member]) -> String {
    let serde = declared.iter().find(|line| line.starts_with("#[serde(")).unwrap();
    let value_of = |key: &str| serde.split_once(&format!("{key} = \"")).and_then(|(_, rest)| rest.split('"').next());
    let has_content = |member: &&Member| member.kind.is_some() || !member.fields.is_empty();
    match (value_of("tag"), value_of("content"), members.iter().find(has_content)) {
        (Some(tag), Some(content), _) => format!(" In JSON, `{tag}` names the value and `{content}` has its content."),
        (Some(tag), None, _) => format!(" In JSON, `{tag}` names the value, beside its fields."),
        (None, _, Some(member)) => {
            let object = format!("an object such as `{{\"{}\":...}}`", snake(&member.name));
            match members.iter().find(|member| !has_content(member)) {
                Some(plain) => {
                    format!(" In JSON, a string such as `\"{}\"`, or with content {object}.", snake(&plain.name))
                }
                None => format!(" In JSON, {object}."),
            }
        }
        (None, _, None) => " In JSON, a string.".to_owned(),
    }
}

fn write_fields(page: &mut String, fields: &[Member], indent: &str) {
    for field in fields {
        let place = if field.is_flattened { "; in JSON, its fields are fields of the event" } else { "" };
        let kind = linked(field.kind.as_deref().unwrap());
        writeln!(page, "{indent}- `{}` ({kind}{place}): {}", field.name, field.doc).unwrap();
    }
}

/// A type, with a link to its section.
fn linked(kind: &str) -> String {
    let (prefix, name) = kind.rsplit_once(' ').map_or(("", kind), |(prefix, name)| (prefix, name));
    let space = if prefix.is_empty() { "" } else { " " };
    if TYPES.iter().any(|(_, listed)| *listed == name) {
        return format!("{prefix}{space}[{name}](#{})", name.to_lowercase());
    }
    assert!(EXPLAINED.contains(&name), "{name} is not explained on the page");
    kind.to_owned()
}

/// A variant of an enum, or a field, as it is declared.
#[derive(Default)]
struct Member {
    name: String,
    doc: String,
    /// The type of a field, or of what a variant holds.
    kind: Option<String>,
    /// Whether its fields are those of the object around it.
    is_flattened: bool,
    /// The fields of a variant.
    fields: Vec<Member>,
}

/// Reads the members of an enum or a struct and their documentation from source that rustfmt has laid out. Fields that
/// clients do not receive are left out.
fn members(source: &str, head: &str) -> Vec<Member> {
    let body = source.split_once(head).unwrap_or_else(|| panic!("no {head}")).1;
    let body = body.split_once("\n}\n").unwrap().0;
    let mut members: Vec<Member> = Vec::new();
    let mut next = Member::default();
    let mut is_skipped = false;
    for line in body.lines().filter(|line| !line.trim().is_empty()) {
        let depth = line.len() - line.trim_start().len();
        let line = line.trim();
        if let Some(text) = line.strip_prefix("/// ") {
            next.doc = if next.doc.is_empty() { text.to_owned() } else { format!("{} {text}", next.doc) };
        } else if line.starts_with('#') {
            next.is_flattened |= line == "#[serde(flatten)]";
            is_skipped |= line == "#[serde(skip)]";
        } else if !line.starts_with('}') {
            let mut member = std::mem::take(&mut next);
            member.doc = doc_links::replaced(&member.doc);
            let declared = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            let (name, kind) = match declared.split_once(": ").or_else(|| declared.split_once('(')) {
                Some((name, kind)) => (name, Some(spelled(kind))),
                None => (declared.trim_end_matches([',', '{', ' ']), None),
            };
            (member.name, member.kind) = (name.to_owned(), kind);
            match members.last_mut().filter(|_| depth > 4) {
                _ if std::mem::take(&mut is_skipped) => {}
                Some(variant) => variant.fields.push(member),
                None => members.push(member),
            }
        }
    }
    members
}

/// A Rust type in the words of the page.
fn spelled(kind: &str) -> String {
    let kind = kind.trim_end_matches([',', ')']).replace("Box<", "").replace('>', "");
    let kind = kind.replace("Option<", "optional ").replace("Vec<", "list of ").replace("&'static str", "String");
    let (prefix, name) = kind.rsplit_once(' ').map_or(("", kind.as_str()), |(prefix, name)| (prefix, name));
    let name = match name {
        "String" => "string",
        "bool" => "boolean",
        "u32" | "u64" | "i32" => "integer",
        "f64" => "number",
        name => name,
    };
    format!("{prefix} {name}").trim_start().to_owned()
}

/// `BlockDelta` as `block_delta`, as it is spelled for clients.
fn snake(name: &str) -> String {
    words(name).replace(' ', "_")
}
