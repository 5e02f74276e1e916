//! What happens to nodes and their networks, by a seed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::chance::Chance;
use super::nodes::{Cluster, Node};

/// One kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// `kill -9`, and a new start.
    Kill,
    /// The process stands still for up to three leases, and goes on.
    Freeze,
    /// Nothing comes through to the database or from it.
    BlackHole,
    /// All connections to the database break.
    Reset,
    /// The database does what it is asked, and its answers are lost.
    Swallow,
    /// SIGTERM, and a new start.
    Restart,
}

impl Fault {
    fn pick(chance: &mut Chance) -> Self {
        match chance.below(100) {
            0..40 => Fault::Kill,
            40..60 => Fault::Freeze,
            60..72 => Fault::BlackHole,
            72..80 => Fault::Reset,
            80..90 => Fault::Swallow,
            _ => Fault::Restart,
        }
    }

    async fn strike(self, node: &Node, lease: Duration, chance: &mut Chance) {
        let milli = lease.as_millis() as u64;
        let mut a_while = |least: u64, most: u64| Duration::from_millis(chance.between(least, most));
        match self {
            Fault::Kill => {
                node.kill().await;
                tokio::time::sleep(a_while(50, milli)).await;
                node.start().await;
                node.wait_until_ready().await;
            }
            Fault::Freeze => {
                node.signal(libc::SIGSTOP).await;
                tokio::time::sleep(a_while(milli / 2, milli * 3)).await;
                node.signal(libc::SIGCONT).await;
            }
            Fault::BlackHole => {
                node.proxy.black_hole(true);
                tokio::time::sleep(a_while(milli / 4, milli * 2)).await;
                node.proxy.black_hole(false);
            }
            Fault::Reset => node.proxy.reset(),
            Fault::Swallow => {
                // What blocks of a turn are called: appends carry it.
                node.proxy.swallow("react.", 2);
                tokio::time::sleep(a_while(milli / 4, milli)).await;
                node.proxy.swallow_nothing();
            }
            Fault::Restart => {
                let code = node.terminate().await;
                assert_eq!(code, Some(0), "{}: {}", node.name, node.said());
                node.start().await;
                node.wait_until_ready().await;
            }
        }
    }
}

/// How often each fault struck.
#[derive(Default)]
pub(crate) struct Struck(Mutex<BTreeMap<Fault, usize>>);

impl Struck {
    pub(crate) fn counts(&self) -> BTreeMap<Fault, usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Faults strike every node, at most half of them (rounded up) at a time, until `stop`; then everything is whole again.
pub(crate) async fn rage(
    cluster: &Cluster,
    seed: u64,
    (least, most): (u64, u64),
    stop: &CancellationToken,
) -> BTreeMap<Fault, usize> {
    let struck = Arc::<Struck>::default();
    let at_once = Arc::new(Semaphore::new(cluster.nodes.len().div_ceil(2)));
    let each = cluster.nodes.iter().enumerate().map(|(at, node)| {
        let (node, stop, struck, at_once) = (node.clone(), stop.clone(), struck.clone(), at_once.clone());
        let (lease, mut chance) = (cluster.lease, Chance::new(seed, 1_000 + at as u64));
        tokio::spawn(async move {
            loop {
                let pause = Duration::from_millis(chance.between(least, most));
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                let _one = at_once.acquire().await.expect("nobody closes it");
                let fault = Fault::pick(&mut chance);
                fault.strike(&node, lease, &mut chance).await;
                *struck
                    .0
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .entry(fault)
                    .or_default() += 1;
            }
        })
    });
    for ended in futures::future::join_all(each).await {
        ended.expect("faults strike as they should");
    }
    for node in &cluster.nodes {
        node.wait_until_ready().await;
    }
    struck.counts()
}
