//! `watari stdio`: one session on standard input and output.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::{StallOptions, StopSignals, adopt_orphans, fail, whole_number};
use crate::frontend::stdio::{self, StdioArguments};

/// Serve one session over standard input and output, one JSON object per line.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Stdio {
    /// Path of the Claude Code to start [default: the first `claude` in PATH or in the usual install folders]
    #[arg(long, value_name = "PATH")]
    claude: Option<PathBuf>,
    /// Let the client use bypassPermissions, the mode that runs everything without asking; only in a sandbox
    #[arg(long)]
    allow_bypass: bool,
    /// Deny unanswered permission requests after SECONDS, whatever limit the client sets (0 = never) [default: the
    /// client's limit, or 60]
    #[arg(long, value_name = "SECONDS", value_parser = whole_number, allow_negative_numbers = true)]
    permission_timeout: Option<u32>,
    #[command(flatten)]
    stalls: StallOptions,
}

const AFTER_HELP: &str = "\
Watari prints {\"type\":\"ready\"} first. The client then sends a line such as
  {\"type\":\"start\",\"prompt\":\"What is in this folder?\",\"options\":{\"cwd\":\"/path\"}}
and reads the messages that follow. When the client closes the input, Watari finishes the running turn and the waiting
messages and ends the session; {\"type\":\"abort\"} ends it immediately.

Exit codes: 0 the client or a signal ended the session, 1 the session could not start or failed (the last line says
why), 2 the command line is wrong.

Example:
  echo '{\"type\":\"start\",\"prompt\":\"Say hello\"}' | watari stdio";

impl Stdio {
    pub(crate) fn run(self) -> ExitCode {
        adopt_orphans();
        let settings = StdioArguments {
            claude: self.claude,
            allow_bypass: self.allow_bypass,
            permission_timeout: self.permission_timeout.map(|seconds| Duration::from_secs(seconds.into())),
            watchdog: self.stalls.watchdog(),
        };
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                // A task, like the session itself: the runtime switches between tasks without polling the system.
                let served = runtime.spawn(async { stdio::serve(settings, StopSignals::listen()).await });
                let code = runtime.block_on(served).unwrap_or_else(|panic| fail(&format!("panicked: {panic}")));
                // A thread that is blocked reading the input would keep the runtime, and so the program, alive.
                runtime.shutdown_background();
                code
            }
            Err(error) => fail(&format!("cannot start: {error}")),
        }
    }
}
