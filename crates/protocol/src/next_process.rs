//! Requests that need no running CLI: their settings apply to the process that is started next.

use crate::bypass;
use crate::command::Request;
use crate::json::RawJson;
use crate::refusal::Refusal;
use crate::session::check_model;
use crate::wire::request_record::{self, SettingChange};

/// Whether clients may make everything run without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BypassPermission {
    /// The program that started the session allowed it.
    Granted,
    /// It is not allowed.
    NotGranted,
}

/// A request that passed the same checks as with a running CLI, and can be accepted while the CLI is down.
#[derive(Debug, Clone)]
pub struct NextProcessRequest {
    /// The recorded request, as in `RequestSent`.
    pub body: RawJson,
    /// The reply that the CLI would send.
    pub reply: RawJson,
}

impl NextProcessRequest {
    /// Checks a request. Returns none for a request that only a running CLI can carry out.
    pub fn of(request: &Request, bypass: BypassPermission) -> Result<Option<NextProcessRequest>, Refusal> {
        if bypass == BypassPermission::NotGranted {
            bypass::check_request(request)?;
        }
        let body = request_record::to_record(request);
        let reply = match (request, SettingChange::of(&body)) {
            (Request::SetTools(tools), _) => {
                if let Some(tool) = tools.iter().find(|tool| !tool.has_unambiguous_name()) {
                    return Err(Refusal::AmbiguousToolName { name: tool.name.clone() });
                }
                RawJson::from("null")
            }
            (_, Some(SettingChange::PermissionMode(mode))) => RawJson::of(&serde_json::json!({"mode": mode.as_str()})),
            (_, Some(SettingChange::Model(model))) => {
                model.as_deref().map_or(Ok(()), check_model)?;
                RawJson::from("null")
            }
            (_, Some(SettingChange::Thinking(_))) => RawJson::from("null"),
            (_, None) => return Ok(None),
        };
        Ok(Some(NextProcessRequest { body, reply }))
    }
}
