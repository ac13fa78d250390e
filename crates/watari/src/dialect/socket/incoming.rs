//! Parses the lines of a client of the socket dialect.

use watari_hub::Since;
use watari_sdk::{Answer, Command, Refusal, Request};

use super::asks::AskRef;
use crate::dialect::content;
use crate::dialect::limits;
use crate::dialect::members::Members;
use crate::dialect::native;
use crate::dialect::speaker::{ClientMessage, CommandRef, ProtocolError};

const TYPES: &str = "message, approve, deny, abort, hello, register_tools, tool_call_result, close";

/// Parses a line. `ask_of` finds the client's ask by its `request_id`.
pub(super) fn read(line: &str, ask_of: impl Fn(&str) -> Option<AskRef>) -> Result<ClientMessage, ProtocolError> {
    let mut members = Members::of_line(line).map_err(ProtocolError::new)?;
    let id = members.name("id").map_err(ProtocolError::new)?;
    message(&mut members, id.clone(), ask_of)
        .map_err(|message| ProtocolError { id, ..ProtocolError::new(limits::short(message)) })
}

pub(super) fn message(
    members: &mut Members<'_>,
    id: Option<String>,
    ask_of: impl Fn(&str) -> Option<AskRef>,
) -> Result<ClientMessage, String> {
    let kind: String = members.required("type", "a string")?;
    let command = match kind.as_str() {
        "hello" => {
            let (key, client) = (members.text("key")?, members.name("client")?);
            let since = match native::since(members)? {
                // A client that stores only its position receives the open asks again.
                Since::After(position) => Since::AfterWithAsks(position),
                since @ (Since::Now | Since::AfterWithAsks(_) | Since::Lagged(_) | Since::OtherSession) => since,
            };
            return Ok(ClientMessage::Hello { since, key, client });
        }
        "message" => Command::Prompt(content::prompt(members)?),
        "approve" => {
            let (request_id, input) = (request_id(members)?, content::edited_input(members)?);
            return Ok(answer(id, &request_id, ask_of(&request_id), |ask| ask.approve(input)));
        }
        "deny" => {
            let request_id = request_id(members)?;
            let reason = members.text("reason")?.unwrap_or_else(|| "User denied".to_owned());
            return Ok(answer(id, &request_id, ask_of(&request_id), |ask| ask.deny(reason)));
        }
        "register_tools" => Request::SetTools(content::tools(members, "input_schema")?).into(),
        "tool_call_result" => {
            let call_id: String = members.required("call_id", "a string")?;
            let content = content::tool_result(members)?;
            let is_error = members.boolean("is_error")?.unwrap_or(false);
            return Ok(result_of_call(id, &call_id, Answer::ToolResult { content, is_error }));
        }
        // In agent-socket, `abort` interrupts only the turn. `close` ends the session.
        "abort" => Command::Interrupt { cancel_queued: false },
        "close" => Command::Close,
        _ => {
            let beginning: String = kind.chars().take(60).collect();
            return Err(format!("unknown type {beginning:?}; it must be one of {TYPES}"));
        }
    };
    Ok(ClientMessage::Command(CommandRef::new(id), command))
}

fn request_id(members: &mut Members<'_>) -> Result<String, String> {
    members.required("request_id", "a string")
}

/// An answer to a request that was sent to the client; an answer to any other request is refused.
fn answer(
    id: Option<String>,
    request_id: &str,
    ask: Option<AskRef>,
    answer: impl FnOnce(AskRef) -> Answer,
) -> ClientMessage {
    let name = shown("request_id", request_id);
    match ask {
        Some(ask) => ClientMessage::answer(CommandRef { id, ask: Some(name) }, ask.id(), answer(ask)),
        None => ClientMessage::Refused(CommandRef::new(id), Refusal::UnknownName { name }),
    }
}

/// The result of a tool call; the result of an unknown call is refused.
fn result_of_call(id: Option<String>, call_id: &str, result: Answer) -> ClientMessage {
    let name = shown("call_id", call_id);
    match content::parse_ask_name("call_", call_id) {
        Some(ask) => ClientMessage::answer(CommandRef { id, ask: Some(name) }, ask, result),
        None => ClientMessage::Refused(CommandRef::new(id), Refusal::UnknownName { name }),
    }
}

/// The client's name of an ask, for an error.
fn shown(field: &str, name: &str) -> String {
    let beginning: String = name.chars().take(60).collect();
    format!("{field} {beginning:?}")
}
