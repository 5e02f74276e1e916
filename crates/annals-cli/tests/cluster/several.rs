//! Three nodes, each step on another one.

use std::time::Duration;

use annals_testbed::S3Server;
use serde_json::json;

use super::chance::Chance;
use super::checks;
use super::client::Client;
use super::nodes::{Beside, Cluster, PATIENCE};
use super::promises;

/// Waits until the blocks of a conversation, as a node tells them, have one of this type.
async fn has_block(client: &Client, node: usize, conversation: &str, kind: &str) {
    let began = std::time::Instant::now();
    while !client
        .blocks(node, conversation)
        .await
        .iter()
        .any(|block| block["type"] == kind)
    {
        assert!(began.elapsed() < PATIENCE, "there is no {kind}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a command has written its name.
async fn command_begins(cluster: &Cluster, name: &str) {
    let began = std::time::Instant::now();
    while !std::fs::read_to_string(cluster.folder.path().join("ledger")).is_ok_and(|text| text.contains(name))
    {
        assert!(began.elapsed() < PATIENCE, "the command does not begin");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until another node than this one holds a conversation; gives how long that took.
async fn taken_over(cluster: &Cluster, conversation: &str, from: &str) -> Duration {
    let (began, held) = (
        std::time::Instant::now(),
        format!(
            "SELECT count(*) FROM annals.head h JOIN annals.conversation c ON c.key = h.conversation
             WHERE c.id = '{conversation}' AND h.node <> '{from}'"
        ),
    );
    while cluster.count(&held).await == 0 {
        assert!(began.elapsed() < PATIENCE, "nobody goes on with it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_reach_followers_of_other_nodes_before_these_would_look_by_themselves() {
    let Some(cluster) = Cluster::start(3, Duration::from_secs(10), None).await else {
        return;
    };
    let client = Client::of(&cluster);
    for number in 1..=12 {
        let mut chance = Chance::new(3, number);
        let conversation = client.new_conversation(&mut chance).await.unwrap();
        let follow = |of| client.follow(&conversation, Chance::new(number, of));
        let mut followers: Vec<_> = (0..6).map(follow).collect();
        let plan = "write effect pace=20";
        let turn = client
            .prompt(&mut chance, &conversation, number, plan)
            .await
            .unwrap();
        for follower in &mut followers {
            assert!(follower.saw_end_of(&turn).await);
        }
    }
    let heard = client.record.parts().heard.clone();
    let (median, p95) = promises::delays(&cluster, &heard).await;
    eprintln!(
        "{} blocks heard; at other nodes than their own {median:.1?} (median) and {p95:.1?} (95 %) after they were made",
        heard.len()
    );
    assert!(median > Duration::ZERO, "no block was heard at another node");
    // Nodes look by themselves every half second: without hints, half of the blocks would wait longer than a quarter.
    assert!(median < Duration::from_millis(200), "{median:?}");
}

/// What a node says of its readiness, once it is this.
async fn readiness(client: &Client, status: u16) -> String {
    let began = std::time::Instant::now();
    loop {
        let (said, text) = client.get_text(0, "/readyz", None).await;
        if said == status {
            return text;
        }
        assert!(began.elapsed() < PATIENCE, "{said}: {text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_database_takes_no_writes_is_not_ready_until_it_does() {
    let Some(cluster) = Cluster::start(1, Duration::from_secs(5), None).await else {
        return;
    };
    let client = Client::of(&cluster);
    readiness(&client, 200).await;
    cluster
        .execute("ALTER SYSTEM SET default_transaction_read_only = on")
        .await;
    cluster.execute("SELECT pg_reload_conf()").await;
    readiness(&client, 503).await;
    cluster
        .execute("ALTER SYSTEM RESET default_transaction_read_only")
        .await;
    cluster.execute("SELECT pg_reload_conf()").await;
    readiness(&client, 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_says_at_its_start_that_its_bucket_ignores_conditional_writes() {
    for (bucket, is_said) in [(S3Server::moto(), false), (S3Server::rclone(), true)] {
        let Some(bucket) = bucket else { return };
        let beside = Beside {
            bucket: Some(&bucket),
            ..Beside::default()
        };
        let Some(cluster) = Cluster::start_with(1, Duration::from_secs(5), None, beside).await else {
            return;
        };
        let said = cluster.nodes[0].said();
        assert_eq!(said.contains("ignores conditional writes"), is_said, "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_upgraded_one_after_the_other_under_load_without_a_failed_turn() {
    let Some(cluster) = Cluster::start(3, Duration::from_secs(5), None).await else {
        return;
    };
    let (client, is_done) = (Client::of(&cluster), tokio_util::sync::CancellationToken::new());
    let load = (0..4_u64).map(|of| {
        let (client, is_done) = (client.clone(), is_done.clone());
        tokio::spawn(async move {
            let mut chance = Chance::new(4, of);
            let conversation = client.new_conversation(&mut chance).await?;
            let mut follower = client.follow(&conversation, Chance::new(5, of));
            for turn in 1..=200 {
                let number = of * 1_000 + turn;
                let turn = client
                    .prompt(&mut chance, &conversation, number, "effect=0.2 write pace=20")
                    .await?;
                assert!(follower.saw_end_of(&turn).await, "turn {number} does not end");
                if is_done.is_cancelled() {
                    return Some(number);
                }
            }
            None
        })
    });
    let load: Vec<_> = load.collect();
    // The schema grows first; then each node is replaced by one that knows it.
    cluster.execute(super::faults::EXPAND).await;
    for node in &cluster.nodes {
        assert_eq!(node.terminate().await, Some(0), "{}", node.said());
        node.start().await;
        node.wait_until_ready().await;
    }
    is_done.cancel();
    for ended in futures::future::join_all(load).await {
        assert!(ended.unwrap().is_some(), "the load ended too early or failed");
    }
    let found = checks::after_healing(&cluster, &client, checks::SLACK).await;
    assert_eq!(found.wrong, Vec::<String>::new(), "{found:?}");
    assert_eq!(found.interrupted, 0, "every call had the time to end: {found:?}");
    assert!(found.completed >= 4, "{found:?}");

    // What older programs cannot go on with refuses them, and those that run are found by their row.
    cluster
        .execute("UPDATE annals.meta SET schema = schema + 1, oldest = schema + 1")
        .await;
    let node = &cluster.nodes[0];
    assert_eq!(node.terminate().await, Some(0), "{}", node.said());
    node.start().await;
    let code = node.ended().await;
    assert_ne!(code, Some(0), "it serves a schema that it does not know");
    assert!(node.said().contains("newer"), "{}", node.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_a_killed_node_goes_on_at_another_and_followers_see_each_block_once() {
    let Some(cluster) = Cluster::start(3, Duration::from_secs(3), None).await else {
        return;
    };
    let (client, mut chance) = (Client::of(&cluster), Chance::new(1, 1));
    let conversation = client.new_conversation(&mut chance).await.unwrap();
    let path = format!("/v1/conversations/{conversation}/turns");
    let mut followers: Vec<_> = (0..6)
        .map(|of| client.follow(&conversation, Chance::new(2, of)))
        .collect();

    // Posted to the first node, which becomes the owner; sent again to the others, it is the same turn.
    let body = json!({"prompt": "[[plan 1 write effect=3 pace=50]]"});
    let mut turns = Vec::new();
    for node in 0..3 {
        let (status, started) = client.send(node, &path, Some(&body), "go-1").await.unwrap();
        assert_eq!(status, 202, "{started}");
        turns.push(started["turn_id"].as_str().unwrap().to_owned());
    }
    assert!(turns.iter().all(|turn| *turn == turns[0]), "{turns:?}");
    let known = (conversation.clone(), 1);
    client.record.parts().acknowledged.insert(turns[0].clone(), known);
    has_block(&client, 1, &conversation, "react.tool.result").await;

    // What the owner is producing reaches followers of every node. Then the owner dies while its command runs.
    command_begins(&cluster, "1-1").await;
    cluster.nodes[0].kill().await;
    let taken_over_in = taken_over(&cluster, &conversation, "n1").await;
    assert!(
        taken_over_in <= cluster.lease * 2,
        "another node went on after {taken_over_in:?} only"
    );
    for follower in &mut followers {
        assert!(
            follower.saw_end_of(&turns[0]).await,
            "{}",
            cluster.nodes[1].said()
        );
    }
    cluster.nodes[0].start().await;
    cluster.nodes[0].wait_until_ready().await;
    let (_, turn) = client
        .send(0, &format!("{path}/{}", turns[0]), None, "")
        .await
        .unwrap();
    assert_eq!(turn["outcome"], "complete", "{turn}");

    // Rolling restart: a turn that runs on a node that is told to stop ends well, there or elsewhere.
    let second = client
        .prompt(&mut chance, &conversation, 2, "effect=1 pace=100")
        .await
        .unwrap();
    for node in &cluster.nodes {
        assert_eq!(node.terminate().await, Some(0), "{}", node.said());
        node.start().await;
        node.wait_until_ready().await;
    }
    for follower in &mut followers {
        assert!(follower.saw_end_of(&second).await, "{}", cluster.nodes[1].said());
    }
    drop(followers);
    let found = checks::after_healing(&cluster, &client, checks::SLACK).await;
    assert_eq!(found.wrong, Vec::<String>::new(), "{found:?}");
    assert_eq!((found.interrupted, found.completed), (1, 2), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_owner_produces_reaches_subscribers_of_other_nodes_while_it_arrives() {
    let Some(cluster) = Cluster::start(2, Duration::from_secs(5), None).await else {
        return;
    };
    let (client, mut chance) = (Client::of(&cluster), Chance::new(1, 1));
    let conversation = client.new_conversation(&mut chance).await.unwrap();
    let path = format!("/v1/conversations/{conversation}/turns");
    let body = json!({"prompt": "[[plan 1 pace=1500]]"});
    let (status, started) = client.send(0, &path, Some(&body), "go-1").await.unwrap();
    assert_eq!(status, 202, "{started}");
    let text = client.text_while_it_arrives(1, &conversation).await;
    assert_eq!(
        text, "word0 word1 word2 word3 done 1",
        "from the other node, before the block"
    );

    // The owner holds the conversation still; what somebody says to the other node about its turn is written down there.
    let turn = started["turn_id"].as_str().unwrap();
    let (judgement, said) = (format!("{path}/{turn}/feedback"), json!({"reaction": "up"}));
    for node in [1, 0, 1] {
        let (status, answer) = client
            .send(node, &judgement, Some(&said), "judged")
            .await
            .unwrap();
        assert_eq!(status, 201, "{answer}");
    }
    let blocks = client.blocks(1, &conversation).await;
    let judged = blocks.iter().filter(|block| block["type"] == "stage.feedback");
    assert_eq!(judged.count(), 1, "{blocks:?}");

    // A client of the OpenAI-compatible API that follows at another node is told pieces, too.
    let asked = json!({"model": "annals", "input": "[[plan 2 pace=1000]]", "background": true});
    let (status, begun) = client
        .send(0, "/v1/responses", Some(&asked), "respond")
        .await
        .unwrap();
    assert_eq!(status, 200, "{begun}");
    let path = format!("/v1/responses/{}?stream=true", begun["id"].as_str().unwrap());
    let (status, events) = client.get_text(1, &path, None).await;
    assert_eq!(status, 200, "{events}");
    let pieces = events.matches("event: response.output_text.delta").count();
    assert!(pieces > 2, "{pieces} pieces: {events}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_cookies_of_one_node_are_those_of_the_next() {
    let Some(cluster) = Cluster::start(2, Duration::from_secs(2), None).await else {
        return;
    };
    let client = Client::of(&cluster);
    let cookie = client.cookie(0).await;
    let (status, page) = client.get_text(1, "/v1/conversations", Some(&cookie)).await;
    assert_eq!(status, 200, "{page}");

    let mut chance = Chance::new(1, 1);
    let conversation = client.new_conversation(&mut chance).await.unwrap();
    let path = format!("/v1/conversations/{conversation}/turns");
    let mut follower = client.follow(&conversation, Chance::new(2, 1));

    // The first turn writes a file and loses its machine; on the next one it finds the file, and so does the turn after it.
    for (node, key, plan) in [
        (0, "go-1", "[[plan 1 write effect=2 find=f1.md]]"),
        (1, "go-2", "[[plan 2 find=f1.md]]"),
    ] {
        let body = json!({"prompt": plan});
        let (status, started) = client.send(node, &path, Some(&body), key).await.unwrap();
        assert_eq!(status, 202, "{started}");
        if node == 0 {
            command_begins(&cluster, "1-1").await;
            cluster.nodes[0].kill().await;
        }
        assert!(follower.saw_end_of(started["turn_id"].as_str().unwrap()).await);
    }
    let blocks = client.blocks(1, &conversation).await;
    let results = blocks.iter().filter(|block| block["type"] == "react.tool.result");
    let texts: Vec<&str> = results.filter_map(|block| block["text"].as_str()).collect();
    let found = texts.iter().filter(|text| text.contains("Words of 1"));
    assert_eq!(
        found.count(),
        3,
        "written, found in its turn, found in the next: {texts:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_told_to_stop_ends_its_turns_and_takes_up_no_others() {
    let Some(cluster) = Cluster::start(2, Duration::from_secs(2), None).await else {
        return;
    };
    let (client, mut chance) = (Client::of(&cluster), Chance::new(1, 1));
    // The first node has a turn that takes longer than a lease; the second one dies with one of its own.
    let asking = {
        let client = client.clone();
        let asked = json!({"model": "annals", "input": "[[plan 1 effect=5]]"});
        tokio::spawn(async move { client.send(0, "/v1/responses", Some(&asked), "ask").await })
    };
    command_begins(&cluster, "1-0").await;
    let conversation = client.new_conversation(&mut chance).await.unwrap();
    let path = format!("/v1/conversations/{conversation}/turns");
    let body = json!({"prompt": "[[plan 2 effect=60]]"});
    let (status, started) = client.send(1, &path, Some(&body), "go-2").await.unwrap();
    assert_eq!(status, 202, "{started}");
    command_begins(&cluster, "2-0").await;
    cluster.nodes[1].kill().await;

    assert_eq!(
        cluster.nodes[0].terminate().await,
        Some(0),
        "{}",
        cluster.nodes[0].said()
    );
    let answered = asking.await.unwrap();
    let ended = |kind: &str, text: &str| {
        format!("SELECT count(*) FROM annals.block WHERE kind = '{kind}' AND body LIKE '%{text}%'")
    };
    let completed = cluster.count(&ended("react.completion", "\"complete\"")).await;
    assert_eq!(completed, 1, "the turn came to its end: {answered:?}");
    let interrupted = cluster.count(&ended("react.tool.result", "interrupted")).await;
    assert_eq!(interrupted, 0, "it was its node's own to the end");
    let held = format!(
        "SELECT count(*) FROM annals.head h JOIN annals.conversation c ON c.key = h.conversation
         WHERE c.id = '{conversation}' AND h.node = 'n2'"
    );
    assert_eq!(cluster.count(&held).await, 1, "nobody took up the other's");
}
