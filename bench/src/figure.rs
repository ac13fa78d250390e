//! The measured figures, their units and their goals.

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// From the start of the program to its first line.
    Ready,
    /// From the start of the program to the first delta of the first answer.
    FirstDelta,
    /// Memory after the first turn.
    IdleMemory,
    /// Of that, memory that is not mapped from files.
    IdleOwnMemory,
    /// Memory after a hundred thousand deltas.
    UsedMemory,
    /// Deltas of 20 bytes a second.
    ShortRate,
    /// CPU time for a million of them.
    ShortCpu,
    /// Deltas of 2 KB a second.
    LongRate,
    /// CPU time for a million of them.
    LongCpu,
    /// The peak memory of that run.
    LongPeak,
    /// From the CLI's write to the client's read, at 100 deltas per second: the median.
    LatencyMiddle,
    /// The 99th percentile of the same.
    LatencyLate,
    /// From one permission request to the next, when the client answers immediately: the median.
    PermissionMiddle,
    /// The 99th percentile of the same.
    PermissionLate,
    /// Several sessions at the same time: their total memory.
    CrowdMemory(u32),
    /// Several sessions at the same time: the 99th percentile of the latency.
    CrowdLate(u32),
    /// Several sessions at the same time: the time until all have answered their first prompt.
    CrowdUp(u32),
    /// The peak memory while the client does not read and 200 MB are waiting for it.
    StallPeak,
    /// The time for one line of 50 MB.
    LineTime,
    /// The peak memory with it.
    LinePeak,
}

/// The unit in which a value is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// The value is in seconds.
    Milliseconds,
    /// The value is in seconds.
    Microseconds,
    /// The value is in seconds.
    Seconds,
    /// The value is in bytes.
    Megabytes,
    /// The value is a rate.
    PerSecond,
    /// The value has no unit.
    Plain,
}

/// The goal of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// There is no goal.
    None,
    /// At most this part of Node's value.
    PartOfNode(f64),
    /// At least so many times Node's value.
    TimesNode(f64),
    /// At most so many bytes.
    Bytes(f64),
}

impl Figure {
    /// Its name in the table.
    pub fn name(self) -> String {
        match self {
            Figure::Ready => "start of the program → `ready`".to_owned(),
            Figure::FirstDelta => "start of the program → first delta".to_owned(),
            Figure::IdleMemory => "idle memory (PSS)".to_owned(),
            Figure::IdleOwnMemory => "… of that allocated, not mapped from files".to_owned(),
            Figure::UsedMemory => "memory after 100k deltas (PSS)".to_owned(),
            Figure::ShortRate => "deltas/s, 20 bytes".to_owned(),
            Figure::ShortCpu => "CPU per 1 M deltas, 20 bytes".to_owned(),
            Figure::LongRate => "deltas/s, 2 KB".to_owned(),
            Figure::LongCpu => "CPU per 1 M deltas, 2 KB".to_owned(),
            Figure::LongPeak => "peak memory with deltas of 2 KB".to_owned(),
            Figure::LatencyMiddle => "latency at 100 deltas/s, p50".to_owned(),
            Figure::LatencyLate => "latency at 100 deltas/s, p99".to_owned(),
            Figure::PermissionMiddle => "permission round trip, p50".to_owned(),
            Figure::PermissionLate => "permission round trip, p99".to_owned(),
            Figure::CrowdMemory(count) => format!("{}: total memory (PSS)", sessions(count)),
            Figure::CrowdLate(count) => format!("{}: latency at 50 deltas/s each, p99", sessions(count)),
            Figure::CrowdUp(count) => format!("{}: time until all have answered", sessions(count)),
            Figure::StallPeak => "peak memory while the client leaves 200 MB unread".to_owned(),
            Figure::LineTime => "one line of 50 MB: time".to_owned(),
            Figure::LinePeak => "one line of 50 MB: peak memory".to_owned(),
        }
    }

    /// Its unit.
    pub fn unit(self) -> Unit {
        match self {
            Figure::Ready | Figure::FirstDelta | Figure::CrowdUp(_) | Figure::LineTime => Unit::Milliseconds,
            Figure::IdleMemory
            | Figure::IdleOwnMemory
            | Figure::UsedMemory
            | Figure::LongPeak
            | Figure::CrowdMemory(_)
            | Figure::StallPeak
            | Figure::LinePeak => Unit::Megabytes,
            Figure::ShortRate | Figure::LongRate => Unit::PerSecond,
            Figure::ShortCpu | Figure::LongCpu => Unit::Seconds,
            Figure::LatencyMiddle
            | Figure::LatencyLate
            | Figure::PermissionMiddle
            | Figure::PermissionLate
            | Figure::CrowdLate(_) => Unit::Microseconds,
        }
    }

    /// Its goal.
    pub fn goal(self) -> Goal {
        const MB: f64 = 1e6;
        match self {
            Figure::Ready => Goal::PartOfNode(1.0 / 50.0),
            Figure::FirstDelta => Goal::PartOfNode(1.0 / 30.0),
            Figure::IdleMemory => Goal::Bytes(3.0 * MB),
            Figure::UsedMemory => Goal::Bytes(4.0 * MB),
            Figure::ShortRate => Goal::TimesNode(6.0),
            Figure::ShortCpu => Goal::PartOfNode(1.0 / 7.0),
            Figure::LongRate => Goal::TimesNode(10.0),
            Figure::LongPeak => Goal::Bytes(10.0 * MB),
            Figure::LatencyMiddle => Goal::PartOfNode(0.45),
            Figure::PermissionMiddle => Goal::PartOfNode(0.4),
            Figure::LatencyLate | Figure::PermissionLate => Goal::PartOfNode(0.2),
            Figure::CrowdMemory(10 | 100) => Goal::PartOfNode(1.0 / 20.0),
            Figure::CrowdLate(10) => Goal::PartOfNode(0.25),
            Figure::CrowdLate(100) => Goal::PartOfNode(1.0 / 50.0),
            Figure::CrowdUp(100) => Goal::PartOfNode(1.0 / 10.0),
            Figure::StallPeak => Goal::Bytes(16.0 * MB),
            Figure::LineTime | Figure::LinePeak => Goal::PartOfNode(0.5),
            Figure::IdleOwnMemory
            | Figure::LongCpu
            | Figure::CrowdMemory(_)
            | Figure::CrowdLate(_)
            | Figure::CrowdUp(_) => Goal::None,
        }
    }
}

fn sessions(count: u32) -> String {
    if count == 1 { "1 session".to_owned() } else { format!("{count} sessions") }
}
