//! Which owners of files are trusted: this user and root.
//!
//! A user namespace shows every unmapped user as one id, the overflow user: the real root, but also this process itself
//! if its namespace maps nobody. So that id identifies a user only if a user is mapped to it.

use rustix::process::geteuid;

/// Whether an owner is this user or root.
pub(super) fn is_trusted(owner: u32) -> bool {
    owner == 0 || is_this_user(owner) || Namespace::read().stands_for_the_real_root(owner)
}

/// Whether the user id of a file, a process or a peer is this user's. Always false while this user is not mapped.
pub fn is_this_user(user: u32) -> bool {
    user == geteuid().as_raw() && check_this_user().is_ok()
}

/// The user of this process is not mapped in its namespace, so every other unmapped user looks the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this user namespace does not map the user of this process: the system shows every unmapped user as {user}, so that \
     files and clients of other users look like this user's; start watari as a mapped user, for example with `unshare \
     --user --map-root-user`"
)]
pub struct UnknownUser {
    user: u32,
}

/// Checks that this user can be distinguished from others. Call it before listening on a socket.
pub fn check_this_user() -> Result<(), UnknownUser> {
    let user = geteuid().as_raw();
    let is_known = !cfg!(target_os = "linux") || Namespace::read().knows(user);
    if is_known { Ok(()) } else { Err(UnknownUser { user }) }
}

/// The default id of the overflow user on Linux.
const USUAL_OVERFLOW_USER: u32 = 65534;

/// The user mapping of this namespace. `None` for what cannot be read.
#[derive(Debug, Default)]
struct Namespace {
    /// The mapped ids: on each line the first id inside, the first id outside, and their number.
    map: Option<String>,
    overflow_user: Option<u32>,
}

impl Namespace {
    fn read() -> Namespace {
        let text = |path| Some(String::from_utf8_lossy(&super::read_system(path).ok()?).into_owned());
        let overflow_user = text("/proc/sys/kernel/overflowuid");
        Namespace {
            map: text("/proc/self/uid_map"),
            overflow_user: overflow_user.and_then(|number| number.trim().parse().ok()),
        }
    }

    /// Whether an id is the overflow user's and not mapped. Otherwise it is an ordinary user of this namespace.
    fn stands_for_the_real_root(&self, owner: u32) -> bool {
        self.overflow_user == Some(owner) && self.is_mapped(owner) == Some(false)
    }

    /// Whether an id identifies a single user. An unreadable mapping is not trusted.
    fn knows(&self, user: u32) -> bool {
        user != self.overflow_user.unwrap_or(USUAL_OVERFLOW_USER) || self.is_mapped(user) == Some(true)
    }

    /// Whether an id is mapped. `None` if that is unknown, as before a mapping is written.
    fn is_mapped(&self, user: u32) -> Option<bool> {
        let map = self.map.as_ref().filter(|map| !map.trim().is_empty())?;
        let mut is_mapped = false;
        for line in map.lines() {
            let numbers: Result<Vec<u64>, _> = line.split_ascii_whitespace().map(str::parse).collect();
            let [first, _outside, count] = numbers.ok()?.try_into().ok()?;
            is_mapped |= (first..first.saturating_add(count)).contains(&u64::from(user));
        }
        Some(is_mapped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overflow_user_stands_for_root_only_where_no_user_has_that_number_and_is_known_only_where_one_has() {
        for (map, overflow, is_root, is_known) in [
            ("         0       1000          1\n", 65534, true, false),
            ("0 1000 1\n1 100000 1000\n", 65534, true, false),
            ("0 0 4294967295\n", 65534, false, true),
            ("0 1000 1\n1 100000 65536\n", 65534, false, true),
            ("0 100000 65535\n", 65534, false, true),
            ("0 100000 65534\n", 65534, true, false),
            // A system with another overflow user: there this id is an ordinary user's.
            ("0 1000 1\n", 60000, false, true),
            ("nonsense\n", 65534, false, false),
            ("0 1000 1\n0 1\n", 65534, false, false),
            // What the system shows before a mapping is written.
            ("", 65534, false, false),
        ] {
            let namespace = Namespace { map: Some(map.to_owned()), overflow_user: Some(overflow) };
            assert_eq!(namespace.stands_for_the_real_root(65534), is_root, "{map}");
            assert_eq!(namespace.knows(65534), is_known, "{map}");
            assert!(namespace.knows(1000) && !namespace.stands_for_the_real_root(1000), "{map}");
        }
        let unreadable = Namespace::default();
        assert!(!unreadable.stands_for_the_real_root(65534) && !unreadable.knows(65534) && unreadable.knows(1000));
    }
}
