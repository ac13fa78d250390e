//! Which users can be trusted with what this one uses.

use rustix::process::geteuid;

/// Whether an owner is this user or root.
pub(super) fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == geteuid().as_raw() || owner == UNKNOWN_USER && is_in_user_namespace()
}

/// How a user is shown who has no number in this namespace, as the real root in a container of a user's own.
const UNKNOWN_USER: u32 = 65534;

fn is_in_user_namespace() -> bool {
    // Outside of one, all numbers stand for themselves.
    let map = super::read_system("/proc/self/uid_map").unwrap_or_default();
    let words: Vec<&[u8]> = map.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty()).collect();
    !map.is_empty() && words != [b"0".as_slice(), b"0", b"4294967295"]
}
