//! `watari stdio`: one session on standard input and output.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::{StallOptions, StopSignals, fail};
use crate::frontend::stdio::{self, Settings};

/// Hold one session over standard input and output, one JSON object a line.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Stdio {
    /// The Claude Code to start; otherwise the first that is found
    #[arg(long, value_name = "PATH")]
    claude: Option<PathBuf>,
    /// Let a client ask for the mode in which everything runs without a question; only in a sandbox
    #[arg(long)]
    allow_bypass: bool,
    /// After how many seconds a permission request that nobody answers is a no, whatever the client says; 0 means never
    /// [default: what the client says, or 60]
    #[arg(long, value_name = "SECONDS")]
    permission_timeout: Option<u32>,
    #[command(flatten)]
    stalls: StallOptions,
}

const AFTER_HELP: &str = "\
The first line it prints is {\"type\":\"ready\"}. Then the client sends a line such as
  {\"type\":\"start\",\"prompt\":\"What is in this folder?\",\"options\":{\"cwd\":\"/path\"}}
and reads lines until it has enough. The end of its input ends the session when everything it asked for is done;
{\"type\":\"abort\"} ends it at once.

Exit codes: 0 the session was ended by the client, 1 there is none or it broke off (the last line says why), 2 the command line is wrong.

Example:
  echo '{\"type\":\"start\",\"prompt\":\"Say hello\"}' | watari stdio";

impl Stdio {
    pub(crate) fn run(self) -> ExitCode {
        let settings = Settings {
            claude: self.claude,
            allow_bypass: self.allow_bypass,
            permission_timeout: self.permission_timeout.map(|seconds| Duration::from_secs(seconds.into())),
            liveness: self.stalls.liveness(),
        };
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                // A task like the session's own: the one runs right after the other, without a look at the system between.
                let served = runtime.spawn(async { stdio::serve(settings, StopSignals::listen()).await });
                let code = runtime.block_on(served).unwrap_or_else(|panic| fail(&format!("broke off: {panic}")));
                // A read of the input that waits in a thread would keep the runtime, and with it the program.
                runtime.shutdown_background();
                code
            }
            Err(error) => fail(&format!("cannot start: {error}")),
        }
    }
}
