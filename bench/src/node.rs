//! Installs the Node bridge into the cache.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use watari_testkit::fetch::is_for_npm;

/// The package to install.
pub(crate) const PACKAGE: &str = include_str!("../node/package.json");
const BRIDGE: &str = include_str!("../node/bridge.mjs");

/// The folder below the cache.
const FOLDER: &str = "bench-node";

/// Installs the bridge and its SDK if they are missing, and returns the bridge's path.
pub fn install() -> Result<PathBuf> {
    let folder =
        watari_testkit::claude::cache().context("cannot determine the cache folder: set WATARI_CACHE")?.join(FOLDER);
    let (package, bridge) = (folder.join("package.json"), folder.join("bridge.mjs"));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::write(&bridge, BRIDGE)?;
    // Written last, so that it names what is installed.
    if fs::read_to_string(&package).is_ok_and(|installed| installed == PACKAGE) {
        return Ok(bridge);
    }
    let wanted = folder.join("wanted");
    fs::create_dir_all(&wanted)?;
    fs::write(wanted.join("package.json"), PACKAGE)?;
    // Without the CLI, which is an optional dependency of the SDK: the bench has one of its own.
    let flags = ["install", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    let environment = std::env::vars_os().filter(|(name, _)| is_for_npm(name));
    let mut npm = Command::new("npm");
    let npm = npm.args(flags).current_dir(&wanted).env_clear().envs(environment).stdin(Stdio::null()).status();
    let status = npm.context("cannot run npm: install Node, or omit it with --without-node")?;
    ensure!(status.success(), "npm could not install the SDK for Node: omit it with --without-node");
    let modules = folder.join("node_modules");
    if modules.exists() {
        fs::remove_dir_all(&modules)?;
    }
    fs::rename(wanted.join("node_modules"), &modules)?;
    fs::rename(wanted.join("package.json"), &package)?;
    fs::remove_dir_all(&wanted)?;
    Ok(bridge)
}
