//! Which users can be trusted with what this one uses.

use rustix::process::geteuid;

/// Whether an owner is this user or root.
pub(super) fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == geteuid().as_raw() || owner == UNKNOWN_USER && stands_for_the_real_root()
}

/// How a user is shown who has no number in this namespace, as the real root in a container of a user's own.
const UNKNOWN_USER: u32 = 65534;

/// Whether nobody in this namespace has that number. Otherwise it is a user like any other, who may be here.
fn stands_for_the_real_root() -> bool {
    let map = super::read_system("/proc/self/uid_map").unwrap_or_default();
    is_unmapped(UNKNOWN_USER, &String::from_utf8_lossy(&map))
}

/// Whether a map gives nobody a number. Each line has the first number in the namespace, the first outside, and how many.
fn is_unmapped(user: u32, map: &str) -> bool {
    let maps = |line: &str| {
        let mut numbers = line.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Some(first)), Some(Some(_)), Some(Some(count))) => {
                (first..first.saturating_add(count)).contains(&u64::from(user))
            }
            // What cannot be read may say anything.
            _ => true,
        }
    };
    !map.trim().is_empty() && !map.lines().any(maps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unknown_user_is_trusted_only_where_no_user_has_that_number() {
        for (map, is_trusted) in [
            ("         0       1000          1\n", true),
            ("0 1000 1\n1 100000 1000\n", true),
            ("0 0 4294967295\n", false),
            ("0 1000 1\n1 100000 65536\n", false),
            ("0 100000 65535\n", false),
            ("0 100000 65534\n", true),
            ("nonsense\n", false),
            ("", false),
        ] {
            assert_eq!(is_unmapped(UNKNOWN_USER, map), is_trusted, "{map}");
        }
    }
}
