//! MCP servers from the command line: they are read in the same way, whether given inline or in a file.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::fs;
use std::time::{Duration, Instant};

use host::{Room, end_of};
use rustix::fs::{CWD, Mode, mkfifoat};

const ONE_TURN: &str = "prompt\ntext Hello\nresult\n";

/// The exit code and the standard error of a host that is started with these servers.
async fn refused(room: &Room, config: &str) -> (Option<i32>, String) {
    end_of(&mut room.command(&["--mcp-config", config]).spawn().unwrap()).await
}

#[tokio::test]
async fn servers_in_a_file_are_refused_like_those_on_the_command_line() {
    let room = Room::fake(ONE_TURN);
    let file = room.sandbox.root().join("mcp.json");
    for (config, why) in [
        (r#"{"mcpServers":{"client":{"command":"true"}}}"#, "the server name \"client\" is reserved"),
        (r#"{"mcpServers":{"cl\u0069ent":{"command":"true"}}}"#, "the server name \"client\" is reserved"),
        (r#"{"mcpServers":{"a":null}}"#, "the MCP server \"a\" must be an object"),
        (r#"{"mcpServers":{"a":{"command":"true"},"b":"c"}}"#, "the MCP server \"b\" must be an object"),
        (r#"{"servers":{}}"#, "missing field `mcpServers`"),
    ] {
        fs::write(&file, config).unwrap();
        for given in [config, file.to_str().unwrap()] {
            let (code, output) = refused(&room, given).await;
            assert!(output.contains("--mcp-config: ") && output.contains(why), "{given}: {output}");
            assert_eq!(code, Some(1), "{given}: {output}");
        }
    }
}

#[tokio::test]
async fn a_path_that_is_not_a_file_is_refused_immediately() {
    let room = Room::fake(ONE_TURN);
    let pipe = room.sandbox.root().join("pipe");
    mkfifoat(CWD, &pipe, Mode::from(0o600)).unwrap();
    let long = room.sandbox.root().join("long.json");
    fs::write(&long, " ".repeat(5 * 1024 * 1024)).unwrap();
    let missing = room.sandbox.root().join("missing.json");
    for (path, why) in [
        (&pipe, "it is a pipe, not a file"),
        (&room.sandbox.root().to_owned(), "it is a folder, not a file"),
        (&missing, "No such file or directory"),
        (&long, "it has more than 4194304 bytes"),
    ] {
        let began = Instant::now();
        let (code, output) = refused(&room, path.to_str().unwrap()).await;
        assert!(output.contains(why), "{output}");
        assert_eq!(code, Some(1), "{output}");
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}

#[tokio::test]
async fn every_cli_of_a_session_gets_the_servers_that_were_checked() {
    let room = Room::fake(ONE_TURN);
    let (file, given) = (room.sandbox.root().join("mcp.json"), room.sandbox.root().join("given"));
    let script = format!(
        "for argument; do case $argument in --mcp-config=*) cat \"${{argument#--mcp-config=}}\" >> '{}';; esac; done\n\
         exec '{}' \"$@\"",
        given.display(),
        room.claude.display(),
    );
    let claude = common::program(&room.sandbox.root().join("looking"), &script);
    let room = Room { claude, ..room };
    let servers = r#"{"mcpServers":{"a":{"command":"true"}}}"#;
    fs::write(&file, servers).unwrap();
    let host = room.host(&["--mcp-config", file.to_str().unwrap()]).await;
    let mut client = host.client_with_init().await;
    client.say("one").await;
    client.until("done").await;
    // What the file says from now on was never checked.
    fs::write(&file, r#"{"mcpServers":{"client":{"command":"false"}}}"#).unwrap();
    host.kill_cli();
    client.until("done").await;
    client.say("two").await;
    client.until("done").await;
    assert_eq!(fs::read_to_string(given).unwrap(), servers.repeat(2));
    host.stop().await;
}
