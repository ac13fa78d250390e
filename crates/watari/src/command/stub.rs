//! `watari stub`: the stub of the Messages API as a program, for tests in any language.

use std::path::PathBuf;
use std::process::ExitCode;

use watari_testkit::stub_api::stub_script_schema;
use watari_testkit::{Script, StubApi, StubOptions};

use super::{StopSignals, fail, print};
use crate::standard_streams::Input;

/// Serve a stub of the Anthropic Messages API, to test programs without an API key.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Stub {
    /// Script with the replies, one per model call; several scripts count as one. The last reply is repeated. Without a
    /// script, every reply is "Hello!"
    #[arg(value_name = "SCRIPT")]
    scripts: Vec<PathBuf>,
    /// Write every request to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Port to listen on at 127.0.0.1 [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Stop when standard input ends, so that the stub exits with the test that started it
    #[arg(long)]
    until_eof: bool,
    /// Print the JSON Schema of scripts and exit
    #[arg(long, conflicts_with_all = ["scripts", "record", "port", "until_eof"])]
    schema: bool,
}

const AFTER_HELP: &str = "\
Prints the environment variables to set, one NAME=VALUE per line, closes its standard output, and answers requests until
it is stopped (Ctrl-C, SIGTERM).

A script is YAML or JSON:
  replies:
    - text: I will look.
      tool: Bash
      input: {command: ls}
    - text: There are two files.
    - status: 529
      headers: {retry-after: \"1\"}

GET $WATARI_STUB_URL/requests returns the recorded requests as JSON. PUT $WATARI_STUB_URL/script replaces the script at
any time. The address contains a secret, so that other users of this machine cannot make the CLI run their commands.

Exit codes: 0 it was stopped, 1 it could not start, 2 the command line is wrong.

Examples:
  watari stub
  watari stub answers.yaml --record requests.jsonl
  watari stub answers.yaml > stub.env &
  until [ -s stub.env ]; do sleep 0.1; done; env $(cat stub.env) claude -p 'Say hello'";

impl Stub {
    pub(crate) fn run(self) -> ExitCode {
        if self.schema {
            return print(&format!("{:#}\n", stub_script_schema()), ExitCode::SUCCESS);
        }
        let mut script = Script::new();
        for path in &self.scripts {
            match Script::load(path) {
                Ok(next) => script = script.then(next),
                Err(error) => return fail(&format!("invalid script: {error}")),
            }
        }
        let options = StubOptions { script, port: self.port, record: self.record, control_over_http: true };
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let code = runtime.block_on(serve(options, self.until_eof));
                // A thread that is blocked reading the input would keep the runtime, and so the program, alive.
                runtime.shutdown_background();
                code
            }
            Err(error) => fail(&format!("cannot start: {error}")),
        }
    }
}

async fn serve(options: StubOptions, until_eof: bool) -> ExitCode {
    let mut signals = StopSignals::listen();
    let stub = match StubApi::start_with(options).await {
        Ok(stub) => stub,
        Err(error) => return fail(&error.to_string()),
    };
    let environment: Vec<String> = stub.environment().iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    if print(&environment.concat(), ExitCode::SUCCESS) != ExitCode::SUCCESS {
        // No client can know the address.
        return ExitCode::FAILURE;
    }
    close_stdout();
    tokio::select! {
        // Both may be dropped half-way: either ends the stub.
        () = signals.received() => {}
        () = end_of_input(), if until_eof => {}
    }
    ExitCode::SUCCESS
}

/// Closes standard output, so that a test can read it to its end.
fn close_stdout() {
    if let Ok(dev_null) = watari_sdk::files::open_dev_null() {
        // If this fails, the reader has all lines, but no end of file.
        let _closed = rustix::stdio::dup2_stdout(dev_null);
    }
}

async fn end_of_input() {
    // An input that cannot be read counts as ended.
    let Ok(mut input) = Input::open() else { return };
    let mut chunk = Vec::with_capacity(1024);
    while let Ok(1..) = input.read(&mut chunk).await {
        chunk.clear();
    }
}
