//! The measurements of hosts: one watari, many clients and sessions. There is no other program to compare with, so
//! there are only goals. What arrives is counted: a run in which anything is missing is an error.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::time::{ClockId, clock_gettime};

use crate::figure::Unit;
use crate::host::{Client, Host, until_all_done};
use crate::host_lines::{lines, silent};
use crate::measure::Scale;
use crate::subject::Programs;
use crate::table::{median, quantile, show};

/// The measured values by name, in the order of the table.
#[derive(Debug, Default)]
pub struct HostSheet {
    rows: Vec<Row>,
    places: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Row {
    name: String,
    unit: Unit,
    goal: Goal,
    samples: Vec<f64>,
}

/// The goal of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    None,
    AtMost(f64),
    AtLeast(f64),
}

/// One measurement of a host.
pub type HostMeasurement = fn(&Programs, Scale, &mut HostSheet) -> Result<()>;

/// All measurements: the name, the number of repeats, and the function.
pub const ALL: [(&str, u32, HostMeasurement); 10] = [
    ("host-start", 11, start),
    ("host-clients", 3, clients),
    ("host-events", 3, events),
    ("host-attach", 5, attach),
    ("host-attach-silent", 1, silent),
    ("host-approval", 3, approval),
    ("host-deliveries", 3, deliveries),
    ("host-sessions", 1, sessions),
    ("host-crowd", 3, crowd),
    ("host-lines", 1, lines),
];

impl HostSheet {
    pub(crate) fn add(&mut self, name: impl Into<String>, unit: Unit, goal: Goal, value: f64) {
        let name = name.into();
        let place = *self.places.entry(name.clone()).or_insert_with(|| {
            self.rows.push(Row { name, unit, goal, samples: Vec::new() });
            self.rows.len() - 1
        });
        if let Some(row) = self.rows.get_mut(place) {
            row.samples.push(value);
        }
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The whole table in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::from("| figure | watari socket | goal | |\n|---|---:|---:|---|\n");
        for row in &self.rows {
            let value = median(&row.samples).unwrap_or(f64::NAN);
            let (goal, reached) = match row.goal {
                Goal::None => (String::new(), ""),
                Goal::AtMost(most) => (format!("≤ {}", show(row.unit, most)), verdict(value <= most)),
                Goal::AtLeast(least) => (format!("≥ {}", show(row.unit, least)), verdict(value >= least)),
            };
            let _written = writeln!(text, "| {} | {} | {goal} | {reached} |", row.name, show(row.unit, value));
        }
        text
    }
}

fn verdict(reached: bool) -> &'static str {
    if reached { "✓" } else { "**missed**" }
}

/// A script of deltas that contain the time at which they were written.
fn timed(count: u64, rate: u64) -> String {
    format!("prompt\ntext hello\nresult\nprompt\ndeltas {count} at {rate}/s timed\nresult done\n")
}

/// Adds the latencies of the deltas in a line, which may contain several.
fn note_latencies(line: &[u8], latencies: &mut Vec<f64>) {
    let Some(text) = line.strip_prefix(b"{\"type\":\"text_delta\",\"text\":\"") else { return };
    let now = clock_gettime(ClockId::Monotonic);
    let now = now.tv_sec * 1_000_000_000 + now.tv_nsec;
    let name_of = text.split(|byte| *byte == b' ').filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok());
    latencies.extend(name_of.map(|written: i64| (now - written) as f64 / 1e9));
}

/// Plays a first turn, so that everything is started, and then the measured turn, with many clients.
fn timed_turn(clients: &mut [Client], speakers: &[usize]) -> Result<Vec<f64>> {
    for speaker in speakers {
        clients[*speaker].send_prompt()?;
    }
    until_all_done(clients, |_| {})?;
    for speaker in speakers {
        clients[*speaker].send_prompt()?;
    }
    let mut latencies = Vec::new();
    until_all_done(clients, |line| note_latencies(line, &mut latencies))?;
    Ok(latencies)
}

/// Reads a turn to its end, and checks the number of bytes of text.
fn take_text(clients: &mut [Client], expected: u64) -> Result<()> {
    let mut bytes = 0;
    until_all_done(clients, |line| {
        let text = line.strip_prefix(b"{\"type\":\"text_delta\",\"text\":\"");
        bytes += text.map_or(0, |text| text.len() - b"\"}".len()) as u64;
    })?;
    ensure!(bytes == expected, "{bytes} bytes of text arrived instead of {expected}");
    Ok(())
}

fn connect(host: &Host, count: usize) -> Result<Vec<Client>> {
    (0..count).map(|_| host.client()).collect()
}

fn start(programs: &Programs, scale: Scale, sheet: &mut HostSheet) -> Result<()> {
    let host = Host::start(programs, "prompt\ntext hello\nresult\n")?;
    sheet.add(
        "start of the program → listening",
        Unit::Milliseconds,
        Goal::AtMost(0.020),
        host.started().elapsed().as_secs_f64(),
    );
    let mut client = host.client()?;
    client.send_prompt()?;
    client.until("text_delta", |_| {})?;
    sheet.add(
        "start of the program → first delta",
        Unit::Milliseconds,
        Goal::None,
        host.started().elapsed().as_secs_f64(),
    );
    client.until("done", |_| {})?;
    let usage = host.usage()?;
    sheet.add("idle memory, with supervisor (PSS)", Unit::Megabytes, Goal::AtMost(4e6), usage.memory_bytes as f64);
    sheet.add("… of that allocated, not mapped from files", Unit::Megabytes, Goal::None, usage.own_bytes as f64);
    host.end()?;
    // A hundred thousand deltas and their messages.
    let messages = scale.of(100).max(2);
    let host = Host::start(programs, &format!("prompt\nrepeat {messages}\ndeltas 1000\nend\nresult done\n"))?;
    let mut clients = connect(&host, 1)?;
    clients[0].send_prompt()?;
    take_text(&mut clients, messages * 1000 * 20)?;
    let used = host.usage()?.memory_bytes as f64;
    sheet.add("memory after 100k deltas (PSS)", Unit::Megabytes, Goal::AtMost(8e6), used);
    host.end()
}

/// One session with 1, 4, 64 and 1,000 clients.
fn clients(programs: &Programs, scale: Scale, sheet: &mut HostSheet) -> Result<()> {
    let counts: &[(usize, u64, f64, f64)] = match scale {
        Scale::Full => &[
            (1, 100, 100e-6, 300e-6),
            (4, 100, f64::NAN, 0.5e-3),
            (64, 100, f64::NAN, 2e-3),
            (1000, 20, f64::NAN, f64::NAN),
        ],
        Scale::Small => &[(1, 100, f64::NAN, f64::NAN), (3, 100, f64::NAN, f64::NAN)],
    };
    let goal = |limit: f64| if limit.is_nan() { Goal::None } else { Goal::AtMost(limit) };
    for (count, rate, middle, late) in counts.iter().copied() {
        let deltas = scale.of(5 * rate).max(2);
        let host = Host::start(programs, &timed(deltas, rate))?;
        let mut clients = connect(&host, count)?;
        let latencies = timed_turn(&mut clients, &[0])?;
        let expected = deltas as usize * count;
        ensure!(latencies.len() == expected, "{} deltas arrived instead of {expected}", latencies.len());
        let part = |part| quantile(&latencies, part).unwrap_or(f64::NAN);
        let name_of = |what: &str| format!("{count} client(s) of a session, {rate} deltas/s: {what}");
        sheet.add(name_of("latency p50"), Unit::Microseconds, goal(middle), part(0.5));
        sheet.add(name_of("latency p99"), Unit::Microseconds, goal(late), part(0.99));
        if count >= 1000 {
            sheet.add(name_of("memory of the host"), Unit::Megabytes, Goal::None, host.usage()?.memory_bytes as f64);
        }
        drop(clients);
        host.end()?;
    }
    Ok(())
}

/// Durable events: blocks that are not streamed, one per line.
fn events(programs: &Programs, scale: Scale, sheet: &mut HostSheet) -> Result<()> {
    let count = scale.of(100_000);
    let block =
        r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"12345678901234567890"}]}}"#;
    let script = format!("prompt\ntext hello\nresult\nprompt\nrepeat {count}\nemit {block}\nend\nresult done\n");
    let host = Host::start(programs, &script)?;
    let mut clients = connect(&host, 1)?;
    clients[0].send_prompt()?;
    until_all_done(&mut clients, |_| {})?;
    let started = Instant::now();
    clients[0].send_prompt()?;
    let mut arrived = 0;
    until_all_done(&mut clients, |line| arrived += u64::from(line.starts_with(b"{\"type\":\"text_delta\"")))?;
    let rate = count as f64 / started.elapsed().as_secs_f64();
    ensure!(arrived == count, "{arrived} events arrived instead of {count}");
    ensure!(host.log_bytes()? > count * 100, "the events were not stored");
    sheet.add("durable events/s, stored and published", Unit::PerSecond, Goal::AtLeast(20_000.0), rate);
    host.end()
}

/// A client that replays ten thousand events.
fn attach(programs: &Programs, scale: Scale, sheet: &mut HostSheet) -> Result<()> {
    let count = scale.of(10_000);
    let block =
        r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"12345678901234567890"}]}}"#;
    let host = Host::start(programs, &format!("prompt\nrepeat {count}\nemit {block}\nend\nresult done\n"))?;
    let mut clients = connect(&host, 1)?;
    clients[0].send_prompt()?;
    until_all_done(&mut clients, |_| {})?;
    let started = Instant::now();
    let mut client = host.native_from_beginning()?;
    let (mut first, mut arrived) = (None, 0);
    client.until("became_idle", |line| {
        if line.starts_with(b"{\"seq\":") {
            first.get_or_insert_with(|| started.elapsed());
            arrived += 1;
        }
    })?;
    ensure!(arrived > count, "only {arrived} events were replayed");
    let first = first.unwrap_or(Duration::MAX).as_secs_f64();
    sheet.add("replay of 10,000 events: first", Unit::Milliseconds, Goal::AtMost(0.005), first);
    sheet.add("replay of 10,000 events: all", Unit::Milliseconds, Goal::AtMost(0.150), started.elapsed().as_secs_f64());
    host.end()
}

/// The time from one approval request to the next, when the client answers immediately.
fn approval(programs: &Programs, scale: Scale, sheet: &mut HostSheet) -> Result<()> {
    let count = scale.of(2000).max(2);
    let script = format!("prompt\nrepeat {count}\nask t1 Bash {{\"command\":\"ls\"}}\nend\nresult done\n");
    let host = Host::start(programs, &script)?;
    let mut client = host.client()?;
    client.send_prompt()?;
    let mut arrivals = Vec::new();
    while (arrivals.len() as u64) < count {
        let mut asked = String::new();
        client.until("approval_request", |line| asked = String::from_utf8_lossy(line).into_owned())?;
        arrivals.push(Instant::now());
        // The tool use is the same each time, so every request but the first has a name of its own.
        let name = asked.split_once(r#""request_id":""#).and_then(|(_, rest)| rest.split_once('"'));
        let (name, _) = name.context("an approval_request has no request_id")?;
        client.send(&format!(r#"{{"type":"approve","request_id":"{name}"}}"#))?;
    }
    client.until("done", |_| {})?;
    let times: Vec<f64> = arrivals.windows(2).map(|two| (two[1] - two[0]).as_secs_f64()).collect();
    let part = |part| quantile(&times, part).unwrap_or(f64::NAN);
    sheet.add("approval round trip, p50", Unit::Microseconds, Goal::None, part(0.5));
    sheet.add("approval round trip, p99", Unit::Microseconds, Goal::AtMost(2e-3), part(0.99));
    host.end()
}

/// 50 sessions with 20 clients each.
fn deliveries(programs: &Programs, scale: Scale, sheet: &mut HostSheet) -> Result<()> {
    let (hosts, each) = if scale == Scale::Full { (50, 20) } else { (2, 3) };
    many(programs, scale, sheet, Many { hosts, clients: each, rate: 50, late: Some(0.020), cores: Some(1.0) })
}

/// 500 sessions with 2 clients each.
fn sessions(programs: &Programs, scale: Scale, sheet: &mut HostSheet) -> Result<()> {
    let hosts = if scale == Scale::Full { 500 } else { 3 };
    many(programs, scale, sheet, Many { hosts, clients: 2, rate: 50, late: None, cores: None })
}

struct Many {
    hosts: usize,
    clients: usize,
    rate: u64,
    late: Option<f64>,
    cores: Option<f64>,
}

fn many(programs: &Programs, scale: Scale, sheet: &mut HostSheet, many: Many) -> Result<()> {
    let Many { hosts: count, clients: each, rate, late, cores } = many;
    let deltas = scale.of(10 * rate).max(2);
    let name_of = |what: &str| format!("{count} sessions × {each} clients × {rate} deltas/s: {what}");
    let began = Instant::now();
    let hosts: Vec<Host> = (0..count).map(|_| Host::start(programs, &timed(deltas, rate))).collect::<Result<_>>()?;
    let mut clients = Vec::new();
    for host in &hosts {
        clients.extend(connect(host, each)?);
    }
    let speakers: Vec<usize> = (0..count).map(|host| host * each).collect();
    for speaker in &speakers {
        clients[*speaker].send_prompt()?;
    }
    until_all_done(&mut clients, |_| {})?;
    sheet.add(name_of("time until all have answered"), Unit::Seconds, Goal::None, began.elapsed().as_secs_f64());
    let cpu = |hosts: &[Host]| -> Result<f64> { hosts.iter().map(|host| Ok(host.usage()?.cpu_seconds)).sum() };
    let before = cpu(&hosts)?;
    let started = Instant::now();
    for speaker in &speakers {
        clients[*speaker].send_prompt()?;
    }
    let mut latencies = Vec::new();
    until_all_done(&mut clients, |line| note_latencies(line, &mut latencies))?;
    let seconds = started.elapsed().as_secs_f64();
    let expected = count * each * deltas as usize;
    ensure!(latencies.len() == expected, "{} deltas arrived instead of {expected}", latencies.len());
    sheet.add(name_of("deliveries/s"), Unit::PerSecond, Goal::None, expected as f64 / seconds);
    let goal = late.map_or(Goal::None, Goal::AtMost);
    sheet.add(name_of("latency p99"), Unit::Milliseconds, goal, quantile(&latencies, 0.99).unwrap_or(f64::NAN));
    let goal = cores.map_or(Goal::None, Goal::AtMost);
    sheet.add(name_of("cores of all hosts"), Unit::Plain, goal, (cpu(&hosts)? - before) / seconds);
    let memory: u64 = hosts.iter().map(|host| host.usage().map(|usage| usage.memory_bytes)).sum::<Result<u64>>()?;
    sheet.add(name_of("memory of each host"), Unit::Megabytes, Goal::None, memory as f64 / count as f64);
    drop(clients);
    hosts.into_iter().try_for_each(Host::end)
}

/// A client that never reads, beside one that does.
fn crowd(programs: &Programs, scale: Scale, sheet: &mut HostSheet) -> Result<()> {
    let messages = scale.of(100).max(2);
    let host = Host::start(programs, &format!("prompt\nrepeat {messages}\ndeltas 1000 of 100\nend\nresult done\n"))?;
    let _silent: Vec<Client> = connect(&host, 10)?;
    let mut clients = connect(&host, 1)?;
    let started = Instant::now();
    clients[0].send_prompt()?;
    take_text(&mut clients, messages * 1000 * 100)?;
    let rate = (messages * 1000) as f64 / started.elapsed().as_secs_f64();
    sheet.add("deltas/s, 100 bytes, beside 10 clients that never read", Unit::PerSecond, Goal::None, rate);
    sheet.add("… peak memory of the host", Unit::Megabytes, Goal::None, host.usage()?.peak_bytes as f64);
    host.end()
}
