//! A client's request as it is stored and shown to other clients: without its secrets.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::outgoing::{Fields, members, set};
use crate::command::{PermissionMode, Request};
use crate::json::{RawJson, replace_lone_surrogates};

/// The paths of secrets, by the CLI's name for the request. Only values at these paths are omitted. `*` is each member
/// of an object, `[]` each element of a list; of a URL, marked with `@`, only login, query and fragment are omitted. A
/// name alone is not enough: an argument of a tool, a server or an agent may be called `env`, and what runs must be
/// recorded. A request that is not listed is recorded completely.
const SECRETS: &[(&str, &[&str])] = &[
    ("mcp_set_servers", &["servers.*.env", "servers.*.headers", "servers.*.oauth", "servers.*.@url"]),
    ("apply_flag_settings", SECRETS_OF_SETTINGS),
    ("update_settings", SECRETS_OF_SETTINGS),
    (
        "initialize",
        &[
            "sdkMcpServerConfigs.*.env",
            "sdkMcpServerConfigs.*.headers",
            "sdkMcpServerConfigs.*.oauth",
            "sdkMcpServerConfigs.*.@url",
            "agents.*.hooks.*.[].hooks.[].headers",
            "agents.*.mcpServers.*.env",
            "agents.*.mcpServers.*.headers",
            "agents.*.mcpServers.*.oauth",
            "agents.*.mcpServers.*.@url",
            "agents.*.mcpServers.[].*.env",
            "agents.*.mcpServers.[].*.headers",
            "agents.*.mcpServers.[].*.oauth",
            "agents.*.mcpServers.[].*.@url",
        ],
    ),
    ("start_shell_task", &["env"]),
    ("claim_session", &["env"]),
    ("claude_oauth_callback", &["*"]),
    ("mcp_oauth_callback_url", &["callbackUrl"]),
    ("remote_control", &["work_secret"]),
];

const SECRETS_OF_SETTINGS: &[&str] = &[
    "settings.env",
    "settings.hooks.*.[].hooks.[].headers",
    "settings.hooks.*.[].hooks.[].@url",
    "settings.mcpServers.*.env",
    "settings.mcpServers.*.headers",
    "settings.mcpServers.*.oauth",
    "settings.mcpServers.*.@url",
];

/// Returns the recorded form of a request: its name and its fields, without secrets.
pub(crate) fn to_record(request: &Request) -> RawJson {
    let (subtype, mut fields) = members(request);
    let known = SECRETS.iter().find(|(name, _)| *name == subtype);
    for path in known.map_or(&[][..], |(_, paths)| paths) {
        redact_members(&mut fields, path);
    }
    set(&mut fields, "subtype", subtype);
    RawJson::of(&fields)
}

fn redact_members(members: &mut Fields, path: &str) {
    let (step, rest) = match path.split_once('.') {
        Some((step, rest)) => (step, Some(rest)),
        None => (path, None),
    };
    for (name, member) in members {
        if step == "*" || step == name {
            *member = redacted(member, rest);
        } else if step.strip_prefix('@') == Some(name) {
            *member = url_without_secrets(member);
        }
    }
}

/// Returns a URL without its login, query and fragment; anything else becomes null.
fn url_without_secrets(value: &RawJson) -> RawJson {
    let Ok(address) = value.parse::<String>() else { return RawJson::of(&()) };
    let address = address.split_once(['?', '#']).map_or(address.as_str(), |(address, _)| address);
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    RawJson::of(&if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") })
}

/// Returns a value without the value at the end of the path. Only the objects and lists on the path are parsed, so that
/// no other part of the value, such as a number out of range, can prevent its recording.
fn redacted(value: &RawJson, path: Option<&str>) -> RawJson {
    let Some(path) = path else { return names_only(value) };
    if let Some(rest) = path.strip_prefix("[]") {
        let Ok(items) = value.parse::<Vec<&RawValue>>() else { return value.clone() };
        let rest = rest.strip_prefix('.');
        return RawJson::of(&items.into_iter().map(|item| redacted(&RawJson::copied(item), rest)).collect::<Vec<_>>());
    }
    let Some(mut members) = members_of(value) else { return value.clone() };
    redact_members(&mut members, path);
    RawJson::of(&members)
}

/// Replaces the values of an object's members with null, and anything else with null.
fn names_only(value: &RawJson) -> RawJson {
    let Some(members) = members_of(value) else { return RawJson::of(&()) };
    RawJson::of(&members.into_keys().map(|name| (name, ())).collect::<BTreeMap<_, _>>())
}

/// Returns the members of an object; none for anything else. Of members with the same name the last one counts, as for
/// the CLI. Dialects refuse lone surrogates; if a program sends one, it is recorded as U+FFFD.
fn members_of(value: &RawJson) -> Option<Fields> {
    let text = replace_lone_surrogates(value.as_str());
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(&text).ok()?;
    Some(members.into_iter().map(|(name, member)| (name, RawJson::copied(member))).collect())
}

/// Returns the CLI's name for a recorded request.
pub fn recorded_subtype(body: &RawJson) -> Option<String> {
    #[derive(Deserialize)]
    struct Body {
        subtype: String,
    }
    body.parse::<Body>().ok().map(|body| body.subtype)
}

/// A setting that a request changes for the rest of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum SettingChange {
    /// The permission mode.
    PermissionMode(PermissionMode),
    /// The model; none means the CLI's default.
    Model(Option<String>),
    /// The limit on thinking, in tokens; none means the CLI's default.
    Thinking(Option<u32>),
}

impl SettingChange {
    /// Returns the setting that a recorded request changes, if it is one of these.
    pub fn of(body: &RawJson) -> Option<SettingChange> {
        #[derive(Deserialize)]
        struct Body {
            subtype: String,
            mode: Option<String>,
            model: Option<String>,
            max_thinking_tokens: Option<u32>,
        }
        let body: Body = body.parse().ok()?;
        match body.subtype.as_str() {
            "set_permission_mode" => Some(SettingChange::PermissionMode(body.mode?.parse().ok()?)),
            "set_model" => Some(SettingChange::Model(body.model)),
            "set_max_thinking_tokens" => Some(SettingChange::Thinking(body.max_thinking_tokens)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn recorded(subtype: &str, fields: Value) -> String {
        let Value::Object(fields) = fields else { panic!("fields are an object") };
        to_record(&Request::Other { subtype: subtype.to_owned(), fields }).as_str().to_owned()
    }

    #[test]
    fn secrets_of_servers_are_left_out_and_what_runs_is_not_whatever_it_is_called() {
        let server =
            r#"{"command":"sh","args":["-c","x"],"env":{"TOKEN":"secret","DEEP":["secret"]},"headers":{"A":"secret"}}"#;
        for name in ["mine", "env", "headers", "servers"] {
            let servers = BTreeMap::from([(name.to_owned(), RawJson::from(server))]);
            let body = to_record(&Request::SetMcpServers(servers));
            let expected = format!(
                r#"{{"servers":{{"{name}":{{"args":["-c","x"],"command":"sh","env":{{"DEEP":null,"TOKEN":null}},"headers":{{"A":null}}}}}},"subtype":"mcp_set_servers"}}"#
            );
            assert_eq!(body.as_str(), expected);
        }
    }

    #[test]
    fn a_value_that_no_rust_type_holds_keeps_nothing_from_the_record() {
        let server = r#"{"command":"evil","n":1e400,"half":"\ud800","\u0065nv":{"A":"secret"},"env":"secret"}"#;
        let body = to_record(&Request::SetMcpServers(BTreeMap::from([("s".to_owned(), RawJson::from(server))])));
        assert!(body.as_str().contains(r#""command":"evil""#) && body.as_str().contains("1e400"), "{body:?}");
        assert!(!body.as_str().contains("secret"), "{body:?}");
    }

    #[test]
    fn only_the_places_of_secrets_are_left_out_and_never_a_name_alone() {
        for (subtype, fields, expected) in [
            (
                "mcp_call",
                json!({"tool": "mcp__f__run", "arguments": {"env": {"command": "rm"}, "headers": {"h": "x"}}}),
                r#"{"arguments":{"env":{"command":"rm"},"headers":{"h":"x"}},"subtype":"mcp_call","tool":"mcp__f__run"}"#,
            ),
            (
                "initialize",
                json!({"agents": {"env": {"prompt": "p", "mcpServers": [{"env": {"command": "sh", "env": {"A": "secret"}}}]}}}),
                r#"{"agents":{"env":{"mcpServers":[{"env":{"command":"sh","env":{"A":null}}}],"prompt":"p"}},"subtype":"initialize"}"#,
            ),
            (
                "apply_flag_settings",
                json!({"settings": {
                    "env": {"A": "secret"},
                    "headers": "shown",
                    "permissions": {"env": ["shown"]},
                    "hooks": {"Stop": [{"hooks": [{"url": "u", "headers": {"A": "secret"}}]}]},
                }}),
                r#"{"settings":{"env":{"A":null},"headers":"shown","hooks":{"Stop":[{"hooks":[{"headers":{"A":null},"url":"u"}]}]},"permissions":{"env":["shown"]}},"subtype":"apply_flag_settings"}"#,
            ),
            (
                "mcp_set_servers",
                json!({"servers": {"s": {
                    "url": "https://me:secret@host:1/a@b?key=secret#secret",
                    "oauth": {"clientId": "secret", "clientSecret": "secret"},
                }, "t": {"url": "me:secret@host/a"}, "u": {"url": ["secret"]}}}),
                r#"{"servers":{"s":{"oauth":{"clientId":null,"clientSecret":null},"url":"https://host:1/a@b"},"t":{"url":"host/a"},"u":{"url":null}},"subtype":"mcp_set_servers"}"#,
            ),
            (
                "start_shell_task",
                json!({"command": "sh", "env": {"A": "secret"}}),
                r#"{"command":"sh","env":{"A":null},"subtype":"start_shell_task"}"#,
            ),
            (
                "claude_oauth_callback",
                json!({"authorizationCode": "secret", "state": "secret"}),
                r#"{"authorizationCode":null,"state":null,"subtype":"claude_oauth_callback"}"#,
            ),
            ("of_tomorrow", json!({"env": {"A": "shown"}}), r#"{"env":{"A":"shown"},"subtype":"of_tomorrow"}"#),
        ] {
            assert_eq!(recorded(subtype, fields), expected);
        }
    }
}
