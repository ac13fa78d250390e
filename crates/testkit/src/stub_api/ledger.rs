//! What the stub was asked so far, and how much of the script that has used up.

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, Uri};
use serde_json::Value;

/// One request as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// The path with its query, such as `/v1/messages?beta=true`.
    pub path: String,
    /// The headers in the order in which they came, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body: null if there was none, a string if it was not JSON.
    pub body: Value,
}

/// All that the stub has to remember.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    requests: Vec<RecordedRequest>,
    main_calls: usize,
    agent_calls: usize,
    messages: usize,
}

/// What kind of request came, which decides who answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// A model call of the session itself.
    Main,
    /// A model call of a subagent.
    Agent,
    /// Messages without tools: the CLI asks for a title or a command's prefix.
    Side,
    /// Messages, but the body is not a JSON object.
    Malformed,
    CountTokens,
    /// A `HEAD`, by which a client warms up its connection.
    Probe,
    Unknown,
}

impl RecordedRequest {
    pub(super) fn new(method: &Method, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let body = match serde_json::from_slice(body) {
            Ok(value) => value,
            Err(_) if body.is_empty() => Value::Null,
            Err(_) => Value::String(text(body)),
        };
        Self {
            method: method.to_string(),
            path: uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string),
            headers: headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect(),
            body,
        }
    }

    pub(super) fn call(&self) -> Call {
        let path = self.path.split('?').next().unwrap_or_default();
        match (self.method.as_str(), path) {
            ("HEAD", _) => Call::Probe,
            ("POST", "/v1/messages/count_tokens") => Call::CountTokens,
            ("POST", "/v1/messages") => self.messages_call(),
            (_, _) => Call::Unknown,
        }
    }

    fn messages_call(&self) -> Call {
        if !self.body.is_object() {
            return Call::Malformed;
        }
        // By tools and not by order: side calls run beside the main call and would take its reply.
        let has_tools = self.body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        let is_agent = self.headers.iter().any(|(name, _)| name == "x-claude-code-agent-id");
        match (has_tools, is_agent) {
            (false, _) => Call::Side,
            (true, false) => Call::Main,
            (true, true) => Call::Agent,
        }
    }
}

impl Ledger {
    pub(super) fn requests(&self) -> &[RecordedRequest] {
        &self.requests
    }

    pub(super) fn model_calls(&self) -> impl Iterator<Item = &Value> {
        let is_model_call = |request: &&RecordedRequest| matches!(request.call(), Call::Main | Call::Agent);
        self.requests.iter().filter(is_model_call).map(|request| &request.body)
    }

    pub(super) fn record(&mut self, request: RecordedRequest) {
        self.requests.push(request);
    }

    /// The place in the script that the next main call takes.
    pub(super) fn take_main_turn(&mut self) -> usize {
        take(&mut self.main_calls)
    }

    /// The place in the list for subagents that the next of their calls takes.
    pub(super) fn take_agent_turn(&mut self) -> usize {
        take(&mut self.agent_calls)
    }

    pub(super) fn take_message_id(&mut self) -> String {
        format!("msg_stub_{}", take(&mut self.messages) + 1)
    }
}

fn take(counter: &mut usize) -> usize {
    let taken = *counter;
    *counter += 1;
    taken
}
