//! The HTTP side of the stub: its thread, and who answers what.

use std::future::pending;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Json, Response};
use axum::serve::ListenerExt;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::ledger::{Call, Ledger, RecordedRequest};
use super::message::Message;
use super::script::{Ending, Reply, Script};
use super::sse::EventStream;

/// A long session with pictures sends tens of megabytes; a test may send more.
const REQUEST_BYTES_MAX: usize = 512 * 1024 * 1024;

/// What every request needs: the script, and the ledger it is noted in.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    script: Arc<Script>,
    ledger: Arc<watch::Sender<Ledger>>,
}

/// Serves until `stopped` comes. Runs on a thread and a runtime of its own: axum spawns a task per connection, and
/// only the end of the runtime ends them all. A test that pauses its clock also leaves this one going.
pub(super) fn run(
    listener: TcpListener,
    desk: Desk,
    started: oneshot::Sender<Result<(), io::Error>>,
    stopped: oneshot::Receiver<()>,
) {
    // In both sends the receiver may be gone: whoever started the stub no longer wants it.
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(async {
            let served = serve(listener, desk);
            drop(started.send(Ok(())));
            tokio::select! {
                // Dropping it loses nothing: both ends are of no more use.
                _ = stopped => {}
                // Dropping it closes the listener, which is what stopping means.
                _ = served => {}
            }
        }),
        Err(error) => drop(started.send(Err(error))),
    }
}

async fn serve(listener: TcpListener, desk: Desk) -> Result<(), io::Error> {
    let listener = tokio::net::TcpListener::from_std(listener)?.tap_io(|connection| {
        // Small deltas must not wait for one another. Without it they are only slower.
        drop(connection.set_nodelay(true));
    });
    let router = Router::new().fallback(answer).layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX)).with_state(desk);
    axum::serve(listener, router).await
}

async fn answer(State(desk): State<Desk>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let request = RecordedRequest::new(&method, &uri, &headers, &body);
    drop(body);
    let call = request.call();
    let model = request.body["model"].as_str().unwrap_or("stub").to_owned();
    let wants_stream = request.body["stream"] == Value::Bool(true);
    match desk.note(request, call) {
        Some((reply, id)) => send(Message { id, model, reply }, wants_stream).await,
        None => answer_without_model(call),
    }
}

async fn send(message: Message, wants_stream: bool) -> Response {
    let reply = &message.reply;
    tokio::time::sleep(reply.delay).await;
    match &reply.ending {
        Ending::Status { code, message } => {
            let status = StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            error(status, "api_error", message)
        }
        Ending::Stop | Ending::Hold | Ending::Cut | Ending::StreamError { .. } if wants_stream => {
            ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(EventStream::new(message))).into_response()
        }
        Ending::Cut => error(StatusCode::INTERNAL_SERVER_ERROR, "api_error", "cut"),
        Ending::StreamError { kind, message } => {
            let overloaded = StatusCode::from_u16(529).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            error(overloaded, kind, message)
        }
        // The client's going or the end of the stub drops this.
        Ending::Hold => pending().await,
        Ending::Stop => Json(message.whole()).into_response(),
    }
}

fn answer_without_model(call: Call) -> Response {
    match call {
        Call::CountTokens => Json(json!({"input_tokens": 10})).into_response(),
        Call::Probe => StatusCode::OK.into_response(),
        Call::Malformed => error(StatusCode::BAD_REQUEST, "invalid_request_error", "the body is not a JSON object"),
        Call::Unknown | Call::Main | Call::Agent | Call::Side => {
            error(StatusCode::NOT_FOUND, "not_found_error", "the stub does not know this path")
        }
    }
}

fn error(status: StatusCode, kind: &str, message: &str) -> Response {
    (status, Json(json!({"type": "error", "error": {"type": kind, "message": message}}))).into_response()
}

impl Desk {
    pub(super) fn new(script: Script, ledger: Arc<watch::Sender<Ledger>>) -> Self {
        Self { script: Arc::new(script), ledger }
    }

    /// Notes a request and, if the model has to answer it, takes the reply and an id for its message: in one step, so
    /// that replies go out in the order in which the requests are noted.
    fn note(&self, request: RecordedRequest, call: Call) -> Option<(Arc<Reply>, String)> {
        let mut taken = None;
        self.ledger.send_modify(|ledger| {
            let reply = match call {
                Call::Main => Some(self.script.main_reply(ledger.take_main_turn())),
                Call::Agent => Some(self.script.agent_reply(ledger.take_agent_turn())),
                Call::Side => Some(Script::side_reply()),
                Call::Malformed | Call::CountTokens | Call::Probe | Call::Unknown => None,
            };
            taken = reply.map(|reply| (reply, ledger.take_message_id()));
            ledger.record(request);
        });
        taken
    }
}
