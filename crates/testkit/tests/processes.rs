//! What is left of a run can be found, and its end can be waited for.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use watari_testkit::processes;

const LONG: Duration = Duration::from_secs(10);

/// A child that says when it is there, and lives as long as its standard input is open.
fn reader(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "echo here; read line"]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn pids_marked(marker: &str) -> Vec<u32> {
    processes::marked(marker).iter().map(|process| process.pid).collect()
}

async fn is_found_until_it_is_killed(mut child: Child, marker: &str) -> Result<()> {
    // One that was only just started may have neither a command line nor an environment yet.
    let mut here = [0; 5];
    child.stdout.take().context("no output")?.read_exact(&mut here)?;
    assert_eq!(pids_marked(marker), [child.id()]);
    let left = processes::none_marked_within(marker, Duration::ZERO).await;
    assert_eq!(left.map_err(|left| left.len()), Err(1));

    child.kill()?;
    assert!(processes::none_marked_within(marker, LONG).await.is_ok());
    let is_zombie = |process: &processes::ProcessInfo| process.pid == child.id() && process.state == 'Z';
    assert!(processes::children_of(std::process::id()).iter().any(is_zombie));

    child.wait()?;
    assert!(processes::children_of(std::process::id()).iter().all(|process| process.pid != child.id()));
    Ok(())
}

#[cfg(all(target_os = "linux", not(watari_portable)))]
#[tokio::test]
async fn a_child_is_found_by_its_environment() -> Result<()> {
    let marker = format!("watari-environment-{}", std::process::id());
    let child = reader(&[]).env("MARKER", &marker).spawn()?;
    is_found_until_it_is_killed(child, &marker).await
}

#[tokio::test]
async fn a_child_is_found_by_its_command_line() -> Result<()> {
    let marker = format!("watari-command-{}", std::process::id());
    let child = reader(&[&marker]).spawn()?;
    is_found_until_it_is_killed(child, &marker).await
}

#[test]
fn an_open_file_is_counted() -> Result<()> {
    let open = |count: usize| (0..count).map(|_| std::fs::File::open("/dev/null")).collect::<Result<Vec<_>, _>>();
    let before = processes::open_files_of_this_process();
    let files = open(50)?;
    // Other tests may share this process and open some files of their own.
    assert!(processes::open_files_of_this_process().abs_diff(before + files.len()) < 20);
    Ok(())
}

#[cfg(target_os = "linux")]
#[test]
fn the_peak_of_memory_falls_with_a_reset() {
    const BYTES: usize = 64 * 1024 * 1024;
    let before = processes::peak_memory_of_this_process();
    drop(std::hint::black_box(vec![1_u8; BYTES]));
    let peak = processes::peak_memory_of_this_process();
    assert!(peak >= before + BYTES as u64 / 2);
    processes::reset_peak_memory();
    assert!(processes::peak_memory_of_this_process() < peak);
}
