//! `watari stdio` in a sandbox, with the fake CLI.

#![allow(dead_code, reason = "every test program uses some of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tokio::process::{Child, Command};
use watari_testkit::Sandbox;
use watari_testkit::fake_claude::SCRIPT_VARIABLE;
use watari_testkit::processes::none_marked_within;

use crate::common::{self, WATARI};

/// How long the end may take: what aborting a healthy CLI may.
const GONE_WITHIN: Duration = Duration::from_secs(3);

/// A clean room with the fake CLI.
pub(crate) struct Room {
    pub(crate) sandbox: Sandbox,
    pub(crate) claude: PathBuf,
}

impl Room {
    pub(crate) fn new(script: &str) -> Room {
        let sandbox = Sandbox::new("http://127.0.0.1:9").unwrap();
        let claude = common::program(&sandbox.root().join("claude"), &format!("exec '{WATARI}' __fake-claude \"$@\""));
        let path = sandbox.root().join("script");
        fs::write(&path, script).unwrap();
        let sandbox = sandbox.with_env(SCRIPT_VARIABLE, path.to_str().unwrap());
        Room { sandbox, claude }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(WATARI);
        command.arg("stdio").arg("--claude").arg(&self.claude);
        command.env_clear().envs(self.sandbox.environment()).current_dir(self.sandbox.cwd()).kill_on_drop(true);
        command
    }

    /// Asserts that it exits by itself with code 0 and leaves no process.
    pub(crate) async fn ends(&self, mut child: Child) {
        let ended = tokio::time::timeout(GONE_WITHIN, child.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("it still runs after {GONE_WITHIN:?}")).unwrap();
        assert_eq!(status.code(), Some(0));
        none_marked_within(self.sandbox.root().to_str().unwrap(), Duration::from_secs(1)).await.unwrap();
    }
}

pub(crate) fn start() -> String {
    format!("{}\n", json!({"type": "start", "prompt": "Hello?", "options": {}}))
}

pub(crate) fn user_message() -> String {
    format!("{}\n", json!({"type": "user_message", "text": "And now?"}))
}
