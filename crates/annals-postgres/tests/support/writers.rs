//! Writers that remember what was acknowledged to them, and compare it with what is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use annals_postgres::PostgresLog;
use annals_store::testing::{conversation, new_conversation, owner};
use annals_store::{BlockLog as _, BlockLogExt as _, Lease};
use tokio::task::JoinHandle;

use crate::support::{TTL, fill, text};

/// Conversations that grow until they are stopped.
pub(crate) struct Writers {
    log: Arc<PostgresLog>,
    is_over: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<(Lease, u64)>>,
}

impl Writers {
    pub(crate) async fn start(log: &Arc<PostgresLog>, count: usize) -> Self {
        let (is_over, acknowledged) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut tasks = Vec::new();
        for n in 0..count {
            let name = format!("c{n}");
            log.create(new_conversation(&name)).await.unwrap();
            let lease = log.acquire(&conversation(&name), &owner("a"), TTL).await.unwrap();
            let (log, is_over) = (Arc::clone(log), Arc::clone(&is_over));
            let acknowledged = Arc::clone(&acknowledged);
            tasks.push(tokio::spawn(async move {
                let mut tail = 0;
                while !is_over.load(Ordering::SeqCst) {
                    // One to three blocks, so that a repeated append would not fit by chance.
                    let grows = tail % 3 + 1;
                    fill(&log, &lease, tail + 1, tail + grows).await;
                    tail += grows;
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
                (lease, tail)
            }));
        }
        Writers {
            log: Arc::clone(log),
            is_over,
            acknowledged,
            tasks,
        }
    }

    /// Waits until this many more appends were acknowledged.
    pub(crate) async fn wait_for(&self, more: u64) {
        let goal = self.acknowledged.load(Ordering::SeqCst) + more;
        while self.acknowledged.load(Ordering::SeqCst) < goal {
            assert!(
                self.tasks.iter().all(|task| !task.is_finished()),
                "a writer failed"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends them, and compares every block that was acknowledged with what is there; gives the number of appends.
    pub(crate) async fn stop(self) -> u64 {
        self.is_over.store(true, Ordering::SeqCst);
        for task in self.tasks {
            let (lease, tail) = task.await.unwrap();
            let blocks = self.log.read_all(lease.key()).await.unwrap();
            let there: Vec<(u64, &str)> = blocks
                .iter()
                .map(|block| (block.seq.get(), block.text().unwrap_or_default()))
                .collect();
            let expected: Vec<String> = (1..=tail).map(|n| text(&lease, n)).collect();
            let expected: Vec<(u64, &str)> = (1..).zip(expected.iter().map(String::as_str)).collect();
            assert_eq!(there, expected);
        }
        self.acknowledged.load(Ordering::SeqCst)
    }
}
