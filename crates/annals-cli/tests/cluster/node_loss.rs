//! Turns on nodes that are killed, frozen, cut off and restarted: nothing acknowledged is lost, nothing happens twice.
//!
//! `cargo xtask node-loss --seed S --turns N` runs the long form. Statements without one of their conditions show that the
//! checks would notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::chance::Chance;
use super::checks::{self, Found};
use super::client::Client;
use super::faults;
use super::nodes::{Cluster, Mutant};

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
        let cluster = Cluster::start(self.nodes, self.lease, self.mutant).await?;
        let client = Client::of(&cluster);
        let (stop, next) = (CancellationToken::new(), Arc::new(AtomicU64::new(1)));
        let began = Instant::now();
        let drivers = (0..self.at_once).map(|of| {
            let (client, next, chance) = (client.clone(), next.clone(), Chance::new(self.seed, of));
            let followers = (self.followers / self.at_once).max(2);
            tokio::spawn(drive(client, next, self.turns, followers, chance))
        });
        let drivers: Vec<_> = drivers.collect();
        let load = async {
            futures::future::join_all(drivers).await;
            stop.cancel();
        };
        let (struck, ()) = tokio::join!(faults::rage(&cluster, self.seed, self.pause, &stop), load);
        let took = began.elapsed();
        // What is sure to be found wrong need not be waited for.
        let slack = match self.mutant {
            Some(_) => Duration::ZERO,
            None => checks::SLACK,
        };
        let mut found = checks::after_healing(&cluster, &client, slack).await;
        if self.mutant.is_some() {
            let rewritten: u64 = cluster.nodes.iter().map(|node| node.proxy.rewritten()).sum();
            assert!(rewritten > 0, "the statement is not written like this any more");
        }
        let swallowed: u64 = cluster.nodes.iter().map(|node| node.proxy.swallowed()).sum();
        let (reconnected, deltas) = {
            let parts = client.record.parts();
            (parts.reconnected, parts.deltas)
        };
        eprintln!(
            "seed {}: {} turns in {took:.1?}, {} followers, faults {struck:?}, {swallowed} answers swallowed, {reconnected} reconnections, \
             {deltas} deltas, {found:?}",
            self.seed,
            self.turns,
            self.followers.max(self.at_once * 2)
        );
        found.wrong.truncate(20);
        Some(found)
    }
}

/// Posts turns to one conversation after the other, each to any node, and follows them over any nodes.
async fn drive(client: Client, next: Arc<AtomicU64>, turns: u64, followers: u64, mut chance: Chance) {
    loop {
        let Some(conversation) = client.new_conversation(&mut chance).await else {
            return;
        };
        let follow = |of| client.follow(&conversation, Chance::new(chance.next(), of));
        let mut followers: Vec<_> = (0..followers).map(follow).collect();
        for _ in 0..TURNS_EACH {
            let number = next.fetch_add(1, Ordering::SeqCst);
            if number > turns {
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
            for follower in &mut followers {
                if !follower.saw_end_of(&turn).await {
                    return client
                        .record
                        .wrong(format!("turn {number} of {conversation} does not end"));
                }
            }
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
        turns: asked("ANNALS_NODE_LOSS_TURNS").unwrap_or(100),
        nodes: asked("ANNALS_NODE_LOSS_NODES").unwrap_or(3) as usize,
        at_once: asked("ANNALS_NODE_LOSS_AT_ONCE").unwrap_or(12),
        followers: asked("ANNALS_NODE_LOSS_FOLLOWERS").unwrap_or(0),
        lease: Duration::from_secs(asked("ANNALS_NODE_LOSS_LEASE").unwrap_or(2)),
        pause: (200, asked("ANNALS_NODE_LOSS_PAUSE").unwrap_or(2_000)),
        mutant: None,
    };
    let Some(found) = run.perform().await else { return };
    assert_eq!(found.wrong, Vec::<String>::new());
    assert_eq!(found.completed as u64, run.turns);
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
