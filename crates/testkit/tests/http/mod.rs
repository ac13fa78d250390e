//! Just enough of an HTTP client to see what the stub sends, byte by byte.

#![allow(dead_code, reason = "every test program uses some of it")]

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use watari_testkit::StubApi;

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

pub(crate) async fn post(stub: &StubApi, path: &str, body: &Value) -> Result<Answer> {
    exchange(stub, &request("POST", path, "", &body.to_string())).await
}

pub(crate) async fn exchange(stub: &StubApi, request: &str) -> Result<Answer> {
    let mut connection = send(stub, request).await?;
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).await?;
    answer(String::from_utf8(bytes)?)
}

pub(crate) async fn send(stub: &StubApi, request: &str) -> Result<TcpStream> {
    let mut connection = TcpStream::connect(stub.base_url().trim_start_matches("http://")).await?;
    connection.write_all(request.as_bytes()).await?;
    Ok(connection)
}

/// `extra` holds whole header lines, each with its line end.
pub(crate) fn request(method: &str, path: &str, extra: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n{extra}content-length: {length}\r\n\r\n{body}"
    )
}

/// Reads until `text` has come, and returns all that came before it.
pub(crate) async fn read_until(connection: &mut TcpStream, text: &str) -> Result<String> {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        anyhow::ensure!(connection.read_buf(&mut seen).await? > 0, "the stream ended before {text:?}");
    }
    Ok(String::from_utf8_lossy(&seen).into_owned())
}

fn answer(text: String) -> Result<Answer> {
    let (head, body) = text.split_once("\r\n\r\n").context("no end of the headers")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    let body = match header("transfer-encoding:") {
        "chunked" => joined_chunks(body)?,
        _ => body.to_owned(),
    };
    Ok(Answer { status, content_type: header("content-type:").to_owned(), body })
}

fn joined_chunks(mut rest: &str) -> Result<String> {
    let mut joined = String::new();
    loop {
        let (length, after) = rest.split_once("\r\n").context("a chunk without its length")?;
        let length = usize::from_str_radix(length, 16)?;
        if length == 0 {
            return Ok(joined);
        }
        joined.push_str(after.get(..length).context("a short chunk")?);
        rest = after.get(length + 2..).context("a chunk without its end")?;
    }
}
