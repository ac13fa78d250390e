//! Values that are nested too deep or name no tool, on the real CLI: they are refused by name, and the CLI continues to
//! work.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use host::{Client, Room, text_of};
use serde_json::json;
use watari_testkit::Reply;

fn deep() -> String {
    format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000))
}

/// The error for a line with a mistake.
async fn refused(client: &mut Client, line: &str) -> String {
    client.write(&format!("{line}\n")).await;
    client.until("error").await.pop().unwrap()["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_value_nested_too_deep_is_refused_by_its_name_and_later_turns_work() {
    let bash = Reply::text("Look.").and_tool_use("toolu_1", "Bash", json!({"command": "touch made"}));
    let room = Room::real([Reply::text("One."), bash, Reply::text("Two.")]).await;
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    let deep = deep();
    let mut output = vec![
        refused(&mut client, &format!(r#"{{"type":"message","text":"see","images":[{deep}]}}"#)).await,
        refused(
            &mut client,
            &format!(
                r#"{{"type":"register_tools","tools":[{{"name":"a","input_schema":{{"type":"object","x":{deep}}}}}]}}"#
            ),
        )
        .await,
    ];
    for schema in [json!([]), json!({"type": "string"}), json!({})] {
        let tools = json!({"type": "register_tools", "tools": [{"name": "a", "input_schema": schema}]});
        output.push(refused(&mut client, &tools.to_string()).await);
    }
    client.say("one").await;
    assert_eq!(text_of(&client.until("done").await), "One.");
    client.say("two").await;
    client.until("approval_request").await;
    output.push(refused(&mut client, &format!(r#"{{"type":"approve","request_id":"toolu_1","input":{deep}}}"#)).await);
    // It is still open, and the CLI still there.
    client.send(json!({"type": "approve", "request_id": "toolu_1"})).await;
    assert_eq!(text_of(&client.until("done").await), "Two.");
    assert!(room.sandbox.cwd().join("made").exists());
    insta::assert_snapshot!(output.join("\n"), @r#"
    images is nested too deep: the limit is 128 levels per line
    tools[].input_schema is nested too deep: the limit is 128 levels per line
    tools[].input_schema must be an object
    tools[].input_schema.type must be "object": the input of a tool is an object
    tools[].input_schema.type must be "object": the input of a tool is an object
    input is nested too deep: the limit is 128 levels per line
    "#);
    host.stop().await;
}
