//! The peak memory of this process, as Linux counts it.

/// The largest resident size of this process since its start or the last reset, in bytes.
///
/// # Panics
/// If the system does not report it.
#[expect(clippy::panic, reason = "only tests call this, and a made-up number would let them pass")]
pub fn peak_memory_of_this_process() -> u64 {
    let status = match watari_sdk::files::read_system("/proc/self/status") {
        Ok(status) => String::from_utf8_lossy(&status).into_owned(),
        Err(error) => panic!("cannot read /proc/self/status: {error}"),
    };
    match peak_kibibytes(&status) {
        Some(kibibytes) => kibibytes * 1024,
        None => panic!("/proc/self/status has no VmHWM"),
    }
}

/// Resets the largest resident size to what is in use now.
///
/// # Panics
/// If the system does not allow it.
#[expect(clippy::panic, reason = "only tests call this, and an old peak would mislead them")]
#[expect(clippy::disallowed_methods, reason = "the only file of the system's that is written")]
pub fn reset_peak_memory() {
    // The kernel's value for "reset the peak resident size"; see proc(5), clear_refs.
    const RESET_PEAK: &str = "5";
    if let Err(error) = std::fs::write("/proc/self/clear_refs", RESET_PEAK) {
        panic!("cannot write /proc/self/clear_refs: {error}");
    }
}

fn peak_kibibytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}
