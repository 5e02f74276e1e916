//! `cargo xtask failover`: kills the leader of three servers under Patroni while conversations grow, and compares what is
//! there with what was acknowledged.
//!
//! With a quorum nothing may be missing. Asynchronously something is, and every conversation that lost blocks has to have
//! been told so.

#![allow(clippy::print_stdout, reason = "what was found is for people")]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use annals_core::ids::Seq;
use annals_postgres::{Address, Partitions, PostgresLog, PostgresOptions, init};
use annals_store::testing::{after, conversation, new_conversation, owner, text_block};
use annals_store::{BlockLog, BlockLogExt as _, Lease, LogError};
use annals_testbed::{PatroniSet, Replication};

const CONVERSATIONS: usize = 32;
const BEFORE: u64 = 2_000;
const AFTER: u64 = 2_000;
const TTL: Duration = Duration::from_secs(600);

/// More than a failover takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// What became of one conversation.
struct Ended {
    lease: Lease,
    acknowledged: u64,
    longest_wait: Duration,
    error: Option<LogError>,
}

/// What all writers share.
struct Shared {
    log: PostgresLog,
    is_over: AtomicBool,
    acknowledged: AtomicU64,
    /// Writers that do not append any more.
    ended: AtomicU64,
}

fn main() -> ExitCode {
    let replication = match std::env::args().nth(1).as_deref() {
        Some("quorum") => Replication::Quorum,
        Some("asynchronous") => Replication::Asynchronous,
        _ => {
            println!("which replication? `quorum` or `asynchronous`");
            return ExitCode::from(2);
        }
    };
    let Some(set) = PatroniSet::start(replication) else {
        println!("Patroni, etcd or PostgreSQL is not installed: `cargo xtask setup` installs them");
        return ExitCode::FAILURE;
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(run(set, replication))
}

async fn run(mut set: PatroniSet, replication: Replication) -> ExitCode {
    let address = Address::parse(&set.url("postgres")).expect("a URL");
    init(&address, Partitions::NONE).await.expect("tables");
    let log = PostgresLog::open(address, PostgresOptions::default().patience(PATIENCE)).await;
    let shared = Arc::new(Shared {
        log: log.expect("a log"),
        is_over: AtomicBool::default(),
        acknowledged: AtomicU64::default(),
        ended: AtomicU64::default(),
    });
    let mut writers = Vec::new();
    for number in 0..CONVERSATIONS {
        let name = format!("c{number}");
        shared
            .log
            .create(new_conversation(&name))
            .await
            .expect("a conversation");
        let lease = shared.log.acquire(&conversation(&name), &owner("a"), TTL).await;
        writers.push(tokio::spawn(write(Arc::clone(&shared), lease.expect("a lease"))));
    }
    shared.wait_for(BEFORE).await;
    if replication == Replication::Asynchronous {
        set.hold_up_standbys();
        shared.wait_for(BEFORE).await;
    }
    let took = tokio::task::block_in_place(|| set.lose_leader());
    shared.wait_for(AFTER).await;
    shared.is_over.store(true, Ordering::SeqCst);
    let mut ended = Vec::new();
    for writer in writers {
        ended.push(writer.await.expect("a writer"));
    }
    println!("another leader after {took:.1?}");
    judge(&shared, replication, ended).await
}

impl Shared {
    /// Waits until this many more appends were acknowledged, or nobody is left.
    async fn wait_for(&self, more: u64) {
        let goal = self.acknowledged.load(Ordering::SeqCst) + more;
        while self.acknowledged.load(Ordering::SeqCst) < goal
            && self.ended.load(Ordering::SeqCst) < CONVERSATIONS as u64
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn text(lease: &Lease, number: u64) -> String {
    format!("{}-{number}", lease.key().id)
}

/// Appends one to three blocks at a time until it is told to stop or refused.
async fn write(shared: Arc<Shared>, lease: Lease) -> Ended {
    let (mut tail, mut longest_wait, mut error) = (0, Duration::ZERO, None);
    while !shared.is_over.load(Ordering::SeqCst) {
        let grows = tail % 3 + 1;
        let blocks = (tail + 1..=tail + grows)
            .map(|n| text_block(n, &text(&lease, n)))
            .collect();
        let sent = Instant::now();
        if let Err(refused) = shared
            .log
            .append(&lease, after(Seq::try_new(tail).ok(), blocks))
            .await
        {
            error = Some(refused);
            break;
        }
        tail += grows;
        longest_wait = longest_wait.max(sent.elapsed());
        shared.acknowledged.fetch_add(1, Ordering::SeqCst);
    }
    shared.ended.fetch_add(1, Ordering::SeqCst);
    Ended {
        lease,
        acknowledged: tail,
        longest_wait,
        error,
    }
}

/// Compares every block with what was acknowledged.
async fn judge(shared: &Shared, replication: Replication, ended: Vec<Ended>) -> ExitCode {
    let (mut lost, mut told, mut wrong) = (0, 0, Vec::new());
    for Ended {
        lease,
        acknowledged,
        error,
        ..
    } in &ended
    {
        let blocks = shared.log.read_all(lease.key()).await.expect("blocks");
        let is_right = |(number, block): (u64, &annals_core::block::Block)| {
            block.seq.get() == number && block.text() == Some(text(lease, number).as_str())
        };
        if !(1..).zip(&blocks).all(is_right) {
            wrong.push(format!(
                "{} holds something else than was written",
                lease.key().id
            ));
        }
        let missing = acknowledged.saturating_sub(blocks.len() as u64);
        lost += missing;
        match error {
            Some(LogError::Lost { .. }) if missing > 0 => told += 1,
            None if missing == 0 && blocks.len() as u64 == *acknowledged => {}
            None if missing == 0 => wrong.push(format!("{} has blocks that nobody wrote", lease.key().id)),
            error => wrong.push(format!(
                "{} lost {missing} blocks and was told {error:?}",
                lease.key().id
            )),
        }
    }
    let longest = ended
        .iter()
        .map(|ended| ended.longest_wait)
        .max()
        .unwrap_or_default();
    println!(
        "{replication:?}: {} appends acknowledged, longest wait {longest:.1?}, {lost} blocks lost in {told} conversations, \
         which were told so",
        shared.acknowledged.load(Ordering::SeqCst)
    );
    match replication {
        Replication::Quorum if lost > 0 => wrong.push("a quorum lost blocks".to_owned()),
        Replication::Asynchronous if lost == 0 => {
            wrong.push("nothing was lost: the standbys were not held up".to_owned())
        }
        _ => {}
    }
    for line in &wrong {
        println!("wrong: {line}");
    }
    match wrong.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
