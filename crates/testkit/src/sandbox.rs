//! A sandbox for one run of the CLI: its own folders, and an environment that contains nothing of ours.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use watari_sdk::files;

use crate::stub_api::stub_environment;

/// The flags for raw stream-json with the CLI in a sandbox. The setting sources exclude what is in its directory and in
/// those above it, one of which is a temporary folder that every user can write to: a `.mcp.json` there would run.
pub const SANDBOX_FLAGS: [&str; 9] = [
    "-p",
    "--verbose",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--no-session-persistence",
    "--setting-sources",
    "user",
];

/// The flag that lets every tool run without a permission request.
pub const SKIP_PERMISSIONS: &str = "--dangerously-skip-permissions";

/// Folders and an environment for one run; the drop removes the folders.
#[derive(Debug)]
pub struct Sandbox {
    root: PathBuf,
    home: PathBuf,
    cwd: PathBuf,
    tmp: PathBuf,
    environment: BTreeMap<String, String>,
    // Held for its drop, which removes the folder.
    _folder: TempDir,
}

/// Why a sandbox cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The folders cannot be created.
    #[error("cannot create the sandbox's folders: {0}; check that the temporary folder has free space")]
    Folders(#[from] io::Error),
    /// Without PATH, the CLI would find no other program.
    #[error("PATH is not set or not UTF-8; set it")]
    NoPath,
    /// The CLI accepts only UTF-8 paths.
    #[error("the path of the temporary folder is not UTF-8; set TMPDIR to another")]
    NoText,
}

impl Sandbox {
    /// Creates the folders; the CLI will connect to `base_url` and to nothing else.
    ///
    /// The folders are inside one that every user can write to, and the CLI also reads settings, memories and servers
    /// from the folders above its own. To exclude those, start the CLI with `--setting-sources user` ([`SANDBOX_FLAGS`];
    /// in watari-sdk `Options::setting_sources`). If the program under test starts the CLI itself, give it the path
    /// that [`claude_without_project`] returns.
    pub fn new(base_url: &str) -> Result<Self, SandboxError> {
        let folder = short_temporary_folder()?;
        // The CLI names its transcripts after the real path of its folder; on macOS /tmp is a link.
        let root = folder.path().canonicalize()?;
        let [home, cwd, tmp] = ["home", "cwd", "tmp"].map(|name| root.join(name));
        for path in [&home, &cwd, &tmp] {
            files::make_folder(path)?;
        }
        let environment = environment_for(base_url, &home, &tmp)?;
        Ok(Self { root, home, cwd, tmp, environment, _folder: folder })
    }

    /// Adds a variable to the environment, or replaces one.
    #[must_use]
    pub fn with_env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.insert(key.into(), value.into());
        self
    }

    /// The whole environment of the run: start the CLI with a cleared environment and these variables.
    pub fn environment(&self) -> BTreeMap<String, String> {
        self.environment.clone()
    }

    /// The folder that contains the others. Its path is in `HOME`, so it marks every process of the run.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The home folder.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The folder to start the CLI in.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The folder for temporary files and for the CLI's sockets.
    pub fn tmp(&self) -> &Path {
        &self.tmp
    }
}

/// Writes a script `claude` into `folder` and returns its path. The script runs `program` with
/// `--setting-sources user`, so that the CLI reads no settings of its working directory or of the folders above it.
pub fn claude_without_project(program: &Path, folder: &Path) -> Result<PathBuf, io::Error> {
    let path = folder.join("claude");
    let text = |path: &Path| path.to_str().map(str::to_owned).ok_or(io::ErrorKind::InvalidFilename);
    let quoted = text(program)?.replace('\'', r"'\''");
    let script = format!("#!/bin/sh\nexec '{quoted}' \"$@\" --setting-sources user\n");
    // Another process writes it: a fork of this one at the wrong moment would hold the file open, and it could not be
    // executed.
    let mut writer = Command::new("/bin/sh");
    writer.args(["-c", "cat > \"$0\" && chmod +x \"$0\"", &text(&path)?]).stdin(Stdio::piped());
    let mut writer = writer.spawn()?;
    let written = writer.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(script.as_bytes()));
    let ended = writer.wait()?;
    written?;
    if ended.success() { Ok(path) } else { Err(io::Error::other(format!("cannot write {}", path.display()))) }
}

/// Creates a temporary folder with a short path: the CLI creates UNIX sockets below it, whose paths may have 107 bytes
/// at most; so `/tmp` is preferred to a longer `TMPDIR`.
fn short_temporary_folder() -> Result<TempDir, io::Error> {
    let short = files::temporary_folder_in(Path::new("/tmp"), "wt-", files::SHORT_RANDOM);
    short.or_else(|_| files::temporary_folder("wt-"))
}

fn environment_for(base_url: &str, home: &Path, tmp: &Path) -> Result<BTreeMap<String, String>, SandboxError> {
    let (home, tmp) = (text_of(home)?, text_of(tmp)?);
    let path = std::env::var("PATH").map_err(|_| SandboxError::NoPath)?;
    let variables = [
        ("PATH", path.as_str()),
        ("HOME", home),
        ("CLAUDE_CODE_TMPDIR", tmp),
        // As root, the CLI refuses bypassPermissions without this.
        ("IS_SANDBOX", "1"),
        ("TMPDIR", tmp),
    ];
    let mut environment = stub_environment(base_url);
    environment.extend(variables.map(|(key, value)| (key.to_owned(), value.to_owned())));
    Ok(environment)
}

fn text_of(path: &Path) -> Result<&str, SandboxError> {
    path.to_str().ok_or(SandboxError::NoText)
}
