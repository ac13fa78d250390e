//! Where the CLI stores conversations, in the CLI's spelling.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use unicode_normalization::UnicodeNormalization;
use watari_protocol::SessionId;

/// Where a CLI stores conversations, and the entrypoint that it writes into their entries.
#[derive(Debug, Clone)]
pub(crate) struct TranscriptDir {
    pub(crate) projects: Option<PathBuf>,
    pub(crate) entrypoint: String,
}

/// The variable that locates the CLI's configuration folder; it takes precedence over `HOME`.
pub const CONFIG_DIR_VARIABLE: &str = "CLAUDE_CONFIG_DIR";

/// Returns where the CLI with this environment stores conversations. The CLI resolves a relative path against its
/// working directory, takes an empty one for that directory, and normalizes the path to NFC, whatever its source.
pub(crate) fn transcript_place(environment: &BTreeMap<OsString, OsString>, directory: &Path) -> TranscriptDir {
    let variable = |name: &str| environment.get(OsStr::new(name));
    let filled = |name: &str| variable(name).filter(|value| !value.is_empty());
    let configured = variable(CONFIG_DIR_VARIABLE).map(|config| composed_path(config));
    let config = configured.or_else(|| Some(composed_path(filled("HOME")?).join(".claude")));
    let entrypoint = filled("CLAUDE_CODE_ENTRYPOINT").map(|word| word.to_string_lossy().into_owned());
    TranscriptDir {
        projects: config.map(|config| directory.join(config).join("projects")),
        entrypoint: entrypoint.unwrap_or_default(),
    }
}

/// Returns a path in the CLI's spelling. Invalid UTF-8 becomes U+FFFD, as in the CLI.
fn composed_path(path: &OsStr) -> PathBuf {
    composed(&path.to_string_lossy()).into()
}

/// Normalizes a text to NFC. The CLI does so with its own folder, and CLI 2.1.42 with the working directory too.
pub(crate) fn composed(text: &str) -> String {
    text.nfc().collect()
}

impl TranscriptDir {
    /// Finds the transcript of a conversation, among those of all directories.
    pub(crate) fn find(&self, session: &SessionId) -> Option<PathBuf> {
        let name = format!("{session}.jsonl");
        let folders = std::fs::read_dir(self.projects.as_ref()?).ok()?.flatten();
        folders.map(|folder| folder.path().join(&name)).find(|path| path.is_file())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn the_place_of_transcripts_is_spelled_as_the_cli_spells_it() {
        let place = |variables: &[(&str, &[u8])]| {
            let pair = |(name, value): &(&str, &[u8])| (OsString::from(name), OsStr::from_bytes(value).to_owned());
            let environment = variables.iter().map(pair).collect();
            transcript_place(&environment, Path::new("/w e\u{301}")).projects
        };
        let home: (&str, &[u8]) = ("HOME", "/h e\u{301}".as_bytes());
        assert_eq!(place(&[home]), Some("/h \u{e9}/.claude/projects".into()));
        assert_eq!(place(&[("HOME", b"/\xff")]), Some("/\u{fffd}/.claude/projects".into()));
        // NFC, not NFKC: a ligature stays one character.
        let config = "/\u{fb01} \u{212b}".as_bytes();
        assert_eq!(place(&[home, (CONFIG_DIR_VARIABLE, config)]), Some("/\u{fb01} \u{c5}/projects".into()));
        assert_eq!(place(&[(CONFIG_DIR_VARIABLE, "e\u{301}".as_bytes())]), Some("/w e\u{301}/\u{e9}/projects".into()));
        assert_eq!(place(&[home, (CONFIG_DIR_VARIABLE, b"")]), Some("/w e\u{301}/projects".into()));
        assert_eq!((place(&[]), place(&[("HOME", b"")])), (None, None));
    }
}
