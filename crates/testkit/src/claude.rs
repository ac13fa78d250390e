//! Finds the real CLIs that the tests run against.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use watari_sdk::files::programs;

/// The version of Claude Code that the tests run against.
pub const PINNED_CLAUDE_VERSION: &str = "2.1.325";

/// The oldest supported version; a few tests run against it too.
pub const OLDEST_CLAUDE_VERSION: &str = "2.1.42";

/// The path of the pinned CLI: `$WATARI_TEST_CLAUDE`, or the one that `./check` put into the cache.
///
/// # Panics
/// If the file does not exist: a test without the CLI proves nothing, and must not pass.
pub fn pinned_claude() -> PathBuf {
    // An empty variable counts as unset.
    match std::env::var_os("WATARI_TEST_CLAUDE").filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => installed(PINNED_CLAUDE_VERSION),
    }
}

/// The path of the oldest CLI, which `./check` put into the cache.
///
/// # Panics
/// If the file does not exist.
pub fn oldest_claude() -> PathBuf {
    installed(OLDEST_CLAUDE_VERSION)
}

#[expect(clippy::panic, reason = "only tests call this, and the message says what to do")]
fn installed(version: &str) -> PathBuf {
    let Some(cache) = cache() else {
        panic!("cannot determine the cache folder: none of WATARI_CACHE, XDG_CACHE_HOME and HOME is set");
    };
    let install = installs_in(&cache).join(version);
    let path = install.join("claude");
    if !path.is_file() {
        let command = "cargo run -p watari-testkit --bin fetch-claude --";
        panic!("the CLI {version} is not at {}: run ./check once, or {command} {version}", path.display());
    }
    if let Err(trouble) = programs::examine_install(&install, &path) {
        let (what, remedy) = trouble.describe(&install, "WATARI_CACHE");
        panic!("cannot run Claude Code from the cache: {what}; {remedy}");
    }
    path
}

/// The cache folder, outside of every checkout, for downloads; none if no variable names it.
pub fn cache() -> Option<PathBuf> {
    cache_of(|name| std::env::var_os(name))
}

pub(crate) fn cache_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // By the XDG base directory rules, an empty variable or a relative path counts as unset.
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("WATARI_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").filter(|path| path.is_absolute()).map(|path| path.join("watari")))
        .or_else(|| set("HOME").map(|path| path.join(".cache/watari")));
    cache.and_then(|path| std::path::absolute(path).ok())
}

/// The folder of a cache that has one folder per version of the CLI.
pub(crate) fn installs_in(cache: &Path) -> PathBuf {
    cache.join("claude-code")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_variable_that_is_set_decides() {
        let cache = |variables: &[(&str, &str)]| {
            let found = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
            cache_of(found).map_or_else(|| "nowhere".to_owned(), |path| path.display().to_string())
        };
        let (home, xdg, watari) = (("HOME", "/h"), ("XDG_CACHE_HOME", "/x"), ("WATARI_CACHE", "/w"));
        assert_eq!(cache(&[home, xdg, watari]), "/w");
        assert_eq!(cache(&[home, xdg]), "/x/watari");
        assert_eq!(cache(&[home]), "/h/.cache/watari");
        assert_eq!(cache(&[home, ("XDG_CACHE_HOME", "relative"), ("WATARI_CACHE", "")]), "/h/.cache/watari");
        assert_eq!(cache(&[]), "nowhere");
    }
}
