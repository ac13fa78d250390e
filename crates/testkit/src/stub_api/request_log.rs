//! The requests that the stub has received, and how much of the script they have used.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, Uri};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::script::{Reply, Script};
use super::secrets;

/// How much memory requests may take, by an estimate; the oldest are dropped first. The record file has them all.
const STORED_BYTES_MAX: usize = 512 * 1024 * 1024;

/// How much more memory JSON takes than text, at worst.
const BYTES_PER_BYTE_OF_JSON: usize = 8;

/// What an empty request takes.
const BYTES_PER_REQUEST: usize = 512;

/// A received request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordedRequest {
    /// Its number, from 1.
    pub number: u64,
    /// The time since the start of the stub.
    #[serde(rename = "at_ms", serialize_with = "as_milliseconds")]
    pub at: Duration,
    /// The kind of call.
    pub call: Call,
    /// `GET`, `POST` and so on.
    pub method: String,
    /// The path with its query, such as `/v1/messages?beta=true`. The values of other parameters are `hidden`.
    pub path: String,
    /// The headers in the order in which they came, their names in lower case. Only the values of headers that are
    /// known to contain no key are recorded, and `stub`, the key of the stub's own environment; any other is `hidden`.
    #[serde(serialize_with = "as_map")]
    pub headers: Vec<(String, String)>,
    /// The body: null if there was none, a string if it was not JSON.
    pub body: Value,
}

/// The kind of request, which decides who answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// A model call of the session itself.
    Main,
    /// A model call of a subagent.
    Agent,
    /// A model call without tools, outside the conversation: for a title or for the prefix of a command.
    Side,
    /// A model call whose body is not a JSON object.
    Malformed,
    /// A request to count tokens.
    CountTokens,
    /// A `HEAD` request, with which a client warms up its connection.
    WarmUp,
    /// Something else.
    Unknown,
}

/// The state of the stub.
#[derive(Debug, Default)]
pub(super) struct RequestLog {
    script: Script,
    requests: VecDeque<(usize, RecordedRequest)>,
    stored_bytes: usize,
    count: u64,
    model_calls: usize,
    main_calls: usize,
    side_calls: usize,
    agent_calls: BTreeMap<AgentKey, usize>,
    messages: usize,
}

/// Identifies a subagent: the id that newer CLIs send, or the list that an older one's prompt names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AgentKey {
    Id(String),
    List(usize),
}

/// The part of the script that answers a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answerer {
    Main,
    Agent { key: AgentKey, list: Option<usize> },
    Side,
    Nobody,
}

impl RecordedRequest {
    pub(super) fn new(method: &Method, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let body = match serde_json::from_slice(body) {
            Ok(value) => value,
            Err(_) if body.is_empty() => Value::Null,
            Err(_) => Value::String(text(body)),
        };
        let headers = headers.iter().map(|(name, value)| (name.as_str(), text(value.as_bytes())));
        Self {
            number: 0,
            at: Duration::ZERO,
            call: Call::Unknown,
            method: method.to_string(),
            path: secrets::path_without_secrets(uri),
            headers: headers.map(|(name, value)| (name.to_owned(), secrets::without_secret(name, value))).collect(),
            body,
        }
    }

    /// Decides who answers: by tools and not by order, because side calls run beside the main call and would take its
    /// reply.
    pub(super) fn sort(&mut self, script: &Script) -> Answerer {
        let path = self.path.split('?').next().unwrap_or_default();
        let (call, answerer) = match (self.method.as_str(), path) {
            ("HEAD", _) => (Call::WarmUp, Answerer::Nobody),
            ("POST", "/v1/messages/count_tokens") => (Call::CountTokens, Answerer::Nobody),
            ("POST", "/v1/messages") if !self.body.is_object() => (Call::Malformed, Answerer::Nobody),
            ("POST", "/v1/messages") if !self.has_tools() => (Call::Side, Answerer::Side),
            ("POST", "/v1/messages") => match self.agent(script) {
                Some(agent) => (Call::Agent, agent),
                None => (Call::Main, Answerer::Main),
            },
            (_, _) => (Call::Unknown, Answerer::Nobody),
        };
        self.call = call;
        answerer
    }

    fn has_tools(&self) -> bool {
        self.body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
    }

    fn agent(&self, script: &Script) -> Option<Answerer> {
        let prompt = self.first_prompt();
        match self.headers.iter().find(|(name, _)| name == "x-claude-code-agent-id") {
            Some((_, id)) => Some(Answerer::Agent { key: AgentKey::Id(id.clone()), list: script.agent_of(&prompt) }),
            None => {
                let list = script.agent_named_in(&prompt)?;
                Some(Answerer::Agent { key: AgentKey::List(list), list: Some(list) })
            }
        }
    }

    /// The texts of the first user message.
    fn first_prompt(&self) -> String {
        let mut messages = self.body["messages"].as_array().into_iter().flatten();
        let Some(first) = messages.find(|message| message["role"] == "user") else {
            return String::new();
        };
        match &first["content"] {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => {
                blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
        }
    }
}

impl RequestLog {
    pub(super) fn new(script: Script) -> Self {
        Self { script, ..Self::default() }
    }

    /// Starts over with another script. Only the numbers continue, so that no two requests of a record have the same.
    pub(super) fn begin_again(&mut self, script: Script) {
        *self = Self { count: self.count, messages: self.messages, ..Self::new(script) };
    }

    pub(super) fn script(&self) -> &Script {
        &self.script
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = &RecordedRequest> {
        self.requests.iter().map(|(_, request)| request)
    }

    /// The stored requests for messages with tools, including those of subagents.
    pub(super) fn model_calls(&self) -> impl Iterator<Item = &Value> {
        let is_model_call = |request: &&RecordedRequest| matches!(request.call, Call::Main | Call::Agent);
        self.requests().filter(is_model_call).map(|request| &request.body)
    }

    pub(super) fn model_call_count(&self) -> usize {
        self.model_calls
    }

    /// The number of the next request.
    pub(super) fn next_number(&self) -> u64 {
        self.count + 1
    }

    /// Stores a request whose body had this many bytes.
    pub(super) fn record(&mut self, request: RecordedRequest, body_bytes: usize) {
        let header_bytes: usize = request.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let bytes = body_bytes * BYTES_PER_BYTE_OF_JSON + header_bytes + request.path.len() + BYTES_PER_REQUEST;
        self.count += 1;
        self.model_calls += usize::from(matches!(request.call, Call::Main | Call::Agent));
        self.requests.push_back((bytes, request));
        self.stored_bytes += bytes;
        while self.stored_bytes > STORED_BYTES_MAX {
            let Some((bytes, _)) = self.requests.pop_front() else { break };
            self.stored_bytes -= bytes;
        }
    }

    /// The script's reply to the next call of this kind, and an id for its message.
    pub(super) fn take_reply(&mut self, answerer: &Answerer) -> Option<(Arc<Reply>, String)> {
        let reply = match answerer {
            Answerer::Main => self.script.main_reply(take(&mut self.main_calls)),
            Answerer::Side => self.script.side_reply(take(&mut self.side_calls)),
            Answerer::Agent { key, list } => {
                self.script.agent_reply(*list, take(self.agent_calls.entry(key.clone()).or_default()))
            }
            Answerer::Nobody => return None,
        };
        Some((reply, format!("msg_stub_{}", take(&mut self.messages) + 1)))
    }
}

fn take(counter: &mut usize) -> usize {
    let taken = *counter;
    *counter += 1;
    taken
}

fn as_milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

fn as_map<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}
