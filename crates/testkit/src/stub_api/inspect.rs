//! What a test in any language can request from the stub itself: the requests it received, and another script.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};

use super::handler::RequestHandler;
use super::script_file::read_script;
use super::server::refuse;

/// All stored requests, as a JSON array.
pub(super) async fn requests(State(handler): State<Arc<RequestHandler>>) -> Response {
    handler.with_requests(|requests| Json(requests.collect::<Vec<_>>()).into_response())
}

/// Takes a script in the body, as in a script file, and starts over with it.
pub(super) async fn replace_script(State(handler): State<Arc<RequestHandler>>, body: String) -> Response {
    match read_script("the body", &body) {
        Ok(script) => {
            handler.replace_script(script);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(error) => refuse(400, &error.to_string()),
    }
}
