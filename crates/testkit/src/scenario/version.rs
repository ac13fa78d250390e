//! Versions of the CLI: which are tested, and which of them is nearest to another.

use crate::claude::{OLDEST_CLAUDE_VERSION, PINNED_CLAUDE_VERSION};

/// The versions with which the expectations were made, oldest first.
pub(super) const TESTED: [&str; 2] = [OLDEST_CLAUDE_VERSION, PINNED_CLAUDE_VERSION];

/// The tested version nearest to another: by number within the same series, else the one on its side.
pub(super) fn nearest(version: &str) -> &'static str {
    let [oldest, newest] = TESTED;
    let (Some(wanted), Some(old), Some(new)) = (numbers(version), numbers(oldest), numbers(newest)) else {
        return newest;
    };
    if wanted[..2] != new[..2] || wanted[..2] != old[..2] {
        return if wanted < old { oldest } else { newest };
    }
    if wanted[2].abs_diff(old[2]) < wanted[2].abs_diff(new[2]) { oldest } else { newest }
}

/// A version as its three numbers.
pub(super) fn numbers(version: &str) -> Option<[u64; 3]> {
    let mut numbers = version.split(['.', '-', '+']).map(|number| number.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_version_is_compared_with_the_nearest() {
        for (version, expected) in [
            ("2.1.42", "2.1.42"),
            ("2.1.43", "2.1.42"),
            ("2.1.183", "2.1.42"),
            ("2.1.184", "2.1.325"),
            ("2.1.400", "2.1.325"),
            ("2.0.99", "2.1.42"),
            ("1.9.0", "2.1.42"),
            ("2.2.0", "2.1.325"),
            ("3.0.0-beta.1", "2.1.325"),
            ("unreadable", "2.1.325"),
        ] {
            assert_eq!(nearest(version), expected, "{version}");
        }
    }
}
