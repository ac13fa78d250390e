//! The documents that the CLI gets in files: MCP servers and settings. Each is read once, checked, and written into a
//! private file, so that the CLI gets exactly the checked content, whether it was given as JSON or as a path.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use watari_protocol::{DISABLE_BYPASS, RawJson, TOOL_SERVER, names_bypass};

use super::{OptionError, allows_bypass};
use crate::files::USER_CONFIG;
use crate::options::{McpServers, Options, Settings};

/// How long a file with MCP servers or settings may be.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// MCP servers and settings, checked.
#[derive(Debug)]
pub(crate) struct ConfigFiles {
    /// The whole of `mcp.json`.
    pub(super) servers: Option<RawJson>,
    /// The whole of `settings.json`.
    pub(super) settings: Option<RawJson>,
    /// Whether the settings contain only what Watari adds.
    pub(super) settings_are_ours: bool,
}

impl ConfigFiles {
    /// Reads and checks the documents of the options.
    pub(crate) fn read(options: &Options) -> Result<ConfigFiles, OptionError> {
        let settings_are_ours = options.settings.is_none();
        Ok(ConfigFiles { servers: servers(options)?, settings: settings(options)?, settings_are_ours })
    }
}

/// Why MCP servers cannot be used.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum McpServersError {
    /// Their file cannot be read.
    #[error("{source}")]
    Unreadable {
        /// The system's error.
        source: io::Error,
    },
    /// The text cannot be parsed.
    #[error("{source}")]
    NotServers {
        /// The parser's error.
        source: serde_json::Error,
    },
    /// A server is not described by an object.
    #[error("the MCP server {name:?} must be an object")]
    NotAnObject {
        /// The name of the server.
        name: String,
    },
}

/// Parses MCP servers as in a file or on a command line: `{"mcpServers": {"name": {…}}}`.
pub fn read_mcp_servers(json: &str) -> Result<BTreeMap<String, RawJson>, McpServersError> {
    #[derive(serde::Deserialize)]
    struct Config<'a> {
        #[serde(borrow, rename = "mcpServers")]
        servers: BTreeMap<String, &'a RawValue>,
    }
    let Config { servers } = serde_json::from_str(json).map_err(|source| McpServersError::NotServers { source })?;
    let servers = servers.into_iter().map(|(name, server)| (name, RawJson::from(server.get()))).collect();
    check_servers(&servers).map(|()| servers)
}

/// Reads MCP servers from a file. Never blocks, whatever the path leads to.
pub fn read_mcp_servers_file(path: &Path) -> Result<BTreeMap<String, RawJson>, McpServersError> {
    read_mcp_servers(&text_of(path).map_err(|source| McpServersError::Unreadable { source })?)
}

fn check_servers(servers: &BTreeMap<String, RawJson>) -> Result<(), McpServersError> {
    match servers.iter().find(|(_, server)| !server.as_str().starts_with('{')) {
        Some((name, _)) => Err(McpServersError::NotAnObject { name: name.clone() }),
        None => Ok(()),
    }
}

fn servers(options: &Options) -> Result<Option<RawJson>, OptionError> {
    let what = "the MCP servers";
    let servers = match &options.mcp_servers {
        McpServers::None => return Ok(None),
        McpServers::Inline(servers) => {
            let unusable = |error: McpServersError| OptionError::Document { what, problem: error.to_string() };
            check_servers(servers).map(|()| servers.clone()).map_err(unusable)?
        }
        McpServers::File(path) => {
            let path = from_cwd(options, path);
            let problem = |error: McpServersError| format!("{}: {error}", path.display());
            read_mcp_servers_file(&path).map_err(|error| OptionError::Document { what, problem: problem(error) })?
        }
    };
    let has_tools = options.tools_can_be_added || !options.program_tools.is_empty();
    if has_tools && servers.contains_key(TOOL_SERVER) {
        return Err(OptionError::ReservedServerName);
    }
    Ok(Some(RawJson::of(&BTreeMap::from([("mcpServers", servers)]))))
}

fn settings(options: &Options) -> Result<Option<RawJson>, OptionError> {
    let settings = match &options.settings {
        None => None,
        Some(Settings::Inline(settings)) => Some(settings.clone()),
        Some(Settings::File(path)) => {
            let path = from_cwd(options, path);
            let unusable = |problem: String| OptionError::Document {
                what: "the settings",
                problem: format!("{}: {problem}", path.display()),
            };
            let text = text_of(&path).map_err(|error| unusable(error.to_string()))?;
            let settings: &RawValue = serde_json::from_str(&text).map_err(|error| unusable(error.to_string()))?;
            Some(RawJson::from(settings.get()))
        }
    };
    if allows_bypass(options) {
        return Ok(settings);
    }
    if settings.as_ref().is_some_and(names_bypass) {
        return Err(OptionError::Bypass { option: "settings" });
    }
    without_bypass(settings.as_ref()).map(Some)
}

/// Adds the setting with which the CLI itself refuses `bypassPermissions`: as the default mode of any settings file,
/// also in the working directory, and in any request. (Measured: without it, 2.1.42 accepts the mode from both; from a
/// subagent of the working directory even with it.)
fn without_bypass(settings: Option<&RawJson>) -> Result<RawJson, OptionError> {
    type Members<'a> = BTreeMap<String, &'a RawValue>;
    let bad = |name: &str| OptionError::Document { what: "the settings", problem: format!("{name} must be an object") };
    let mut members: Members<'_> =
        settings.map_or(Ok(Members::new()), RawJson::parse).map_err(|_| bad("the document"))?;
    let mut permissions: Members<'_> = match members.get("permissions") {
        Some(members) => serde_json::from_str(members.get()).map_err(|_| bad("permissions"))?,
        None => Members::new(),
    };
    let disable = RawJson::of("disable");
    permissions.insert(DISABLE_BYPASS.to_owned(), disable.as_ref());
    let permissions = RawJson::of(&permissions);
    members.insert("permissions".to_owned(), permissions.as_ref());
    Ok(RawJson::of(&members))
}

/// Resolves a path as the CLI does.
fn from_cwd(options: &Options, path: &Path) -> PathBuf {
    options.cwd.as_deref().unwrap_or(Path::new("")).join(path)
}

fn text_of(path: &Path) -> io::Result<String> {
    let file = USER_CONFIG.open(path)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes"))),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bypass_of_permissions_is_disabled_and_every_other_setting_stays() {
        let settings = r#"{"model":"a","permissions":{"allow":["Read"],"disableBypassPermissionsMode":"enable"}}"#;
        let settings = without_bypass(Some(&RawJson::from(settings))).unwrap();
        let expected = r#"{"model":"a","permissions":{"allow":["Read"],"disableBypassPermissionsMode":"disable"}}"#;
        assert_eq!(settings.as_str(), expected);
        let alone = without_bypass(None).unwrap();
        assert_eq!(alone.as_str(), r#"{"permissions":{"disableBypassPermissionsMode":"disable"}}"#);
        for bad in ["5", "[]", r#"{"permissions":5}"#] {
            let problem = without_bypass(Some(&RawJson::from(bad))).unwrap_err().to_string();
            assert!(problem.ends_with("must be an object"), "{problem}");
        }
        let allowed = Options { allow_bypass: true, ..Options::default() };
        assert!(ConfigFiles::read(&allowed).unwrap().settings.is_none());
    }

    #[test]
    fn servers_are_objects_by_name_wherever_they_stand() {
        let problem = |json: &str| read_mcp_servers(json).unwrap_err().to_string();
        assert_eq!(problem(r#"{"mcpServers":{"a":null}}"#), "the MCP server \"a\" must be an object");
        assert_eq!(problem(r#"{"mcpServers":{"a":{},"b":[]}}"#), "the MCP server \"b\" must be an object");
        assert!(problem("{}").starts_with("missing field `mcpServers`"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.json");
        let options =
            Options { mcp_servers: McpServers::File(path.clone()), tools_can_be_added: true, ..Options::default() };
        for (content, problem) in [
            (r#"{"mcpServers":{"cl\u0069ent":{"command":"true"}}}"#, "rename the MCP server \"client\""),
            (r#"{"mcpServers":{"a":null}}"#, "the MCP server \"a\" must be an object"),
            ("nonsense", "expected ident"),
        ] {
            std::fs::write(&path, content).unwrap();
            let error = ConfigFiles::read(&options).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        std::fs::write(&path, r#"{"mcpServers":{"a":{"command":"true"}},"more":1}"#).unwrap();
        let servers = ConfigFiles::read(&options).unwrap().servers.unwrap();
        assert_eq!(servers.as_str(), r#"{"mcpServers":{"a":{"command":"true"}}}"#);
    }

    #[test]
    fn settings_in_a_file_open_no_gate_that_settings_in_the_options_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let settings = r#"{"permissions":{"defaultMode":"bypassPermissions"}}"#;
        std::fs::write(folder.path().join("settings.json"), settings).unwrap();
        let options = Options {
            cwd: Some(folder.path().to_owned()),
            settings: Some(Settings::File("settings.json".into())),
            ..Options::default()
        };
        let error = ConfigFiles::read(&options).unwrap_err().to_string();
        assert!(error.starts_with("settings: bypassPermissions runs everything without asking"), "{error}");
        let allowed = Options { allow_bypass: true, ..options };
        assert_eq!(ConfigFiles::read(&allowed).unwrap().settings.unwrap().as_str(), settings);
    }
}
