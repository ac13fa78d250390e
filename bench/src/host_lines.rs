//! What the long lines of one client cost the host and the other clients: the host's memory a minute later, and how
//! long another client waits for an answer while they arrive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::figure::Unit;
use crate::host::{Client, Host};
use crate::host_measure::{Goal, HostSheet};
use crate::measure::Scale;
use crate::subject::Programs;
use crate::table::quantile;

/// When the memory is measured.
const MEMORY_AFTER: Duration = Duration::from_secs(60);

/// How many clients send half a line.
const HALF_LINES: usize = 12;

/// How many messages of how many bytes wait while clients attach that never read.
const WAITING: (usize, usize) = (7, 30_000_000);

/// How many such clients there are, of each dialect.
const SILENT: usize = 5;

/// How long the other client is watched after that.
const WATCHED_FOR: Duration = Duration::from_secs(5);

/// One kind of long lines.
struct Case {
    name: &'static str,
    script: &'static str,
    /// How many clients send the line, at the same time.
    senders: usize,
    line: String,
    /// The type of the last line that a sender receives; none if it sends no whole line.
    answer: Option<&'static str>,
}

/// Measures long lines of three kinds, each on a host of its own.
pub(crate) fn lines(programs: &Programs, scale: Scale, sheet: &mut HostSheet) -> Result<()> {
    let (bytes, wait) = match scale {
        Scale::Full => (60_000_000, MEMORY_AFTER),
        Scale::Small => (2_000_000, Duration::ZERO),
    };
    let mut hosts = Vec::new();
    for case in cases(bytes) {
        let host = Host::start(programs, case.script)?;
        let senders = arrive(&host, &case, sheet).with_context(|| case.name)?;
        let peak = host.usage()?.peak_bytes as f64;
        sheet.add(format!("{}: peak memory of the host", case.name), Unit::Megabytes, Goal::None, peak);
        hosts.push((case.name, host, senders));
    }
    // One wait for all. A fixed time is intended: memory after that time is what is measured.
    thread::sleep(wait);
    for (name, host, senders) in hosts {
        let left = host.usage()?.memory_bytes as f64;
        sheet.add(format!("{name}: memory a minute later (PSS)"), Unit::Megabytes, Goal::None, left);
        drop(senders);
        host.end()?;
    }
    Ok(())
}

/// Measures what clients that attach and never read cost another client, when a snapshot has 200 MB of waiting
/// messages.
pub(crate) fn silent(programs: &Programs, scale: Scale, sheet: &mut HostSheet) -> Result<()> {
    let (count, bytes) = WAITING;
    let (bytes, watched_for) = match scale {
        Scale::Full => (bytes, WATCHED_FOR),
        Scale::Small => (1_000_000, Duration::from_millis(200)),
    };
    let host = Host::start(programs, "prompt\ntext hello\npause 600000\nresult\n")?;
    let (mut other, mut sender) = (host.client()?, host.client()?);
    sender.send_prompt()?;
    sender.until("text_delta", |_| {})?;
    for id in 0..count {
        let text = "x".repeat(bytes);
        sender.write(format!("{{\"type\":\"message\",\"id\":\"{id}\",\"text\":\"{text}\"}}\n").as_bytes())?;
        sender.until("accepted", |_| {})?;
    }
    let is_over = AtomicBool::new(false);
    let (waits, clients) = thread::scope(|scope| {
        let waiting = scope.spawn(|| round_trips(&mut other, &is_over));
        let clients =
            (0..SILENT).map(|_| Ok((host.client()?, host.native_from_beginning()?))).collect::<Result<Vec<_>>>();
        // A fixed time is intended: nothing signals when a client that does not read has cost enough.
        thread::sleep(watched_for);
        is_over.store(true, Ordering::Relaxed);
        (waiting.join(), clients)
    });
    let waits = waits.unwrap_or_else(|_| Err(anyhow::anyhow!("the other client panicked")))?;
    for (what, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        let wait = quantile(&waits, part).unwrap_or(f64::NAN);
        let name = format!("ten silent clients attach to 210 MB that wait: round trip of another client, {what}");
        sheet.add(name, Unit::Milliseconds, Goal::None, wait);
    }
    drop((clients?, sender));
    host.end()
}

fn cases(bytes: usize) -> [Case; 3] {
    let keys = (0_u64..).map(|number| format!("\"{number:x}\":0")).take(bytes / 10);
    [
        Case {
            name: "a 60 MB line of six million keys",
            script: "prompt\ntext hello\nresult\n",
            senders: 1,
            line: format!("{{{}}}\n", keys.collect::<Vec<_>>().join(",")),
            answer: Some("error"),
        },
        Case {
            name: "a 60 MB line that is a message",
            script: "prompt\ntext hello\nresult\n",
            senders: 1,
            line: format!("{{\"type\":\"message\",\"text\":\"go\",\"pad\":\"{}\"}}\n", "x".repeat(bytes)),
            answer: Some("done"),
        },
        Case {
            name: "12 clients with an unfinished 60 MB line each",
            script: "prompt\ntext hello\nresult\n",
            senders: HALF_LINES,
            line: format!("{{\"type\":\"message\",\"text\":\"go\",\"pad\":\"{}", "x".repeat(bytes)),
            answer: None,
        },
    ]
}

/// Sends the lines, and measures how long another client waits for answers meanwhile. Returns the senders, connected.
fn arrive(host: &Host, case: &Case, sheet: &mut HostSheet) -> Result<Vec<Client>> {
    let mut other = host.client()?;
    let mut senders = (0..case.senders).map(|_| host.client()).collect::<Result<Vec<_>>>()?;
    let is_over = AtomicBool::new(false);
    let (waits, sent) = thread::scope(|scope| {
        let waiting = scope.spawn(|| round_trips(&mut other, &is_over));
        let sending = senders.iter_mut().map(|sender| scope.spawn(|| send(sender, case))).collect::<Vec<_>>();
        let sent: Vec<_> = sending.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        (waiting.join(), sent)
    });
    for sent in sent {
        sent.unwrap_or_else(|_| Err(anyhow::anyhow!("a sender panicked")))?;
    }
    let waits = waits.unwrap_or_else(|_| Err(anyhow::anyhow!("the other client panicked")))?;
    ensure!(!waits.is_empty(), "the other client got no answer");
    for (what, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        let wait = quantile(&waits, part).unwrap_or(f64::NAN);
        sheet.add(format!("{}: round trip of another client, {what}", case.name), Unit::Milliseconds, Goal::None, wait);
    }
    Ok(senders)
}

fn send(sender: &mut Client, case: &Case) -> Result<()> {
    sender.write(case.line.as_bytes())?;
    match case.answer {
        Some(answer) => sender.until(answer, |_| {}),
        None => Ok(()),
    }
}

/// Measures how long each answer takes, until it is over. The answer is an error, so nothing else happens.
fn round_trips(client: &mut Client, is_over: &AtomicBool) -> Result<Vec<f64>> {
    let mut waits = Vec::new();
    loop {
        let asked = Instant::now();
        client.send("{}")?;
        client.until("error", |_| {})?;
        waits.push(asked.elapsed().as_secs_f64());
        if is_over.load(Ordering::Relaxed) {
            return Ok(waits);
        }
    }
}
