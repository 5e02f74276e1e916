//! Conversations that an operator archives while nodes serve them.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use annals_testbed::{FaultProxy, Upstream};
use serde_json::{Value, json};

use super::chance::Chance;
use super::checks;
use super::client::Client;
use super::nodes::{Cluster, PATIENCE};

/// A turn in a conversation that then rests for weeks.
async fn rested(cluster: &Cluster, client: &Client, chance: &mut Chance) -> String {
    let conversation = client.new_conversation(chance).await.unwrap();
    let mut follower = client.follow(&conversation, Chance::new(2, 1));
    let turn = client
        .prompt(chance, &conversation, 1, "write effect")
        .await
        .unwrap();
    assert!(follower.saw_end_of(&turn).await);
    drop(follower);
    // Nodes that leave hold nothing any more.
    for node in &cluster.nodes {
        assert_eq!(node.terminate().await, Some(0), "{}", node.said());
        node.start().await;
        node.wait_until_ready().await;
    }
    let weeks = "UPDATE annals.head SET updated = updated - 3456000000000";
    cluster.execute(weeks).await;
    conversation
}

async fn archived(cluster: &Cluster) -> u64 {
    let status = cluster.operate(&["store", "status", "--json"]).await;
    let status: Value = serde_json::from_str(&status).unwrap();
    status["archived"]["conversations"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_conversation_comes_back_on_two_nodes_at_once_and_goes_on() {
    let Some(cluster) = Cluster::start(2, Duration::from_secs(5), None).await else {
        return;
    };
    let (client, mut chance) = (Client::of(&cluster), Chance::new(1, 1));
    let conversation = rested(&cluster, &client, &mut chance).await;
    let before = client.blocks(0, &conversation).await;
    let counted = cluster.operate(&["store", "archive", "--dry-run"]).await;
    assert!(counted.contains("would be archived"), "{counted}");
    assert_eq!(archived(&cluster).await, 0);
    let said = cluster.operate(&["store", "archive", "--limit", "100"]).await;
    assert!(said.contains("blocks archived"), "{said}");
    let away = archived(&cluster).await;
    assert!(away > 0, "{said}");
    let own = "SELECT count(*) FROM annals.block b JOIN annals.conversation c ON c.key = b.conversation WHERE c.id = ";
    let rows = format!("{own}'{conversation}'");
    assert_eq!(
        cluster.count(&rows).await,
        0,
        "its blocks are in the object alone"
    );

    // A listing needs none of them, and the object stays.
    let (status, listed) = client.send(1, "/v1/conversations", None, "").await.unwrap();
    assert_eq!(
        (status, listed["items"][0]["id"].as_str()),
        (200, Some(&*conversation)),
        "{listed}"
    );
    cluster
        .execute("UPDATE annals.artifact SET touched = touched - 3456000000000")
        .await;
    cluster.operate(&["store", "gc"]).await;
    assert_eq!(archived(&cluster).await, away);

    let reads = (0..8).map(|n| client.blocks(n % 2, &conversation));
    for read in futures::future::join_all(reads).await {
        assert_eq!(read, before);
    }
    assert_eq!(cluster.count(&rows).await, before.len() as i64);
    assert_eq!(archived(&cluster).await, away - 1);

    // Archived once more, it takes a turn as if nothing had been.
    let long_ago = "UPDATE annals.archive SET restored = restored - 3456000000000";
    cluster.execute(long_ago).await;
    cluster.operate(&["store", "archive"]).await;
    assert_eq!(cluster.count(&rows).await, 0);
    let mut follower = client.follow(&conversation, Chance::new(2, 2));
    let turn = client
        .prompt(&mut chance, &conversation, 2, "effect")
        .await
        .unwrap();
    assert!(follower.saw_end_of(&turn).await);
    drop(follower);
    let found = checks::after_healing(&cluster, &client, checks::SLACK).await;
    assert_eq!(found.wrong, Vec::<String>::new(), "{found:?}");
    assert_eq!((found.interrupted, found.completed), (0, 2), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_is_killed_between_upload_and_commit_changes_nothing() {
    let Some(cluster) = Cluster::start(1, Duration::from_secs(5), None).await else {
        return;
    };
    let (client, mut chance) = (Client::of(&cluster), Chance::new(1, 1));
    let conversation = rested(&cluster, &client, &mut chance).await;
    let before = client.blocks(0, &conversation).await;
    let proxy = FaultProxy::start(Upstream::Unix(cluster.socket().await)).await;
    // The statement by which blocks leave, after the object is there and before the transaction ends.
    proxy.swallow("DELETE FROM annals.block WHERE conversation = $1 RETURNING", 1);
    let store = format!("postgres://postgres@127.0.0.1:{}/a?sslmode=disable", proxy.port());
    let home = tempfile::tempdir().unwrap();
    let arguments = [
        "--store",
        &store,
        "--artifacts",
        cluster.artifacts(),
        "store",
        "archive",
    ];
    let mut archive = Command::new(env!("CARGO_BIN_EXE_annals"))
        .args(arguments)
        .env("ANNALS_HOME", home.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while proxy.swallowed() == 0 {
        assert!(began.elapsed() < PATIENCE, "it archives nothing");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    archive.kill().unwrap();
    archive.wait().unwrap();
    assert_eq!(archived(&cluster).await, 0);
    assert_eq!(client.blocks(0, &conversation).await, before);
    cluster
        .execute("UPDATE annals.artifact SET touched = touched - 3456000000000")
        .await;
    let swept = cluster.operate(&["store", "gc", "--json"]).await;
    let swept: Value = serde_json::from_str(&swept).unwrap();
    assert_eq!(swept["removed"], json!(1), "{swept}");
    assert_eq!(client.blocks(0, &conversation).await, before);
}
