//! Memory search over archived conversations.

use std::sync::Arc;

use annals_embed::StaticTable;
use annals_store::recall::{Recall as _, RecallIndex as _};
use annals_store::testing::{Archiving, Says, answer, key, prompt, query_scope, say};
use object_store::memory::InMemory;

use super::node::{Node, debian, made, node};

async fn found(node: &Node, text: &str) -> Vec<String> {
    let found = node
        .log
        .recall()
        .unwrap()
        .search(query_scope("t/p/u", text))
        .await;
    let found = found.unwrap();
    assert_eq!(found.shortfall, None);
    found.hits.into_iter().map(|hit| hit.text).collect()
}

async fn said(node: &Node) {
    for (name, about) in [
        ("c1", "invoices of Acme"),
        ("c2", "weather in Lisbon"),
        ("c3", "fonts of the report"),
    ] {
        let says: [Says; 2] = [
            prompt(&format!("Tell me of the {about}")),
            answer(&format!("The {about} are fine.")),
        ];
        say(&*node.log, &key("t/p/u", name), &says).await;
    }
    // The leases of what was said run out.
    node.clock.advance(std::time::Duration::from_secs(60));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_archived_is_found_and_only_what_is_found_comes_back() {
    let Some(server) = debian() else { return };
    let (url, objects, clock) = (
        made(&server, "a").await,
        Arc::new(InMemory::new()),
        Archiving::clock(),
    );
    let node = node(&url, objects, &clock, Some(StaticTable::embedder())).await;
    said(&node).await;
    assert_eq!(node.archive_all().await, 3);
    let passages = "SELECT count(*) FROM annals.recall_passage";
    assert_eq!(
        server.count("a", passages).await,
        6,
        "what was not in the index yet has come in"
    );
    let mut query = query_scope("t/p/u", "bills of acme");
    query.limit = 1;
    let found = node.log.recall().unwrap().search(query).await.unwrap();
    assert!(found.hits[0].text.contains("Acme"), "{found:?}");
    let archived = node.archived().await;
    assert!((1..3).contains(&archived), "{archived} are archived still");
    assert_eq!(server.count("a", passages).await, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_archived_before_it_was_indexed_is_found_and_a_rebuild_finds_it_again() {
    let Some(server) = debian() else { return };
    let (url, objects, clock) = (
        made(&server, "a").await,
        Arc::new(InMemory::new()),
        Archiving::clock(),
    );
    let without = node(&url, objects.clone(), &clock, None).await;
    said(&without).await;
    assert_eq!(without.archive_all().await, 3);
    let with = node(&url, objects, &clock, Some(StaticTable::embedder())).await;
    assert!(found(&with, "Lisbon").await[0].contains("Lisbon"));
    assert_eq!(
        with.archived().await,
        0,
        "what is not in the index has to be read"
    );
    clock.advance(std::time::Duration::from_secs(3_600));
    assert_eq!(with.archive_all().await, 3);
    with.log.recall().unwrap().reindex(&mut |_| true).await.unwrap();
    assert!(found(&with, "Lisbon").await[0].contains("Lisbon"));
    assert_eq!(
        server
            .count("a", "SELECT count(*) FROM annals.recall_passage")
            .await,
        6
    );
}
