//! Finds the real CLIs that the tests run against.

use std::path::PathBuf;

/// The version of Claude Code that the tests run against.
pub const PINNED_CLAUDE_VERSION: &str = "2.1.325";

/// The oldest version that sessions are held with; a few tests run against it too.
pub const OLDEST_CLAUDE_VERSION: &str = "2.1.42";

/// The path of the pinned CLI: `$WATARI_TEST_CLAUDE`, or the one that `./check` put into the cache.
///
/// # Panics
/// When there is no such file: a test without the CLI has nothing to say, and must not pass.
pub fn pinned_claude() -> PathBuf {
    match variable("WATARI_TEST_CLAUDE") {
        Some(path) => path,
        None => installed(PINNED_CLAUDE_VERSION),
    }
}

/// The path of the oldest CLI, which `./check` put into the cache.
///
/// # Panics
/// When there is no such file.
pub fn oldest_claude() -> PathBuf {
    installed(OLDEST_CLAUDE_VERSION)
}

#[expect(clippy::panic, reason = "only tests call this, and the message tells what to do")]
fn installed(version: &str) -> PathBuf {
    let Some(cache) = cache_of(variable) else {
        panic!("cannot tell where the cache is: none of WATARI_CACHE, XDG_CACHE_HOME and HOME is set");
    };
    let path = cache.join("claude-code").join(version).join("claude");
    if !path.is_file() {
        panic!("the CLI {version} is not at {}: run ./check once, or scripts/install-claude {version}", path.display());
    }
    path
}

fn variable(name: &str) -> Option<PathBuf> {
    // An empty variable counts as unset, as in the XDG base directory rules.
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn cache_of(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    variable("WATARI_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|path| path.join("watari")))
        .or_else(|| variable("HOME").map(|path| path.join(".cache/watari")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_variable_that_is_set_decides() {
        let cache = |variables: &[(&str, &str)]| {
            let found =
                |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value));
            cache_of(found).map_or_else(|| "nowhere".to_owned(), |path| path.display().to_string())
        };
        let (home, xdg, watari) = (("HOME", "/h"), ("XDG_CACHE_HOME", "/x"), ("WATARI_CACHE", "/w"));
        assert_eq!(cache(&[home, xdg, watari]), "/w");
        assert_eq!(cache(&[home, xdg]), "/x/watari");
        assert_eq!(cache(&[home]), "/h/.cache/watari");
        assert_eq!(cache(&[]), "nowhere");
    }
}
