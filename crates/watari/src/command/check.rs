//! `watari check`: what of the CLI's protocol holds with the version that is here.

mod namespace;

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use namespace::Network;
use watari_sdk::{ClaudeProbe, Environment, Options, Supervisor};
use watari_testkit::Sandbox;
use watari_testkit::claude::PINNED_CLAUDE_VERSION;
use watari_testkit::fetch::{WantedVersion, fetch_claude};
use watari_testkit::scenario::{self, CheckError, Cli, Scenario, scenario_schema, table};

use super::{StopSignals, fail, print};

/// Play the protocol's scenarios against the installed Claude Code, and tell what holds.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Check {
    /// The Claude Code to check; otherwise the first that is found
    #[arg(long, value_name = "PATH", conflicts_with = "fetch")]
    claude: Option<PathBuf>,
    /// Check this version, fetched by npm into the cache if it is not there yet: a version, a tag such as latest, or
    /// nothing for the newest that was tested
    #[arg(long, value_name = "VERSION", num_args = 0..=1, default_missing_value = PINNED_CLAUDE_VERSION)]
    fetch: Option<WantedVersion>,
    /// Play only this one: a name, a number or a file; can be given several times
    #[arg(long = "scenario", value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// How many seconds a scenario may take
    #[arg(long, value_name = "SECONDS", default_value_t = scenario::SCENARIO_LIMIT.as_secs(), value_parser = clap::value_parser!(u64).range(1..=86_400))]
    limit: u64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Use this machine's network, and not a namespace with nothing but the loopback
    #[arg(long)]
    share_network: bool,
    /// Print the JSON Schema of scenario files, and do nothing else
    #[arg(long, exclusive = true)]
    schema: bool,
    /// Says that this is the program within the namespace.
    #[arg(long, hide = true)]
    within_namespace: bool,
    /// Says that this only finds out whether a namespace can be used.
    #[arg(long, hide = true)]
    try_namespace: bool,
}

const AFTER_HELP: &str = "\
The CLI speaks with a stub of the API on the loopback, has a home and a directory of its own, and sees neither your login
nor your settings. Where the system allows it, it has a network of its own with nothing else in it.

Exit codes: 0 everything is as expected of this version, 1 something that should hold does not, 2 nothing could be
checked.

Examples:
  watari check
  watari check --fetch            # the newest tested version
  watari check --fetch latest     # what did the newest one change?
  watari check --claude ./claude --scenario bash_single --json
  watari check --scenario my-scenario.yaml";

/// Why there is no report.
enum Trouble {
    Stopped,
    Because(String),
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
            Err(Trouble::Stopped) => ExitCode::from(STOPPED),
            Err(Trouble::Because(why)) => fail(&why),
        }
    }

    async fn check(self) -> Result<ExitCode, Trouble> {
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
            CheckError::Stopped => Trouble::Stopped,
            CheckError::File(_)
            | CheckError::Play { .. }
            | CheckError::NoConversation { .. }
            | CheckError::BrokeOff => because(error),
        })?;
        let text = if self.json {
            let mut report = serde_json::to_value(&report).map_err(because)?;
            report["network"] = network.word().into();
            format!("{report:#}\n")
        } else {
            format!("{}\nNetwork: {}.\n", table(&report), network.words())
        };
        Ok(print(&text, ExitCode::from(u8::from(!report.as_expected))))
    }

    /// The scenarios to play.
    fn chosen(&self) -> Result<Vec<Scenario>, Trouble> {
        let all = Scenario::all().map_err(because)?;
        if self.scenarios.is_empty() {
            return Ok(all);
        }
        let is_meant = |scenario: &&Scenario, word: &str| {
            scenario.name() == word || scenario.number().is_some_and(|number| number.to_string() == word)
        };
        let one = |word: &String| match all.iter().find(|scenario| is_meant(scenario, word)) {
            Some(scenario) => Ok(scenario.clone()),
            None if word.contains(['.', '/']) => Scenario::load(word.as_ref()).map_err(because),
            None => Err(because(format!(
                "there is no scenario {word}; give a name or a number from docs/claude-stream-json.md, or a file such as \
                 ./{word}.yaml"
            ))),
        };
        self.scenarios.iter().map(one).collect()
    }

    /// The CLI to check.
    async fn program(&self, signals: &mut StopSignals) -> Result<PathBuf, Trouble> {
        let Some(wanted) = &self.fetch else {
            let options = Options { claude: self.claude.clone(), ..Options::default() };
            return match ClaudeProbe::find(&options) {
                Ok(probe) => Ok(probe.program().to_owned()),
                Err(error) if self.claude.is_some() => Err(because(error)),
                Err(error) => {
                    Err(because(format!("{error}; or let one be fetched for the check with `watari check --fetch`")))
                }
            };
        };
        let spinner = spinner(format!("looking for Claude Code {wanted}, or fetching it by npm (350 MB, once)"));
        let fetched = tokio::select! {
            // Dropping it ends npm and removes what it has installed so far.
            fetched = fetch_claude(wanted) => fetched.map_err(because),
            // Dropped when there is nothing left to stop.
            () = signals.received() => Err(Trouble::Stopped),
        };
        spinner.finish_and_clear();
        Ok(fetched?.path)
    }

    /// The network that the CLI is to see: a namespace if there can be one, and then this program goes on there.
    fn network(&self, program: &Path) -> Result<Network, Trouble> {
        match (self.within_namespace, self.share_network) {
            (true, _) => match namespace::raise_loopback() {
                Ok(()) => Ok(Network::Namespace),
                Err(error) => Err(because(format!(
                    "the loopback of the namespace cannot be used: {error}; try it with --share-network"
                ))),
            },
            (false, true) => Ok(Network::Shared),
            (false, false) => Ok(namespace::enter(&self.arguments(program))),
        }
    }

    /// The arguments of the program that goes on within a namespace.
    fn arguments(&self, program: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["check".into(), "--within-namespace".into()];
        arguments.extend(["--claude".into(), program.into()]);
        arguments.extend(["--limit".into(), self.limit.to_string().into()]);
        arguments.extend(self.json.then(|| "--json".into()));
        // In one word, because a file may be called like a flag.
        arguments.extend(self.scenarios.iter().map(|word| format!("--scenario={word}").into()));
        arguments
    }
}

/// Asks a CLI for its version, in a clean room: it sees neither a key nor a home.
async fn version_of(program: &Path) -> Result<String, Trouble> {
    // Nobody listens there, and nobody is to be spoken with.
    let sandbox = Sandbox::new("http://127.0.0.1:9").map_err(because)?;
    let environment = Environment::only(sandbox.environment());
    let options = Options { claude: Some(program.to_owned()), environment, ..Options::default() };
    match ClaudeProbe::find(&options).map_err(because)?.version().await {
        Ok(version) => Ok(version.to_string()),
        Err(error) => Err(because(format!("cannot ask for the version: {error}; see `watari doctor`"))),
    }
}

fn because(why: impl ToString) -> Trouble {
    Trouble::Because(why.to_string())
}

/// What the shell's own convention is for a program that was interrupted.
const STOPPED: u8 = 130;

/// A CLI that starts keeps one core busy for half a second; one more than there are cores keeps all of them busy.
fn at_once() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(7) + 1
}

/// On a terminal a bar; elsewhere nothing.
fn progress_bar(count: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(count as u64), ProgressDrawTarget::stderr());
    bar.enable_steady_tick(TICK);
    bar.with_style(style("{spinner} {bar:30} {pos}/{len} {elapsed} {msg}"))
}

/// On a terminal something that moves; elsewhere nothing.
fn spinner(message: String) -> ProgressBar {
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    spinner.enable_steady_tick(TICK);
    spinner.with_style(style("{spinner} {elapsed} {msg}")).with_message(message)
}

const TICK: Duration = Duration::from_millis(120);

fn style(template: &str) -> ProgressStyle {
    // The templates are constants; were one wrong, the default is as good.
    ProgressStyle::with_template(&format!("{template}{ROOM_FOR_CTRL_C}"))
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The line is filled up to the edge of the terminal, so that the `^C` which the terminal shows would begin the next line,
/// and the wrong one would be cleared. These take no place, but are counted as if they did.
const ROOM_FOR_CTRL_C: &str = "    \u{8}\u{8}\u{8}\u{8}";
