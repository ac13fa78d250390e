//! What was written is read, and writing what was read gives the same bytes.

mod any;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde::de::{Deserializer, Error as _, Visitor};

use super::*;
use any::{every_event, name_of};

/// Writes, reads and writes an event, and compares.
fn is_read_as_written(event: NativeEvent, position: Position) {
    let place = if event.is_ephemeral() { EventPlace::After(position) } else { EventPlace::At(position) };
    let name = name_of(&event).to_owned();
    let mut written = Vec::new();
    EventLine { place, event }.write(&mut written);
    assert!(!written.contains(&b'\n'));
    let line = read(&written).unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(&written)));
    assert_eq!(name_of(&line.event), name);
    assert!(!matches!(line.event, NativeEvent::Foreign(_)), "{name}");
    assert_eq!(line.place, place);
    assert_eq!(rewritten(&line), String::from_utf8(written).unwrap());
}

fn rewritten(line: &EventLine) -> String {
    let mut written = Vec::new();
    line.write(&mut written);
    String::from_utf8(written).unwrap()
}

#[test]
fn every_event_is_read_as_it_was_written() {
    let config = ProptestConfig::default();
    // There are many variants, and each is small.
    let config = ProptestConfig { cases: config.cases.div_ceil(4), ..config };
    for event in every_event() {
        // A runner counts its cases over all its runs.
        let mut runner = TestRunner::new(config.clone());
        let numbers = 0..10_000_000_000_000_000_000_u64;
        let written = (event, numbers.clone(), numbers);
        let outcome = runner.run(&written, |(event, epoch, seq)| {
            is_read_as_written(event, Position { epoch, seq });
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The names by which serde knows the variants of an enum.
struct Variants;

impl<'de> Deserializer<'de> for Variants {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("not an enum"))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom(variants.join(" ")))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// One event of each strategy, by name.
fn one_of_each() -> BTreeMap<String, NativeEvent> {
    let mut runner = TestRunner::deterministic();
    let one = |strategy: BoxedStrategy<NativeEvent>| strategy.new_tree(&mut runner).unwrap().current();
    every_event().into_iter().map(one).map(|event| (name_of(&event).to_owned(), event)).collect()
}

#[test]
fn no_event_is_left_out() {
    let variants = [Event::deserialize(Variants).unwrap_err(), HostEvent::deserialize(Variants).unwrap_err()];
    let listed = variants.map(|names| names.to_string()).join(" ");
    // These two are read by hand.
    let expected: BTreeSet<&str> = listed.split(' ').chain(["ask_opened", "ask_resolved"]).collect();
    let events = one_of_each();
    assert_eq!(events.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected);
    assert_eq!(every_event().len(), expected.len());
    for (name, event) in events {
        let mut written = Vec::new();
        event.write(&mut written);
        let head = format!("{{\"type\":\"{name}\"");
        assert!(written.starts_with(head.as_bytes()), "{}", String::from_utf8_lossy(&written));
    }
}

#[test]
fn ephemeral_events_are_known_by_their_type() {
    let ephemeral = one_of_each().into_iter().filter(|(_, event)| event.is_ephemeral()).map(|(name, _)| name);
    assert_eq!(ephemeral.collect::<BTreeSet<_>>(), EPHEMERAL_TYPES.map(str::to_owned).into());
}

#[test]
fn a_value_that_no_rust_type_holds_is_passed_on_unchanged() {
    for line in [
        r#"{"seq":"1:2","type":"unknown","frame":{"half":"\ud83d","n":1e400,"a":1,"a":2}}"#,
        r#"{"seq":"1:2","type":"block_finished","block":1,"message":"m","parent":null,"streamed":false,"source":{"entry":null,"agent":null,"cut_short":false,"author":"model"},"content":{"type":"text","text":"\ud83d"}}"#,
        r#"{"seq":"1:2","type":"ask_opened","ask":1,"kind":"hook","hook":1,"event":"Stop","tool_use":null,"input":{"n":1e400,"half":"\udc00"}}"#,
    ] {
        let read = read(line.as_bytes()).unwrap();
        assert!(matches!(read.event, NativeEvent::Session(_)));
        assert_eq!(rewritten(&read), line);
    }
}

#[test]
fn what_an_earlier_version_left_out_is_none_and_what_a_newer_one_adds_is_ignored() {
    let line = r#"{"seq":"1:2","mood":{"a":[1]},"ask":7,"tool":"Bash","input":{},"type":"ask_opened","kind":"plan","needs_person":true,"raw":1}"#;
    let read = read(line.as_bytes()).unwrap();
    let in_order = r#"{"seq":"1:2","type":"ask_opened","ask":7,"kind":"plan","tool":"Bash","input":{},"tool_use":null,"agent":null,"suggestions":null,"needs_person":true,"raw":1}"#;
    assert_eq!(rewritten(&read), in_order);
}

#[test]
fn an_event_of_a_newer_host_is_kept_whole() {
    for (line, name) in [
        (r#"{"seq":"3:9","type":"moon_rose","phase":{"n":1e400,"half":"\ud83d"} }"#, "moon_rose"),
        (r#"{"after":"3:9","n":1,"type":"moon_set"}"#, "moon_set"),
        (r#"{"seq":"3:9","type":"prompt_dropped","prompt":4,"reason":"moonlight"}"#, "prompt_dropped"),
        (r#"{"seq":"3:9","type":"ask_opened","ask":4,"kind":"dare","tool":"Bash"}"#, "ask_opened"),
        (r#"{"seq":"3:9","type":"turn_started","cause":{"moon":1}}"#, "turn_started"),
    ] {
        let read = read(line.as_bytes()).unwrap();
        let NativeEvent::Foreign(event) = &read.event else { panic!("{line} was known") };
        assert_eq!((event.name(), read.event.is_ephemeral()), (name, line.contains("after")));
        assert_eq!(rewritten(&read), line);
    }
}

#[test]
fn a_line_that_is_no_event_is_refused_and_the_error_names_the_field() {
    let refusals = [
        r#"{"type":"became_idle","seq":"1:2"}"#,
        r#"{"seq":"1:x","type":"became_idle"}"#,
        r#"{"seq":"1:2"}"#,
        r#"{"seq":"1:2","type":7}"#,
        r#"{"seq":"1:2","type":"became_idle""#,
        r#"{"seq":"1:2","type":"became_idle"} and more"#,
        r#"{"seq":"1:2","type":"moon_rose"} and more"#,
        r#"{"seq":"1:2","type":"title_changed"}"#,
        r#"{"seq":"1:2","type":"title_changed","title":7,"n":1}"#,
        r#"{"seq":"1:2","type":"title_changed","n":1,"title":[]}"#,
        r#"{"seq":"1:2","type":"cli_exited","exit":{"code":0,"signal":"TERM","left":0}}"#,
        r#"{"seq":"1:2","type":"resumed_elsewhere","session_id":"mine","entrypoint":"cli"}"#,
        r#"{"seq":"1:2","type":"ask_opened","ask":-1,"kind":"plan"}"#,
        r#"{"seq":"1:2","type":"ask_resolved","ask":1,"resolution":"allowed","by":null}"#,
        r#"{"seq":"1:2","type":"host_started","key":"..","session_id":"","cwd":"","version":""}"#,
    ];
    let said = refusals.map(|line| format!("{line}\n  {}", read(line.as_bytes()).unwrap_err()));
    insta::assert_snapshot!(said.join("\n"), @r#"
    {"type":"became_idle","seq":"1:2"}
      the line does not begin with the position of an event
    {"seq":"1:x","type":"became_idle"}
      the line does not begin with the position of an event
    {"seq":"1:2"}
      the line has no type, or one that is not a string
    {"seq":"1:2","type":7}
      the line has no type, or one that is not a string
    {"seq":"1:2","type":"became_idle"
      the line is not a JSON object: EOF while parsing an object at line 1 column 33
    {"seq":"1:2","type":"became_idle"} and more
      the line is not a JSON object: trailing characters at line 1 column 36
    {"seq":"1:2","type":"moon_rose"} and more
      the line is not a JSON object: trailing characters at line 1 column 22
    {"seq":"1:2","type":"title_changed"}
      cannot read the event title_changed: missing field `title` at line 1 column 36
    {"seq":"1:2","type":"title_changed","title":7,"n":1}
      cannot read the event title_changed, in title: invalid type: integer `7`, expected a string at line 1 column 45
    {"seq":"1:2","type":"title_changed","n":1,"title":[]}
      cannot read the event title_changed, in title: invalid type: sequence, expected a string at line 1 column 50
    {"seq":"1:2","type":"cli_exited","exit":{"code":0,"signal":"TERM","left":0}}
      cannot read the event cli_exited, in exit: invalid type: string "TERM", expected i32 at line 1 column 65
    {"seq":"1:2","type":"resumed_elsewhere","session_id":"mine","entrypoint":"cli"}
      cannot read the event resumed_elsewhere, in session_id: "mine" is not a session id: expected a UUID such as 3447b64d-2090-41fe-b1dc-65114ad62db4 at line 1 column 59
    {"seq":"1:2","type":"ask_opened","ask":-1,"kind":"plan"}
      cannot read the event ask_opened, in ask: invalid value: integer `-1`, expected u64 at line 1 column 41
    {"seq":"1:2","type":"ask_resolved","ask":1,"resolution":"allowed","by":null}
      cannot read the event ask_resolved: missing field `kind` at line 1 column 76
    {"seq":"1:2","type":"host_started","key":"..","session_id":"","cwd":"","version":""}
      cannot read the event host_started, in key: ".." is not a session key: expected up to 12 letters and digits at line 1 column 45
    "#);
    assert!(matches!(read(b"{\"seq\":\"1:2\",\"\xff"), Err(ReadEventError::NotAnObject(_))));
}
