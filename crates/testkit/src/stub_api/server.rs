//! The HTTP side of the stub: its thread and its routes.

use std::future::pending;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, put};
use axum::serve::ListenerExt;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::fault::{Fault, FaultPoint};
use super::handler::{Noted, RequestHandler};
use super::inspect;
use super::message::Message;
use super::request_log::{Call, RecordedRequest};
use super::script::{HttpAnswer, error_kind, error_status};
use super::sse::EventStream;

/// A long session with pictures sends tens of megabytes; a test may send more.
const REQUEST_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Serves until `stopped` resolves. It has a thread and a runtime of its own: axum spawns a task per connection, and
/// only the end of the runtime ends them all. A test that pauses its clock does not pause this one.
pub(super) fn run(
    listener: TcpListener,
    routes: Router,
    started: oneshot::Sender<Result<(), io::Error>>,
    stopped: oneshot::Receiver<()>,
) {
    // In both sends the receiver may be dropped: the caller no longer wants the stub.
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(async {
            let served = serve(listener, routes);
            drop(started.send(Ok(())));
            tokio::select! {
                // Dropping it loses nothing: neither end is used any more.
                _ = stopped => {}
                // Dropping it closes the listener, which is what stopping means.
                _ = served => {}
            }
        }),
        Err(error) => drop(started.send(Err(error))),
    }
}

async fn serve(listener: TcpListener, routes: Router) -> Result<(), io::Error> {
    let listener = tokio::net::TcpListener::from_std(listener)?.tap_io(|connection| {
        // Small deltas must not be delayed. Without it they are only slower.
        drop(connection.set_nodelay(true));
    });
    axum::serve(listener, routes).await
}

/// The routes. The secret gives access to the stub itself.
pub(super) fn routes(handler: RequestHandler, secret: Option<&str>) -> Router {
    let routes = match secret {
        Some(secret) => Router::new()
            .route(&format!("/stub/{secret}/requests"), get(inspect::requests))
            .route(&format!("/stub/{secret}/script"), put(inspect::replace_script)),
        None => Router::new(),
    };
    let routes = routes.fallback(answer).layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX));
    routes.layer(middleware::from_fn(only_this_machine)).with_state(Arc::new(handler))
}

/// Refuses requests from pages in a browser.
async fn only_this_machine(request: Request, next: Next) -> Response {
    if is_of_this_machine(request.headers()) {
        next.run(request).await
    } else {
        refuse(403, "the stub serves only programs of this machine; use 127.0.0.1 or localhost")
    }
}

/// A page in a browser has a foreign origin, or uses a host name that was made to resolve to this machine.
fn is_of_this_machine(headers: &HeaderMap) -> bool {
    let is_here = |header: HeaderName| {
        let Some(value) = headers.get(header) else { return true };
        let text = value.to_str().unwrap_or_default();
        let text = text.split_once("://").map_or(text, |(_, rest)| rest);
        let name = text.rsplit_once(':').map_or(text, |(name, _)| name);
        ["127.0.0.1", "localhost"].contains(&name)
    };
    is_here(HOST) && is_here(ORIGIN)
}

async fn answer(
    State(handler): State<Arc<RequestHandler>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request = RecordedRequest::new(&method, &uri, &headers, &body);
    let bytes = body.len();
    drop(body);
    let model = request.body["model"].as_str().unwrap_or("stub").to_owned();
    let wants_stream = request.body["stream"] == Value::Bool(true);
    match handler.note(request, bytes) {
        Ok(Noted::ForModel { reply, id }) => send(Message { id, model, reply }, wants_stream).await,
        Ok(Noted::Other(call)) => answer_without_model(call),
        Err(error) => {
            // A caller that wants a record must not continue without one.
            let message = format!("the stub cannot record this request: {error}");
            refuse(500, &message)
        }
    }
}

async fn send(message: Message, wants_stream: bool) -> Response {
    let reply = &message.reply;
    tokio::time::sleep(reply.delay).await;
    if let Some(http) = &reply.http {
        return send_http(http);
    }
    if let Some((Fault::Stall { duration }, FaultPoint::BeforeHeaders)) = &reply.fault {
        wait(*duration).await;
    }
    if wants_stream {
        return ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(EventStream::new(message))).into_response();
    }
    match &reply.fault {
        Some((Fault::Error { kind, message }, _)) => send_http(&HttpAnswer::error(error_status(kind), kind, message)),
        Some((Fault::Drop, _)) => refuse(500, "cut"),
        Some((Fault::Stall { duration }, point)) => {
            if *point != FaultPoint::BeforeHeaders {
                wait(*duration).await;
            }
            Json(message.whole()).into_response()
        }
        Some((Fault::End | Fault::Insert(_), _)) | None => Json(message.whole()).into_response(),
    }
}

/// Waits; dropped when the client disconnects or the stub ends.
async fn wait(duration: Option<std::time::Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => pending().await,
    }
}

fn send_http(answer: &HttpAnswer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, answer.body.clone()).into_response();
    let content_type = [(CONTENT_TYPE.as_str(), answer.content_type.as_str())];
    let others = answer.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in content_type.into_iter().chain(others) {
        // A script file is checked for this; an impossible header of a test is left out.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn answer_without_model(call: Call) -> Response {
    match call {
        Call::CountTokens => Json(json!({"input_tokens": 10})).into_response(),
        Call::WarmUp => StatusCode::OK.into_response(),
        Call::Malformed => refuse(400, "the body is not a JSON object"),
        Call::Unknown | Call::Main | Call::Agent | Call::Side => refuse(404, "the stub does not know this path"),
    }
}

/// An error in the API's format.
pub(super) fn refuse(status: u16, message: &str) -> Response {
    send_http(&HttpAnswer::error(status, error_kind(status), message))
}
