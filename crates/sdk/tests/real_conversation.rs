//! Whole conversations with the real CLI.

mod common;

use common::{Room, Talk, transcript};
use watari_testkit::Reply;

#[tokio::test]
async fn text_is_streamed() {
    let room = Room::with_replies([Reply::text("Hello there")]).await;
    let mut talk = room.connect().await;
    talk.client.send("hi").await.unwrap();
    insta::assert_snapshot!(transcript(&talk.until_idle().await), @"");
    talk.client.close().await;
}
