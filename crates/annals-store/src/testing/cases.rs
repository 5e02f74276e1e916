//! One function for each rule of the contract.

use std::sync::Arc;
use std::time::Duration;

use annals_core::block::{Blob, Block};
use annals_core::ids::{Scope, Seq};
use futures::future::{BoxFuture, join_all};

use super::sample::{at, conversation, new_conversation, text_block, varied_blocks};
use crate::log::{BlockLog, BlockLogExt, Lease, LogError, NewConversation, Operator, Stale};

/// A rule, tried on an empty log.
#[derive(Clone, Copy)]
pub struct Case {
    /// The behaviour.
    pub name: &'static str,
    /// Panics if the log behaves otherwise.
    pub run: fn(Arc<dyn BlockLog>) -> BoxFuture<'static, ()>,
}

macro_rules! cases {
    ($($(#[doc = $doc:literal])* async fn $name:ident($log:ident) $body:block)*) => {
        /// Every rule.
        pub const CASES: &[Case] = &[$(Case { name: stringify!($name), run: |log| Box::pin($name(log)) },)*];
        $($(#[doc = $doc])* async fn $name($log: Arc<dyn BlockLog>) $body)*
    };
}

const TTL: Duration = Duration::from_secs(30);

type Log = Arc<dyn BlockLog>;

fn seq(number: u64) -> Option<Seq> {
    Seq::try_new(number).ok()
}

fn nth(number: u64) -> Seq {
    Seq::try_new(number).expect("from 1")
}

async fn begin(log: &Log, name: &str) -> Lease {
    log.create(new_conversation(name)).await.unwrap();
    log.acquire(&conversation(name), "a", at(0), TTL).await.unwrap()
}

/// Appends text blocks `from..=to`.
async fn fill(log: &Log, lease: &Lease, from: u64, to: u64) {
    let blocks = (from..=to)
        .map(|n| text_block(n, &format!("{}-{n}", lease.conversation())))
        .collect();
    assert_eq!(log.append(lease, seq(from - 1), blocks).await.unwrap(), nth(to));
}

async fn texts(log: &Log, name: &str) -> Vec<String> {
    let blocks = log.read_all(&conversation(name)).await.unwrap();
    let numbers: Vec<u64> = blocks.iter().map(|block| block.seq.get()).collect();
    assert_eq!(numbers, (1..=blocks.len() as u64).collect::<Vec<_>>(), "no gaps");
    blocks
        .iter()
        .map(|block| block.text().unwrap_or("-").to_owned())
        .collect()
}

fn is_stale_lease(outcome: &Result<impl Sized, LogError>) -> bool {
    matches!(
        outcome,
        Err(LogError::Conflict {
            stale: Stale::Lease { .. },
            ..
        })
    )
}

fn is_stale_tail(outcome: &Result<impl Sized, LogError>) -> bool {
    matches!(
        outcome,
        Err(LogError::Conflict {
            stale: Stale::Tail { .. },
            ..
        })
    )
}

cases! {
    async fn blocks_come_back_exactly_as_they_were_given(log) {
        let lease = begin(&log, "c").await;
        let blocks = varied_blocks();
        log.append(&lease, None, blocks.clone()).await.unwrap();
        assert_eq!(log.read_all(&conversation("c")).await.unwrap(), blocks);
        for block in &blocks {
            assert_eq!(log.read(&conversation("c"), block.seq, 1).await.unwrap(), std::slice::from_ref(block));
        }
    }

    async fn a_range_has_at_most_the_limit_and_stops_at_the_end(log) {
        let lease = begin(&log, "c").await;
        fill(&log, &lease, 1, 7).await;
        let id = conversation("c");
        let range = async |from, limit| -> Vec<u64> {
            log.read(&id, nth(from), limit).await.unwrap().iter().map(|b| b.seq.get()).collect()
        };
        assert_eq!(range(2, 3).await, [2, 3, 4]);
        assert_eq!(range(6, 100).await, [6, 7]);
        assert_eq!(range(1, 0).await, [0; 0]);
        assert_eq!(range(8, 5).await, [0; 0]);
        assert_eq!(range(u64::MAX, usize::MAX).await, [0; 0]);
        let after: Vec<Block> = log.read_after(&id, seq(6), 10).await.unwrap();
        assert_eq!(after.len(), 1);
    }

    async fn a_conversation_that_does_not_exist_is_not_found(log) {
        let id = conversation("nobody");
        assert!(matches!(log.get(&id).await, Err(LogError::NotFound { .. })));
        assert!(matches!(log.read_all(&id).await, Err(LogError::NotFound { .. })));
        assert!(matches!(log.acquire(&id, "a", at(0), TTL).await, Err(LogError::NotFound { .. })));
        let forked = log.fork(&id, Seq::FIRST, new_conversation("f")).await;
        assert!(matches!(forked, Err(LogError::NotFound { .. })));
    }

    async fn an_id_is_taken_once(log) {
        log.create(new_conversation("c")).await.unwrap();
        assert!(matches!(log.create(new_conversation("c")).await, Err(LogError::Exists { .. })));
    }

    async fn what_is_known_of_a_conversation_follows_its_blocks(log) {
        let new = new_conversation("c").title("A title\0 with \u{2028}").from_parent(
            conversation("p"), seq(3), Operator::Merge,
        );
        log.create(new.clone()).await.unwrap();
        let info = log.get(&conversation("c")).await.unwrap();
        assert_eq!((info.id, info.scope, info.title), (new.id, new.scope, new.title));
        assert_eq!((info.created, info.lineage), (new.created, new.lineage));
        assert_eq!((info.tail, info.updated, info.holding), (None, None, None));
        let lease = log.acquire(&conversation("c"), "a", at(0), TTL).await.unwrap();
        fill(&log, &lease, 1, 2).await;
        let info = log.get(&conversation("c")).await.unwrap();
        assert_eq!((info.tail, info.updated), (seq(2), Some(at(2))));
        assert_eq!(info.holding.unwrap().by, "a");
        assert_eq!(log.tail(&conversation("c")).await.unwrap(), seq(2));
    }

    async fn listings_show_one_scope_newest_first_page_by_page(log) {
        let other = Scope::parse("o/t/her").unwrap();
        for name in ["c1", "c2", "c3", "c4", "c5"] {
            log.create(new_conversation(name)).await.unwrap();
            let hidden = conversation(&format!("other-{name}"));
            log.create(NewConversation::new(hidden, other.clone(), at(0))).await.unwrap();
        }
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = log.list(&Scope::default(), cursor, 2).await.unwrap();
            assert!(page.items.len() <= 2);
            seen.extend(page.items.into_iter().map(|info| info.id.to_string()));
            match page.next {
                Some(next) => cursor = Some(next.to_string().parse().unwrap()),
                None => break,
            }
        }
        assert_eq!(seen, ["c5", "c4", "c3", "c2", "c1"]);
    }

    async fn an_append_at_another_tail_changes_nothing(log) {
        let lease = begin(&log, "c").await;
        assert!(is_stale_tail(&log.append(&lease, seq(1), vec![text_block(2, "x")]).await));
        fill(&log, &lease, 1, 2).await;
        for wrong in [None, seq(1), seq(3)] {
            let next = wrong.map_or(1, |tail| tail.get() + 1);
            assert!(is_stale_tail(&log.append(&lease, wrong, vec![text_block(next, "x")]).await));
        }
        assert_eq!(texts(&log, "c").await, ["c-1", "c-2"]);
    }

    async fn blocks_out_of_order_change_nothing(log) {
        let lease = begin(&log, "c").await;
        for numbers in [vec![2], vec![1, 3], vec![1, 1], vec![1, 2, 2]] {
            let blocks = numbers.iter().map(|n| text_block(*n, "x")).collect();
            assert!(matches!(log.append(&lease, None, blocks).await, Err(LogError::OutOfOrder { .. })));
        }
        assert!(matches!(log.append(&lease, None, vec![]).await, Err(LogError::Nothing { .. })));
        assert_eq!(log.tail(&conversation("c")).await.unwrap(), None);
    }

    async fn another_holder_waits_until_the_lease_expires(log) {
        let lease = begin(&log, "c").await;
        let id = conversation("c");
        match log.acquire(&id, "b", at(29), TTL).await {
            Err(LogError::Held { by, until, .. }) => assert_eq!((by.as_str(), until), ("a", at(30))),
            other => panic!("{other:?}"),
        }
        fill(&log, &lease, 1, 1).await;
        let taken = log.acquire(&id, "b", at(1_000), TTL).await.unwrap();
        assert!(taken.token() > lease.token());
        assert!(is_stale_lease(&log.append(&lease, seq(1), vec![text_block(2, "stale")]).await));
        assert!(is_stale_lease(&log.renew(&lease, at(1_000)).await));
        assert!(is_stale_lease(&log.delete(&lease).await));
        fill(&log, &taken, 2, 2).await;
        assert_eq!(texts(&log, "c").await, ["c-1", "c-2"]);
    }

    async fn an_expired_lease_still_writes_while_nobody_took_over(log) {
        let lease = begin(&log, "c").await;
        let mut block = text_block(1, "late");
        block.ts = at(1_000_000);
        log.append(&lease, None, vec![block]).await.unwrap();
        assert_eq!(texts(&log, "c").await, ["late"]);
    }

    async fn the_same_holder_takes_over_from_itself(log) {
        let first = begin(&log, "c").await;
        let second = log.acquire(&conversation("c"), "a", at(1), TTL).await.unwrap();
        assert!(is_stale_lease(&log.append(&first, None, vec![text_block(1, "x")]).await));
        fill(&log, &second, 1, 1).await;
    }

    async fn appending_and_renewing_keep_a_lease(log) {
        let lease = begin(&log, "c").await;
        let id = conversation("c");
        let mut block = text_block(1, "x");
        block.ts = at(25);
        log.append(&lease, None, vec![block]).await.unwrap();
        assert!(matches!(log.acquire(&id, "b", at(50), TTL).await, Err(LogError::Held { .. })));
        log.renew(&lease, at(100)).await.unwrap();
        assert!(matches!(log.acquire(&id, "b", at(129), TTL).await, Err(LogError::Held { .. })));
        log.acquire(&id, "b", at(130), TTL).await.unwrap();
    }

    async fn a_clock_that_goes_backwards_never_shortens_a_lease(log) {
        let lease = begin(&log, "c").await;
        let id = conversation("c");
        log.renew(&lease, at(-500)).await.unwrap();
        let mut block = text_block(1, "x");
        block.ts = at(-1_000);
        log.append(&lease, None, vec![block]).await.unwrap();
        let lease = log.acquire(&id, "a", at(-700), TTL).await.unwrap();
        assert!(matches!(log.acquire(&id, "b", at(29), TTL).await, Err(LogError::Held { .. })));
        fill(&log, &lease, 2, 3).await;
        assert_eq!(texts(&log, "c").await, ["x", "c-2", "c-3"], "order is by place, not by time");
    }

    async fn a_released_conversation_is_free_and_its_lease_writes_no_more(log) {
        let lease = begin(&log, "c").await;
        log.release(&lease).await.unwrap();
        assert_eq!(log.get(&conversation("c")).await.unwrap().holding, None);
        assert!(is_stale_lease(&log.append(&lease, None, vec![text_block(1, "x")]).await));
        let other = log.acquire(&conversation("c"), "b", at(1), TTL).await.unwrap();
        log.release(&lease).await.unwrap();
        fill(&log, &other, 1, 1).await;
    }

    async fn a_fork_shares_what_was_and_goes_its_own_way(log) {
        let parent = begin(&log, "p").await;
        fill(&log, &parent, 1, 4).await;
        log.fork(&conversation("p"), nth(2), new_conversation("f")).await.unwrap();
        let fork = log.acquire(&conversation("f"), "z", at(0), TTL).await.unwrap();
        assert_eq!(log.get(&conversation("f")).await.unwrap().updated, Some(at(2)));
        assert!(is_stale_tail(&log.append(&fork, None, vec![text_block(1, "x")]).await));
        fill(&log, &fork, 3, 3).await;
        fill(&log, &parent, 5, 5).await;
        assert_eq!(texts(&log, "p").await, ["p-1", "p-2", "p-3", "p-4", "p-5"]);
        assert_eq!(texts(&log, "f").await, ["p-1", "p-2", "f-3"]);
        let middle = log.read(&conversation("f"), nth(2), 2).await.unwrap();
        assert_eq!(middle.iter().map(|b| b.text().unwrap()).collect::<Vec<_>>(), ["p-2", "f-3"]);
    }

    async fn a_fork_of_a_fork_reaches_every_ancestor(log) {
        let parent = begin(&log, "p").await;
        fill(&log, &parent, 1, 3).await;
        log.fork(&conversation("p"), nth(2), new_conversation("f")).await.unwrap();
        let fork = log.acquire(&conversation("f"), "a", at(0), TTL).await.unwrap();
        fill(&log, &fork, 3, 4).await;
        log.fork(&conversation("f"), nth(3), new_conversation("g")).await.unwrap();
        log.fork(&conversation("f"), nth(1), new_conversation("h")).await.unwrap();
        let deep = log.acquire(&conversation("g"), "a", at(0), TTL).await.unwrap();
        fill(&log, &deep, 4, 4).await;
        assert_eq!(texts(&log, "g").await, ["p-1", "p-2", "f-3", "g-4"]);
        assert_eq!(texts(&log, "h").await, ["p-1"]);
    }

    async fn a_fork_needs_a_block_to_be_cut_at(log) {
        let lease = begin(&log, "p").await;
        let cut = async |at| log.fork(&conversation("p"), nth(at), new_conversation("f")).await;
        assert!(matches!(cut(1).await, Err(LogError::NoSuchBlock { tail: None, .. })));
        fill(&log, &lease, 1, 2).await;
        assert!(matches!(cut(3).await, Err(LogError::NoSuchBlock { .. })));
        cut(2).await.unwrap();
        assert!(matches!(cut(2).await, Err(LogError::Exists { .. })));
    }

    async fn forks_outlive_a_deleted_parent(log) {
        let parent = begin(&log, "p").await;
        fill(&log, &parent, 1, 3).await;
        log.fork(&conversation("p"), nth(2), new_conversation("f")).await.unwrap();
        log.delete(&parent).await.unwrap();
        assert!(matches!(log.get(&conversation("p")).await, Err(LogError::NotFound { .. })));
        assert_eq!(log.list(&Scope::default(), None, 10).await.unwrap().items.len(), 1);
        assert_eq!(texts(&log, "f").await, ["p-1", "p-2"]);
        let fork = log.acquire(&conversation("f"), "a", at(0), TTL).await.unwrap();
        fill(&log, &fork, 3, 3).await;
        assert_eq!(texts(&log, "f").await, ["p-1", "p-2", "f-3"]);
        log.delete(&fork).await.unwrap();
        assert!(log.list(&Scope::default(), None, 10).await.unwrap().items.is_empty());
    }

    async fn an_id_made_again_is_another_conversation(log) {
        let first = begin(&log, "c").await;
        fill(&log, &first, 1, 2).await;
        log.delete(&first).await.unwrap();
        let second = begin(&log, "c").await;
        assert!(is_stale_lease(&log.append(&first, None, vec![text_block(1, "ghost")]).await));
        assert_eq!(texts(&log, "c").await, [""; 0]);
        fill(&log, &second, 1, 1).await;
    }

    async fn named_blobs_are_those_of_living_blocks(log) {
        let lease = begin(&log, "c").await;
        log.append(&lease, None, varied_blocks()).await.unwrap();
        let mut expected = vec![Blob::of(b"\x89PNG").digest, Blob::of(b"whole").digest];
        expected.sort();
        let named = async || {
            let mut named = log.named_blobs().await.unwrap();
            named.sort();
            named
        };
        assert_eq!(named().await, expected);
        log.fork(&conversation("c"), nth(9), new_conversation("f")).await.unwrap();
        log.delete(&lease).await.unwrap();
        assert_eq!(named().await, expected, "the fork still names them");
        let fork = log.acquire(&conversation("f"), "a", at(0), TTL).await.unwrap();
        log.delete(&fork).await.unwrap();
        assert_eq!(named().await, []);
    }

    async fn many_conversations_append_at_once(log) {
        let names: Vec<String> = (0..40).map(|n| format!("c{n}")).collect();
        let writers = names.iter().map(|name| {
            let log = Arc::clone(&log);
            async move {
                let lease = begin(&log, name).await;
                for round in 0..5 {
                    fill(&log, &lease, round * 3 + 1, round * 3 + 3).await;
                }
            }
        });
        join_all(writers).await;
        for name in &names {
            let expected: Vec<String> = (1..=15).map(|n| format!("{name}-{n}")).collect();
            assert_eq!(texts(&log, name).await, expected);
        }
    }

    async fn readers_see_whole_appends_only(log) {
        let lease = begin(&log, "c").await;
        let reader = {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                loop {
                    let seen = log.read_all(&conversation("c")).await.unwrap().len();
                    assert_eq!(seen % 4, 0, "an append of four was seen in part");
                    if seen == 80 {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
            })
        };
        for round in 0..20 {
            fill(&log, &lease, round * 4 + 1, round * 4 + 4).await;
        }
        reader.await.unwrap();
    }
}
