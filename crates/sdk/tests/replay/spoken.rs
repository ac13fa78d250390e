//! The lines of a recording's two sides, as far as a replay parses them.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Answer, AskKind, PromptContent, RawJson};
use watari_protocol::HookOutput;

/// A line of the side that drives the CLI.
#[derive(serde::Deserialize)]
pub(super) struct Spoken {
    #[serde(rename = "type", default)]
    kind: String,
    pub(super) uuid: Option<String>,
    pub(super) request_id: Option<String>,
    message: Option<Message>,
    request: Option<Map<String, Value>>,
    response: Option<Response>,
}

#[derive(serde::Deserialize)]
struct Message {
    content: Option<Box<RawValue>>,
}

/// An answer of either side.
#[derive(serde::Deserialize)]
pub(super) struct Response {
    pub(super) request_id: String,
    subtype: String,
    #[serde(default)]
    response: Value,
}

/// A hook that the recording's other side registered.
pub(super) struct Registration {
    pub(super) callback: String,
    pub(super) event: String,
    pub(super) matcher: Option<String>,
}

impl Spoken {
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// The content of a prompt.
    pub(super) fn content(&self) -> Option<PromptContent> {
        let content = self.message.as_ref()?.content.as_ref()?.get();
        match serde_json::from_str::<String>(content) {
            Ok(text) => Some(PromptContent::Text(text)),
            Err(_) => Some(PromptContent::Blocks(RawJson::from(content))),
        }
    }

    /// The subtype of a request to the CLI.
    pub(super) fn requested(&self) -> Option<&str> {
        self.request.as_ref()?.get("subtype")?.as_str()
    }

    pub(super) fn fields(&self) -> Map<String, Value> {
        let mut fields = self.request.clone().unwrap_or_default();
        fields.remove("subtype");
        fields
    }

    pub(super) fn cancels_queued(&self) -> bool {
        self.fields().get("cancel_queued").is_some_and(|value| value == true)
    }

    /// The hooks of an `initialize` request.
    pub(super) fn registrations(&self) -> Option<Vec<Registration>> {
        self.requested().filter(|subtype| *subtype == "initialize")?;
        let mut registrations = Vec::new();
        for (event, matchers) in self.fields().get("hooks").and_then(Value::as_object).into_iter().flatten() {
            for matcher in matchers.as_array().into_iter().flatten() {
                let callbacks = matcher["hookCallbackIds"].as_array().into_iter().flatten();
                registrations.extend(callbacks.filter_map(Value::as_str).map(|callback| Registration {
                    callback: callback.to_owned(),
                    event: event.clone(),
                    matcher: matcher["matcher"].as_str().map(str::to_owned),
                }));
            }
        }
        Some(registrations)
    }

    /// The CLI's id of the request that is answered.
    pub(super) fn answered(&self) -> Option<&str> {
        self.response.as_ref().map(|response| response.request_id.as_str())
    }

    /// The answer as our side gives it; `None` if our side never gives it.
    pub(super) fn answer_to(&self, kind: &AskKind) -> Option<Answer> {
        let response = self.response.as_ref().filter(|response| response.subtype == "success")?;
        let body = &response.response;
        let member = |name: &str| body.get(name).map(|value| RawJson::from(value.clone()));
        match kind {
            AskKind::Hook(_) => Some(Answer::Hook(HookOutput::Other(RawJson::from(body.clone())))),
            AskKind::Elicitation(_) => match body["action"].as_str()? {
                "accept" => Some(Answer::Accept(member("content").unwrap_or_else(|| RawJson::from("{}")))),
                "decline" => Some(Answer::Decline),
                "cancel" => Some(Answer::Cancel),
                _ => None,
            },
            // The servers of the captures have other names than Watari's.
            AskKind::ToolCall(_) => None,
            AskKind::Permission(_) | AskKind::Question(_) | AskKind::Plan(_) => match body["behavior"].as_str()? {
                "allow" => {
                    let choices = serde_json::from_value(body["updatedInput"]["answers"].clone()).ok();
                    let choices = choices.filter(|_| matches!(kind, AskKind::Question(_)));
                    Some(choices.map_or_else(
                        || Answer::Allow { input: member("updatedInput"), permissions: member("updatedPermissions") },
                        |choices: BTreeMap<String, String>| Answer::Choose(choices),
                    ))
                }
                "deny" => Some(Answer::Deny {
                    message: body["message"].as_str()?.to_owned(),
                    interrupt: body["interrupt"] == true,
                }),
                _ => None,
            },
            #[cfg(not(feature = "exhaustive"))]
            _ => None,
        }
    }
}

/// The fields of a CLI line that name its receiver.
#[derive(Default, serde::Deserialize)]
pub(super) struct Head {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    pub(super) request_id: Option<String>,
    request: Option<Asked>,
    pub(super) response: Option<Response>,
}

#[derive(serde::Deserialize)]
struct Asked {
    subtype: Option<String>,
    callback_id: Option<String>,
}

impl Head {
    /// Parses a line. One that is not a message has no receiver.
    pub(super) fn read(line: &str) -> Head {
        serde_json::from_str(line).unwrap_or_default()
    }

    pub(super) fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    pub(super) fn asked(&self) -> &str {
        self.request.as_ref().and_then(|request| request.subtype.as_deref()).unwrap_or("?")
    }

    pub(super) fn callback(&self) -> Option<&str> {
        self.request.as_ref()?.callback_id.as_deref()
    }
}
