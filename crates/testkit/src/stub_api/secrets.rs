//! Removes from a recorded request everything that could be a key. A gateway takes its key in a header or a parameter
//! of any name, so this lists what is known to be harmless, and not what is known to be secret.

use axum::http::Uri;

/// The key in the stub's own environment: it is not a secret.
pub(super) const STUB_KEY: &str = "stub";

/// Recorded in place of a value.
const HIDDEN: &str = "hidden";

/// Headers whose values are recorded.
const HARMLESS_HEADERS: [&str; 14] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "anthropic-beta",
    "anthropic-dangerous-direct-browser-access",
    "anthropic-version",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "user-agent",
    "x-app",
];

/// Prefixes of further ones.
const HARMLESS_PREFIXES: [&str; 2] = ["x-claude-code-", "x-stainless-"];

/// Parameters whose values are recorded.
const HARMLESS_PARAMETERS: [&str; 1] = ["beta"];

/// The value of a header, if it may be recorded. Names are in lower case.
pub(super) fn without_secret(name: &str, value: String) -> String {
    let is_harmless =
        HARMLESS_HEADERS.contains(&name) || HARMLESS_PREFIXES.into_iter().any(|prefix| name.starts_with(prefix));
    if is_harmless || value == STUB_KEY { value } else { HIDDEN.to_owned() }
}

/// The path of a request with its query.
pub(super) fn path_without_secrets(uri: &Uri) -> String {
    let Some(query) = uri.query() else { return uri.path().to_owned() };
    let parameters: Vec<String> = query.split('&').map(parameter_without_secret).collect();
    format!("{}?{}", uri.path(), parameters.join("&"))
}

fn parameter_without_secret(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((name, _)) if HARMLESS_PARAMETERS.contains(&name) => parameter.to_owned(),
        Some((name, _)) => format!("{name}={HIDDEN}"),
        // The whole parameter may be a key.
        None if parameter.is_empty() || HARMLESS_PARAMETERS.contains(&parameter) => parameter.to_owned(),
        None => HIDDEN.to_owned(),
    }
}
