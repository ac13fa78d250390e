//! Writes a table, with the date and the machine of its measurement, into a hand-written page.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// The line that ends a measured part.
const END: &str = "<!-- end -->\n";

/// The line that begins the table of bridges.
pub const BRIDGES: &str = "<!-- measured: bench/run --write -->\n";

/// The line that begins the table of hosts.
pub const HOSTS: &str = "<!-- measured: bench/run host --write -->\n";

/// Replaces the previous table.
pub fn write(page: &Path, beginning: &str, table: &str) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let text = replaced(&text, beginning, &format!("{}\n\n{table}", circumstances()?))
        .with_context(|| format!("{} has no lines {beginning:?} and {END:?}", page.display()))?;
    fs::write(page, text).with_context(|| format!("cannot write {}", page.display()))
}

fn replaced(page: &str, beginning: &str, measured: &str) -> Option<String> {
    let (before, rest) = page.split_once(beginning)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{beginning}{measured}{END}{after}"))
}

/// Describes the date and the machine.
fn circumstances() -> Result<String> {
    let cores = std::thread::available_parallelism()?;
    let of_file = |path: &str, name: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.map_or_else(|| "unknown".to_owned(), |line| line.trim_start_matches([':', ' ', '\t']).to_owned())
    };
    let processor = of_file("/proc/cpuinfo", "model name");
    let kibibytes = of_file("/proc/meminfo", "MemTotal");
    let gibibytes = kibibytes.trim_end_matches(" kB").parse().map_or(0.0, |kibibytes: f64| kibibytes / 1024.0 / 1024.0);
    let (day, linux) = (output_of("date", &["-u", "+%Y-%m-%d"])?, output_of("uname", &["-r"])?);
    let node = output_of("node", &["--version"]).unwrap_or_else(|_| "none".to_owned());
    Ok(format!(
        "{day}, {cores} cores ({processor}), {gibibytes:.0} GiB, Linux {linux}, Node {node}, \
         `@anthropic-ai/claude-agent-sdk` {}.",
        sdk_version()
    ))
}

fn output_of(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output().with_context(|| format!("cannot run {program}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn sdk_version() -> &'static str {
    let behind_name = crate::node::PACKAGE.split_once("claude-agent-sdk\": \"").map(|(_, rest)| rest);
    behind_name.and_then(|rest| rest.split('"').next()).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_markers_is_replaced() {
        let page = format!("# Title\n{BRIDGES}old\n{END}the rest\n{HOSTS}old\n{END}");
        let expected = format!("# Title\n{BRIDGES}new\n{END}the rest\n{HOSTS}old\n{END}");
        assert_eq!(replaced(&page, BRIDGES, "new\n").unwrap(), expected);
        let expected = format!("# Title\n{BRIDGES}old\n{END}the rest\n{HOSTS}new\n{END}");
        assert_eq!(replaced(&page, HOSTS, "new\n").unwrap(), expected);
        assert_eq!(replaced("# Title\n", HOSTS, "new\n"), None);
        assert_eq!(sdk_version(), "0.3.325");
    }
}
