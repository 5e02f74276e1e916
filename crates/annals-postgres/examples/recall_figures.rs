//! What memory search costs on PostgreSQL, beside SQLite in the same run: `cargo run -p annals-postgres --release --example recall_figures`.
//!
//! Conversations of prompts from a small vocabulary with a long tail; the index made in one go, then searches, each by
//! words and by meaning over the whole scope.

use std::error::Error;
use std::io::Write as _;
use std::time::{Duration, Instant};

use annals_embed::StaticTable;
use annals_postgres::{Address, Partitions, PostgresLog, PostgresOptions, init};
use annals_store::testing::{Says, key, prompt, query_scope, say};
use annals_store::{RecallIndex, SqliteLog, SqliteOptions, Store};
use annals_testbed::{Durability, Edition, PostgresServer};
use tokio_postgres::NoTls;

const SCOPE: &str = "t/p/u";
const CONVERSATIONS: u64 = 200;
const PROMPTS: u64 = 50;
const SEARCHES: u64 = 100;

/// The word of a number: a few are common, most are rare.
fn word(number: u64) -> String {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let rank = (mixed % 1_000) * (mixed % 7) * (mixed % 3);
    format!("word{rank}")
}

fn text(number: u64) -> String {
    let words: Vec<String> = (0..40).map(|n| word(number * 41 + n)).collect();
    words.join(" ")
}

struct Figures {
    indexed: Duration,
    searches: Vec<Duration>,
}

/// Fills a log that was opened without memory search, so that the index is made once and in one go.
async fn fill(store: &dyn Store) {
    for conversation in 0..CONVERSATIONS {
        let says: Vec<Says> = (0..PROMPTS)
            .map(|n| prompt(&text(conversation * PROMPTS + n)))
            .collect();
        say(store, &key(SCOPE, &format!("c{conversation}")), &says).await;
    }
}

async fn measure(recall: &dyn RecallIndex) -> Result<Figures, Box<dyn Error>> {
    let begun = Instant::now();
    recall.catch_up().await?;
    let indexed = begun.elapsed();
    let mut searches = Vec::new();
    for number in 0..SEARCHES {
        let asked = format!("{} {} {}", word(number), word(number + 77), word(number * 3));
        let begun = Instant::now();
        recall.search(query_scope(SCOPE, &asked)).await?;
        searches.push(begun.elapsed());
    }
    // The first one loads the vectors.
    searches.remove(0);
    searches.sort();
    Ok(Figures { indexed, searches })
}

fn tell(name: &str, figures: &Figures) -> std::io::Result<()> {
    let passages = (CONVERSATIONS * PROMPTS) as f64;
    let at = |share: usize| figures.searches[figures.searches.len() * share / 100].as_secs_f64() * 1_000.0;
    writeln!(
        std::io::stdout(),
        "{name}: {:.0} passages/s indexed, search p50 {:.1} ms, p95 {:.1} ms",
        passages / figures.indexed.as_secs_f64(),
        at(50),
        at(95)
    )
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = PostgresServer::start(Edition::Debian, Durability::Synced, &[]);
    let server = server.ok_or("PostgreSQL is not installed")?;
    let url = server.database("figures", None).await;
    let address = Address::parse(&url)?;
    init(&address, Partitions::NONE).await?;
    fill(&PostgresLog::open(address.clone(), PostgresOptions::default()).await?).await;
    let options = PostgresOptions::default().recall(StaticTable::embedder());
    let postgres = PostgresLog::open(address, options).await?;
    let recall = postgres.recall().ok_or("no memory search")?;
    tell("PostgreSQL", &measure(recall).await?)?;
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    let row = client
        .query_one(
            "SELECT (sum(pg_total_relation_size(c.oid)) / (SELECT count(*) FROM annals.recall_passage))::int8
             FROM pg_class c WHERE c.relnamespace = 'annals'::regnamespace AND c.relkind = 'r'
             AND c.relname LIKE 'recall%'",
            &[],
        )
        .await?;
    writeln!(
        std::io::stdout(),
        "PostgreSQL: {} bytes a passage of {} bytes",
        row.get::<_, i64>(0),
        text(1).len()
    )?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("annals.db");
    fill(&SqliteLog::open(&path, SqliteOptions::default())?).await;
    let options = SqliteOptions::default().recall(StaticTable::embedder());
    let sqlite = SqliteLog::open(&path, options)?;
    let recall = sqlite.recall().ok_or("no memory search")?;
    tell("SQLite", &measure(recall).await?)?;
    Ok(())
}
