//! What a test in any language can request from the stub itself: the requests it received, and another script.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};

use super::desk::Desk;
use super::script_file::read_script;
use super::server::refuse;

/// All stored requests, as a JSON array.
pub(super) async fn requests(State(desk): State<Arc<Desk>>) -> Response {
    desk.with_requests(|requests| Json(requests.collect::<Vec<_>>()).into_response())
}

/// Takes a script in the body, as in a script file, and starts over with it.
pub(super) async fn replace_script(State(desk): State<Arc<Desk>>, body: String) -> Response {
    match read_script("the body", &body) {
        Ok(script) => {
            desk.replace_script(script);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(error) => refuse(400, &error.to_string()),
    }
}
