//! Sets exact modes: a umask removes permissions of the owner too.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::users::is_this_user;

/// Sets the mode of a file that this process has just created, if it differs.
pub(super) fn set_mode_of(file: &File, mode: u32) -> io::Result<()> {
    if file.metadata()?.mode() & 0o7777 == mode {
        return Ok(());
    }
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

/// Sets the mode of a folder or a socket that this process has just created, if it differs. A file that another user
/// has put in its place is not changed, and no link is followed.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
pub(super) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{Mode, OFlags, chmod, open};

    // `PATH` needs no read permission, which the umask may have removed.
    let held = File::from(open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?);
    let metadata = held.metadata()?;
    if metadata.is_symlink() || !is_this_user(metadata.uid()) {
        return Err(io::Error::other("another user has replaced it"));
    }
    if metadata.mode() & 0o7777 == mode {
        return Ok(());
    }
    Ok(chmod(format!("/proc/self/fd/{}", held.as_raw_fd()), Mode::from_raw_mode(mode))?)
}

/// Sets the mode by path, without following links, on a system that can do that.
#[cfg(not(target_os = "linux"))]
pub(super) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, Mode, chmodat};

    let metadata = std::fs::symlink_metadata(path)?;
    if metadata.is_symlink() || !is_this_user(metadata.uid()) {
        return Err(io::Error::other("another user has replaced it"));
    }
    let mode = Mode::from_bits_truncate(mode.try_into().unwrap_or_default());
    Ok(chmodat(CWD, path, mode, AtFlags::SYMLINK_NOFOLLOW)?)
}
