//! The MCP server of this program's tools, to which the CLI talks over its control frames.
//!
//! It implements the minimum of a tool server: its name, its list of tools, and the results of calls. Calls become
//! asks; all other messages are answered immediately, because the CLI waits for the answers before it is ready.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answers::success;
use super::outgoing::OutgoingLine;
use super::{Lenient, Text};
use crate::event::ToolCallAsk;
use crate::id::ToolUseId;
use crate::initialize::{ProgramTool, TOOL_SERVER};
use crate::json::{RawJson, object};

/// The name of the request that carries a message to a server of this program.
pub(crate) const MCP_MESSAGE: &str = "mcp_message";

/// What the CLI puts before the name of a tool of our server: the name of a tool for the model begins with it.
pub(crate) const TOOL_NAME_PREFIX: &str = "mcp__client__";

/// Returns whether another MCP server of the CLI has the name of our server: the name is listed twice, or with another
/// source. (Older versions do not report the source of a server.)
pub(crate) fn is_tool_server_taken(servers: &RawJson) -> bool {
    #[derive(serde::Deserialize)]
    struct Server {
        name: String,
        source: Option<String>,
    }
    let listed: Vec<&RawValue> = servers.parse().unwrap_or_default();
    let servers = listed.iter().filter_map(|server| serde_json::from_str::<Server>(server.get()).ok());
    let named: Vec<Server> = servers.filter(|server| server.name == TOOL_SERVER).collect();
    named.len() > 1 || named.iter().any(|server| server.source.as_deref().is_some_and(|source| source != "sdk"))
}

/// The notification that the tools of our server have changed.
#[derive(Debug, serde::Serialize)]
pub(super) struct Notice {
    jsonrpc: &'static str,
    method: &'static str,
}

pub(super) const TOOLS_CHANGED: Notice = Notice { jsonrpc: "2.0", method: "notifications/tools/list_changed" };

/// A message of the CLI to our server.
#[derive(Debug)]
pub(crate) enum Message {
    Call(ToolCallAsk),
    /// A call that cannot be read, by the CLI's id of the call.
    UnreadableCall {
        call: RawJson,
    },
    /// The CLI cancelled a call because its turn was interrupted. The notification is acknowledged like any
    /// other.
    Cancelled {
        call: RawJson,
        notification: RpcMessage,
    },
    Rpc(RpcMessage),
}

/// A JSON-RPC message that is not a call. Without an id it is a notification, which must be acknowledged too.
#[derive(Debug)]
pub(crate) struct RpcMessage {
    id: Option<RawJson>,
    method: String,
    /// The CLI's version of the protocol, if it reports one.
    protocol_version: Option<String>,
}

/// Reads a message to our server; none if it is for another server or not a message.
pub(super) fn read(request: &RawValue) -> Option<Message> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        server_name: Text<'a>,
        #[serde(borrow)]
        message: Rpc<'a>,
    }
    #[derive(serde::Deserialize)]
    struct Rpc<'a> {
        #[serde(borrow)]
        method: Text<'a>,
        #[serde(borrow, default)]
        id: Option<&'a RawValue>,
        #[serde(borrow, default)]
        params: Option<&'a RawValue>,
    }
    let Members { server_name, message } = serde_json::from_str(request.get()).ok()?;
    if &*server_name != TOOL_SERVER {
        return None;
    }
    if let (Some(id), Some(params), "tools/call") = (message.id, message.params, &*message.method) {
        let unreadable = || Message::UnreadableCall { call: RawJson::copied(id) };
        return Some(read_call(id, params).map_or_else(unreadable, Message::Call));
    }
    #[derive(Default, serde::Deserialize)]
    struct Params<'a> {
        #[serde(default, rename = "protocolVersion")]
        protocol_version: Lenient<String>,
        #[serde(borrow, default, rename = "requestId")]
        request_id: Option<&'a RawValue>,
    }
    let params = message.params.and_then(|params| serde_json::from_str::<Params<'_>>(params.get()).ok());
    let Params { protocol_version, request_id } = params.unwrap_or_default();
    let is_cancel = &*message.method == "notifications/cancelled";
    let question = RpcMessage {
        id: message.id.map(RawJson::copied),
        method: message.method.into_string(),
        protocol_version: protocol_version.into_option(),
    };
    Some(match request_id.filter(|_| is_cancel) {
        Some(call) => Message::Cancelled { call: RawJson::copied(call), notification: question },
        None => Message::Rpc(question),
    })
}

fn read_call(id: &RawValue, params: &RawValue) -> Option<ToolCallAsk> {
    #[derive(serde::Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        name: Text<'a>,
        #[serde(borrow, default)]
        arguments: Option<&'a RawValue>,
        #[serde(default, rename = "_meta")]
        meta: Lenient<Meta>,
    }
    #[derive(Default, serde::Deserialize)]
    struct Meta {
        #[serde(default, rename = "claudecode/toolUseId")]
        tool_use: Lenient<String>,
    }
    let params: Params<'_> = serde_json::from_str(object(params)?.get()).ok()?;
    // Absent and null both mean that there are no arguments.
    let input =
        params.arguments.map_or(Some(RawJson::from("{}")), |arguments| object(arguments).map(RawJson::copied))?;
    Some(ToolCallAsk {
        tool: params.name.into_string(),
        input,
        tool_use: params.meta.or_default().tool_use.into_option().map(ToolUseId),
        call: RawJson::copied(id),
    })
}

/// The version of the protocol for a CLI that does not report its own.
const PROTOCOL_VERSION: &str = "2025-11-25";

/// Returns our server's answer to a message.
pub(crate) fn answer(request_id: &str, question: &RpcMessage, tools: &[ProgramTool]) -> OutgoingLine {
    let Some(id) = &question.id else {
        return success(request_id, &json!({"mcp_response": {"jsonrpc": "2.0", "result": {}}}));
    };
    match question.method.as_str() {
        "initialize" => {
            let version = question.protocol_version.as_deref().unwrap_or(PROTOCOL_VERSION);
            let server = json!({"name": TOOL_SERVER, "version": env!("CARGO_PKG_VERSION")});
            let body = json!({"protocolVersion": version, "capabilities": {"tools": {"listChanged": true}}, "serverInfo": server});
            reply(request_id, id, &RawJson::of(&body))
        }
        "tools/list" => {
            #[derive(serde::Serialize)]
            #[serde(rename_all = "camelCase")]
            struct Listed<'a> {
                name: &'a str,
                description: &'a str,
                input_schema: &'a RawJson,
                /// Makes the model see the tool from the start; otherwise the model must search for tools of servers.
                #[serde(rename = "_meta")]
                meta: Value,
            }
            #[derive(serde::Serialize)]
            struct List<'a> {
                tools: Vec<Listed<'a>>,
            }
            let listed = tools.iter().map(|ProgramTool { name, description, input_schema }| {
                let meta = json!({"anthropic/alwaysLoad": true});
                Listed { name, description, input_schema, meta }
            });
            reply(request_id, id, &RawJson::of(&List { tools: listed.collect() }))
        }
        "ping" => reply(request_id, id, &RawJson::from("{}")),
        method => {
            let error = json!({"code": -32601, "message": format!("Method not found: {method}")});
            let response = Response { jsonrpc: "2.0", id, result: None, error: Some(RawJson::of(&error)) };
            success(request_id, &Answer { mcp_response: response })
        }
    }
}

/// Returns the result of a tool.
pub(crate) fn result(request_id: &str, call: &RawJson, content: &RawJson, is_error: bool) -> OutgoingLine {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct CallResult<'a> {
        content: &'a RawJson,
        is_error: bool,
    }
    reply(request_id, call, &RawJson::of(&CallResult { content, is_error }))
}

/// Returns the failure of a tool, with its reason.
pub(crate) fn failure(request_id: &str, call: &RawJson, why: &str) -> OutgoingLine {
    result(request_id, call, &RawJson::of(&json!([{"type": "text", "text": why}])), true)
}

#[derive(serde::Serialize)]
struct Answer<'a> {
    mcp_response: Response<'a>,
}

#[derive(serde::Serialize)]
struct Response<'a> {
    jsonrpc: &'static str,
    id: &'a RawJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<RawJson>,
}

fn reply(request_id: &str, id: &RawJson, result: &RawJson) -> OutgoingLine {
    success(request_id, &Answer { mcp_response: Response { jsonrpc: "2.0", id, result: Some(result), error: None } })
}
