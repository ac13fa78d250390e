//! Faults of the CLI: it is missing, not a program, exits, floods its output, or is silent.
//!
//! The CLI is a shell script here, because the real one does none of this on request.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Talk, supervisor, transcript};
use watari_sdk::{
    Client, ConnectError, Environment, Event, Exit, ExitReason, ExtraArgument, OptionError, Options, RequestError,
    RequestFailure, StartError, Supervisor, UnresponsiveTo, WatchdogLimits,
};
use watari_testkit::processes::marked;

/// The CLI's start: it reads the `initialize` request and answers it.
const READY: &str = r#"read -r opening
echo '{"type":"control_response","response":{"subtype":"success","request_id":"watari_1","response":{"claude_code_version":"2.1.325"}}}'"#;

/// A folder with a script that replaces the CLI.
struct Fake {
    folder: tempfile::TempDir,
}

impl Fake {
    fn new(script: &str) -> Fake {
        let fake = Fake { folder: tempfile::tempdir().unwrap() };
        fake.write("claude", &format!("#!/bin/sh\n{script}\n"), 0o755);
        fake
    }

    fn write(&self, name: &str, content: &str, mode: u32) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn options(&self) -> Options {
        Options {
            claude: Some(self.path().join("claude")),
            cwd: Some(self.path().to_owned()),
            environment: Environment::only([
                ("PATH".to_owned(), std::env::var("PATH").unwrap()),
                ("HOME".to_owned(), self.path().to_str().unwrap().to_owned()),
            ]),
            supervisor: supervisor(),
            ..Options::default()
        }
    }

    /// Returns the error of connecting, without the folder's name, which differs from run to run.
    async fn refusal(&self, options: Options) -> String {
        let error = Client::connect(options).await.map(drop).unwrap_err();
        assert_eq!(marked(self.path().to_str().unwrap()), []);
        error.to_string().replace(self.path().to_str().unwrap(), "<folder>")
    }
}

#[tokio::test]
async fn each_way_of_being_missing_has_its_own_error() {
    let fake = Fake::new("");
    let mut refusals = Vec::new();
    let damaged = fake.write("damaged", "\u{7f}ELF and nothing more", 0o755);
    let misled = fake.write("misled", "#!/no/such/interpreter\n", 0o755);
    let plain = fake.write("plain", "", 0o644);
    for path in [fake.path().join("missing"), fake.path().to_owned(), plain, damaged, misled] {
        refusals.push(fake.refusal(Options { claude: Some(path), ..fake.options() }).await);
    }
    insta::assert_snapshot!(refusals.join("\n"), @"
    Claude Code CLI not found: there is nothing at <folder>/missing; check the path
    <folder> is a directory, not the Claude Code CLI; give the path of the program itself
    <folder>/plain is not executable; run `chmod +x` on it, or give another path
    <folder>/damaged is not a program; it may be damaged or only half installed, so install it again
    <folder>/misled cannot be run: No such file or directory (os error 2); it may be damaged or made for another machine, so install it again
    ");
}

#[tokio::test]
async fn a_cli_that_is_not_found_is_reported_with_the_searched_directories() {
    let fake = Fake::new("");
    let environment = Environment::only([("PATH".to_owned(), format!("{0}/a:{0}/b", fake.path().display()))]);
    let refusal = fake.refusal(Options { claude: None, environment, ..fake.options() }).await;
    insta::assert_snapshot!(refusal, @"Claude Code CLI not found: looked for `claude` in <folder>/a, <folder>/b, /usr/local/bin, /opt/homebrew/bin; install it with `npm install -g @anthropic-ai/claude-code`, or set its path (--claude, or Options::claude in Rust)");
}

#[tokio::test]
async fn a_missing_directory_is_not_mistaken_for_a_missing_cli() {
    let fake = Fake::new("");
    let mut refusals = Vec::new();
    for name in ["missing", "claude"] {
        refusals.push(fake.refusal(Options { cwd: Some(fake.path().join(name)), ..fake.options() }).await);
    }
    insta::assert_snapshot!(refusals.join("\n"), @"
    the working directory <folder>/missing does not exist; create it, or choose another
    the working directory <folder>/claude is not a directory; choose another
    ");
}

#[tokio::test]
async fn a_cli_that_exits_at_once_is_reported_with_its_own_text() {
    let fake = Fake::new("echo 'no licence for this machine' >&2; exit 7");
    insta::assert_snapshot!(fake.refusal(fake.options()).await, @"the Claude Code CLI exited before it was ready (exit code 7): no licence for this machine");
    let mute = Fake::new("exit 3");
    insta::assert_snapshot!(mute.refusal(mute.options()).await, @"the Claude Code CLI exited before it was ready (exit code 3): it reported no error; try `claude --version` by hand");
}

#[tokio::test]
async fn a_cli_that_is_too_old_is_reported_with_its_version() {
    // One that rejects a flag, and one that would continue.
    let refusal_of = Fake::new(
        r#"[ "$1" = --version ] && echo '1.0.3 (Claude Code)' && exit; echo "error: unknown option '$1'" >&2; exit 1"#,
    );
    insta::assert_snapshot!(refusal_of.refusal(refusal_of.options()).await, @"the Claude Code CLI is version 1.0.3, and at least 2.1.42 is needed; update it with `claude update`");
    let old = Fake::new(&format!("{}; cat > /dev/null", READY.replace("2.1.325", "2.0.76")));
    insta::assert_snapshot!(old.refusal(old.options()).await, @"the Claude Code CLI is version 2.0.76, and at least 2.1.42 is needed; update it with `claude update`");
}

#[tokio::test]
async fn an_unknown_flag_is_reported_with_the_version_of_the_cli() {
    let fake = Fake::new(
        r#"[ "$1" = --version ] && echo '9.9.9 (Claude Code)' && exit; echo "error: unknown option '--new'" >&2; exit 1"#,
    );
    let extra_arguments = vec![ExtraArgument { name: "new".into(), value: None }];
    insta::assert_snapshot!(fake.refusal(Options { extra_arguments, ..fake.options() }).await, @"the Claude Code CLI 9.9.9 rejected a flag: error: unknown option '--new'; remove that option, or update the CLI with `claude update`");
}

#[tokio::test]
async fn a_silent_cli_is_given_up_and_ended() {
    let fake = Fake::new("trap '' INT TERM; cat > /dev/null; tail -f /dev/null");
    let options = Options { start_timeout: Some(Duration::from_millis(200)), ..fake.options() };
    insta::assert_snapshot!(fake.refusal(options).await, @"the Claude Code CLI did not answer within 200ms and was terminated; try `claude --version` by hand");
}

#[tokio::test]
async fn a_cli_that_refuses_the_opening_is_ended() {
    let fake = Fake::new(
        r#"read -r opening
echo '{"type":"control_response","response":{"subtype":"error","request_id":"watari_1","error":"bad schema"}}'
cat > /dev/null"#,
    );
    insta::assert_snapshot!(fake.refusal(fake.options()).await, @"the Claude Code CLI refused to set up the session: the CLI refused it: bad schema");
}

#[tokio::test]
async fn a_program_that_is_not_a_supervisor_is_reported() {
    let fake = Fake::new(READY);
    for supervisor in ["/bin/true", "/no/such/supervisor"] {
        let options = Options { supervisor: Supervisor::Program(supervisor.into()), ..fake.options() };
        let error = Client::connect(options).await.map(drop).unwrap_err();
        assert!(matches!(error, ConnectError::Start(StartError::Supervisor { .. })), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_is_not_a_supervisor_is_not_left_running() {
    let fake = Fake::new(READY);
    let stays = fake.write("stays", "#!/bin/sh\nexec tail -f /dev/null\n", 0o755);
    let options = Options { supervisor: Supervisor::Program(stays), ..fake.options() };
    let refusal = fake.refusal(options).await;
    assert!(refusal.contains("the supervisor <folder>/stays cannot be started"), "{refusal}");
}

#[tokio::test]
async fn an_argument_or_an_environment_that_is_too_long_is_no_shortage_of_the_machine() {
    let fake = Fake::new(READY);
    let long = "x".repeat(4 * 1024 * 1024);
    let argument = vec![ExtraArgument { name: "long".to_owned(), value: Some(long.clone()) }];
    for options in [
        Options { extra_arguments: argument, ..fake.options() },
        Options { environment: Environment::only([("LONG".to_owned(), long)]), ..fake.options() },
    ] {
        let error = Client::connect(options).await.map(drop).unwrap_err();
        assert!(matches!(error, ConnectError::Start(StartError::TooLong(_))), "{error}");
    }
}

#[tokio::test]
async fn a_bad_option_starts_nothing() {
    let fake = Fake::new("touch started");
    let extra = |name: &str, value: Option<&str>| {
        vec![ExtraArgument { name: name.to_owned(), value: value.map(str::to_owned) }]
    };
    for options in [
        Options { extra_arguments: extra("--settings", None), ..fake.options() },
        Options { extra_arguments: extra("a b", None), ..fake.options() },
        Options { extra_arguments: extra("output-format", Some("text")), ..fake.options() },
        Options { model: Some("a\0b".into()), ..fake.options() },
        Options { max_budget_usd: Some(f64::NAN), ..fake.options() },
        Options { max_budget_usd: Some(0.0), ..fake.options() },
        Options { tools: Some(watari_sdk::ToolSet::Only(vec!["A,B".into()])), ..fake.options() },
        Options { hooks: vec![watari_sdk::Hook::on("PreTooluse")], ..fake.options() },
        Options { environment: Environment::only([("A=B".to_owned(), "x".to_owned())]), ..fake.options() },
        Options { environment: Environment::only([("A".to_owned(), "x\0y".to_owned())]), ..fake.options() },
    ] {
        let error = Client::connect(options).await.map(drop).unwrap_err();
        assert!(
            matches!(
                error,
                ConnectError::Start(StartError::InvalidOption(
                    OptionError::FlagName { .. }
                        | OptionError::OwnFlag { .. }
                        | OptionError::ZeroByte { .. }
                        | OptionError::Budget { .. }
                        | OptionError::Comma { .. }
                        | OptionError::Variable { .. }
                        | OptionError::HookEvent { .. }
                ))
            ),
            "{error}"
        );
    }
    assert!(!fake.path().join("started").exists());
}

#[tokio::test]
async fn both_pipes_full_at_once_is_no_deadlock() {
    // It writes 8 MB before it reads a byte of the prompt, which is 8 MB too.
    let fake = Fake::new(&format!(
        r#"{READY}
i=0; while [ $i -lt 8 ]; do head -c 1000000 /dev/zero | tr '\0' x; echo; i=$((i+1)); done
head -n 1 | wc -c > received
echo '{{"type":"result","subtype":"success","result":"both arrived"}}'
cat > /dev/null"#
    ));
    let mut talk = Talk::connect(fake.options()).await;
    talk.client.send("y".repeat(8_000_000)).await.unwrap();
    let events = talk.until_turn_finished().await;
    let noise =
        events.iter().filter(|event| matches!(event, Event::UnparsedLineSkipped { bytes: 1_000_000, .. })).count();
    assert_eq!(noise, 8);
    talk.client.close().await;
    let received: usize = fs::read_to_string(fake.path().join("received")).unwrap().trim().parse().unwrap();
    assert!(received > 8_000_000, "{received}");
}

#[tokio::test]
async fn a_reader_that_does_not_read_applies_backpressure_and_loses_nothing() {
    // 40 MB of text while nobody reads the events; only what fits is read from the pipe.
    let fake = Fake::new(&format!(
        r#"{READY}
i=0; while [ $i -lt 40 ]; do
printf '{{"type":"assistant","message":{{"id":"m","content":[{{"type":"text","text":"%s "}}]}}}}\n' "$(head -c 1000000 /dev/zero | tr '\0' x)"
i=$((i+1)); echo $i > written; done
cat > /dev/null"#
    ));
    let mut talk = Talk::connect(fake.options()).await;
    let written = || fs::read_to_string(fake.path().join("written")).ok().and_then(|text| text.trim().parse().ok());
    // Nothing signals that reading has stopped, so this waits long enough to write all 40 MB twice.
    let (mut before, mut steady) = (0, 0);
    while steady < 40 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now: u32 = written().unwrap_or(0);
        steady = if now == before && now > 0 { steady + 1 } else { 0 };
        before = now;
    }
    assert!((2..8).contains(&before), "{before} MB were taken while nobody read");
    // Commands still work while reading is stopped.
    let refused = talk.client.answer(watari_sdk::AskId(1), watari_sdk::Answer::allow()).await;
    assert!(refused.is_err());
    for block in 1..=40 {
        let events = talk.until(|event| matches!(event, Event::BlockFinished { .. })).await;
        let Some(Event::BlockFinished { block: id, .. }) = events.last() else { panic!("{events:#?}") };
        assert_eq!(id.0, block);
    }
    talk.client.close().await;
}

#[tokio::test]
async fn a_session_is_closed_even_when_nobody_reads_its_events() {
    let fake = Fake::new(&format!(
        r#"text=$(head -c 1000000 /dev/zero | tr '\0' x)
{READY}
trap '' TERM
i=0; while [ $i -lt 20 ]; do
printf '{{"type":"assistant","message":{{"id":"m","content":[{{"type":"text","text":"%s "}}]}}}}\n' "$text"
i=$((i+1)); done
trap 'exit 0' TERM
cat > /dev/null"#
    ));
    let talk = Talk::connect(fake.options()).await;
    let Talk { client, mut events } = talk;
    assert_eq!(client.close().await.code, Some(0));
    // The events from before are all there; those that did not fit were dropped, and their number is reported.
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event);
    }
    let blocks = seen.iter().filter(|event| matches!(event, Event::BlockFinished { .. })).count();
    assert!((8..16).contains(&blocks), "{blocks} blocks");
    let [.., Event::EventsDropped { count }, Event::CliExited { .. }] = &seen[..] else { panic!("{:#?}", seen.last()) };
    assert_eq!(usize::try_from(*count).unwrap() + blocks, 20);
}

#[tokio::test]
async fn a_cli_that_reads_nothing_can_still_be_ended() {
    // A prompt larger than any pipe blocks everything after it.
    let fake = Fake::new(&format!("{READY}\nexec tail -f /dev/null"));
    let talk = Talk::connect(fake.options()).await;
    talk.client.send("y".repeat(20_000_000)).await.unwrap();
    talk.client.abort().await;
    let talk = Talk::connect(fake.options()).await;
    talk.client.send("y".repeat(20_000_000)).await.unwrap();
    drop(talk.client);
    let mut events = talk.events;
    while events.next().await.is_some() {}
    assert_eq!(marked(fake.path().to_str().unwrap()), []);
}

#[cfg(all(target_os = "linux", not(watari_portable)))]
#[tokio::test]
async fn a_line_of_60_megabytes_passes_and_is_held_at_most_three_times() {
    const TEXT: usize = 60_000_000;
    let fake = Fake::new(&format!(
        r#"{READY}
read -r prompt
printf '{{"type":"assistant","message":{{"id":"m","content":[{{"type":"text","text":"'
head -c {TEXT} /dev/zero | tr '\0' a
printf '"}}]}}}}\n{{"type":"result","subtype":"success","result":"done"}}\n'
cat > /dev/null"#
    ));
    let mut talk = Talk::connect(fake.options()).await;
    watari_testkit::processes::reset_peak_memory();
    let before = watari_testkit::processes::peak_memory_of_this_process();
    talk.client.send("go").await.unwrap();
    let events = talk.until_turn_finished().await;
    let peak = watari_testkit::processes::peak_memory_of_this_process() - before;
    let text = events.iter().find_map(|event| match event {
        Event::BlockFinished { content, .. } => Some(content.raw.as_str().len()),
        _ => None,
    });
    assert!(text.unwrap() > TEXT);
    assert!(peak <= 3 * TEXT as u64, "{peak} bytes for a line of {TEXT}");
    talk.client.close().await;
}

#[tokio::test]
async fn a_line_over_the_limit_is_skipped_and_the_next_ones_count() {
    let fake = Fake::new(&format!(
        r#"{READY}
read -r prompt
head -c 70000000 /dev/zero | tr '\0' a; echo
echo '{{"type":"result","subtype":"success","result":"after it"}}'
cat > /dev/null"#
    ));
    let mut talk = Talk::connect(fake.options()).await;
    talk.client.send("go").await.unwrap();
    let events = talk.until_turn_finished().await;
    assert!(events.iter().any(|event| matches!(event, Event::UnparsedLineSkipped { bytes: 70_000_000, .. })));
    talk.client.close().await;
}

#[tokio::test]
async fn a_cli_that_dies_in_a_turn_ends_the_session_with_the_reason() {
    // It exits when it is interrupted, so that both prompts arrive before.
    let fake = Fake::new(&format!("{READY}\nread -r prompt\nread -r interrupt\necho 'out of luck' >&2\nkill -9 $$"));
    let mut talk = Talk::connect(fake.options()).await;
    talk.client.send("go").await.unwrap();
    talk.client.send("and again").await.unwrap();
    let unanswered = talk.client.interrupt().await.unwrap_err();
    assert_eq!(unanswered.to_string(), "the CLI exited before it answered");
    let mut events = Vec::new();
    while let Some(event) = talk.events.next().await {
        events.push(event);
    }
    insta::assert_snapshot!(transcript(&events), @"
    ready
    turn started: Prompt(PromptId(1))
    prompt 1 dropped: CliExited
    prompt 2 dropped: CliExited
    request 2 answered: Failed(CliExited)
    ended: ByItself code None signal Some(9)
    ");
    let Some(Event::CliExited { exit }) = events.last() else { panic!("{events:#?}") };
    assert_eq!(exit.stderr, "out of luck");
    let refused = talk.client.send("hello?").await.unwrap_err();
    assert_eq!(refused.to_string(), "the session has ended");
    assert_eq!(talk.client.close().await, **exit);
}

#[tokio::test]
async fn a_cli_that_ignores_every_sign_is_killed_by_the_ladder() {
    let fake = Fake::new(&format!("trap '' INT TERM\n{READY}\nexec 0< /dev/null\nwhile :; do tail -f /dev/null; done"));
    let mut talk = Talk::connect(fake.options()).await;
    talk.until(|event| matches!(event, Event::Ready { .. })).await;
    let exit = talk.client.close().await;
    assert_eq!(exit.signal, Some(9), "{exit:?}");
    assert_eq!(marked(fake.path().to_str().unwrap()), []);
}

/// Options for the scripted fake CLI, which can do more than a shell script.
fn scripted(fake: &Fake, script: &str) -> Options {
    let path = fake.write("script", script, 0o644);
    let options = fake.options();
    let mut environment = options.environment.clone();
    environment.set.insert("FAKE_CLAUDE_SCRIPT".to_owned(), Some(path.display().to_string()));
    Options { claude: Some(common::built("fake-claude")), environment, ..options }
}

#[tokio::test]
async fn a_cli_that_was_stopped_is_ended_all_the_same() {
    let fake = Fake::new("");
    let mut talk = Talk::connect(scripted(&fake, "prompt\ntext hello\nstop\n")).await;
    talk.client.send("go").await.unwrap();
    talk.until(|event| matches!(event, Event::MessageFinished { .. })).await;
    let stopped = || marked(fake.path().to_str().unwrap()).iter().any(|process| process.state == 'T');
    while !stopped() {
        // It can only be polled.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let exit = talk.client.abort().await;
    assert_eq!(exit.signal, Some(9), "{exit:?}");
    assert_eq!(marked(fake.path().to_str().unwrap()), []);
}

/// A limit for the reaction to an interrupt, short enough for a test.
fn reacts_within(limit: Duration) -> WatchdogLimits {
    WatchdogLimits { interrupt_answer_timeout: limit, interrupt_end_timeout: limit, ..WatchdogLimits::default() }
}

/// Returns how a session ends whose CLI does not react to an interrupt.
async fn interrupted_in_vain(talk: Talk) -> Exit {
    let interrupted = talk.client.interrupt().await;
    assert_eq!(interrupted, Err(RequestError::Failed(RequestFailure::CliExited)));
    let Some(Event::CliExited { exit }) = talk.rest().await.pop() else { panic!("it has no end") };
    *exit
}

#[tokio::test]
async fn an_interrupt_that_can_never_be_written_ends_the_cli() {
    let limit = Duration::from_millis(200);
    // One has closed its stdin; the other does not read a prompt that fills its pipe.
    let closed = Fake::new(&format!("{READY}\nread -r prompt\nexec 0<&-\nexec tail -f /dev/null"));
    let full = Fake::new(&format!("{READY}\nexec tail -f /dev/null"));
    for (fake, prompt) in [(closed, "go".to_owned()), (full, "y".repeat(20_000_000))] {
        let mut talk = Talk::connect(Options { watchdog: reacts_within(limit), ..fake.options() }).await;
        talk.client.send(prompt).await.unwrap();
        talk.until(|event| matches!(event, Event::TurnStarted { .. })).await;
        let exit = interrupted_in_vain(talk).await;
        assert_eq!(exit.reason, ExitReason::Unresponsive { to: UnresponsiveTo::Interrupt, seconds: 0 });
        assert_eq!(marked(fake.path().to_str().unwrap()), []);
    }
}

#[tokio::test]
async fn a_cli_that_is_busy_reading_a_long_prompt_is_not_ended_by_an_interrupt() {
    // It takes six seconds to read what was written before the interrupt, and never pauses for two.
    let slow = "for piece in 1 2 3 4 5 6 7 8 9 10 11 12; do head -c 400000 > /dev/null; sleep 0.5; done";
    let answer =
        r#"echo '{"type":"control_response","response":{"subtype":"success","request_id":"watari_2","response":{}}}'"#;
    let fake =
        Fake::new(&format!("{READY}\n{slow}\nread -r rest\nread -r interrupt\n{answer}\nexec tail -f /dev/null"));
    let options = Options { watchdog: reacts_within(Duration::from_secs(3)), ..fake.options() };
    let mut talk = Talk::connect(options).await;
    talk.client.send("y".repeat(4_900_000)).await.unwrap();
    talk.until(|event| matches!(event, Event::TurnStarted { .. })).await;
    talk.client.interrupt().await.unwrap();
    talk.client.abort().await;
}

#[tokio::test]
async fn a_cli_that_nobody_reads_is_neither_stalled_nor_ended_by_an_interrupt() {
    // Its output fills every queue, and its answers come after it.
    let flood = r#"yes "{\"type\":\"mystery\",\"of\":\"$(head -c 1000 /dev/zero | tr '\0' x)\"}" | head -n 6000"#;
    let answers = r#"while read -r line; do
        id="${line#*request_id\":\"}"
        echo '{"type":"control_response","response":{"subtype":"success","request_id":"'"${id%%\"*}"'","response":{}}}'
    done"#;
    let fake = Fake::new(&format!("{READY}\nread -r prompt\n{flood}\n{answers}"));
    let watchdog = WatchdogLimits {
        probe_after: Duration::from_millis(100),
        probe_timeout: Duration::from_millis(100),
        ..reacts_within(Duration::from_millis(500))
    };
    let mut talk = Talk::connect(Options { watchdog, ..fake.options() }).await;
    talk.client.send("go").await.unwrap();
    let receipt = tokio::time::timeout(Duration::from_secs(2), talk.client.interrupt()).await;
    assert!(receipt.is_err(), "{receipt:?}");
    let seen = talk.until(|event| matches!(event, Event::RequestAnswered { .. })).await;
    assert!(!seen.iter().any(|event| matches!(event, Event::CliStalled { .. })), "{}", seen.len());
    talk.client.abort().await;
}

#[cfg(not(watari_portable))]
#[tokio::test]
async fn a_child_that_hides_from_the_cli_does_not_hide_from_the_supervisor() {
    let fake = Fake::new("");
    let mut talk = Talk::connect(scripted(&fake, "prompt\nchild\nresult started\nprompt\n")).await;
    talk.client.send("go").await.unwrap();
    talk.until_idle().await;
    assert_eq!(marked(fake.path().to_str().unwrap()).len(), 3);
    talk.client.close().await;
    assert_eq!(marked(fake.path().to_str().unwrap()), []);
}

#[tokio::test]
async fn bytes_that_are_no_text_and_lines_that_are_no_messages_end_nothing() {
    let fake = Fake::new("");
    let script = "noise a banner\nprompt\nraw ff fe 0a\nnoise {\"type\":\nemit {\"type\":\"of_the_future\"}\ntext still here\nresult\nprompt\n";
    let mut talk = Talk::connect(scripted(&fake, script)).await;
    talk.client.send("go").await.unwrap();
    insta::assert_snapshot!(transcript(&talk.until_idle().await), @r#"
    noise of 8 bytes: a banner
    ready
    turn started: Prompt(PromptId(1))
    session opened
    noise of 2 bytes: ��
    noise of 8 bytes: {"type":
    message msg_fake_1 started
    block 1 started at 0: Text
    block 1 grew text: still here
    block 1 finished: {"type":"text","text":"still here"}
    message msg_fake_1 finished with [1], end_turn
    turn finished: Prompt(PromptId(1)) Completed success "still here"
    idle
    "#);
    talk.client.close().await;
}

#[tokio::test]
async fn asks_that_come_at_once_are_each_answered_once() {
    let fake = Fake::new("");
    let log = fake.path().join("log");
    let mut script = "prompt\n".to_owned();
    for ask in 0..50 {
        script.push_str(&format!("ask! a{ask} Bash {{\"command\":\"ls\"}}\n"));
    }
    for ask in 0..50 {
        script.push_str(&format!("await a{ask}\n"));
    }
    script.push_str("result\nprompt\n");
    let mut options = scripted(&fake, &script);
    options.environment.set.insert("FAKE_CLAUDE_LOG".to_owned(), Some(log.display().to_string()));
    options.permission_prompts = watari_sdk::PermissionPrompts::Ask { answer_timeout: None };
    let mut talk = Talk::connect(options).await;
    talk.client.send("go").await.unwrap();
    for _ in 0..50 {
        talk.until_asked().await;
    }
    // Two clients answer every ask, from the last to the first; one of them is refused each time.
    for ask in (1..=50).map(watari_sdk::AskId) {
        let (yes, no) = tokio::join!(
            talk.client.answer(ask, watari_sdk::Answer::allow()),
            talk.client.answer(ask, watari_sdk::Answer::deny("no")),
        );
        assert!(yes.is_ok() != no.is_ok(), "{yes:?} {no:?}");
    }
    talk.until_idle().await;
    talk.client.close().await;
    let answers = fs::read_to_string(log).unwrap().lines().filter(|line| line.contains("\"control_response\"")).count();
    assert_eq!(answers, 50);
}

#[cfg(not(watari_portable))]
#[tokio::test]
async fn a_supervisor_that_was_stopped_holds_nothing_up() {
    let fake = Fake::new(&format!("{READY}\nexec tail -f /dev/null"));
    let talk = Talk::connect(fake.options()).await;
    let processes = marked(fake.path().to_str().unwrap());
    let supervisor = processes.iter().find(|process| process.command.contains("__supervisor")).unwrap();
    assert!(
        std::process::Command::new("kill").args(["-STOP", &supervisor.pid.to_string()]).status().unwrap().success()
    );
    talk.client.abort().await;
    assert_eq!(marked(fake.path().to_str().unwrap()), []);
}
