//! Whether the folders of Watari can be used.

use std::ffi::OsString;
use std::path::PathBuf;

use watari_sdk::files::folders::{self, Trouble, Usable, runtime_folder, state_folder};

use super::report::{Check, Finding, Level, counted};

pub(super) fn examine(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Finding> {
    let (state, runtime) = (state_folder(&variable), runtime_folder(&variable));
    let of_runtime =
        runtime.as_ref().map_or(folders::RUNTIME_VARIABLE, |path| folders::runtime_variable(path, state.as_deref()));
    let folders = [
        Folder { check: Check::StateFolder, variable: folders::STATE_VARIABLE, path: state },
        Folder { check: Check::RuntimeFolder, variable: of_runtime, path: runtime },
    ];
    folders.iter().map(Folder::finding).collect()
}

/// Removes private files of sessions that were killed: nobody needs them, and there may be secrets in them.
pub(super) fn orphans() -> Option<Finding> {
    let count = watari_sdk::files::remove_orphans();
    let found = format!("removed those of {}", counted(count, "killed session"));
    (count > 0).then(|| Finding::ok(Check::PrivateFiles, found))
}

struct Folder {
    check: Check,
    /// The variable that says where it is.
    variable: &'static str,
    path: Option<PathBuf>,
}

impl Folder {
    fn finding(&self) -> Finding {
        let Folder { check, variable, path } = self;
        let Some(path) = path else {
            let found = format!("neither {variable} nor HOME is an absolute path");
            return Finding::problem(*check, found, "set HOME");
        };
        match folders::examine(path) {
            Ok(Usable::AsItIs) => Finding::ok(*check, path.display().to_string()),
            Ok(Usable::OnceMade) => Finding::ok(*check, format!("{} (not there yet; it can be made)", path.display())),
            Err(trouble) => {
                let level = self.level(&trouble);
                let (found, advice) = trouble.words(path, variable);
                Finding { check: *check, level, found, advice: Some(advice) }
            }
        }
    }

    /// Through the runtime folder others would get at living sessions; in the state folder every file has a mode of
    /// its own.
    fn level(&self, trouble: &Trouble) -> Level {
        match trouble {
            Trouble::OpenToOthers { .. } if self.check == Check::StateFolder => Level::Warning,
            Trouble::OpenToOthers { .. }
            | Trouble::NotAFolder { .. }
            | Trouble::LinkToNothing { .. }
            | Trouble::NotOurs { .. }
            | Trouble::OwnedAbove { .. }
            | Trouble::Replaceable { .. }
            | Trouble::NotWritable { .. }
            | Trouble::Hidden { .. } => Level::Problem,
        }
    }
}
