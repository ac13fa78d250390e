//! Documents that are printed from the code: what is committed must be what the code says.
//!
//! `UPDATE_DOCS=1 cargo nextest run -p watari --test docs` writes them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;

use std::fmt::Write;
use std::fs;
use std::process::Command;

use common::{is_committed, output_of, root};
use watari_hub::EPHEMERAL_TYPES;
use watari_protocol::{Phase, STEPS};
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
    let mut page =
        "# Files, folders and sockets\n\nThis list is generated from `crates/sdk/src/files/rules.rs`, the only \
                    place in the code that may open files, so it is complete.\n\n- STATE is \
                    `$XDG_STATE_HOME/watari`, or `~/.local/state/watari`.\n- RUNTIME is `$XDG_RUNTIME_DIR/watari`, \
                    or `STATE/run`.\n- CACHE is `$WATARI_CACHE`, `$XDG_CACHE_HOME/watari` or `~/.cache/watari`.\n\
                    - CLAUDE is `$CLAUDE_CONFIG_DIR` or `~/.claude`.\n- TMP is `$TMPDIR` or `/tmp`.\n- KEY is the \
                    session's key, SESSION_ID the CLI's id of the conversation, NAME a name that Watari \
                    chooses.\n\n## Files\n\nUnless the table says otherwise, Watari follows no symbolic link at \
                    the end of the path, opens only regular files, and opening never blocks. The mode is the one with \
                    which Watari creates the file; without a mode, Watari only opens it.\n\n\
                    | what | where | mode | opened to | removed |\n|---|---|---|---|---|\n"
            .to_owned();
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

#[test]
fn the_states_of_a_session_are_drawn_from_its_table() {
    let mut page =
        "# The states of a session\n\nPrinted from `STEPS` in `crates/protocol/src/session/state.rs`: a step \
                    that is not here does not happen.\n\n```mermaid\nstateDiagram-v2\n    [*] --> Starting\n"
            .to_owned();
    for (from, trigger, to) in STEPS {
        writeln!(page, "    {from:?} --> {to:?}: {}", words(&format!("{trigger:?}"))).unwrap();
    }
    page.push_str("    Ended --> [*]\n```\n\n| from | when | to |\n|---|---|---|\n");
    for (from, trigger, to) in STEPS {
        writeln!(page, "| {from} | {} | {to} |", words(&format!("{trigger:?}"))).unwrap();
    }
    is_committed("session-states.md", &page);
    // Every phase can be left, and the last one is reached from everywhere.
    for phase in [Phase::Starting, Phase::Idle, Phase::Running, Phase::Closing] {
        assert!(STEPS.iter().any(|(from, _, to)| *from == phase && *to == Phase::Ended), "{phase} cannot end");
    }
}

/// `CliExited` as `cli exited`.
fn words(name: &str) -> String {
    let spaced = name.chars().flat_map(|letter| if letter.is_uppercase() { vec![' ', letter] } else { vec![letter] });
    spaced.collect::<String>().trim().to_lowercase()
}

#[test]
fn the_events_are_listed_from_their_declarations() {
    let mut page = "# Events\n\nPrinted from `crates/protocol/src/event.rs` and the folder beside it: every event \
                    of a session, in the order of declaration.\nEvents marked *ephemeral* show progress and are not \
                    stored: a later durable event repeats their content as a whole. \
                    [schema/native.json](schema/native.json) has all of them as a JSON Schema.\n\n"
        .to_owned();
    let crates = root().join("crates");
    let read = |path: &str| fs::read_to_string(crates.join("protocol/src").join(path)).unwrap();
    write_events(&mut page, &variants(&read("event.rs"), "pub enum Event {"));
    page.push_str(
        "# Events of a host\n\nPrinted from `crates/hub/src/publication.rs`: the events that the host of a session \
         adds.\n\n",
    );
    let published = fs::read_to_string(crates.join("hub/src/publication.rs")).unwrap();
    write_events(&mut page, &variants(&published, "pub enum HostEvent {"));
    page.push_str("# Values\n\nThe values that a field of each type can have.\n\n");
    let kinds = [
        ("event/ask.rs", "AskKind"),
        ("event/ask.rs", "AskResolution"),
        ("event/block.rs", "BlockKind"),
        ("event/block.rs", "Delta"),
        ("event/block.rs", "Writer"),
        ("event/outcome.rs", "TurnCause"),
        ("event/outcome.rs", "TurnEnding"),
        ("event/outcome.rs", "Failure"),
        ("event/outcome.rs", "RequestReply"),
        ("event/outcome.rs", "RequestFailure"),
        ("event/outcome.rs", "ExitReason"),
        ("event.rs", "DropReason"),
        ("event.rs", "TaskUpdate"),
        ("event.rs", "HookUpdate"),
        ("event/notice.rs", "NoticeKind"),
    ];
    for (file, name) in kinds {
        writeln!(page, "## {name}\n").unwrap();
        for variant in variants(&read(file), &format!("pub enum {name} {{")) {
            writeln!(page, "- `{}`: {}", snake(&variant.name), variant.doc).unwrap();
        }
        page.push('\n');
    }
    assert!(page.matches("\n## `").count() > 30, "the declarations were not read");
    is_committed("events.md", &format!("{}\n", page.trim_end()));
}

fn write_events(page: &mut String, events: &[Variant]) {
    for event in events {
        let name = snake(&event.name);
        let mark = if EPHEMERAL_TYPES.contains(&name.as_str()) { " *ephemeral*" } else { "" };
        writeln!(page, "## `{name}`{mark}\n\n{}\n", event.doc).unwrap();
        for (name, kind, doc) in &event.fields {
            writeln!(page, "- `{name}` ({kind}): {doc}").unwrap();
        }
        if !event.fields.is_empty() {
            page.push('\n');
        }
    }
}

/// One variant of an enum, as it is declared.
#[derive(Default)]
struct Variant {
    name: String,
    doc: String,
    fields: Vec<(String, String, String)>,
}

/// Reads the variants of an enum and their documentation from source that rustfmt has laid out.
fn variants(source: &str, head: &str) -> Vec<Variant> {
    let body = source.split_once(head).unwrap_or_else(|| panic!("no {head}")).1;
    let body = body.split_once("\n}\n").unwrap().0;
    let mut variants: Vec<Variant> = Vec::new();
    let mut doc = String::new();
    for line in body.lines().filter(|line| !line.trim().is_empty()) {
        let depth = line.len() - line.trim_start().len();
        let line = line.trim();
        if let Some(text) = line.strip_prefix("/// ") {
            doc = if doc.is_empty() { text.to_owned() } else { format!("{doc} {text}") };
        } else if line.starts_with('#') || line.starts_with('}') {
            // An attribute, or the end of a variant's fields.
        } else if depth == 4 {
            let name = line.split(['(', ' ', ',']).next().unwrap().to_owned();
            variants.push(Variant { name, doc: std::mem::take(&mut doc), fields: Vec::new() });
        } else if let (Some((name, kind)), Some(variant)) = (line.split_once(": "), variants.last_mut()) {
            let kind = kind
                .trim_end_matches(',')
                .replace("Box<", "")
                .replace("Option<", "optional ")
                .replace("Vec<", "list of ")
                .replace("&'static str", "String")
                .replace('>', "");
            variant.fields.push((name.to_owned(), kind, std::mem::take(&mut doc)));
        }
    }
    variants
}

/// `BlockDelta` as `block_delta`, as it is spelled for clients.
fn snake(name: &str) -> String {
    words(name).replace(' ', "_")
}
