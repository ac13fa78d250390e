//! `watari check`: what of the CLI's protocol holds with the version that is here.

mod namespace;

use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use namespace::Network;
use tokio::sync::watch;
use watari_sdk::{ClaudeProbe, Keeper, Options};
use watari_testkit::claude::PINNED_CLAUDE_VERSION;
use watari_testkit::fetch::{WantedVersion, fetch_claude};
use watari_testkit::scenario::{self, CheckError, Cli, Scenario, scenario_schema, table};

use super::{fail, print, stopped};

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
    #[arg(long, value_name = "SECONDS", default_value_t = scenario::SCENARIO_LIMIT.as_secs(), value_parser = clap::value_parser!(u64).range(1..))]
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
}

const AFTER_HELP: &str = "\
Nothing leaves the machine: the CLI speaks with a stub of the API on the loopback, with a home and a directory of its
own, and sees neither your login nor your settings.

Exit codes: 0 everything is as expected of this version, 1 something that should hold does not, 2 nothing could be
checked.

Examples:
  watari check
  watari check --fetch            # the newest tested version
  watari check --fetch latest     # what did the newest one change?
  watari check --claude ./claude --scenario bash_single --json
  watari check --scenario my-scenario.yaml";

impl Check {
    pub(crate) fn run(self) -> ExitCode {
        if self.schema {
            return print(&format!("{:#}\n", scenario_schema()));
        }
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => match runtime.block_on(self.check()) {
                Ok(code) => code,
                Err(why) => fail(&why),
            },
            Err(error) => fail(&format!("cannot start: {error}")),
        }
    }

    async fn check(self) -> Result<ExitCode, String> {
        let scenarios = self.chosen()?;
        let program = self.program().await?;
        let network = if self.within_namespace {
            namespace::raise_loopback().map_err(|error| {
                format!("cannot use the loopback of the namespace: {error}; try it with --share-network")
            })?;
            Network::Namespace
        } else if self.share_network {
            Network::Shared
        } else {
            // Only comes back if there can be none.
            namespace::enter(&self.arguments(&program))
        };
        let options = Options { claude: Some(program.clone()), ..Options::default() };
        let probe = ClaudeProbe::find(&options).map_err(|error| error.to_string())?;
        let version = probe.version().await.map_err(|error| error.to_string())?.to_string();
        let (stop, told_to_stop) = watch::channel(false);
        let cli = Cli { program: program.clone(), keeper: Keeper::ThisProgram, stop: told_to_stop };
        let limit = Duration::from_secs(self.limit);
        let bar = progress_bar(scenarios.len());
        let check = scenario::Check { cli, version: version.clone(), scenarios, limit, at_once: at_once() };
        let run = check.run(|progress| {
            bar.set_message(progress.report.name.clone());
            bar.set_position(progress.done as u64);
        });
        tokio::pin!(run);
        let report = tokio::select! {
            // Dropped when the other is first; it is then still waited for below.
            report = &mut run => report,
            () = stopped() => {
                // Everybody who listens is still there, or has ended by itself.
                let _told = stop.send(true);
                run.await
            }
        };
        bar.finish_and_clear();
        let report = match report {
            Ok(report) => report,
            Err(CheckError::Stopped) => return Ok(ExitCode::from(STOPPED)),
            Err(error) => return Err(error.to_string()),
        };
        let text = if self.json {
            let report = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
            format!("{report}\n")
        } else {
            format!("{}\nNetwork: {network}.\n", table(&report))
        };
        let code = print(&text);
        Ok(if report.as_expected { code } else { ExitCode::from(1) })
    }

    /// The scenarios to play.
    fn chosen(&self) -> Result<Vec<Scenario>, String> {
        let all = Scenario::all().map_err(|error| error.to_string())?;
        if self.scenarios.is_empty() {
            return Ok(all);
        }
        let one = |word: &String| {
            let built_in = all.iter().find(|scenario| {
                scenario.name() == word || scenario.number().is_some_and(|number| number.to_string() == *word)
            });
            match built_in {
                Some(scenario) => Ok(scenario.clone()),
                None if word.contains(['.', '/']) => Scenario::load(word.as_ref()).map_err(|error| error.to_string()),
                None => {
                    Err(format!("there is no scenario {word}; give a name, a number or a file, such as ./{word}.yaml"))
                }
            }
        };
        self.scenarios.iter().map(one).collect()
    }

    /// The CLI to check.
    async fn program(&self) -> Result<PathBuf, String> {
        match &self.fetch {
            None => {
                let options = Options { claude: self.claude.clone(), ..Options::default() };
                match ClaudeProbe::find(&options) {
                    Ok(probe) => Ok(probe.program().to_owned()),
                    Err(error) => Err(format!("{error}; or fetch one for the check with `watari check --fetch`")),
                }
            }
            Some(wanted) => {
                let spinner = ProgressBar::new_spinner()
                    .with_message(format!("fetching Claude Code {wanted} by npm (about 350 MB, once) {{elapsed}}"));
                spinner.enable_steady_tick(Duration::from_millis(120));
                let fetched = tokio::select! {
                    // Dropping it ends npm and removes what it has installed so far.
                    fetched = fetch_claude(wanted) => fetched.map_err(|error| error.to_string()),
                    () = stopped() => Err("stopped while fetching".to_owned()),
                };
                spinner.finish_and_clear();
                Ok(fetched?.path)
            }
        }
    }

    /// The arguments of the program that goes on within a namespace.
    fn arguments(&self, program: &std::path::Path) -> Vec<std::ffi::OsString> {
        let mut arguments: Vec<std::ffi::OsString> = vec!["check".into(), "--within-namespace".into()];
        arguments.extend(["--claude".into(), program.into()]);
        arguments.extend(["--limit".into(), self.limit.to_string().into()]);
        arguments.extend(self.json.then(|| "--json".into()));
        arguments.extend(self.scenarios.iter().flat_map(|word| ["--scenario".into(), word.into()]));
        arguments
    }
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
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {elapsed}");
    // The template is a constant; were it wrong, the default is as good.
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
