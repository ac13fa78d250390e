//! A request of a client as it is stored and shown to others: what it asks for, without what may be secret.

use serde::Deserialize;
use serde_json::{Value, json};

use super::outgoing::{members, set};
use crate::command::{PermissionMode, Request};
use crate::json::Raw;

/// Members whose values may be secret: of MCP servers and of settings.
const SECRET: [&str; 2] = ["env", "headers"];

/// What a request is called, and its fields.
pub(crate) fn on_record(request: &Request) -> Raw {
    let (subtype, mut fields) = members(request);
    set(&mut fields, "subtype", subtype);
    // Only where there may be something to leave out is it read.
    let may_have_secrets = fields.values().any(|value| SECRET.iter().any(|name| value.as_str().contains(name)));
    if !may_have_secrets {
        return Raw::of(&fields);
    }
    match serde_json::from_str::<Value>(Raw::of(&fields).as_str()) {
        Ok(mut value) => {
            leave_out_secrets(&mut value, false);
            Raw::of(&value)
        }
        // What cannot be read is not shown.
        Err(_) => Raw::of(&json!({"subtype": subtype})),
    }
}

/// Members whose own members are servers by name: a name is no secret, whatever it is.
const SERVERS: [&str; 2] = ["servers", "mcpServers"];

/// Texts of `env` and `headers` become null; their names stay, and so does everything else. No deeper than what is read goes,
/// which has a limit.
fn leave_out_secrets(value: &mut Value, are_names: bool) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if let (false, true, Value::Object(secrets)) =
                    (are_names, SECRET.contains(&name.as_str()), &mut *member)
                {
                    let texts = secrets.values_mut().filter(|secret| !secret.is_object() && !secret.is_array());
                    texts.for_each(|secret| *secret = Value::Null);
                }
                leave_out_secrets(member, !are_names && SERVERS.contains(&name.as_str()));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| leave_out_secrets(item, false)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What a request sets for the rest of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// How permissions are decided.
    PermissionMode(PermissionMode),
    /// The model; none means the CLI's own choice.
    Model(Option<String>),
    /// How many tokens the model may think with; none means the CLI's own choice.
    Thinking(Option<u32>),
}

impl Setting {
    /// The setting that a request on record changes, if it is one of these.
    pub fn of(body: &Raw) -> Option<Setting> {
        #[derive(Deserialize)]
        struct Body {
            subtype: String,
            mode: Option<String>,
            model: Option<String>,
            max_thinking_tokens: Option<u32>,
        }
        let body: Body = body.parse().ok()?;
        match body.subtype.as_str() {
            "set_permission_mode" => Some(Setting::PermissionMode(body.mode?.parse().ok()?)),
            "set_model" => Some(Setting::Model(body.model)),
            "set_max_thinking_tokens" => Some(Setting::Thinking(body.max_thinking_tokens)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn secrets_are_left_out_and_what_runs_is_not_whatever_it_is_called() {
        let server =
            r#"{"command":"sh","args":["-c","x"],"env":{"TOKEN":"secret","DEEP":{"a":1}},"headers":{"A":"secret"}}"#;
        for name in ["mine", "env", "headers", "servers"] {
            let servers = BTreeMap::from([(name.to_owned(), Raw::from(server))]);
            let body = on_record(&Request::SetMcpServers(servers));
            let expected = format!(
                r#"{{"servers":{{"{name}":{{"args":["-c","x"],"command":"sh","env":{{"DEEP":{{"a":1}},"TOKEN":null}},"headers":{{"A":null}}}}}},"subtype":"mcp_set_servers"}}"#
            );
            assert_eq!(body.as_str(), expected);
        }
    }
}
