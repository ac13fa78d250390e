//! The bench: `bench/run`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use watari_bench::measure::{self, Scale};
use watari_bench::subject::{Programs, SPLICE, Subject};
use watari_bench::table::Sheet;
use watari_bench::{host_measure, node, page, splice};

/// Measure watari, a bridge on Node and a program that only copies bytes.
#[derive(Debug, Parser)]
#[command(name = "bench/run", after_help = AFTER_HELP)]
struct Bench {
    /// Measurements to run [default: all]
    #[arg(value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(names()))]
    names: Vec<String>,
    /// Repeat each measurement N times [default: per measurement]
    #[arg(long, value_name = "N")]
    repeats: Option<u32>,
    /// Write the table into this page too, between its marker lines
    #[arg(long, value_name = "PAGE")]
    write: Option<PathBuf>,
    /// Measure this watari instead of the one that was built, for comparisons
    #[arg(long, value_name = "PATH")]
    watari: Option<PathBuf>,
    /// Do not install and measure the bridge on Node
    #[arg(long)]
    without_node: bool,
}

/// The names of all measurements; `host` stands for all that begin with it.
fn names() -> Vec<&'static str> {
    let bridges = measure::ALL.iter().map(|(name, _, _)| *name);
    bridges.chain(["host"]).chain(host_measure::ALL.iter().map(|(name, _, _)| *name)).collect()
}

const AFTER_HELP: &str = "\
All subjects start the same fake CLI. Runs are interleaved, and the table shows medians. A full run takes about ten minutes;
run nothing else meanwhile. The SDK for Node is installed by npm into the cache, once.

Examples:
  bench/run                             # everything
  bench/run --write docs/performance.md # everything, and write the table into the page
  bench/run short latency --repeats 3   # a quick look
  bench/run host                        # only the hosts of sessions
  bench/run host-lines --watari PATH    # only long lines, with another build: two minutes";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let done = if arguments.next().is_some_and(|argument| argument == SPLICE) {
        splice::run(arguments).context("the splice failed")
    } else {
        Bench::parse().run().map(|()| ExitCode::SUCCESS)
    };
    done.unwrap_or_else(|error| {
        print_progress(&format!("bench: {error:#}"));
        ExitCode::FAILURE
    })
}

impl Bench {
    fn run(self) -> Result<()> {
        let bench = std::env::current_exe()?;
        let beside = bench.parent().unwrap_or(Path::new("."));
        let programs = Programs {
            watari: self.watari.clone().unwrap_or_else(|| beside.join("watari")),
            fake_claude: beside.join("fake-claude"),
            node_bridge: if self.without_node || !self.wants_bridges() { None } else { Some(node::install()?) },
            bench: bench.clone(),
        };
        for program in [&programs.watari, &programs.fake_claude] {
            ensure!(program.is_file(), "{} does not exist: start the bench with bench/run", program.display());
        }
        let subjects = Subject::ALL.into_iter().filter(|subject| subject.command(&programs).is_some());
        let subjects: Vec<Subject> = subjects.collect();
        let mut sheet = Sheet::default();
        for (name, repeats, measurement) in measure::ALL {
            if !self.wants(name) {
                continue;
            }
            let repeats = self.repeats.unwrap_or(repeats);
            for repeat in 0..repeats as usize {
                print_progress(&format!("{name} {} of {repeats}", repeat + 1));
                // Each repeat begins with another subject, so that none always runs in the state that the same other
                // one left.
                for place in 0..subjects.len() {
                    let subject = subjects[(place + repeat) % subjects.len()];
                    measurement(&programs, subject, Scale::Full, &mut sheet)
                        .with_context(|| format!("{name} with {}", subject.name()))?;
                }
            }
        }
        let mut hosts = host_measure::HostSheet::default();
        for (name, repeats, measurement) in host_measure::ALL {
            if !self.wants(name) && !self.wants("host") {
                continue;
            }
            let repeats = self.repeats.unwrap_or(repeats);
            for repeat in 0..repeats {
                print_progress(&format!("{name} {} of {repeats}", repeat + 1));
                measurement(&programs, Scale::Full, &mut hosts).with_context(|| name)?;
            }
        }
        if !sheet.is_empty() {
            self.note(page::BRIDGES, &sheet.markdown())?;
        }
        if !hosts.is_empty() {
            self.note(page::HOSTS, &hosts.markdown())?;
        }
        Ok(())
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }

    fn wants_bridges(&self) -> bool {
        measure::ALL.iter().any(|(name, _, _)| self.wants(name))
    }

    /// Prints a table, and writes it into the page.
    fn note(&self, place: &str, table: &str) -> Result<()> {
        io::stdout().write_all(table.as_bytes())?;
        match &self.write {
            Some(page) => page::write(page, place, table),
            None => Ok(()),
        }
    }
}

/// Prints progress.
fn print_progress(text: &str) {
    // If stderr is closed, the text is lost.
    let _written = writeln!(io::stderr(), "{text}");
}
