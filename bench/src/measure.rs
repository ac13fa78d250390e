//! The measurements: each runs one bridge once and adds its samples to the sheet. What arrives is counted: a run in
//! which anything is missing is an error.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::time::{ClockId, clock_gettime};

use crate::figure::Figure;
use crate::session::{Session, wait_readable};
use crate::subject::{BridgeMessage, Programs, Subject};
use crate::table::{Sheet, quantile};

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// For real figures.
    Full,
    /// A short run of everything, for a test that it works.
    Small,
}

/// One measurement of one bridge.
pub type Measurement = fn(&Programs, Subject, Scale, &mut Sheet) -> Result<()>;

/// All measurements: the name, the number of repeats, and the function.
pub const ALL: [(&str, u32, Measurement); 9] = [
    ("start", 11, start),
    ("memory", 3, memory),
    ("short", 5, short_deltas),
    ("long", 5, long_deltas),
    ("latency", 5, latency),
    ("permission", 5, permission),
    ("sessions", 3, sessions),
    ("stall", 3, stall),
    ("line", 5, long_line),
];

impl Scale {
    pub(crate) fn of(self, full: u64) -> u64 {
        match self {
            Scale::Full => full,
            Scale::Small => full.div_ceil(1000),
        }
    }
}

/// The maximum length of a message, in deltas and in bytes: long enough that its beginning and end do not matter, and
/// not longer than real messages.
const MESSAGE_DELTAS: u64 = 1000;
const MESSAGE_BYTES: u64 = 100_000;

fn start(programs: &Programs, subject: Subject, _scale: Scale, sheet: &mut Sheet) -> Result<()> {
    let mut session = Session::spawn(subject, programs, "prompt\ntext hello\nresult\n")?;
    let ready = session.wait_ready()?;
    if subject.reports_ready() {
        sheet.add(Figure::Ready, subject, ready.as_secs_f64());
    }
    session.send_start()?;
    session.wait_for(|message| matches!(message, BridgeMessage::Delta(_)))?;
    sheet.add(Figure::FirstDelta, subject, session.spawned().elapsed().as_secs_f64());
    session.wait_for(|message| matches!(message, BridgeMessage::TurnEnded))?;
    let usage = session.usage()?;
    sheet.add(Figure::IdleMemory, subject, usage.memory_bytes as f64);
    sheet.add(Figure::IdleOwnMemory, subject, usage.own_bytes as f64);
    session.end()
}

fn memory(programs: &Programs, subject: Subject, scale: Scale, sheet: &mut Sheet) -> Result<()> {
    let mut session = Session::begin(subject, programs, &flood(scale.of(100_000), 20))?;
    take_flood(&mut session, scale.of(100_000), 20)?;
    sheet.add(Figure::UsedMemory, subject, session.usage()?.memory_bytes as f64);
    session.end()
}

fn short_deltas(programs: &Programs, subject: Subject, scale: Scale, sheet: &mut Sheet) -> Result<()> {
    let (rate, cpu, _) = throughput(programs, subject, scale.of(1_000_000), 20)?;
    sheet.add(Figure::ShortRate, subject, rate);
    sheet.add(Figure::ShortCpu, subject, cpu);
    Ok(())
}

fn long_deltas(programs: &Programs, subject: Subject, scale: Scale, sheet: &mut Sheet) -> Result<()> {
    let (rate, cpu, peak) = throughput(programs, subject, scale.of(100_000), 2000)?;
    sheet.add(Figure::LongRate, subject, rate);
    sheet.add(Figure::LongCpu, subject, cpu);
    sheet.add(Figure::LongPeak, subject, peak);
    Ok(())
}

/// Measures deltas per second, CPU time for a million, and peak memory.
fn throughput(programs: &Programs, subject: Subject, count: u64, bytes: u64) -> Result<(f64, f64, f64)> {
    let script = format!("prompt\ntext hello\nresult\n{}", flood(count, bytes));
    let mut session = Session::begin(subject, programs, &script)?;
    session.wait_for(|message| matches!(message, BridgeMessage::TurnEnded))?;
    let cpu_before = session.usage()?.cpu_seconds;
    let started = Instant::now();
    session.send_prompt()?;
    take_flood(&mut session, count, bytes)?;
    let seconds = started.elapsed().as_secs_f64();
    let usage = session.usage()?;
    session.end()?;
    let per_million = 1e6 / count as f64;
    Ok((count as f64 / seconds, (usage.cpu_seconds - cpu_before) * per_million, usage.peak_bytes as f64))
}

/// A script with one turn of many deltas.
fn flood(count: u64, bytes: u64) -> String {
    let per_message = MESSAGE_DELTAS.min(MESSAGE_BYTES / bytes).min(count);
    let messages = count / per_message;
    format!("prompt\nrepeat {messages}\ndeltas {per_message} of {bytes}\nend\nresult done\n")
}

/// Reads the turn to its end, and counts.
fn take_flood(session: &mut Session, count: u64, bytes: u64) -> Result<()> {
    let mut arrived = 0;
    session.take_until(|message| {
        if let BridgeMessage::Delta(text) = message {
            arrived += text.len() as u64;
        }
        Ok(*message == BridgeMessage::TurnEnded)
    })?;
    ensure!(arrived == count * bytes, "{arrived} bytes of text arrived instead of {}", count * bytes);
    Ok(())
}

fn latency(programs: &Programs, subject: Subject, scale: Scale, sheet: &mut Sheet) -> Result<()> {
    let latencies = one_by_one(programs, subject, scale.of(700), 100)?;
    let part = |part| quantile(&latencies, part).unwrap_or(f64::NAN);
    sheet.add(Figure::LatencyMiddle, subject, part(0.5));
    sheet.add(Figure::LatencyLate, subject, part(0.99));
    Ok(())
}

/// Measures the latency of each delta.
fn one_by_one(programs: &Programs, subject: Subject, count: u64, rate: u64) -> Result<Vec<f64>> {
    let script = format!("prompt\ntext hello\nresult\nprompt\ndeltas {count} at {rate}/s timed\nresult done\n");
    let mut session = Session::begin(subject, programs, &script)?;
    session.wait_for(|message| matches!(message, BridgeMessage::TurnEnded))?;
    session.send_prompt()?;
    let mut latencies = Vec::new();
    session.take_until(|message| {
        note_latencies(message, &mut latencies);
        Ok(*message == BridgeMessage::TurnEnded)
    })?;
    ensure!(latencies.len() as u64 == count, "{} deltas arrived instead of {count}", latencies.len());
    session.end()?;
    Ok(latencies)
}

/// A delta contains the time at which it was written; joined deltas contain one after the other.
fn note_latencies(message: &BridgeMessage<'_>, latencies: &mut Vec<f64>) {
    if let BridgeMessage::Delta(text) = message {
        let now = clock_gettime(ClockId::Monotonic);
        let now = now.tv_sec * 1_000_000_000 + now.tv_nsec;
        let written = text.split(|byte| *byte == b' ').filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok());
        latencies.extend(written.map(|written: i64| (now - written) as f64 / 1e9));
    }
}

fn permission(programs: &Programs, subject: Subject, scale: Scale, sheet: &mut Sheet) -> Result<()> {
    let count = scale.of(2000).max(2);
    let script = format!("prompt\nrepeat {count}\nask t1 Bash {{\"command\":\"ls\"}}\nend\nresult done\n");
    let mut session = Session::begin(subject, programs, &script)?;
    let mut arrivals = Vec::new();
    loop {
        let mut request = None;
        session.take_until(|message| {
            if let BridgeMessage::Permission(id) = message {
                arrivals.push(Instant::now());
                request = Some(String::from_utf8_lossy(id).into_owned());
            }
            Ok(request.is_some() || *message == BridgeMessage::TurnEnded)
        })?;
        match request {
            Some(request) => session.allow(&request)?,
            None => break,
        }
    }
    ensure!(arrivals.len() as u64 == count, "{} requests arrived instead of {count}", arrivals.len());
    session.end()?;
    let times: Vec<f64> = arrivals.windows(2).map(|two| (two[1] - two[0]).as_secs_f64()).collect();
    let part = |part| quantile(&times, part).unwrap_or(f64::NAN);
    sheet.add(Figure::PermissionMiddle, subject, part(0.5));
    sheet.add(Figure::PermissionLate, subject, part(0.99));
    Ok(())
}

fn sessions(programs: &Programs, subject: Subject, scale: Scale, sheet: &mut Sheet) -> Result<()> {
    let counts: &[u32] = match scale {
        Scale::Full => &[1, 10, 50, 100],
        Scale::Small => &[1, 3],
    };
    counts.iter().try_for_each(|count| crowd(programs, subject, *count, scale.of(250), sheet))
}

/// Measures several sessions at the same time, each with this number of deltas, 50 per second.
fn crowd(programs: &Programs, subject: Subject, count: u32, deltas: u64, sheet: &mut Sheet) -> Result<()> {
    let script = format!("prompt\ntext hello\nresult\nprompt\ndeltas {deltas} at 50/s timed\nresult done\n");
    let started = Instant::now();
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(Session::spawn(subject, programs, &script)?);
    }
    if !subject.reports_ready() {
        sessions.iter_mut().try_for_each(Session::send_start)?;
    }
    turn_of_all(&mut sessions, |_| {})?;
    sheet.add(Figure::CrowdUp(count), subject, started.elapsed().as_secs_f64());
    sessions.iter_mut().try_for_each(Session::send_prompt)?;
    let mut latencies = Vec::new();
    turn_of_all(&mut sessions, |message| note_latencies(message, &mut latencies))?;
    ensure!(latencies.len() as u64 == u64::from(count) * deltas, "only {} deltas arrived", latencies.len());
    sheet.add(Figure::CrowdLate(count), subject, quantile(&latencies, 0.99).unwrap_or(f64::NAN));
    let mut memory_bytes = 0;
    for session in &sessions {
        memory_bytes += session.usage()?.memory_bytes;
    }
    sheet.add(Figure::CrowdMemory(count), subject, memory_bytes as f64);
    sessions.into_iter().try_for_each(Session::end)
}

/// Reads all sessions until each has finished a turn; starts those that report that they are ready.
fn turn_of_all(sessions: &mut [Session], mut take: impl FnMut(&BridgeMessage<'_>)) -> Result<()> {
    let mut running: Vec<usize> = (0..sessions.len()).collect();
    while !running.is_empty() {
        let waiting: Vec<&Session> = running.iter().filter_map(|place| sessions.get(*place)).collect();
        let readable = wait_readable(&waiting)?;
        ensure!(!readable.is_empty(), "{} of {} sessions are silent", running.len(), sessions.len());
        let mut over = Vec::new();
        for place in readable.into_iter().filter_map(|place| running.get(place).copied()) {
            let Some(session) = sessions.get_mut(place) else { continue };
            ensure!(session.read_more()?, "one of the sessions ended too early");
            let mut is_ready = false;
            while let Some(message) = session.next_message()? {
                take(&message);
                is_ready |= message == BridgeMessage::Ready;
                if message == BridgeMessage::TurnEnded {
                    over.push(place);
                }
            }
            if is_ready {
                session.send_start()?;
            }
        }
        running.retain(|place| !over.contains(place));
    }
    Ok(())
}

/// How long the reader does not read.
const STALL: Duration = Duration::from_secs(5);

fn stall(programs: &Programs, subject: Subject, scale: Scale, sheet: &mut Sheet) -> Result<()> {
    let count = scale.of(100_000);
    let mut session = Session::begin(subject, programs, &flood(count, 2000))?;
    session.wait_for(|message| matches!(message, BridgeMessage::Init))?;
    // A fixed time is intended: nothing happens that could be awaited.
    std::thread::sleep(if scale == Scale::Full { STALL } else { Duration::from_millis(50) });
    take_flood(&mut session, count, 2000)?;
    sheet.add(Figure::StallPeak, subject, session.usage()?.peak_bytes as f64);
    session.end()
}

fn long_line(programs: &Programs, subject: Subject, scale: Scale, sheet: &mut Sheet) -> Result<()> {
    let script = format!("prompt\nline {}\nresult done\n", scale.of(50_000_000));
    let mut session = Session::begin(subject, programs, &script)?;
    session.wait_for(|message| matches!(message, BridgeMessage::Init))?;
    let started = Instant::now();
    session.wait_for(|message| matches!(message, BridgeMessage::Message))?;
    sheet.add(Figure::LineTime, subject, started.elapsed().as_secs_f64());
    session.wait_for(|message| matches!(message, BridgeMessage::TurnEnded))?;
    sheet.add(Figure::LinePeak, subject, session.usage()?.peak_bytes as f64);
    session.end()
}
