//! Another user of the same machine and the real CLI: the CLI reads the files that Watari wrote for it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod attacker;
mod common;
mod host;

use attacker::{attacked, with_open_umask};
use host::Room;
use serde_json::json;
use watari_testkit::Reply;

#[tokio::test]
async fn no_program_of_another_user_runs_as_an_mcp_server_of_the_real_cli_needs_root() {
    let room = Room::real([Reply::text("Hello")]).await;
    let [good, evil] = ["good", "evil"].map(|name| room.sandbox.root().join("tmp").join(name));
    let servers = |made| json!({"mcpServers": {"mine": {"command": "touch", "args": [made]}}}).to_string();
    let room = attacked(room, "", &servers(&evil));
    let host = room.start(with_open_umask(&room, &["--mcp-config", &servers(&good)])).await;
    let mut client = host.client_with_init().await;
    client.say("hi").await;
    client.until("done").await;
    assert_eq!((good.exists(), evil.exists()), (true, false));
    host.stop().await;
}
