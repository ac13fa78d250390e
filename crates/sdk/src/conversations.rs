//! Where the CLI of a session stores its conversations.

use std::fs;
use std::path::{Path, PathBuf};

use watari_protocol::SessionId;

use crate::argv::{self, TranscriptDir};
use crate::options::Options;
use crate::process;

/// Returns the folder in which the CLI with these options stores all its conversations, with links resolved; `None` if
/// neither `CLAUDE_CONFIG_DIR` nor `HOME` of the CLI names one. Two sessions with the same id and the same folder are
/// the same conversation. The folder may not exist yet.
pub fn conversations_folder(options: &Options) -> Option<PathBuf> {
    place(options)?.projects.map(|projects| without_links(&projects))
}

/// Returns the id of a conversation as it is stored: the CLI distinguishes upper and lower case. An id without a stored
/// conversation becomes lower case, as the CLI creates ids. The disk is read only for an id with upper-case letters.
pub fn session_id_as_stored(options: &Options, id: &SessionId) -> SessionId {
    let small = id.as_str().to_ascii_lowercase();
    let is_stored = || place(options).is_some_and(|place| place.find(id).is_some());
    if small == id.as_str() || is_stored() {
        return id.clone();
    }
    SessionId::parse(&small).unwrap_or_else(|_| id.clone())
}

fn place(options: &Options) -> Option<TranscriptDir> {
    let directory = process::directory(options.cwd.as_deref()).ok()?;
    Some(argv::transcript_place(&process::environment(options), &directory))
}

/// Resolves links in the existing part of a path, and appends the rest.
fn without_links(path: &Path) -> PathBuf {
    let real = |above: &Path| Some(fs::canonicalize(above).ok()?.join(path.strip_prefix(above).ok()?));
    path.ancestors().find_map(real).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_in_capitals_is_meant_in_small_letters_unless_it_is_stored_in_capitals() {
        let config = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.environment.set.insert(argv::CONFIG_DIR_VARIABLE.into(), Some(config.path().to_str().unwrap().into()));
        let small = "0f0e0d0c-0b0a-4908-8706-050403020100";
        let capitals = SessionId::parse(&small.to_ascii_uppercase()).unwrap();
        assert_eq!(session_id_as_stored(&options, &capitals).as_str(), small);
        let folder = config.path().join("projects/-a");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{capitals}.jsonl")), "").unwrap();
        assert_eq!(session_id_as_stored(&options, &capitals), capitals);
    }

    #[test]
    fn a_path_is_the_same_by_every_link_also_if_its_end_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        for end in ["", "projects", "a/b"] {
            assert_eq!(without_links(&root.join("link").join(end)), root.join("real").join(end));
        }
        assert_eq!(without_links(Path::new("/nowhere/at/all")), Path::new("/nowhere/at/all"));
    }
}
