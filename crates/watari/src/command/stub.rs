//! `watari stub`: the stub of the Messages API as a program, for tests in any language.

use std::path::PathBuf;
use std::process::ExitCode;

use watari_testkit::stub_api::stub_script_schema;
use watari_testkit::{Script, StubApi, StubOptions};

use super::{CANNOT, StopSignals, fail, print};
use crate::standard_streams::Input;

/// Stand in for the Anthropic Messages API, so that a program can be tested without a key.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Stub {
    /// Files that say what to answer, one reply per model call; several files follow one another. Without any, every
    /// answer is "Hello!"
    #[arg(value_name = "SCRIPT")]
    scripts: Vec<PathBuf>,
    /// Write every request to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The port of 127.0.0.1 to listen on; otherwise a free one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Stop when standard input ends, so that a test that dies takes the stub with it
    #[arg(long)]
    until_eof: bool,
    /// Print the JSON Schema of script files, and do nothing else
    #[arg(long, conflicts_with_all = ["scripts", "record", "port", "until_eof"])]
    schema: bool,
}

const AFTER_HELP: &str = "\
It prints the environment to set, one NAME=VALUE a line, closes its standard output, and answers until it is stopped
(Ctrl-C, SIGTERM).

A script is YAML or JSON:
  replies:
    - text: I will look.
      tool: Bash
      input: {command: ls}
    - text: There are two files.
    - status: 529
      headers: {retry-after: \"1\"}

What it was asked is at $WATARI_STUB_URL/requests, as JSON. A new script can be put to $WATARI_STUB_URL/script at any
time. The address has a secret in it: others on this machine could otherwise have the CLI run what they like.

Examples:
  watari stub
  watari stub answers.yaml --record requests.jsonl
  env $(cat stub.env) claude -p 'Say hello' # where stub.env is what it printed";

impl Stub {
    pub(crate) fn run(self) -> ExitCode {
        if self.schema {
            return print(&format!("{:#}\n", stub_script_schema()), ExitCode::SUCCESS);
        }
        let mut script = Script::new();
        for path in &self.scripts {
            match Script::load(path) {
                Ok(next) => script = script.then(next),
                Err(error) => return fail(&format!("a bad script: {error}")),
            }
        }
        let options = StubOptions { script, port: self.port, record: self.record, can_be_asked: true };
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let code = runtime.block_on(serve(options, self.until_eof));
                // A read of the input that waits would keep the runtime, and with it the program.
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
        // Nobody can know the address.
        return ExitCode::from(CANNOT);
    }
    close_stdout();
    tokio::select! {
        // Both may be dropped half-way: what comes first is the end.
        () = signals.received() => {}
        () = end_of_input(), if until_eof => {}
    }
    ExitCode::SUCCESS
}

/// So that a test which reads what is printed knows when it has it all.
fn close_stdout() {
    if let Ok(nowhere) = watari_sdk::files::nothing() {
        // Where this fails the reader has all lines too, only not their end.
        let _closed = rustix::stdio::dup2_stdout(nowhere);
    }
}

async fn end_of_input() {
    // What cannot be read has ended.
    let Ok(mut input) = Input::open() else { return };
    let mut piece = Vec::with_capacity(1024);
    while let Ok(1..) = input.read(&mut piece).await {
        piece.clear();
    }
}
