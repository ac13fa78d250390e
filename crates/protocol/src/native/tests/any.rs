//! Any event: a strategy for each variant of each event, with arbitrary values in all its fields.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use crate::event::*;
use crate::id::*;
use crate::json::RawJson;
use crate::key::Key;
use crate::native::NativeEvent;
use crate::wire::message::read_block;

/// One strategy for each variant. A test asserts that none is missing.
pub(super) fn every_event() -> Vec<BoxedStrategy<NativeEvent>> {
    let session = session_events().into_iter().map(|event| event.prop_map(NativeEvent::Session).boxed());
    let host = host_events().into_iter().map(|event| event.prop_map(NativeEvent::Host).boxed());
    session.chain(host).collect()
}

fn session_events() -> Vec<BoxedStrategy<Event>> {
    vec![
        (of(text()), raw()).prop_map(|(version, raw)| Event::Ready { cli: CliInfo { version, raw } }).boxed(),
        session_info().prop_map(|session| Event::SessionOpened { session: Box::new(session) }).boxed(),
        (prompt(), entry(), raw())
            .prop_map(|(prompt, entry, content)| Event::PromptAccepted { prompt, entry, content })
            .boxed(),
        cause().prop_map(|cause| Event::TurnStarted { cause }).boxed(),
        (message(), text()).prop_map(|(message, model)| Event::MessageStarted { message, model }).boxed(),
        (block(), message(), any::<u64>(), block_kind(), raw())
            .prop_map(|(block, message, index, kind, content)| Event::BlockStarted {
                block,
                message,
                index,
                kind,
                content,
            })
            .boxed(),
        (block(), any::<u64>(), delta()).prop_map(|(block, at, delta)| Event::BlockDelta { block, at, delta }).boxed(),
        (block(), message(), of(tool_use()), any::<bool>(), block_source(), raw())
            .prop_map(|(block, message, parent, streamed, source, content)| Event::BlockFinished {
                block,
                message,
                parent,
                streamed,
                source: Box::new(source),
                content: read_block(content.as_ref()),
            })
            .boxed(),
        block().prop_map(|block| Event::BlockDiscarded { block }).boxed(),
        (message(), vec(block(), 0..3), of(text()))
            .prop_map(|(message, blocks, stop_reason)| Event::MessageFinished { message, blocks, stop_reason })
            .boxed(),
        message().prop_map(|message| Event::MessageRetracted { message }).boxed(),
        (tool_use(), of(tool_use()), any::<bool>(), raw(), of(raw()))
            .prop_map(|(tool_use, parent, is_error, content, result)| Event::ToolReturned {
                tool_use,
                parent,
                is_error,
                content,
                result,
            })
            .boxed(),
        (of(tool_use()), any::<bool>(), any::<bool>(), raw())
            .prop_map(|(parent, synthetic, repeated, content)| Event::ContextInjected {
                parent,
                synthetic,
                repeated,
                content,
            })
            .boxed(),
        (tool_use(), text(), number())
            .prop_map(|(tool_use, tool, elapsed_seconds)| Event::ToolProgressed { tool_use, tool, elapsed_seconds })
            .boxed(),
        (ask(), ask_kind()).prop_map(|(ask, kind)| Event::AskOpened { ask, kind }).boxed(),
        (ask(), ask_summary(), ask_resolution(), of(text()), grant())
            .prop_map(|(ask, summary, resolution, by, grant)| Event::AskResolved {
                ask,
                summary,
                resolution,
                by,
                grant,
            })
            .boxed(),
        (cause(), outcome())
            .prop_map(|(cause, outcome)| Event::TurnFinished { cause, outcome: Box::new(outcome) })
            .boxed(),
        (prompt(), prop::sample::select(vec![DropReason::Cancelled, DropReason::CliExited, DropReason::Lost]))
            .prop_map(|(prompt, reason)| Event::PromptDropped { prompt, reason })
            .boxed(),
        Just(Event::BecameIdle).boxed(),
        (of(text()), of(text()), raw())
            .prop_map(|(status, permission_mode, raw)| Event::StatusChanged { status, permission_mode, raw })
            .boxed(),
        (any::<u64>(), any::<u64>(), number(), of(any::<u64>()), of(text()))
            .prop_map(|(attempt, max_retries, delay_ms, status, error)| Event::ApiRetryScheduled {
                attempt,
                max_retries,
                delay_ms,
                status,
                error,
            })
            .boxed(),
        (text(), task_update(), raw()).prop_map(|(task, update, raw)| Event::TaskChanged { task, update, raw }).boxed(),
        raw().prop_map(|tasks| Event::TasksListed { tasks }).boxed(),
        (text(), text(), text(), hook_update(), raw())
            .prop_map(|(hook, name, event, update, raw)| Event::HookChanged {
                hook_run: hook,
                name,
                event,
                update,
                raw,
            })
            .boxed(),
        (text(), of(tool_use()), text(), raw())
            .prop_map(|(tool, tool_use, message, raw)| Event::PermissionDenied { tool, tool_use, message, raw })
            .boxed(),
        any::<u64>().prop_map(|tokens| Event::ThinkingCounted { tokens }).boxed(),
        raw().prop_map(|raw| Event::Compacted { raw }).boxed(),
        raw().prop_map(|raw| Event::ConversationCleared { raw }).boxed(),
        text().prop_map(|title| Event::TitleChanged { title }).boxed(),
        raw().prop_map(|commands| Event::CommandsListed { commands }).boxed(),
        text().prop_map(|suggestion| Event::PromptSuggested { suggestion }).boxed(),
        (text(), raw()).prop_map(|(path, entries)| Event::TranscriptWritten { path, entries }).boxed(),
        (notice_kind(), of(text()), raw())
            .prop_map(|(about, text, raw)| Event::NoticeReported { about, text, raw })
            .boxed(),
        (request(), raw(), of(text())).prop_map(|(request, body, by)| Event::RequestSent { request, body, by }).boxed(),
        (request(), reply()).prop_map(|(request, reply)| Event::RequestAnswered { request, reply }).boxed(),
        raw().prop_map(|frame| Event::Unknown { frame }).boxed(),
        (text(), any::<u64>()).prop_map(|(beginning, bytes)| Event::UnparsedLineSkipped { beginning, bytes }).boxed(),
        any::<u64>().prop_map(|silent_seconds| Event::CliStalled { silent_seconds }).boxed(),
        any::<u64>().prop_map(|silent_seconds| Event::CliRecovered { silent_seconds }).boxed(),
        (session_id(), text())
            .prop_map(|(session_id, entrypoint)| Event::ResumedElsewhere { session_id, entrypoint })
            .boxed(),
        any::<u64>().prop_map(|count| Event::EventsDropped { count }).boxed(),
        exit().prop_map(|exit| Event::CliExited { exit: Box::new(exit) }).boxed(),
    ]
}

fn host_events() -> Vec<BoxedStrategy<HostEvent>> {
    vec![
        (any::<u64>().prop_map(Key::from_random), text(), text(), text())
            .prop_map(|(key, session_id, cwd, version)| HostEvent::HostStarted { key, session_id, cwd, version })
            .boxed(),
        text().prop_map(|message| HostEvent::StartFailed { message }).boxed(),
        text().prop_map(|session_id| HostEvent::ContextLost { session_id }).boxed(),
        text().prop_map(|reason| HostEvent::HostStopping { reason }).boxed(),
        text().prop_map(|message| HostEvent::LogRestored { message }).boxed(),
        any::<u64>().prop_map(|through| HostEvent::EventsLost { through }).boxed(),
        any::<(u64, u64)>().prop_map(|(lines, bytes)| HostEvent::UnparsedLinesOmitted { lines, bytes }).boxed(),
        text().prop_map(|message| HostEvent::StorageFailed { message }).boxed(),
        Just(HostEvent::StorageRecovered).boxed(),
        Just(HostEvent::CaughtUp).boxed(),
    ]
}

/// The name of an event. The compiler asks for a name when an event is added, and the test then for its strategy.
pub(super) fn name_of(event: &NativeEvent) -> &str {
    match event {
        NativeEvent::Session(event) => name_of_session_event(event),
        NativeEvent::Host(event) => match event {
            HostEvent::HostStarted { .. } => "host_started",
            HostEvent::StartFailed { .. } => "start_failed",
            HostEvent::ContextLost { .. } => "context_lost",
            HostEvent::HostStopping { .. } => "host_stopping",
            HostEvent::LogRestored { .. } => "log_restored",
            HostEvent::EventsLost { .. } => "events_lost",
            HostEvent::UnparsedLinesOmitted { .. } => "unparsed_lines_omitted",
            HostEvent::StorageFailed { .. } => "storage_failed",
            HostEvent::StorageRecovered => "storage_recovered",
            HostEvent::CaughtUp => "caught_up",
        },
        NativeEvent::Foreign(event) => event.name(),
    }
}

fn name_of_session_event(event: &Event) -> &'static str {
    match event {
        Event::Ready { .. } => "ready",
        Event::SessionOpened { .. } => "session_opened",
        Event::PromptAccepted { .. } => "prompt_accepted",
        Event::TurnStarted { .. } => "turn_started",
        Event::MessageStarted { .. } => "message_started",
        Event::BlockStarted { .. } => "block_started",
        Event::BlockDelta { .. } => "block_delta",
        Event::BlockFinished { .. } => "block_finished",
        Event::BlockDiscarded { .. } => "block_discarded",
        Event::MessageFinished { .. } => "message_finished",
        Event::MessageRetracted { .. } => "message_retracted",
        Event::ToolReturned { .. } => "tool_returned",
        Event::ContextInjected { .. } => "context_injected",
        Event::ToolProgressed { .. } => "tool_progressed",
        Event::AskOpened { .. } => "ask_opened",
        Event::AskResolved { .. } => "ask_resolved",
        Event::TurnFinished { .. } => "turn_finished",
        Event::PromptDropped { .. } => "prompt_dropped",
        Event::BecameIdle => "became_idle",
        Event::StatusChanged { .. } => "status_changed",
        Event::ApiRetryScheduled { .. } => "api_retry_scheduled",
        Event::TaskChanged { .. } => "task_changed",
        Event::TasksListed { .. } => "tasks_listed",
        Event::HookChanged { .. } => "hook_changed",
        Event::PermissionDenied { .. } => "permission_denied",
        Event::ThinkingCounted { .. } => "thinking_counted",
        Event::Compacted { .. } => "compacted",
        Event::ConversationCleared { .. } => "conversation_cleared",
        Event::TitleChanged { .. } => "title_changed",
        Event::CommandsListed { .. } => "commands_listed",
        Event::PromptSuggested { .. } => "prompt_suggested",
        Event::TranscriptWritten { .. } => "transcript_written",
        Event::NoticeReported { .. } => "notice_reported",
        Event::RequestSent { .. } => "request_sent",
        Event::RequestAnswered { .. } => "request_answered",
        Event::Unknown { .. } => "unknown",
        Event::UnparsedLineSkipped { .. } => "unparsed_line_skipped",
        Event::CliStalled { .. } => "cli_stalled",
        Event::CliRecovered { .. } => "cli_recovered",
        Event::ResumedElsewhere { .. } => "resumed_elsewhere",
        Event::EventsDropped { .. } => "events_dropped",
        Event::CliExited { .. } => "cli_exited",
    }
}

/// Texts with all kinds of characters: those that JSON escapes, and those that look like parts of a line.
fn text() -> impl Strategy<Value = String> + Clone {
    let odd = ["\u{0}\u{1f}\u{7f}", "\u{2028}\u{feff}", "\"\\/\n\t", "\",\"type\":\"caught_up", "渡り🦆", "", "null"];
    prop_oneof![any::<String>(), prop::sample::select(odd.to_vec()).prop_map(str::to_owned)]
}

/// JSON that no Rust value can hold, too: numbers out of range, lone surrogates, repeated keys, spaces, deep nesting.
pub(super) fn raw() -> impl Strategy<Value = RawJson> + Clone {
    let odd = [
        "null",
        "true",
        "1e400",
        "-0",
        "1.50",
        "9007199254740993",
        r#""\ud83d""#,
        r#""A\/""#,
        "[]",
        "{ }",
        "[1,\r\n2]",
    ];
    let deep = [format!("{}1{}", "[".repeat(300), "]".repeat(300)), r#"{"a":1,"a":2}"#.to_owned()];
    let block = [r#"{"type":"text","text":"\ud83d"}"#, r#"{"id":"t","name":"Bash","type":"tool_use","input":{}}"#];
    let leaf = prop_oneof![
        prop::sample::select(odd.into_iter().chain(block).map(str::to_owned).chain(deep).collect::<Vec<_>>()),
        any::<f64>().prop_map(|number| serde_json::json!(number).to_string()),
        text().prop_map(|text| serde_json::json!(text).to_string()),
    ];
    let value = leaf.prop_recursive(3, 12, 4, |inner| {
        let member = (text(), inner.clone()).prop_map(|(name, value)| format!("{} :{value}", serde_json::json!(name)));
        prop_oneof![
            vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(" , "))),
            vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    });
    value.prop_map(|text| RawJson::read(text).unwrap())
}

/// Every number that JSON has.
fn number() -> impl Strategy<Value = f64> {
    use prop::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO
}

fn message() -> impl Strategy<Value = MessageId> {
    text().prop_map(MessageId)
}

fn tool_use() -> impl Strategy<Value = ToolUseId> + Clone {
    text().prop_map(ToolUseId)
}

fn prompt() -> impl Strategy<Value = PromptId> + Clone {
    any::<u64>().prop_map(PromptId)
}

fn ask() -> impl Strategy<Value = AskId> {
    any::<u64>().prop_map(AskId)
}

fn block() -> impl Strategy<Value = BlockId> {
    any::<u64>().prop_map(BlockId)
}

fn request() -> impl Strategy<Value = RequestId> {
    any::<u64>().prop_map(RequestId)
}

fn uuid() -> impl Strategy<Value = String> {
    "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
}

fn session_id() -> impl Strategy<Value = SessionId> {
    uuid().prop_map(|text| SessionId::parse(&text).unwrap())
}

fn entry() -> impl Strategy<Value = EntryId> {
    uuid().prop_map(|text| EntryId::parse(&text).unwrap())
}

fn session_info() -> impl Strategy<Value = SessionInfo> {
    (session_id(), text(), text(), text(), vec(text(), 0..3), text(), raw()).prop_map(
        |(session_id, model, cwd, permission_mode, tools, version, raw)| SessionInfo {
            session_id,
            model,
            cwd,
            permission_mode,
            tools,
            version,
            raw,
        },
    )
}

fn cause() -> impl Strategy<Value = TurnCause> {
    prop_oneof![prompt().prop_map(TurnCause::Prompt), Just(TurnCause::Cli)]
}

fn block_kind() -> impl Strategy<Value = BlockKind> {
    prop_oneof![
        Just(BlockKind::Text),
        Just(BlockKind::Thinking),
        (tool_use(), text()).prop_map(|(id, name)| BlockKind::ToolUse { id, name }),
        text().prop_map(|name| BlockKind::Other { name }),
    ]
}

fn delta() -> impl Strategy<Value = Delta> {
    prop_oneof![text().prop_map(Delta::Text), text().prop_map(Delta::Thinking), text().prop_map(Delta::Input)]
}

fn block_source() -> impl Strategy<Value = BlockSource> {
    let author = prop_oneof![Just(Author::Model), Just(Author::Command), text().prop_map(Author::ApiError)];
    (of(entry()), of(text()), any::<bool>(), author).prop_map(|(entry, agent, cut_short, author)| BlockSource {
        entry,
        agent,
        cut_short,
        author,
    })
}

fn permission_ask() -> impl Strategy<Value = Box<PermissionAsk>> {
    (text(), raw(), of(tool_use()), any::<bool>(), of(text()), of(raw()), any::<bool>(), raw()).prop_map(
        |(tool, input, tool_use, repeated, agent, suggestions, needs_person, raw)| {
            Box::new(PermissionAsk { tool, input, tool_use, repeated, agent, suggestions, needs_person, raw })
        },
    )
}

fn ask_kind() -> impl Strategy<Value = AskKind> {
    let hook = (any::<u64>().prop_map(HookId), text(), of(tool_use()), raw())
        .prop_map(|(hook, event, tool_use, input)| HookAsk { hook, event, tool_use, input });
    let form = (text(), text(), of(raw()), of(text()), raw())
        .prop_map(|(server, message, schema, url, raw)| ElicitationAsk { server, message, schema, url, raw });
    let call = (text(), raw(), of(tool_use()), raw()).prop_map(|(tool, input, tool_use, call)| ToolCallAsk {
        tool,
        input,
        tool_use,
        call,
    });
    prop_oneof![
        permission_ask().prop_map(AskKind::Permission),
        permission_ask().prop_map(AskKind::Question),
        permission_ask().prop_map(AskKind::Plan),
        hook.prop_map(AskKind::Hook),
        form.prop_map(|ask| AskKind::Elicitation(Box::new(ask))),
        call.prop_map(|ask| AskKind::ToolCall(Box::new(ask))),
    ]
}

fn ask_summary() -> impl Strategy<Value = AskSummary> {
    let kinds =
        [AskTag::Permission, AskTag::Question, AskTag::Plan, AskTag::Hook, AskTag::Elicitation, AskTag::ToolCall]
            .to_vec();
    (prop::sample::select(kinds), of(tool_use()), any::<bool>(), of(text()))
        .prop_map(|(kind, tool_use, repeated, tool)| AskSummary { kind, tool_use, repeated, tool })
}

fn ask_resolution() -> impl Strategy<Value = AskResolution> {
    use AskResolution::{Allowed, Answered, CliExited, Denied, Expired, Withdrawn};
    prop::sample::select(vec![Allowed, Denied, Answered, Expired, Withdrawn, CliExited])
}

fn grant() -> impl Strategy<Value = Grant> {
    (any::<bool>(), of(raw()), of(raw())).prop_map(|(edited, input, permissions)| Grant { edited, input, permissions })
}

fn outcome() -> impl Strategy<Value = TurnOutcome> {
    use TurnFailure::{Api, Execution, MaxBudget, MaxTurns, StructuredOutput};
    let failures = prop::sample::select(vec![Api, MaxTurns, MaxBudget, StructuredOutput, Execution]);
    let ending =
        prop_oneof![Just(TurnEnding::Completed), Just(TurnEnding::Interrupted), failures.prop_map(TurnEnding::Failed)];
    let usage = any::<[u64; 4]>().prop_map(|[input, output, creation, read]| Usage {
        input_tokens: input,
        output_tokens: output,
        cache_creation_input_tokens: creation,
        cache_read_input_tokens: read,
    });
    let texts = (text(), of(text()), of(text()), vec(text(), 0..3));
    // A cost that is too large for a number is written as null, as an unknown one is.
    let numbers = (usage, of(any::<f64>()), number(), number(), any::<u64>());
    (ending, texts, of(raw()), of(raw()), raw(), numbers, raw()).prop_map(
        |(ending, texts, structured_output, deferred_tool, permission_denials, numbers, raw)| {
            let (subtype, terminal_reason, result, errors) = texts;
            let (usage, cost_usd, total_cost_usd, duration_ms, num_turns) = numbers;
            TurnOutcome {
                ending,
                subtype,
                terminal_reason,
                result,
                errors,
                structured_output,
                deferred_tool,
                permission_denials,
                usage,
                cost_usd,
                total_cost_usd,
                duration_ms,
                num_turns,
                raw,
            }
        },
    )
}

fn task_update() -> impl Strategy<Value = TaskUpdate> {
    use TaskUpdate::{Ended, Progressed, Started, Updated};
    prop::sample::select(vec![Started, Progressed, Updated, Ended])
}

fn hook_update() -> impl Strategy<Value = HookUpdate> {
    use HookUpdate::{Ended, Progressed, Started};
    prop::sample::select(vec![Started, Progressed, Ended])
}

fn notice_kind() -> impl Strategy<Value = NoticeKind> {
    prop::sample::select(vec![
        NoticeKind::Information,
        NoticeKind::Blocked,
        NoticeKind::Notification,
        NoticeKind::Refusal,
        NoticeKind::CommandOutput,
        NoticeKind::Authentication,
        NoticeKind::RateLimit,
        NoticeKind::ToolSummary,
        NoticeKind::Goal,
        NoticeKind::MemoryRecall,
        NoticeKind::FilesPersisted,
        NoticeKind::PluginInstall,
        NoticeKind::ElicitationCompleted,
        NoticeKind::RequestProgress,
        NoticeKind::ScreenStale,
        NoticeKind::WritesLost,
        NoticeKind::ShuttingDown,
    ])
}

fn failure() -> impl Strategy<Value = RequestFailure> {
    prop_oneof![
        (text(), of(text())).prop_map(|(message, code)| RequestFailure::Refused { message, code }),
        Just(RequestFailure::CliExited),
        Just(RequestFailure::TimedOut),
        Just(RequestFailure::TooLong),
    ]
}

fn reply() -> impl Strategy<Value = RequestReply> {
    let receipt = (vec(prompt(), 0..3), vec(prompt(), 0..3))
        .prop_map(|(still_queued, cancelled)| InterruptReceipt { still_queued, cancelled });
    prop_oneof![
        receipt.prop_map(RequestReply::Interrupted),
        raw().prop_map(RequestReply::Done),
        failure().prop_map(RequestReply::Failed),
    ]
}

fn exit() -> impl Strategy<Value = Exit> {
    let reason = prop_oneof![
        Just(ExitReason::Requested),
        Just(ExitReason::StartTimedOut),
        failure().prop_map(ExitReason::StartRefused),
        (prop::sample::select(vec![UnresponsiveTo::Interrupt, UnresponsiveTo::Probe]), any::<u64>())
            .prop_map(|(to, seconds)| ExitReason::Unresponsive { to, seconds }),
        Just(ExitReason::ServerNameConflict),
        Just(ExitReason::OwnerKilled),
        Just(ExitReason::ByItself),
    ];
    let why = prop::sample::select(vec![WhyLeft::NotPermitted, WhyLeft::Stuck]);
    let left = vec((any::<u32>(), text(), why).prop_map(|(pid, command, why)| LeftProcess { pid, command, why }), 0..3);
    (of(any::<i32>()), of(any::<i32>()), any::<u32>(), left, text(), vec(text(), 0..3), reason).prop_map(
        |(code, signal, left, left_processes, stderr, errors, reason)| Exit {
            code,
            signal,
            left,
            left_processes,
            stderr,
            errors,
            reason,
        },
    )
}
