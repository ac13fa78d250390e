//! Where the CLI of a session stores its conversations.

use std::fs;
use std::path::{Path, PathBuf};

use crate::argv;
use crate::options::Options;
use crate::process;

/// The folder in which the CLI that these options start stores all its conversations, without links; none if neither
/// `CLAUDE_CONFIG_DIR` nor `HOME` of the CLI names one. Two sessions with the same id and the same folder are the same
/// conversation. The folder need not be there yet.
pub fn conversations_folder(options: &Options) -> Option<PathBuf> {
    let directory = process::directory(options.cwd.as_deref()).ok()?;
    argv::transcript_place(&process::environment(options), &directory).projects.map(|projects| without_links(&projects))
}

/// The real path of what is there, and below it what is not.
fn without_links(path: &Path) -> PathBuf {
    let real = |above: &Path| Some(fs::canonicalize(above).ok()?.join(path.strip_prefix(above).ok()?));
    path.ancestors().find_map(real).unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
