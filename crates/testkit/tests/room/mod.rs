//! A room for a fetch: a cache, a home and an npm that is a few lines of shell.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use watari_testkit::fetch::{Environment, fetch_claude_with};

/// What every npm here can do, and does first.
const NPM: &str = r#"#!/bin/sh
echo "$@" >> "$ROOM/calls"
env > "$ROOM/environment-of-npm"
packages=$3/node_modules/@anthropic-ai
# package VERSION: the part that says which version it is.
package() { mkdir -p "$packages/claude-code"; echo "{\"version\": \"$1\"}" > "$packages/claude-code/package.json"; }
# native BODY, script BODY: the program, as newer and as older versions have it. It may not be run yet.
native() { mkdir -p "$packages/claude-code-some-system"; program "$packages/claude-code-some-system/claude" "$1"; }
script() { program "$packages/claude-code/cli.js" "$1"; }
program() { printf '#!/bin/sh\n%s\n' "$2" > "$1"; }
# Shows the test that npm runs.
begun() { echo > "$ROOM/begun"; }
"#;

pub(crate) struct Room {
    folder: TempDir,
    pub(crate) environment: Environment,
}

impl Room {
    /// A room whose npm does this.
    pub(crate) fn new(npm: &str) -> Room {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["bin", "home"] {
            fs::create_dir(path(name)).unwrap();
        }
        for name in ["begun", "go"] {
            assert!(Command::new("mkfifo").arg(path(name)).status().unwrap().success());
        }
        let search_path = [path("bin").into_os_string(), std::env::var_os("PATH").unwrap()].join(":".as_ref());
        let environment = [
            ("ROOM", folder.path().as_os_str().to_owned()),
            ("WATARI_CACHE", path("cache").into()),
            ("HOME", path("home").into()),
            ("PATH", search_path),
            ("HTTPS_PROXY", "proxy-of-the-user".into()),
            ("npm_config_registry", "registry-of-the-user".into()),
            ("ANTHROPIC_API_KEY", "secret".into()),
            ("CLAUDE_CODE_OAUTH_TOKEN", "secret".into()),
            ("CLAUDECODE", "secret".into()),
        ];
        let environment = environment.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let room = Room { folder, environment };
        room.npm(&format!("{NPM}\n{npm}\n"));
        room
    }

    /// Replaces npm as a whole.
    pub(crate) fn npm(&self, text: &str) {
        let [draft, npm] = ["draft-of-npm", "bin/npm"].map(|name| self.path().join(name));
        fs::write(&draft, text).unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
        // Another test of this process may start a child while we write, and as long as that has the file open, the
        // system does not run it. So the file that is run is written by another process.
        assert!(Command::new("cp").args([&draft, &npm]).status().unwrap().success());
    }

    pub(crate) fn with(mut self, name: &str, value: impl AsRef<Path>) -> Room {
        self.environment.insert(name.into(), value.as_ref().into());
        self
    }

    pub(crate) fn without(mut self, names: &[&str]) -> Room {
        self.environment.retain(|name, _| !names.iter().any(|gone| name == gone));
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn installs(&self) -> PathBuf {
        self.path().join("cache/claude-code")
    }

    /// Fetches this version, and returns the result as one sentence.
    pub(crate) async fn fetch(&self, word: &str) -> String {
        let outcome = fetch_claude_with(&word.parse().unwrap(), &self.environment).await;
        self.plain(&match outcome {
            Ok(fetched) => {
                let how = if fetched.already_there { "was there" } else { "was installed" };
                format!("{} {how}: {}", fetched.version, fetched.path.display())
            }
            Err(error) => format!("error: {error}"),
        })
    }

    /// What npm was called with, a line for each call.
    pub(crate) fn calls(&self) -> String {
        self.plain(&fs::read_to_string(self.path().join("calls")).unwrap_or_default())
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap()
    }

    /// Everything in the folder of the installs.
    pub(crate) fn installed(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.installs()) else { return Vec::new() };
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Opened before any npm starts, so that none waits for the other side and no word is lost.
    pub(crate) fn gate(&self) -> Gate {
        Gate { begun: Receiver::from_file(self.fifo("begun")).unwrap(), go: self.fifo("go") }
    }

    fn fifo(&self, name: &str) -> File {
        // For both, so that neither side waits for the other to open it.
        OpenOptions::new().read(true).write(true).open(self.path().join(name)).unwrap()
    }

    /// A text without what differs from run to run.
    pub(crate) fn plain(&self, text: &str) -> String {
        let text = text.replace(self.path().to_str().unwrap(), "<room>");
        let is_aside = |word: &&str| word.contains("/.aside-");
        let asides: Vec<&str> = text.split_whitespace().filter(is_aside).collect();
        asides.iter().fold(text.clone(), |text, aside| text.replace(aside, "<aside>"))
    }
}

/// Where the npms of a room say that they are at work, and wait with `read line < "$ROOM/go"`.
pub(crate) struct Gate {
    begun: Receiver,
    go: File,
}

impl Gate {
    /// Waits until so many have begun.
    pub(crate) async fn wait_for(&mut self, count: usize) {
        self.begun.read_exact(&mut vec![0; count]).await.unwrap();
    }

    pub(crate) fn let_go_on(&mut self, count: usize) {
        self.go.write_all(&vec![b'\n'; count]).unwrap();
    }
}
