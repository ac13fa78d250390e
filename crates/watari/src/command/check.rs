//! `watari check`: which parts of the CLI's protocol still work with the installed version.

mod namespace;

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use namespace::Network;
use watari_sdk::{Environment, InstalledCli, Options, Supervisor};
use watari_testkit::Sandbox;
use watari_testkit::claude::PINNED_CLAUDE_VERSION;
use watari_testkit::fetch::{WantedVersion, fetch_claude};
use watari_testkit::scenario::{self, CheckError, Cli, Scenario, scenario_schema, table};

use super::{StopSignals, fail, print};

/// Run test conversations with a Claude Code, and report which still work as Watari expects.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Check {
    /// Path of the Claude Code to check [default: the first `claude` in PATH or in the usual install folders]
    #[arg(long, value_name = "PATH", conflicts_with = "fetch")]
    claude: Option<PathBuf>,
    /// Fetch a version with npm, unless it is cached, and check it. VERSION is a number or a tag such as latest
    /// [default: the newest version that Watari was tested with]
    #[arg(long, value_name = "VERSION", num_args = 0..=1, default_missing_value = PINNED_CLAUDE_VERSION)]
    fetch: Option<WantedVersion>,
    /// Run only this scenario: a name or a number from the report, or a file; can be repeated
    #[arg(long = "scenario", value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Time limit for each scenario
    #[arg(long, value_name = "SECONDS", default_value_t = scenario::SCENARIO_LIMIT.as_secs(), value_parser = clap::value_parser!(u64).range(1..=86_400))]
    limit: u64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Do not cut the CLI off from the network (by default it can reach only the stub, if the system allows that)
    #[arg(long)]
    share_network: bool,
    /// Print the JSON Schema of scenario files and exit
    #[arg(long, exclusive = true)]
    schema: bool,
    /// Marks the program that runs within the namespace.
    #[arg(long, hide = true)]
    within_namespace: bool,
    /// Marks the program that only tests whether a namespace can be used.
    #[arg(long, hide = true)]
    try_namespace: bool,
}

const AFTER_HELP: &str = "\
A scenario is one test conversation. The CLI talks to a stub of the API on this machine and has its own home and working
directory. It sees neither your login nor your settings, and needs no key.

Each scenario holds (the CLI behaves as described), changed (the CLI behaves differently) or is gone (the CLI no longer
has the tool). In some versions, some scenarios are expected to be changed or gone. An untested version is compared with
the nearest tested one. It also checks claims about single messages. The report marks each result that is worse than
expected with !.

Exit codes: 0 no result is worse than expected, 1 at least one is or nothing could be checked, 2 the command line is
wrong.

Examples:
  watari check
  watari check --fetch            # check the newest tested version
  watari check --fetch latest     # see what the newest version changed
  watari check --claude ./claude --scenario bash_single --json
  watari check --scenario my-scenario.yaml";

/// Why there is no report.
enum CheckFailure {
    Stopped,
    Other(String),
}

impl Check {
    pub(crate) fn run(self) -> ExitCode {
        if self.schema {
            return print(&format!("{:#}\n", scenario_schema()), ExitCode::SUCCESS);
        }
        if self.try_namespace {
            return namespace::try_here();
        }
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return fail(&format!("cannot start: {error}")),
        };
        match runtime.block_on(self.check()) {
            Ok(code) => code,
            Err(CheckFailure::Stopped) => ExitCode::from(STOPPED),
            Err(CheckFailure::Other(why)) => fail(&why),
        }
    }

    async fn check(self) -> Result<ExitCode, CheckFailure> {
        let mut signals = StopSignals::listen();
        let scenarios = self.chosen()?;
        let program = self.program(&mut signals).await?;
        let network = self.network(&program)?;
        let version = version_of(&program).await?;
        let bar = progress_bar(scenarios.len());
        let check = scenario::Check {
            cli: Cli { program, supervisor: Supervisor::ThisProgram },
            version,
            scenarios,
            limit: Duration::from_secs(self.limit),
            at_once: at_once(),
        };
        let report = check.run(signals.received(), |progress| {
            bar.set_message(progress.report.name.clone());
            bar.set_position(progress.done as u64);
        });
        let report = report.await;
        bar.finish_and_clear();
        let report = report.map_err(|error| match error {
            CheckError::Stopped => CheckFailure::Stopped,
            CheckError::File(_)
            | CheckError::Play { .. }
            | CheckError::NoConversation { .. }
            | CheckError::BrokeOff => failure(error),
        })?;
        let text = if self.json {
            let mut report = serde_json::to_value(&report).map_err(failure)?;
            report["network"] = network.name().into();
            format!("{report:#}\n")
        } else {
            format!("{}\nNetwork: {}.\n", table(&report), network.describe())
        };
        Ok(print(&text, ExitCode::from(u8::from(!report.as_expected))))
    }

    /// The scenarios to run.
    fn chosen(&self) -> Result<Vec<Scenario>, CheckFailure> {
        let all = Scenario::all().map_err(failure)?;
        if self.scenarios.is_empty() {
            return Ok(all);
        }
        let matches = |scenario: &&Scenario, argument: &str| {
            scenario.name() == argument || scenario.number().is_some_and(|number| number.to_string() == argument)
        };
        let find = |argument: &String| match all.iter().find(|scenario| matches(scenario, argument)) {
            Some(scenario) => Ok(scenario.clone()),
            None if argument.contains(['.', '/']) => Scenario::load(argument.as_ref()).map_err(failure),
            None => Err(failure(format!(
                "there is no scenario {argument}; use a name or a number from the report of watari check, or a file such \
                 as ./{argument}.yaml"
            ))),
        };
        self.scenarios.iter().map(find).collect()
    }

    /// The CLI to check.
    async fn program(&self, signals: &mut StopSignals) -> Result<PathBuf, CheckFailure> {
        let Some(wanted) = &self.fetch else {
            let options = Options { claude: self.claude.clone(), ..Options::default() };
            return match InstalledCli::find(&options) {
                Ok(probe) => Ok(probe.program().to_owned()),
                Err(error) if self.claude.is_some() => Err(failure(error)),
                Err(error) => Err(failure(format!("{error}; or fetch one for the check with `watari check --fetch`"))),
            };
        };
        let spinner = spinner(format!("looking for Claude Code {wanted}, or fetching it by npm (350 MB, once)"));
        let fetched = tokio::select! {
            // Dropping it terminates npm and removes the partial installation.
            fetched = fetch_claude(wanted) => fetched.map_err(failure),
            // Dropped when the fetch is done and there is nothing to stop.
            () = signals.received() => Err(CheckFailure::Stopped),
        };
        spinner.finish_and_clear();
        Ok(fetched?.path)
    }

    /// The network for the CLI: a namespace if one can be created, in which case this program restarts there.
    fn network(&self, program: &Path) -> Result<Network, CheckFailure> {
        match (self.within_namespace, self.share_network) {
            (true, _) => match namespace::raise_loopback() {
                Ok(()) => Ok(Network::Namespace),
                Err(error) => {
                    Err(failure(format!("cannot use the loopback of the namespace: {error}; try --share-network")))
                }
            },
            (false, true) => Ok(Network::Shared),
            (false, false) => Ok(namespace::enter(&self.arguments(program))),
        }
    }

    /// The arguments of the program that runs within the namespace.
    fn arguments(&self, program: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["check".into(), "--within-namespace".into()];
        arguments.extend(["--claude".into(), program.into()]);
        arguments.extend(["--limit".into(), self.limit.to_string().into()]);
        arguments.extend(self.json.then(|| "--json".into()));
        // As one argument, because the name of a file may look like a flag.
        arguments.extend(self.scenarios.iter().map(|name| format!("--scenario={name}").into()));
        arguments
    }
}

/// Asks a CLI for its version, in a sandbox without a key and without the user's home.
async fn version_of(program: &Path) -> Result<String, CheckFailure> {
    // No server listens there, and the CLI needs none.
    let sandbox = Sandbox::new("http://127.0.0.1:9").map_err(failure)?;
    let environment = Environment::only(sandbox.environment());
    let options = Options { claude: Some(program.to_owned()), environment, ..Options::default() };
    match InstalledCli::find(&options).map_err(failure)?.version().await {
        Ok(version) => Ok(version.to_string()),
        Err(error) => Err(failure(format!("cannot determine the version: {error}; see `watari doctor`"))),
    }
}

fn failure(why: impl ToString) -> CheckFailure {
    CheckFailure::Other(why.to_string())
}

/// The shell's conventional exit code for an interrupted program.
const STOPPED: u8 = 130;

/// How many scenarios run at the same time. A starting CLI keeps one core busy for half a second; one CLI more than
/// there are cores keeps all of them busy.
fn at_once() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(7) + 1
}

/// A progress bar on a terminal; nothing elsewhere.
fn progress_bar(count: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(count as u64), ProgressDrawTarget::stderr());
    bar.enable_steady_tick(TICK);
    bar.with_style(style("{spinner} {bar:30} {pos}/{len} {elapsed} {msg}"))
}

/// A spinner on a terminal; nothing elsewhere.
fn spinner(message: String) -> ProgressBar {
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    spinner.enable_steady_tick(TICK);
    spinner.with_style(style("{spinner} {elapsed} {msg}")).with_message(message)
}

const TICK: Duration = Duration::from_millis(120);

fn style(template: &str) -> ProgressStyle {
    // The templates are constants; if one were wrong, the default would do.
    ProgressStyle::with_template(&format!("{template}{ROOM_FOR_CTRL_C}"))
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A line that fills the width of the terminal would push an echoed `^C` to the next line, and the wrong line would be
/// cleared. These characters occupy no space but are counted, so they leave room for it.
const ROOM_FOR_CTRL_C: &str = "    \u{8}\u{8}\u{8}\u{8}";
