//! What happens to nodes, their networks and the database, by a seed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use annals_testbed::FaultProxy;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::chance::Chance;
use super::client::Client;
use super::nodes::{Cluster, Node};
use super::promises;

/// One kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// `kill -9`, and a new start.
    Kill,
    /// The process stands still for up to three leases, and goes on.
    Freeze,
    /// Something happens to the network between a node and the database.
    Database(Network),
    /// The database does what it is asked, and its answers are lost.
    Swallow,
    /// Something happens to the network between a node and the bucket.
    Bucket(Network),
    /// Something happens to the network between a node and the server of sandboxes.
    Sandboxes(Network),
    /// SIGTERM, and a new start.
    Restart,
    /// `kill -9` of the database server with all of its processes, and a new start.
    DatabaseKill,
    /// A newer program's schema with another column, then every node is restarted, one after the other.
    Upgrade,
    /// Files of deleted conversations are collected while everything goes on: no fault, and nothing may come of it.
    Collection,
}

/// What happens to a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Network {
    /// Nothing comes through.
    BlackHole,
    /// All connections break.
    Reset,
    /// Everything is late by a tenth of a lease at most, each way.
    Delay,
}

impl Network {
    fn pick(chance: &mut Chance) -> Self {
        match chance.below(10) {
            0..4 => Network::BlackHole,
            4..7 => Network::Reset,
            _ => Network::Delay,
        }
    }

    async fn strike(self, network: &FaultProxy, lease: Duration, chance: &mut Chance) {
        let milli = lease.as_millis() as u64;
        let mut a_while = |least: u64, most: u64| Duration::from_millis(chance.between(least, most));
        match self {
            Network::BlackHole => {
                network.black_hole(true);
                tokio::time::sleep(a_while(milli / 4, milli * 2)).await;
                network.black_hole(false);
            }
            Network::Reset => network.reset(),
            Network::Delay => {
                network.delay(a_while(5, milli / 10));
                tokio::time::sleep(a_while(milli / 4, milli * 2)).await;
                network.delay(Duration::ZERO);
            }
        }
    }
}

impl Fault {
    /// What happens to one node.
    fn pick(node: &Node, chance: &mut Chance) -> Self {
        let beside = chance.below(100);
        if node.bucket.is_some() && beside < 15 {
            return Fault::Bucket(Network::pick(chance));
        }
        if node.sandboxes.is_some() && (15..30).contains(&beside) {
            return Fault::Sandboxes(Network::pick(chance));
        }
        match chance.below(100) {
            0..38 => Fault::Kill,
            38..56 => Fault::Freeze,
            56..80 => Fault::Database(Network::pick(chance)),
            80..90 => Fault::Swallow,
            _ => Fault::Restart,
        }
    }

    async fn strike(self, node: &Node, lease: Duration, chance: &mut Chance) {
        let milli = lease.as_millis() as u64;
        let a_while = |chance: &mut Chance, least: u64, most: u64| {
            tokio::time::sleep(Duration::from_millis(chance.between(least, most)))
        };
        match self {
            Fault::Kill => {
                node.kill().await;
                a_while(chance, 50, milli).await;
                node.start().await;
                node.wait_until_ready().await;
            }
            Fault::Freeze => {
                node.signal(libc::SIGSTOP).await;
                a_while(chance, milli / 2, milli * 3).await;
                node.signal(libc::SIGCONT).await;
            }
            Fault::Database(network) => network.strike(&node.proxy, lease, chance).await,
            Fault::Bucket(network) => {
                let proxy = node.bucket.as_ref().expect("there is a bucket");
                network.strike(proxy, lease, chance).await;
            }
            Fault::Sandboxes(network) => {
                let proxy = node.sandboxes.as_ref().expect("there are sandboxes");
                network.strike(proxy, lease, chance).await;
            }
            Fault::Swallow => {
                // What blocks of a turn are called: appends carry it.
                node.proxy.swallow("react.", 2);
                a_while(chance, milli / 4, milli).await;
                node.proxy.swallow_nothing();
            }
            Fault::Restart => restart(node).await,
            Fault::DatabaseKill | Fault::Upgrade | Fault::Collection => {
                unreachable!("it happens to all nodes")
            }
        }
    }

    /// What happens to all nodes.
    async fn strike_all(self, cluster: &Cluster, client: &Client, chance: &mut Chance) {
        match self {
            Fault::DatabaseKill => {
                let away = Duration::from_millis(chance.between(0, 500));
                cluster.restart_database(away).await;
            }
            Fault::Upgrade => {
                cluster.execute(EXPAND).await;
                for node in &cluster.nodes {
                    let _alone = node.struck.lock().await;
                    restart(node).await;
                }
            }
            Fault::Collection => {
                let garbage = client.record.parts().garbage.clone();
                promises::collect(cluster, &garbage).await;
            }
            _ => unreachable!("it happens to one node"),
        }
    }
}

async fn restart(node: &Node) {
    let code = node.terminate().await;
    assert_eq!(code, Some(0), "{}: {}", node.name, node.said());
    node.start().await;
    node.wait_until_ready().await;
}

/// As a newer program's migration that older ones may go on with. A node that stands still may hold a lock for a while.
pub(crate) const EXPAND: &str = "DO $$ BEGIN
    FOR attempt IN 1..60 LOOP
        BEGIN
            SET LOCAL lock_timeout = '300ms';
            ALTER TABLE annals.head ADD COLUMN of_a_newer_program int8;
            ALTER TABLE annals.block ADD COLUMN of_a_newer_program int8;
            UPDATE annals.meta SET schema = schema + 1;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN PERFORM pg_sleep(0.2);
        END;
    END LOOP;
END $$";

/// How often each fault struck.
#[derive(Default)]
struct Counts(Mutex<BTreeMap<Fault, usize>>);

impl Counts {
    fn note(&self, fault: Fault) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(fault).or_default() += 1;
    }
}

/// What struck, and when everything was whole again.
pub(crate) struct Struck {
    pub(crate) counts: BTreeMap<Fault, usize>,
    pub(crate) healed: Instant,
}

/// Waits for a while; whether it is to go on after that.
async fn pause(stop: &CancellationToken, chance: &mut Chance, (least, most): (u64, u64)) -> bool {
    tokio::select! {
        () = stop.cancelled() => false,
        () = tokio::time::sleep(Duration::from_millis(chance.between(least, most))) => true,
    }
}

/// Faults strike every node, at most half of them (rounded up) at a time, and the database, until `stop`; then everything is
/// whole again.
pub(crate) async fn rage(
    cluster: &Cluster,
    client: &Client,
    (seed, pauses): (u64, (u64, u64)),
    stop: &CancellationToken,
) -> Struck {
    let counts = Arc::<Counts>::default();
    let at_once = Arc::new(Semaphore::new(cluster.nodes.len().div_ceil(2)));
    let each = cluster.nodes.iter().enumerate().map(|(at, node)| {
        let (node, stop, counts, at_once) = (node.clone(), stop.clone(), counts.clone(), at_once.clone());
        let (lease, mut chance) = (cluster.lease, Chance::new(seed, 1_000 + at as u64));
        tokio::spawn(async move {
            while pause(&stop, &mut chance, pauses).await {
                let _one = at_once.acquire().await.expect("nobody closes it");
                let _alone = node.struck.lock().await;
                let fault = Fault::pick(&node, &mut chance);
                fault.strike(&node, lease, &mut chance).await;
                counts.note(fault);
            }
        })
    });
    let each = futures::future::join_all(each);
    let (ended, ()) = tokio::join!(each, strike_all(cluster, client, (seed, pauses), (stop, &counts)));
    for ended in ended {
        ended.expect("faults strike as they should");
    }
    for node in &cluster.nodes {
        node.wait_until_ready().await;
    }
    let counts = counts.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Struck {
        counts,
        healed: Instant::now(),
    }
}

/// Faults that all nodes share: less often than those of a node, each kind in its turn, in an order that the seed decides. The
/// schema changes once.
async fn strike_all(
    cluster: &Cluster,
    client: &Client,
    (seed, (_, most)): (u64, (u64, u64)),
    (stop, counts): (&CancellationToken, &Counts),
) {
    let (mut chance, mut is_upgraded) = (Chance::new(seed, 999), false);
    while pause(stop, &mut chance, (most, most * 2)).await {
        let fault = match chance.below(10) {
            0..4 => Fault::DatabaseKill,
            4..7 if !is_upgraded => Fault::Upgrade,
            _ => Fault::Collection,
        };
        is_upgraded |= fault == Fault::Upgrade;
        fault.strike_all(cluster, client, &mut chance).await;
        counts.note(fault);
    }
}
