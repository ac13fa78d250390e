//! What a process and those it started use, without the CLI below them. Linux only, as the bench is.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// What the processes of one bridge use together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Memory now, where shared pages count in part (PSS).
    pub memory_bytes: u64,
    /// Of that, what is not mapped from files: what a further process of the same program takes.
    pub own_bytes: u64,
    /// The most memory each had at a time, added up: its own at its peak, and its share of what is mapped from files.
    pub peak_bytes: u64,
    /// Processor time so far.
    pub cpu_seconds: f64,
}

/// Measures a process and its descendants, those apart that run the CLI.
pub fn usage(pid: u32, cli: &Path) -> Result<Usage> {
    let mut all = Usage::default();
    for pid in tree(pid)?.into_iter().filter(|pid| !runs(*pid, cli)) {
        let one = usage_of(pid).with_context(|| format!("process {pid} cannot be measured"))?;
        all.memory_bytes += one.memory_bytes;
        all.own_bytes += one.own_bytes;
        all.peak_bytes += one.peak_bytes;
        all.cpu_seconds += one.cpu_seconds;
    }
    Ok(all)
}

fn usage_of(pid: u32) -> Result<Usage> {
    let folder = format!("/proc/{pid}");
    let memory = fs::read_to_string(format!("{folder}/smaps_rollup"))?;
    let status = fs::read_to_string(format!("{folder}/status"))?;
    let mut nanoseconds = 0;
    for task in fs::read_dir(format!("{folder}/task"))? {
        // A thread that ended since the folder was read is passed over.
        let Ok(schedstat) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let running = schedstat.split(' ').next().and_then(|word| word.parse::<u64>().ok());
        nanoseconds += running.context("schedstat has no time")?;
    }
    let of_memory = |name| kilobytes(&memory, name).with_context(|| format!("no {name}"));
    let of_status = |name| kilobytes(&status, name).with_context(|| format!("no {name}"));
    // The peak is only known with files in full; what of them is mapped hardly changes once a program has started.
    let own_peak = of_status("VmHWM:")?.saturating_sub(of_status("RssFile:")?);
    Ok(Usage {
        memory_bytes: of_memory("Pss:")? * 1024,
        own_bytes: of_memory("Pss_Anon:")? * 1024,
        peak_bytes: (own_peak + of_memory("Pss_File:")?) * 1024,
        cpu_seconds: nanoseconds as f64 / 1e9,
    })
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

fn runs(pid: u32, program: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
}

/// A process and all below it.
fn tree(root: u32) -> Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // One that ended meanwhile is none of ours: ours wait for us.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The name in brackets may hold anything; behind it stand the state and the parent.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(2)?.parse::<u32>().ok());
        parents.push((pid, parent.context("stat has no parent")?));
    }
    let mut found = vec![root];
    let mut looked = 0;
    while let Some(parent) = found.get(looked).copied() {
        found.extend(parents.iter().filter(|(_, its)| *its == parent).map(|(pid, _)| *pid));
        looked += 1;
    }
    Ok(found)
}
