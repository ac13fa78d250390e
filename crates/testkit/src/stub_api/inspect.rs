//! What a test in any language can ask the stub itself: what it was asked, and to begin again with another script.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Json, Response};

use super::desk::Desk;
use super::script_file::read_script;
use super::server::refuse;

/// All requests that are kept, as a JSON array.
pub(super) async fn requests(State(desk): State<Arc<Desk>>, headers: HeaderMap) -> Response {
    if !is_for_this_machine(&headers) {
        return refuse(403, "ask the stub by 127.0.0.1 or localhost");
    }
    desk.with_requests(|requests| Json(requests.collect::<Vec<_>>()).into_response())
}

/// Takes a script in the body, as in a script file, and begins again with it.
pub(super) async fn replace_script(State(desk): State<Arc<Desk>>, headers: HeaderMap, body: String) -> Response {
    if !is_for_this_machine(&headers) {
        return refuse(403, "ask the stub by 127.0.0.1 or localhost");
    }
    match read_script("the body", &body) {
        Ok(script) => {
            desk.replace_script(script);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(error) => refuse(400, &error.to_string()),
    }
}

/// A page in a browser that had its name lead to this machine would send that name.
fn is_for_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    ["127.0.0.1", "localhost"].contains(&name)
}
