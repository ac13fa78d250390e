//! Many clients of one session: all receive the same events, one answer counts, and a repeated command takes effect
//! once.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::collections::BTreeSet;

use host::{Client, Host, Room, of_type};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const CLIENTS: usize = 64;

async fn clients(host: &Host) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(host.client_with_init().await);
    }
    clients
}

/// Lets every client do the same at the same time, and returns what each received.
async fn all<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    clients: Vec<Client>,
    act: impl Fn(Client) -> F,
) -> Vec<T> {
    let mut acting: JoinSet<T> = clients.into_iter().map(act).collect();
    let mut found = Vec::new();
    while let Some(done) = acting.join_next().await {
        found.push(done.unwrap());
    }
    found
}

#[tokio::test]
async fn sixty_four_clients_receive_the_same_events_in_the_same_order() {
    let room = Room::fake(
        "prompt\nthinking hm\ndeltas 500\ntool t Bash {\"command\":\"ls\"}\ntool_result t x\ntext The end.\nresult\n",
    );
    let host = room.host(&[]).await;
    let clients = clients(&host).await;
    let mut speaker = host.client_with_init().await;
    speaker.say("go").await;
    let expected = speaker.until("done").await;
    assert!(expected.len() > 500, "{}", expected.len());
    for seen in all(clients, async |mut client: Client| client.until("done").await).await {
        assert_eq!(seen, expected);
    }
    host.stop().await;
}

#[tokio::test]
async fn of_sixty_four_answers_one_counts_and_the_refusals_name_its_client() {
    let room = Room::fake("prompt\nask t Bash {\"command\":\"ls\"}\ntext Done.\nresult\n");
    let host = room.host(&[]).await;
    let mut clients = clients(&host).await;
    clients[0].say("go").await;
    for client in &mut clients {
        client.until("approval_request").await;
    }
    let found = all(clients, async |mut client: Client| {
        client.send(json!({"type": "approve", "request_id": "t", "id": "mine"})).await;
        // Its own answer to it, and how it ended for all.
        let (mut own, mut resolved) = (None, None);
        while own.is_none() || resolved.is_none() {
            let line = client.next().await.unwrap();
            if line["id"] == "mine" {
                own = Some(line);
            } else if line["type"] == "approval_resolved" {
                resolved = Some(line);
            }
        }
        (own.unwrap(), resolved.unwrap())
    })
    .await;
    let winners: BTreeSet<&str> = found.iter().map(|(_, resolved)| resolved["by"].as_str().unwrap()).collect();
    assert_eq!(winners.len(), 1, "{winners:?}");
    let winner = winners.first().unwrap();
    let (won, lost): (Vec<&Value>, Vec<&Value>) =
        found.iter().map(|(own, _)| own).partition(|own| own["type"] == "accepted");
    assert_eq!((won.len(), lost.len()), (1, CLIENTS - 1));
    for own in lost {
        assert_eq!(own["type"], "error");
        let message = own["message"].as_str().unwrap();
        assert!(message.ends_with(&format!("is already resolved: {winner} allowed it")), "{message}");
    }
    host.stop().await;
    let answers = room.lines_sent_to_cli();
    let answers: Vec<_> = of_type(&answers, "control_response").into_iter().cloned().collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
}

#[tokio::test]
async fn a_repeated_command_takes_effect_once() {
    let room = Room::fake("prompt\ntext One.\nresult\nprompt\ntext Two.\nresult\n");
    let host = room.host(&[]).await;
    let hello = json!({"type": "hello", "protocol": [1], "client": "editor"});
    let prompt = json!({"type": "prompt", "id": "p1", "content": "go"});
    let mut first = host.native().await;
    first.send(hello.clone()).await;
    first.until("hello").await;
    // Twice in one write, and again by a client that has reconnected.
    first.write(&format!("{prompt}\n{prompt}\n")).await;
    let mut seen = Vec::new();
    while of_type(&seen, "accepted").len() < 2 || of_type(&seen, "became_idle").is_empty() {
        seen.push(first.next().await.unwrap());
    }
    let accepted = of_type(&seen, "accepted");
    assert_eq!(accepted[0], accepted[1]);
    drop(first);
    let mut second = host.native().await;
    second.send(hello).await;
    second.send(prompt.clone()).await;
    assert_eq!(second.until("accepted").await.last(), Some(accepted[0]));
    // Something else under the same id is a mistake, and the same id of another client is another command.
    second.send(json!({"type": "prompt", "id": "p1", "content": "something else"})).await;
    let refused = second.until("refused").await;
    assert_eq!(refused.last().unwrap()["message"], "the id \"p1\" was used for another command");
    let mut other = host.native().await;
    other.send(json!({"type": "hello", "protocol": [1], "client": "another"})).await;
    other.send(prompt).await;
    other.until("became_idle").await;
    host.stop().await;
    assert_eq!(of_type(&room.events(), "prompt_accepted").len(), 2);
    assert_eq!(of_type(&room.lines_sent_to_cli(), "user").len(), 2);
}

#[tokio::test]
async fn no_client_can_impersonate_another_by_its_name() {
    let room = Room::fake(
        "prompt\ntext One.\nresult\nprompt\ntext Two.\nask toolu_1 Bash {}\nresult\n\
         prompt\nask toolu_2 Bash {}\nresult\nprompt\nask toolu_3 Bash {}\nresult\n",
    );
    let host = room.host(&[]).await;
    let mut forger = host.native().await;
    forger.send(json!({"type": "hello", "protocol": [1], "client": "client 2"})).await;
    forger.until("hello").await;
    let mut unnamed = host.native_since(json!(0)).await.0;
    // Both connections use the same id for the same command: it is carried out for each.
    let prompt = json!({"type": "prompt", "id": "p", "content": "go"});
    forger.send(prompt.clone()).await;
    forger.until("became_idle").await;
    unnamed.send(prompt).await;
    let mut by = Vec::new();
    for answers in 0..3 {
        let ask = forger.until("ask_opened").await.pop().unwrap()["ask"].clone();
        let answer = json!({"type": "answer", "ask": ask, "answer": {"type": "allow"}});
        match answers {
            0 => unnamed.send(answer).await,
            _ => forger.send(answer).await,
        }
        by.push(forger.until("ask_resolved").await.pop().unwrap()["by"].clone());
        forger.until("became_idle").await;
        if answers < 2 {
            let name = ["client 2", "x (client 9)\n\u{1b}[2J\u{202e}"][answers];
            forger.send(json!({"type": "hello", "protocol": [1], "client": name})).await;
            forger.until("hello").await;
            forger.send(json!({"type": "prompt", "content": "go"})).await;
        }
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&by).unwrap(), @r#"
    [
      "client 2",
      "\"client 2\" (client 1)",
      "\"x (client 9)\\n\\u{1b}[2J\\u{202e}\" (client 1)"
    ]
    "#);
    host.stop().await;
    assert_eq!(of_type(&room.events(), "prompt_accepted").len(), 4);
}
