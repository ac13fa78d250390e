//! Finds the real CLI that the tests are pinned to.

use std::ffi::OsString;
use std::path::PathBuf;

/// The version of Claude Code that the tests run against.
pub const PINNED_CLAUDE_VERSION: &str = "2.1.325";

/// The path of the pinned CLI: `$WATARI_TEST_CLAUDE`, or the one that `./check` put into the cache.
///
/// # Panics
/// When there is no such file: a test without the CLI has nothing to say, and must not pass.
#[expect(clippy::panic, reason = "only tests call this, and the message tells what to do")]
pub fn pinned_claude() -> PathBuf {
    let Some(path) = place_of_claude(|name| std::env::var_os(name)) else {
        panic!(
            "cannot tell where the pinned CLI is: none of WATARI_TEST_CLAUDE, WATARI_CACHE, XDG_CACHE_HOME and HOME is set"
        );
    };
    if !path.is_file() {
        panic!(
            "the pinned CLI {PINNED_CLAUDE_VERSION} is not at {}: run ./check once (or scripts/install-claude), or set WATARI_TEST_CLAUDE",
            path.display()
        );
    }
    path
}

fn place_of_claude(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // An empty variable counts as unset, as in the XDG base directory rules.
    let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = folder("WATARI_TEST_CLAUDE") {
        return Some(path);
    }
    let cache = folder("WATARI_CACHE")
        .or_else(|| folder("XDG_CACHE_HOME").map(|path| path.join("watari")))
        .or_else(|| folder("HOME").map(|path| path.join(".cache/watari")))?;
    Some(cache.join("claude-code").join(PINNED_CLAUDE_VERSION).join("claude"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(variables: &[(&str, &str)]) -> String {
        let lookup =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        place_of_claude(lookup).map_or_else(|| "nowhere".to_owned(), |path| path.display().to_string())
    }

    #[test]
    fn the_nearest_variable_that_is_set_decides() {
        let home = ("HOME", "/h");
        let xdg = ("XDG_CACHE_HOME", "/x");
        let cache = ("WATARI_CACHE", "/w");
        assert_eq!(place(&[home, xdg, cache, ("WATARI_TEST_CLAUDE", "/c/claude")]), "/c/claude");
        assert_eq!(place(&[home, xdg, cache]), "/w/claude-code/2.1.325/claude");
        assert_eq!(place(&[home, xdg]), "/x/watari/claude-code/2.1.325/claude");
        assert_eq!(place(&[home, ("XDG_CACHE_HOME", "")]), "/h/.cache/watari/claude-code/2.1.325/claude");
        assert_eq!(place(&[]), "nowhere");
    }
}
