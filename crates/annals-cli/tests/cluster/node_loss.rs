//! Turns on nodes that are killed, frozen, cut off and restarted: nothing acknowledged is lost, nothing happens twice.
//!
//! `cargo xtask node-loss --seed S --turns N` runs the long form. Statements without one of their conditions show that the
//! checks would notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use annals_opensandbox_double::{Double, DoubleOptions};
use annals_testbed::S3Server;
use tokio_util::sync::CancellationToken;

use super::chance::Chance;
use super::checks::{self, Found};
use super::client::Client;
use super::faults;
use super::nodes::{Beside, Cluster, Mutant};
use super::promises;

/// How a run goes.
struct Run {
    seed: u64,
    turns: u64,
    nodes: usize,
    /// Conversations that have turns at the same time.
    at_once: u64,
    /// Clients that follow them, at least two each.
    followers: u64,
    lease: Duration,
    /// Milliseconds between two faults of a node, at least and at most.
    pause: (u64, u64),
    mutant: Option<Mutant>,
}

/// A conversation ends after this many turns: what a turn costs grows with those before it.
const TURNS_EACH: usize = 8;

impl Run {
    async fn perform(&self) -> Option<Found> {
        self.perform_beside(Beside::default()).await
    }

    async fn perform_beside(&self, beside: Beside<'_>) -> Option<Found> {
        let cluster = Cluster::start_with(self.nodes, self.lease, self.mutant, beside).await?;
        let client = Client::of(&cluster);
        let (stop, next) = (CancellationToken::new(), Arc::new(AtomicU64::new(1)));
        let began = Instant::now();
        let drivers = (0..self.at_once).map(|of| {
            let plan = Load {
                next: next.clone(),
                turns: self.turns,
                followers: (self.followers / self.at_once).max(2),
                // The last turns run when the last fault is over.
                all_posted: stop.clone(),
                deletes: self.mutant.is_none(),
            };
            tokio::spawn(drive(client.clone(), plan, Chance::new(self.seed, of)))
        });
        let drivers: Vec<_> = drivers.collect();
        let load = async {
            futures::future::join_all(drivers).await;
            stop.cancel();
        };
        let faults = faults::rage(&cluster, &client, (self.seed, self.pause), &stop);
        let (struck, ()) = tokio::join!(faults, load);
        let took = began.elapsed();
        let (mut found, latest) = self.judge(&cluster, &client, struck.healed).await;
        let swallowed: u64 = cluster.nodes.iter().map(|node| node.proxy.swallowed()).sum();
        let (reconnected, deltas, deleted, heard) = {
            let parts = client.record.parts();
            (
                parts.reconnected,
                parts.deltas,
                parts.deleted,
                parts.heard.clone(),
            )
        };
        let (median, p95) = promises::delays(&cluster, &heard).await;
        eprintln!(
            "seed {}: {} turns in {took:.1?}, {} followers, faults {:?}, {swallowed} answers swallowed, {reconnected} reconnections, \
             {deltas} deltas, {deleted} turns deleted, the last turn ended {latest:.1?} after the last fault, blocks reached \
             followers at other nodes within {median:.1?} (median) and {p95:.1?} (95 %) all faults included, {found:?}",
            self.seed,
            self.turns,
            self.followers.max(self.at_once * 2),
            struck.counts
        );
        found.completed += deleted;
        found.wrong.truncate(20);
        Some(found)
    }

    /// Everything that is to hold, and how long after the last fault the last turn ended.
    async fn judge(&self, cluster: &Cluster, client: &Client, healed: Instant) -> (Found, Duration) {
        // What is sure to be found wrong need not be waited for.
        let slack = match self.mutant {
            Some(_) => Duration::ZERO,
            None => checks::SLACK,
        };
        let mut found = checks::after_healing(cluster, client, slack).await;
        if self.mutant.is_some() {
            let rewritten: u64 = cluster.nodes.iter().map(|node| node.proxy.rewritten()).sum();
            assert!(rewritten > 0, "the statement is not written like this any more");
        }
        let (acknowledged, times, garbage) = {
            let parts = client.record.parts();
            let acknowledged = parts.acknowledged.clone();
            (acknowledged, parts.times.clone(), parts.garbage.clone())
        };
        let turns = acknowledged.iter().map(|(turn, (_, number))| (turn, number));
        let within = cluster.lease * 3 + slack;
        let latest = promises::check_ends(turns, &times, (healed, within), &mut found);
        promises::check_garbage(cluster, &garbage, &mut found).await;
        promises::check_given_up(cluster, self.turns, &mut found).await;
        (found, latest)
    }
}

/// What one of those who post turns is to do.
struct Load {
    next: Arc<AtomicU64>,
    turns: u64,
    followers: u64,
    /// Fires when all turns are posted.
    all_posted: CancellationToken,
    /// Whether conversations that are done with are deleted now and then.
    deletes: bool,
}

/// Posts turns to one conversation after the other, each to any node, and follows them over any nodes.
async fn drive(client: Client, load: Load, mut chance: Chance) {
    loop {
        let Some(conversation) = client.new_conversation(&mut chance).await else {
            return;
        };
        let follow = |of| client.follow(&conversation, Chance::new(chance.next(), of));
        let mut followers: Vec<_> = (0..load.followers).map(follow).collect();
        for _ in 0..TURNS_EACH {
            let number = load.next.fetch_add(1, Ordering::SeqCst);
            if number > load.turns {
                return;
            }
            const PLANS: [&str; 5] = [
                "effect",
                "write effect",
                "effect=0.3 effect",
                "",
                "effect=0.1 write effect",
            ];
            let (plan, pace) = (PLANS[chance.below(PLANS.len())], chance.between(0, 40));
            let plan = format!("{plan} pace={pace}");
            let Some(turn) = client.prompt(&mut chance, &conversation, number, &plan).await else {
                return;
            };
            if number == load.turns {
                load.all_posted.cancel();
            }
            if chance.below(4) == 0 {
                client.steer(&mut chance, &conversation, &turn, number).await;
            }
            for follower in &mut followers {
                if !follower.saw_end_of(&turn).await {
                    return client
                        .record
                        .wrong(format!("turn {number} of {conversation} does not end"));
                }
            }
        }
        drop(followers);
        if load.deletes && chance.below(3) == 0 {
            client.delete(&mut chance, &conversation).await;
        }
    }
}

fn asked(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|value| value.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_are_killed_frozen_and_cut_off_lose_and_repeat_nothing() {
    let run = Run {
        seed: asked("ANNALS_NODE_LOSS_SEED").unwrap_or(1),
        turns: asked("ANNALS_NODE_LOSS_TURNS").unwrap_or(1_000),
        nodes: asked("ANNALS_NODE_LOSS_NODES").unwrap_or(3) as usize,
        at_once: asked("ANNALS_NODE_LOSS_AT_ONCE").unwrap_or(24),
        followers: asked("ANNALS_NODE_LOSS_FOLLOWERS").unwrap_or(0),
        lease: Duration::from_secs(asked("ANNALS_NODE_LOSS_LEASE").unwrap_or(2)),
        pause: (200, asked("ANNALS_NODE_LOSS_PAUSE").unwrap_or(5_000)),
        mutant: None,
    };
    let Some(found) = run.perform().await else { return };
    assert_eq!(found.wrong, Vec::<String>::new());
    assert_eq!((found.completed + found.given_up) as u64, run.turns);
}

/// The same with artifacts in a bucket and commands in remote sandboxes, and faults between nodes and those. What a command does
/// there nobody outside can see, so that effects are not counted.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_lose_their_bucket_and_their_sandboxes_lose_no_turn_and_leave_no_sandbox() {
    let Some(bucket) = S3Server::moto() else { return };
    let double = Double::start(DoubleOptions::default()).await.unwrap();
    let port = double.url().rsplit(':').next().unwrap().parse().unwrap();
    let run = Run {
        seed: asked("ANNALS_NODE_LOSS_SEED").unwrap_or(1),
        turns: asked("ANNALS_NODE_LOSS_REMOTE_TURNS").unwrap_or(40),
        nodes: 2,
        at_once: 4,
        followers: 0,
        lease: Duration::from_secs(3),
        pause: (500, 5_000),
        mutant: None,
    };
    let beside = Beside {
        bucket: Some(&bucket),
        sandboxes: Some(port),
    };
    let Some(found) = run.perform_beside(beside).await else {
        return;
    };
    assert_eq!(found.wrong, Vec::<String>::new());
    assert_eq!((found.completed + found.given_up) as u64, run.turns);
    assert_eq!(checks::of_sandboxes(&double), Vec::<String>::new());
}

/// A short run with a statement that lacks a condition; what the checks say of it.
async fn mutated(mutant: Mutant) -> Option<Vec<String>> {
    let run = Run {
        seed: 7,
        turns: 16,
        nodes: 2,
        at_once: 4,
        followers: 0,
        lease: Duration::from_secs(2),
        pause: (200, 2_000),
        mutant: Some(mutant),
    };
    run.perform().await.map(|found| found.wrong)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_leaves_in_the_inbox_what_it_consumes_is_noticed() {
    let mutant = ("SET body = NULL FROM consumed", "SET body = body FROM consumed");
    let Some(wrong) = mutated(mutant).await else {
        return;
    };
    assert_ne!(wrong, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_takes_conversations_of_living_nodes_is_noticed() {
    let mutant = ("(h.node IS NULL OR h.until <= ", "(h.node IS NULL OR 0 <= ");
    let Some(wrong) = mutated(mutant).await else {
        return;
    };
    assert_ne!(wrong, Vec::<String>::new());
}
