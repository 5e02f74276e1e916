//! What appends cost on PostgreSQL, beside a bare write and sync of the same disk in the same minute:
//! `cargo run -p annals-postgres --example postgres_figures`.

use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use annals_postgres::{Address, Partitions, PostgresLog, PostgresOptions, init, status};
use annals_store::testing::{after, conversation, new_conversation, owner, text_block};
use annals_store::{BlockLog, BlockLogExt as _, Lease};
use annals_testbed::{Durability, Edition, PostgresServer};

const TTL: Duration = Duration::from_secs(600);
const BLOCK_BYTES: usize = 1_000;
const LONELY: u64 = 300;
const MERGED_FOR: Duration = Duration::from_secs(8);

#[tokio::main]
async fn main() {
    let settings = ["shared_buffers=256MB", "max_wal_size=4GB"];
    let Some(server) = PostgresServer::start(Edition::Debian, Durability::Synced, &settings) else {
        return;
    };
    let url = server.database("figures", None).await;
    let address = Address::parse(&url).expect("a URL");
    init(&address, Partitions::NONE).await.expect("tables");
    let log = PostgresLog::open(address.clone(), PostgresOptions::default());
    let log = Arc::new(log.await.expect("a log"));

    let lease = begin(&log, "lonely").await;
    let (mut bare, mut lonely) = (Vec::new(), Vec::new());
    let file = tempfile_beside(&server);
    for n in 1..=LONELY {
        let begun = Instant::now();
        file.write_all_at(&[b'x'; BLOCK_BYTES], n * BLOCK_BYTES as u64)
            .expect("a write");
        file.sync_data().expect("a sync");
        bare.push(begun.elapsed());
        let begun = Instant::now();
        append(&log, &lease, n, 1).await;
        lonely.push(begun.elapsed());
    }
    let (bare, lonely) = (median(bare), median(lonely));
    let ratio = lonely.as_secs_f64() / bare.as_secs_f64();
    say(&format!(
        "bare write+fdatasync p50 {bare:?}; append p50 {lonely:?}: {ratio:.2} x"
    ));

    for conversations in [64_u64, 256] {
        let (blocks, p50) = merged(&log, conversations).await;
        say(&format!(
            "{conversations} conversations at once: {blocks:.0} blocks/s, p50 {p50:?}"
        ));
    }
    let begun = Instant::now();
    let read = log.read_all(&conversation("lonely")).await.expect("a read").len();
    say(&format!("read {read} blocks in {:?}", begun.elapsed()));
    // The server gathers its counts for a second.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let found = status(&address).await.expect("a status");
    say(&format!("heads updated in place: {:?} %", found.in_place_percent));
}

fn say(line: &str) {
    // A figure that nobody reads is lost without harm.
    let _closed = writeln!(std::io::stdout(), "{line}");
}

/// A file on the disk of the server.
fn tempfile_beside(server: &PostgresServer) -> std::fs::File {
    std::fs::File::create(server.socket_folder().join("bare")).expect("a file")
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

async fn begin(log: &PostgresLog, name: &str) -> Lease {
    log.create(new_conversation(name)).await.expect("a conversation");
    let lease = log.acquire(&conversation(name), &owner("a"), TTL).await;
    lease.expect("a lease")
}

async fn append(log: &PostgresLog, lease: &Lease, from: u64, count: u64) {
    let text = "x".repeat(BLOCK_BYTES);
    let blocks = (from..from + count).map(|n| text_block(n, &text)).collect();
    let expected = annals_core::ids::Seq::try_new(from - 1).ok();
    log.append(lease, after(expected, blocks))
        .await
        .expect("an append");
}

/// Blocks a second and the median time of an append of one block, over conversations that append all the time.
async fn merged(log: &Arc<PostgresLog>, conversations: u64) -> (f64, Duration) {
    let mut leases = Vec::new();
    for n in 0..conversations {
        leases.push(begin(log, &format!("m{conversations}-{n}")).await);
    }
    let begun = Instant::now();
    let writers = leases.into_iter().map(|lease| {
        let log = Arc::clone(log);
        tokio::spawn(async move {
            let mut times = Vec::new();
            while begun.elapsed() < MERGED_FOR {
                let sent = Instant::now();
                append(&log, &lease, times.len() as u64 + 1, 1).await;
                times.push(sent.elapsed());
            }
            times
        })
    });
    let mut times = Vec::new();
    for written in futures::future::join_all(writers).await {
        times.extend(written.expect("a writer"));
    }
    (times.len() as f64 / begun.elapsed().as_secs_f64(), median(times))
}
