//! `cargo xtask growth`: what an append, a claim and a poll cost in an empty log and in one of ten million blocks.
//!
//! The log is filled by statements of the server, past the program: only what grows is wanted, not how.

#![allow(clippy::print_stdout, reason = "figures are for people")]

#[path = "../benches/times/mod.rs"]
mod times;

use std::time::{Duration, Instant};

use annals_core::ids::Seq;
use annals_postgres::{Address, Partitions, PostgresLog, PostgresOptions, init};
use annals_store::testing::{after, conversation, new_conversation, owner, text_block};
use annals_store::{BlockLog as _, Claims as _, Inbox as _, Post};
use annals_testbed::{Durability, Edition, PostgresServer};
use times::Times;
use tokio_postgres::{Client, NoTls};

const TTL: Duration = Duration::from_secs(600);
const BLOCKS_EACH: u64 = 50;
const BODY_BYTES: usize = 400;
/// Tails that a node polls at once.
const FOLLOWED: i64 = 1_000;
/// Blocks that one statement fills in.
const FILLED_AT_ONCE: u64 = 1_000_000;

/// What was measured at one size.
struct Measured {
    plain: Times,
    append: Times,
    claim: Times,
    poll: Times,
}

#[tokio::main]
async fn main() {
    let blocks = std::env::args().nth(1).and_then(|blocks| blocks.parse().ok());
    let blocks: u64 = blocks.unwrap_or(10_000_000);
    let settings = [
        "shared_buffers=512MB",
        "max_wal_size=4GB",
        "wal_level=minimal",
        "max_wal_senders=0",
    ];
    let Some(server) = PostgresServer::start(Edition::Debian, Durability::Synced, &settings) else {
        return;
    };
    let url = server.database("growth", None).await;
    let address = Address::parse(&url).expect("a URL");
    init(&address, Partitions::NONE).await.expect("tables");
    let log = PostgresLog::open(address, PostgresOptions::default())
        .await
        .expect("a log");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    let table = "CREATE TABLE plain (id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)";
    client.batch_execute(table).await.expect("a table");
    let (log, client, empty) = measured(log, client, "empty").await;
    let began = Instant::now();
    fill(&client, blocks).await;
    println!(
        "filled with {blocks} blocks of {BODY_BYTES} bytes in {:.0?}",
        began.elapsed()
    );
    let (_, client, full) = measured(log, client, "full").await;
    let size = "SELECT pg_size_pretty(pg_database_size('growth'))";
    let size: String = client.query_one(size, &[]).await.expect("a size").get(0);
    println!("the database takes {size}");
    let appends = full.append.against(&full.plain) / empty.append.against(&empty.plain);
    println!("append against a plain insert: {appends:.2} x what it was in the empty log");
    // An empty log has fewer tails than are polled: only the full one's time says something.
    println!("claim: {:.2} x", full.claim.against(&empty.claim));
}

/// Measures on a task, as a conversation's owner is.
async fn measured(log: PostgresLog, client: Client, size: &'static str) -> (PostgresLog, Client, Measured) {
    let measuring = tokio::spawn(async move {
        let measured = measure(&log, &client, size).await;
        (log, client, measured)
    });
    let (log, client, measured) = measuring.await.expect("a measurement");
    for (what, times) in [
        ("plain insert", &measured.plain),
        ("append", &measured.append),
        ("claim of one", &measured.claim),
        ("poll of a thousand tails", &measured.poll),
    ] {
        times.say(&format!("{size}: {what}"));
    }
    (log, client, measured)
}

async fn measure(log: &PostgresLog, client: &Client, size: &str) -> Measured {
    let mut measured = Measured {
        plain: Times::default(),
        append: Times::default(),
        claim: Times::default(),
        poll: Times::default(),
    };
    let body = "x".repeat(BODY_BYTES);
    log.create(new_conversation(size)).await.expect("a conversation");
    let lease = log
        .acquire(&conversation(size), &owner("a"), TTL)
        .await
        .expect("a lease");
    let plain = client
        .prepare("INSERT INTO plain (body) VALUES ($1)")
        .await
        .expect("a statement");
    for number in 1..=500 {
        let begun = Instant::now();
        client
            .execute(&plain, &[&body.as_bytes()])
            .await
            .expect("an insert");
        measured.plain.0.push(begun.elapsed());
        let blocks = vec![text_block(number, &body)];
        let begun = Instant::now();
        let appended = log
            .append(&lease, after(Seq::try_new(number - 1).ok(), blocks))
            .await;
        measured.append.0.push(begun.elapsed());
        appended.expect("an append");
    }
    for number in 0..100 {
        let key = conversation(&format!("{size}-{number}"));
        log.create(new_conversation(key.id.as_str()))
            .await
            .expect("a conversation");
        log.post(&key, Post::new("key", "prompt", "go"))
            .await
            .expect("a post");
        let begun = Instant::now();
        let claimed = log.claim(&owner("a"), TTL, 1).await.expect("a claim");
        measured.claim.0.push(begun.elapsed());
        assert_eq!(claimed.len(), 1);
    }
    let poll = "SELECT conversation, tail, posted FROM annals.head WHERE conversation = ANY ($1)";
    let poll = client.prepare(poll).await.expect("a statement");
    let most: i64 = client
        .query_one("SELECT max(conversation) FROM annals.head", &[])
        .await
        .expect("heads")
        .get(0);
    for round in 0..100 {
        let followed: Vec<i64> = (0..FOLLOWED)
            .map(|n| (n * 7_919 + round * 104_729) % most + 1)
            .collect();
        let begun = Instant::now();
        client.query(&poll, &[&followed]).await.expect("heads");
        measured.poll.0.push(begun.elapsed());
    }
    measured
}

/// Adds conversations of fifty blocks until there are `blocks` of them.
async fn fill(client: &Client, blocks: u64) {
    client
        .batch_execute("SET synchronous_commit = off")
        .await
        .expect("a setting");
    let mut left = blocks;
    while left > 0 {
        let some = left.clamp(BLOCKS_EACH, FILLED_AT_ONCE);
        let statement = format!(
            "WITH c AS (INSERT INTO annals.conversation (scope_key, id, created, cut, sum)
                SELECT (SELECT min(key) FROM annals.scope), 'filled-' || {left} || '-' || n, 0, 0, 0
                FROM generate_series(1, {conversations}) n RETURNING key, scope_key),
             h AS (INSERT INTO annals.head (conversation, scope_key, tail, updated)
                SELECT key, scope_key, {BLOCKS_EACH}, 0 FROM c)
             INSERT INTO annals.block (conversation, seq, ts, tokens, sum, kind, author, turn, mime, body)
                SELECT key, seq, 0, 100, 0, 'assistant.completion'::bytea, 'assistant'::bytea, 'turn_0001'::bytea,
                    'text/plain'::bytea,
                    convert_to(repeat('x', {BODY_BYTES}), 'UTF8')
                FROM c, generate_series(1, {BLOCKS_EACH}) seq",
            conversations = some / BLOCKS_EACH
        );
        client.batch_execute(&statement).await.expect("filled");
        left = left.saturating_sub(some);
    }
    client
        .batch_execute("SET synchronous_commit = on")
        .await
        .expect("a setting");
    client.batch_execute("VACUUM (ANALYZE)").await.expect("a vacuum");
    client.batch_execute("CHECKPOINT").await.expect("a checkpoint");
}
