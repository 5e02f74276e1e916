//! Two writers on one conversation, in thousands of orders: a stale one is always fenced and changes nothing.

#[path = "support/crash.rs"]
#[allow(dead_code)]
mod crash;

use std::sync::Arc;
use std::time::Duration;

use annals_core::ids::{ConversationKey, Seq};
use annals_store::testing::{after, at, conversation, new_conversation, owner, text_block};
use annals_store::{
    BlockLog, BlockLogExt, Lease, LogError, ManualClock, MemoryLog, SqliteLog, SqliteOptions, Stale,
};
use crash::Rng;

const TTL: Duration = Duration::from_secs(10);

/// What must be true, kept beside the log.
#[derive(Default)]
struct Model {
    token: u64,
    holder: Option<(usize, i64)>,
    texts: Vec<String>,
}

/// One interleaving of two writers, each through its own handle, against the model.
async fn interleave(
    handles: [Arc<dyn BlockLog>; 2],
    clock: Arc<ManualClock>,
    name: String,
    seed: u64,
) -> (u64, u64) {
    let mut rng = Rng(seed);
    let id = conversation(&name);
    handles[0].create(new_conversation(&name)).await.unwrap();
    let mut model = Model::default();
    let mut leases: [Option<Lease>; 2] = [None, None];
    let (mut now, mut fenced, mut written) = (0, 0, 0);
    for step in 0..10 {
        let writer = rng.below(2) as usize;
        // Time mostly goes on, sometimes past an expiry, sometimes back.
        now += [1, 1, 4, 12, -3][rng.below(5) as usize];
        let log = &handles[writer];
        // Read by the store before it first waits, so that each of many interleavings has a time of its own.
        clock.set(at(now));
        match (rng.below(4), leases[writer].clone()) {
            (0, _) | (_, None) => {
                let name = format!("w{writer}");
                let held = model
                    .holder
                    .is_some_and(|(holder, until)| holder != writer && until > now);
                match log.acquire(&id, &owner(&name), TTL).await {
                    Ok(lease) => {
                        assert!(!held, "acquired while the other's lease lasts");
                        assert!(lease.token() > model.token, "a token was given twice");
                        let kept = model
                            .holder
                            .filter(|(holder, _)| *holder == writer)
                            .map_or(0, |(_, until)| until);
                        model.token = lease.token();
                        model.holder = Some((writer, kept.max(now + 10)));
                        leases[writer] = Some(lease);
                    }
                    Err(LogError::Held { .. }) => assert!(held, "refused though nobody holds it"),
                    Err(error) => panic!("{error}"),
                }
            }
            (1, Some(lease)) if rng.below(3) == 0 => {
                log.release(&lease).await.unwrap();
                if lease.token() == model.token {
                    model.holder = None;
                    model.token += 1;
                }
                leases[writer] = None;
            }
            (_, Some(lease)) => {
                // A stale writer may even know the right tail: the token alone must stop it.
                let tail = Seq::try_new(model.texts.len() as u64).ok();
                let text = format!("w{writer}-{step}");
                let block = text_block(model.texts.len() as u64 + 1, &text);
                match log.append(&lease, after(tail, vec![block])).await {
                    Ok(_) => {
                        assert_eq!(lease.token(), model.token, "a stale writer wrote");
                        model.texts.push(text);
                        written += 1;
                        let until = log.get(&id).await.unwrap().holding.unwrap().until;
                        let seconds = (until.unix_micros() - at(0).unix_micros()) / 1_000_000;
                        model.holder = Some((writer, seconds));
                    }
                    Err(LogError::Conflict {
                        stale: Stale::Lease { .. },
                        ..
                    }) => {
                        assert_ne!(lease.token(), model.token, "the rightful writer was fenced");
                        fenced += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    assert_eq!(texts_of(&*handles[1], &id).await, model.texts);
    (fenced, written)
}

async fn texts_of(log: &dyn BlockLog, key: &ConversationKey) -> Vec<String> {
    let blocks = log.read_all(key).await.unwrap();
    blocks
        .iter()
        .map(|block| block.text().unwrap().to_owned())
        .collect()
}

async fn run_many(handles: [Arc<dyn BlockLog>; 2], clock: Arc<ManualClock>, count: u64) {
    let (mut fenced, mut written) = (0, 0);
    // Many at a time, so that the commits of all of them share their syncs.
    for batch in 0..count / 100 {
        let runs = (0..100).map(|index| {
            let seed = batch * 100 + index;
            interleave(handles.clone(), clock.clone(), format!("c{seed}"), seed)
        });
        for (stale, good) in futures::future::join_all(runs).await {
            fenced += stale;
            written += good;
        }
    }
    assert!(
        fenced > count / 10 && written > count,
        "too tame: {fenced} fenced, {written} written"
    );
}

#[tokio::test]
async fn a_stale_writer_is_always_fenced_in_memory() {
    let clock = Arc::new(ManualClock::default());
    let log: Arc<dyn BlockLog> = Arc::new(MemoryLog::with_clock(clock.clone()));
    run_many([Arc::clone(&log), log], clock, 4_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_writer_is_always_fenced_through_two_handles_on_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let open = || -> Arc<dyn BlockLog> {
        let options = SqliteOptions::default().clock(clock.clone());
        Arc::new(SqliteLog::open(folder.path().join("annals.db"), options).unwrap())
    };
    run_many([open(), open()], clock.clone(), 1_000).await;
}
