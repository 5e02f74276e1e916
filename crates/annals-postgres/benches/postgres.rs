//! What appends cost on PostgreSQL, beside what its disk and a plain insert cost in the same minute.
//!
//! `cargo xtask bench postgres`. Contestants take turns, so compare the ratios. A sync of a disk is quick or slow as the
//! machine below likes; how much of an append is sync and how much is work shows in both quarters of the times.

#![allow(clippy::print_stdout)]

mod times;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use annals_core::ids::Seq;
use annals_figures::{Figure, full_or_quick};
use annals_postgres::{Address, Partitions, PostgresLog, PostgresOptions, init, status};
use annals_store::testing::{after, conversation, new_conversation, owner, text_block};
use annals_store::{BlockLog, BlockLogExt as _, Lease};
use annals_testbed::{Durability, Edition, PostgresServer};
use times::Times;
use tokio_postgres::{Client, NoTls};

const TTL: Duration = Duration::from_secs(600);
const BLOCK_BYTES: usize = 1_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let settings = ["shared_buffers=256MB", "max_wal_size=4GB"];
        let Some(server) = PostgresServer::start(Edition::Debian, Durability::Synced, &settings) else {
            return;
        };
        let url = server.database("figures", None).await;
        let address = Address::parse(&url).expect("a URL");
        init(&address, Partitions::NONE).await.expect("tables");
        let log = PostgresLog::open(address.clone(), PostgresOptions::default());
        let log = Arc::new(log.await.expect("a log"));
        let file = File::create(server.socket_folder().join("bare")).expect("a file on the server's disk");
        let client = connect(&url).await;
        // On a task, as the owner of a conversation is: awaited from `main`, each step would change threads.
        let turns = tokio::spawn(take_turns(Arc::clone(&log), client, file));
        turns.await.expect("turns");
        for conversations in [64, 256] {
            merged(&log, conversations).await;
        }
        let begun = Instant::now();
        let read = log.read_all(&conversation("lonely")).await.expect("a read").len();
        println!("read {read} blocks in {:?}", begun.elapsed());
        // The server gathers its counts for a second.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let in_place = status(&address).await.expect("a status").in_place_percent;
        tell(
            Figure::new(
                "heads of PostgreSQL updated in place",
                in_place.unwrap_or_default() as f64,
                "%",
            )
            .at_least(95.0),
        );
    });
}

fn tell(figure: Figure) {
    println!("{figure}");
    figure.tell();
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    let table = "CREATE TABLE plain (id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)";
    client.batch_execute(table).await.expect("a table");
    client
}

async fn take_turns(log: Arc<PostgresLog>, client: Client, file: File) {
    let lease = begin(&log, "lonely").await;
    let plain = client
        .prepare("INSERT INTO plain (body) VALUES ($1)")
        .await
        .expect("a statement");
    let body = vec![b'x'; BLOCK_BYTES];
    let (mut bare, mut inserted, mut appended) = (Times::default(), Times::default(), Times::default());
    for n in 1..=full_or_quick(2_000, 300) {
        let begun = Instant::now();
        file.write_all_at(&body, n * BLOCK_BYTES as u64).expect("a write");
        file.sync_data().expect("a sync");
        bare.0.push(begun.elapsed());
        let begun = Instant::now();
        client.execute(&plain, &[&body]).await.expect("an insert");
        inserted.0.push(begun.elapsed());
        let begun = Instant::now();
        append(&log, &lease, n).await;
        appended.0.push(begun.elapsed());
    }
    bare.say("write and fdatasync of 1 KB");
    inserted.say("insert of 1 KB, prepared, committed");
    appended.say("append of a block of 1 KB");
    let figure = |name: &str, value| Figure::new(format!("PostgreSQL: {name}"), value, "×");
    tell(
        figure(
            "append of 1 KB against a bare write and sync",
            appended.against(&bare),
        )
        .at_most(1.5),
    );
    tell(figure(
        "plain insert of 1 KB against a bare write and sync",
        inserted.against(&bare),
    ));
    tell(figure(
        "append of 1 KB against a plain insert",
        appended.against(&inserted),
    ));
}

async fn begin(log: &PostgresLog, name: &str) -> Lease {
    log.create(new_conversation(name)).await.expect("a conversation");
    let lease = log.acquire(&conversation(name), &owner("a"), TTL).await;
    lease.expect("a lease")
}

async fn append(log: &PostgresLog, lease: &Lease, number: u64) {
    let block = text_block(number, &"x".repeat(BLOCK_BYTES));
    let expected = Seq::try_new(number - 1).ok();
    log.append(lease, after(expected, vec![block]))
        .await
        .expect("an append");
}

/// Conversations that append one block after the other, all at once.
async fn merged(log: &Arc<PostgresLog>, conversations: u64) {
    let mut leases = Vec::new();
    for n in 0..conversations {
        leases.push(begin(log, &format!("m{conversations}-{n}")).await);
    }
    let (begun, lasts) = (Instant::now(), Duration::from_secs(full_or_quick(10, 4)));
    let writers = leases.into_iter().map(|lease| {
        let log = Arc::clone(log);
        tokio::spawn(async move {
            let mut times = Vec::new();
            while begun.elapsed() < lasts {
                let sent = Instant::now();
                append(&log, &lease, times.len() as u64 + 1).await;
                times.push(sent.elapsed());
            }
            times
        })
    });
    let mut times = Times::default();
    for written in futures::future::join_all(writers).await {
        times.0.extend(written.expect("a writer"));
    }
    times.say(&format!("append with {conversations} conversations"));
    let name = format!("PostgreSQL: durable 1 KB blocks/s, {conversations} conversations, 1 an append");
    let blocks = times.0.len() as f64 / begun.elapsed().as_secs_f64();
    tell(Figure::new(name, blocks, "blocks/s").at_least(10_000.0));
}
