//! One function for each rule of the contract.

use std::sync::Arc;
use std::time::Duration;

use annals_core::block::payload::ToolsTable;
use annals_core::block::{Blob, Block, BlockKind};
use annals_core::ids::{ConversationKey, Scope, Seq, TurnId};
use futures::StreamExt as _;
use futures::future::{BoxFuture, join_all};

use super::sample::{after, at, conversation, new_conversation, owner, text_block, varied_blocks};
use crate::clock::{Clock, ManualClock};
use crate::log::{
    ANSWER_KEPT, Append, BatchId, BlockLogExt, Claimed, IdempotencyKey, InboxId, Lease, LogError,
    NewConversation, Operator, Owner, Post, Posted, Role, Roles, Stale, Store, StoredAnswer, Token, Work,
};

/// A rule, tried on an empty store.
#[derive(Clone, Copy)]
pub struct Case {
    /// The behaviour.
    pub name: &'static str,
    /// Panics if the store behaves otherwise.
    pub run: fn(Subject) -> BoxFuture<'static, ()>,
}

/// An empty store, with the clock that it lives by.
#[derive(Clone)]
pub struct Subject {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
}

impl Subject {
    /// This store, which lives by this clock.
    pub fn new(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        Subject { store, clock }
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

impl std::ops::Deref for Subject {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

macro_rules! cases {
    ($($(#[doc = $doc:literal])* async fn $name:ident($log:ident) $body:block)*) => {
        /// Every rule.
        pub const CASES: &[Case] = &[$(Case { name: stringify!($name), run: |log| Box::pin($name(log)) },)*];
        $($(#[doc = $doc])* async fn $name($log: Subject) $body)*
    };
}

const TTL: Duration = Duration::from_secs(30);

fn seq(number: u64) -> Option<Seq> {
    Seq::try_new(number).ok()
}

fn nth(number: u64) -> Seq {
    Seq::try_new(number).expect("from 1")
}

/// The conversation of that name in another scope.
fn elsewhere(name: &str) -> ConversationKey {
    let scope = Scope::parse("o/t/her").expect("a scope");
    ConversationKey::new(scope, conversation(name).id)
}

async fn begin(log: &Subject, name: &str) -> Lease {
    log.create(new_conversation(name)).await.unwrap();
    log.acquire(&conversation(name), &owner("a"), TTL).await.unwrap()
}

/// Appends text blocks `from..=to`.
async fn fill(log: &Subject, lease: &Lease, from: u64, to: u64) {
    let blocks = (from..=to)
        .map(|n| text_block(n, &format!("{}-{n}", lease.key().id)))
        .collect();
    assert_eq!(
        log.append(lease, after(seq(from - 1), blocks)).await.unwrap(),
        seq(to)
    );
}

/// Blocks of these types, from this place on.
fn of_kinds(from: u64, kinds: &[BlockKind]) -> Vec<Block> {
    let block = |(n, kind): (u64, &BlockKind)| Block {
        kind: kind.clone(),
        ..text_block(n, "x")
    };
    (from..).zip(kinds).map(block).collect()
}

async fn texts(log: &Subject, name: &str) -> Vec<String> {
    let blocks = log.read_all(&conversation(name)).await.unwrap();
    let numbers: Vec<u64> = blocks.iter().map(|block| block.seq.get()).collect();
    assert_eq!(numbers, (1..=blocks.len() as u64).collect::<Vec<_>>(), "no gaps");
    blocks
        .iter()
        .map(|block| block.text().unwrap_or("-").to_owned())
        .collect()
}

fn prompt(client_key: &str, body: &str) -> Post {
    Post::new(client_key, "prompt", body)
}

/// An answer under this key; its body tells it from others.
fn answer(key: &str, body: &str) -> StoredAnswer {
    let to = IdempotencyKey {
        scope: Scope::default(),
        route: "POST /v1/things".to_owned(),
        key: key.to_owned(),
    };
    StoredAnswer {
        to,
        digest: [7; 32],
        status: 201,
        body: body.as_bytes().to_vec(),
    }
}

fn token(name: &str, byte: u8, expires_in: Option<u64>, log: &Subject) -> Token {
    let now = log.clock.now();
    let micros = |seconds: u64| i64::try_from(seconds).expect("a test's time") * 1_000_000;
    Token {
        name: name.to_owned(),
        hash: [byte; 32],
        scope: Scope::parse("o/t/her").expect("a scope"),
        roles: Roles::from_iter([Role::Use, Role::Metrics]),
        created: now,
        expires: expires_in.map(|seconds| now.plus_micros(micros(seconds))),
    }
}

fn is_answered(outcome: &Result<impl Sized, LogError>) -> bool {
    matches!(outcome, Err(LogError::Answered { .. }))
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
        log.append(&lease, after(None, blocks.clone())).await.unwrap();
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
        assert!(matches!(log.acquire(&id, &owner("a"), TTL).await, Err(LogError::NotFound { .. })));
        let forked = log.fork(&id, Seq::FIRST, new_conversation("f")).await;
        assert!(matches!(forked, Err(LogError::NotFound { .. })));
    }

    async fn an_id_is_taken_once(log) {
        log.create(new_conversation("c")).await.unwrap();
        assert!(matches!(log.create(new_conversation("c")).await, Err(LogError::Exists { .. })));
    }

    async fn what_is_known_of_a_conversation_follows_its_blocks(log) {
        let new = new_conversation("c").title("A title\0 with \u{2028}").from_parent(
            conversation("p").id, seq(3), Operator::Merge,
        );
        log.create(new.clone()).await.unwrap();
        let info = log.get(&conversation("c")).await.unwrap();
        assert_eq!((info.key, info.title), (new.key, new.title));
        assert_eq!((info.created, info.lineage), (new.created, new.lineage));
        assert_eq!((info.tail, info.updated, info.holding), (None, None, None));
        let lease = log.acquire(&conversation("c"), &owner("a"), TTL).await.unwrap();
        fill(&log, &lease, 1, 2).await;
        let info = log.get(&conversation("c")).await.unwrap();
        assert_eq!((info.tail, info.updated), (seq(2), Some(at(2))));
        assert_eq!(info.holding.unwrap().by, owner("a"));
        assert_eq!(log.tail(&conversation("c")).await.unwrap(), seq(2));
    }

    async fn listings_show_one_scope_newest_first_page_by_page(log) {
        for name in ["c1", "c2", "c3", "c4", "c5"] {
            log.create(new_conversation(name)).await.unwrap();
            log.create(NewConversation::new(elsewhere(name), at(0))).await.unwrap();
        }
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = log.list(&Scope::default(), cursor, 2).await.unwrap();
            assert!(page.items.len() <= 2);
            seen.extend(page.items.into_iter().map(|info| info.key.id.to_string()));
            match page.next {
                Some(next) => cursor = Some(next.to_string().parse().unwrap()),
                None => break,
            }
        }
        assert_eq!(seen, ["c5", "c4", "c3", "c2", "c1"]);
    }

    async fn an_append_at_another_tail_changes_nothing(log) {
        let lease = begin(&log, "c").await;
        assert!(is_stale_tail(&log.append(&lease, after(seq(1), vec![text_block(2, "x")])).await));
        fill(&log, &lease, 1, 2).await;
        for wrong in [None, seq(1), seq(3)] {
            let next = wrong.map_or(1, |tail| tail.get() + 1);
            assert!(is_stale_tail(&log.append(&lease, after(wrong, vec![text_block(next, "x")])).await));
        }
        assert_eq!(texts(&log, "c").await, ["c-1", "c-2"]);
    }

    async fn blocks_out_of_order_change_nothing(log) {
        let lease = begin(&log, "c").await;
        for numbers in [vec![2], vec![1, 3], vec![1, 1], vec![1, 2, 2]] {
            let blocks = numbers.iter().map(|n| text_block(*n, "x")).collect();
            assert!(matches!(log.append(&lease, after(None, blocks)).await, Err(LogError::OutOfOrder { .. })));
        }
        assert!(matches!(log.append(&lease, after(None, vec![])).await, Err(LogError::Nothing { .. })));
        assert_eq!(log.tail(&conversation("c")).await.unwrap(), None);
    }

    async fn another_owner_waits_until_the_lease_expires(log) {
        let lease = begin(&log, "c").await;
        let id = conversation("c");
        let until = log.clock.now().plus_micros(30_000_000);
        log.pass(29);
        match log.acquire(&id, &owner("b"), TTL).await {
            Err(LogError::Held { by, until: held, .. }) => assert_eq!((by, held), (owner("a"), until)),
            other => panic!("{other:?}"),
        }
        fill(&log, &lease, 1, 1).await;
        log.pass(1_000);
        let taken = log.acquire(&id, &owner("b"), TTL).await.unwrap();
        assert!(taken.token() > lease.token());
        assert!(is_stale_lease(&log.append(&lease, after(seq(1), vec![text_block(2, "stale")])).await));
        assert!(is_stale_lease(&log.renew(&lease).await));
        assert!(is_stale_lease(&log.delete(&lease).await));
        fill(&log, &taken, 2, 2).await;
        assert_eq!(texts(&log, "c").await, ["c-1", "c-2"]);
    }

    async fn an_expired_lease_still_writes_while_nobody_took_over(log) {
        let lease = begin(&log, "c").await;
        log.pass(1_000_000);
        log.append(&lease, after(None, vec![text_block(1, "late")])).await.unwrap();
        assert_eq!(texts(&log, "c").await, ["late"]);
    }

    async fn the_same_owner_takes_over_from_itself(log) {
        let first = begin(&log, "c").await;
        let second = log.acquire(&conversation("c"), &owner("a"), TTL).await.unwrap();
        assert!(is_stale_lease(&log.append(&first, after(None, vec![text_block(1, "x")])).await));
        fill(&log, &second, 1, 1).await;
        let later = Owner { epoch: 2, ..owner("a") };
        assert!(matches!(log.acquire(&conversation("c"), &later, TTL).await, Err(LogError::Held { .. })));
    }

    async fn appending_and_renewing_keep_a_lease(log) {
        let lease = begin(&log, "c").await;
        let id = conversation("c");
        log.pass(25);
        fill(&log, &lease, 1, 1).await;
        log.pass(25);
        assert!(matches!(log.acquire(&id, &owner("b"), TTL).await, Err(LogError::Held { .. })));
        log.renew(&lease).await.unwrap();
        log.pass(29);
        assert!(matches!(log.acquire(&id, &owner("b"), TTL).await, Err(LogError::Held { .. })));
        log.pass(1);
        log.acquire(&id, &owner("b"), TTL).await.unwrap();
    }

    async fn a_clock_that_goes_backwards_never_shortens_a_lease(log) {
        let lease = begin(&log, "c").await;
        let (id, begun) = (conversation("c"), log.clock.now());
        log.clock.set(begun.plus_micros(-500_000_000));
        log.renew(&lease).await.unwrap();
        fill(&log, &lease, 1, 1).await;
        let lease = log.acquire(&id, &owner("a"), TTL).await.unwrap();
        log.clock.set(begun.plus_micros(29_000_000));
        assert!(matches!(log.acquire(&id, &owner("b"), TTL).await, Err(LogError::Held { .. })));
        fill(&log, &lease, 2, 3).await;
        assert_eq!(texts(&log, "c").await, ["c-1", "c-2", "c-3"]);
    }

    async fn times_of_blocks_decide_nothing(log) {
        let lease = begin(&log, "c").await;
        let mut early = text_block(2, "early");
        early.ts = at(-1_000);
        log.append(&lease, after(None, vec![text_block(1, "first"), early])).await.unwrap();
        log.pass(29);
        assert!(matches!(log.acquire(&conversation("c"), &owner("b"), TTL).await, Err(LogError::Held { .. })));
        assert_eq!(texts(&log, "c").await, ["first", "early"], "order is by place, not by time");
    }

    async fn a_released_conversation_is_free_and_its_lease_writes_no_more(log) {
        let lease = begin(&log, "c").await;
        log.release(&lease).await.unwrap();
        assert_eq!(log.get(&conversation("c")).await.unwrap().holding, None);
        assert!(is_stale_lease(&log.append(&lease, after(None, vec![text_block(1, "x")])).await));
        let other = log.acquire(&conversation("c"), &owner("b"), TTL).await.unwrap();
        log.release(&lease).await.unwrap();
        fill(&log, &other, 1, 1).await;
    }

    async fn a_fork_shares_what_was_and_goes_its_own_way(log) {
        let parent = begin(&log, "p").await;
        fill(&log, &parent, 1, 4).await;
        log.fork(&conversation("p"), nth(2), new_conversation("f")).await.unwrap();
        let fork = log.acquire(&conversation("f"), &owner("z"), TTL).await.unwrap();
        assert_eq!(log.get(&conversation("f")).await.unwrap().updated, Some(at(2)));
        assert!(is_stale_tail(&log.append(&fork, after(None, vec![text_block(1, "x")])).await));
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
        let fork = log.acquire(&conversation("f"), &owner("a"), TTL).await.unwrap();
        fill(&log, &fork, 3, 4).await;
        log.fork(&conversation("f"), nth(3), new_conversation("g")).await.unwrap();
        log.fork(&conversation("f"), nth(1), new_conversation("h")).await.unwrap();
        let deep = log.acquire(&conversation("g"), &owner("a"), TTL).await.unwrap();
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
        let fork = log.acquire(&conversation("f"), &owner("a"), TTL).await.unwrap();
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
        assert!(is_stale_lease(&log.append(&first, after(None, vec![text_block(1, "ghost")])).await));
        assert_eq!(texts(&log, "c").await, [""; 0]);
        fill(&log, &second, 1, 1).await;
    }

    async fn named_blobs_are_those_of_living_blocks(log) {
        let lease = begin(&log, "c").await;
        log.append(&lease, after(None, varied_blocks())).await.unwrap();
        let mut expected = vec![Blob::of(b"\x89PNG").digest, Blob::of(b"whole").digest];
        expected.sort();
        let named = async || log.named_blobs(None, 100).await.unwrap();
        assert_eq!(named().await, expected);
        assert_eq!(log.named_blobs(None, 1).await.unwrap(), expected[..1]);
        assert_eq!(log.named_blobs(Some(expected[0]), 100).await.unwrap(), expected[1..]);
        assert_eq!(log.named_blobs(Some(expected[1]), 100).await.unwrap(), []);
        log.fork(&conversation("c"), nth(9), new_conversation("f")).await.unwrap();
        log.delete(&lease).await.unwrap();
        assert_eq!(named().await, expected, "the fork still names them");
        let fork = log.acquire(&conversation("f"), &owner("a"), TTL).await.unwrap();
        log.delete(&fork).await.unwrap();
        assert_eq!(named().await, []);
    }

    async fn what_a_table_of_tools_needs_is_named(log) {
        let lease = begin(&log, "c").await;
        let (definitions, system) = (Blob::of(b"[]").digest, Blob::of(b"Be brief.").digest);
        let table = ToolsTable { tools: Vec::new(), definitions, system };
        let turn = TurnId::parse("turn_1").expect("a turn");
        let block = table.block(&turn, 1).seal(Seq::FIRST, at(1));
        log.append(&lease, after(None, vec![block])).await.unwrap();
        let mut expected = vec![definitions, system];
        expected.sort();
        assert_eq!(log.named_blobs(None, 100).await.unwrap(), expected);
    }

    async fn many_conversations_append_at_once(log) {
        let names: Vec<String> = (0..40).map(|n| format!("c{n}")).collect();
        let writers = names.iter().map(|name| {
            let log = log.clone();
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
            let log = log.clone();
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

    async fn scopes_do_not_meet(log) {
        let lease = begin(&log, "c").await;
        fill(&log, &lease, 1, 2).await;
        log.post(&conversation("c"), prompt("k", "mine")).await.unwrap();
        let (there, nowhere) = (elsewhere("c"), elsewhere("nobody"));
        let said = |outcome: Result<(), LogError>| outcome.unwrap_err().to_string().replace("nobody", "c");
        let probe = async |key: &ConversationKey| {
            let fork = NewConversation::new(ConversationKey { id: conversation("f").id, ..key.clone() }, at(0));
            [
                said(log.get(key).await.map(drop)),
                said(log.read(key, Seq::FIRST, 9).await.map(drop)),
                said(log.acquire(key, &owner("b"), TTL).await.map(drop)),
                said(log.fork(key, Seq::FIRST, fork).await),
                said(log.post(key, prompt("k", "yours")).await.map(drop)),
                said(log.pending(key).await.map(drop)),
                said(log.follow(key, None).next().await.unwrap().map(drop)),
            ]
        };
        assert_eq!(probe(&there).await, probe(&nowhere).await, "another scope's looks like none");
        let across = NewConversation::new(elsewhere("f"), at(0));
        let forked = log.fork(&conversation("c"), Seq::FIRST, across).await;
        assert!(matches!(forked, Err(LogError::NotFound { .. })), "a fork stays in its scope");
        log.create(NewConversation::new(there.clone(), at(0))).await.unwrap();
        let other = log.acquire(&there, &owner("b"), TTL).await.unwrap();
        fill(&log, &other, 1, 1).await;
        assert_eq!(log.tail(&there).await.unwrap(), seq(1));
        assert_eq!(texts(&log, "c").await, ["c-1", "c-2"]);
        log.delete(&other).await.unwrap();
        assert_eq!(texts(&log, "c").await, ["c-1", "c-2"]);
        assert_eq!(log.pending(&conversation("c")).await.unwrap().len(), 1);
    }

    async fn an_append_whose_answer_was_lost_is_recognised(log) {
        let lease = begin(&log, "c").await;
        let first = after(None, vec![text_block(1, "a"), text_block(2, "b")]);
        for _ in 0..3 {
            assert_eq!(log.append(&lease, first.clone()).await.unwrap(), seq(2));
        }
        let other = Append { batch: BatchId::new(u64::MAX), ..first.clone() };
        assert!(is_stale_tail(&log.append(&lease, other).await), "another batch is another append");
        let bare = after(seq(2), vec![]).work(Work::Done);
        for _ in 0..2 {
            assert_eq!(log.append(&lease, bare.clone()).await.unwrap(), seq(2));
        }
        let next = after(seq(2), vec![text_block(3, "c")]);
        assert_eq!(log.append(&lease, next.clone()).await.unwrap(), seq(3));
        assert!(is_stale_tail(&log.append(&lease, first).await), "only the last one is known");
        assert!(is_stale_tail(&log.append(&lease, bare).await));
        log.release(&lease).await.unwrap();
        assert!(is_stale_lease(&log.append(&lease, next).await), "the lease decides first");
        assert_eq!(texts(&log, "c").await, ["a", "b", "c"]);
    }

    async fn a_post_waits_until_one_append_consumes_it(log) {
        let lease = begin(&log, "c").await;
        let id = conversation("c");
        let first = log.post(&id, prompt("k1", "one")).await.unwrap().id();
        let second = log.post(&id, prompt("k2", "two\0\u{2028}")).await.unwrap().id();
        assert!(second > first);
        let pending = log.pending(&id).await.unwrap();
        assert_eq!(pending.iter().map(|row| row.id).collect::<Vec<_>>(), [first, second]);
        assert_eq!(pending[1].post, prompt("k2", "two\0\u{2028}"));
        assert_eq!(pending[0].posted, log.clock.now());
        let written = after(None, vec![text_block(1, "one")]).consuming([first]);
        log.append(&lease, written.clone()).await.unwrap();
        assert_eq!(log.append(&lease, written).await.unwrap(), seq(1), "its answer may be asked for again");
        assert_eq!(log.pending(&id).await.unwrap().len(), 1);
        let twice = after(seq(1), vec![text_block(2, "again")]).consuming([first]);
        let refused = log.append(&lease, twice).await;
        assert!(matches!(refused, Err(LogError::Conflict { stale: Stale::Inbox { row }, .. }) if row == first));
        let neither = after(seq(1), vec![text_block(2, "again")]).consuming([second, first]);
        assert!(log.append(&lease, neither).await.is_err());
        assert_eq!(log.pending(&id).await.unwrap().len(), 1, "what is refused consumes nothing");
        log.append(&lease, after(seq(1), vec![]).consuming([second])).await.unwrap();
        assert!(log.pending(&id).await.unwrap().is_empty());
        assert_eq!(texts(&log, "c").await, ["one"]);
    }

    async fn a_post_takes_the_conversation_unless_another_has_it(log) {
        log.create(new_conversation("c")).await.unwrap();
        let (id, ttl) = (conversation("c"), Duration::from_secs(60));
        log.post(&id, prompt("k1", "one")).await.unwrap();
        let (posted, taken) = log.post_and_take(&id, prompt("k2", "two"), &owner("a"), ttl).await.unwrap();
        let taken = taken.unwrap();
        assert!(matches!(posted, Posted::New(_)));
        assert_eq!(taken.pending, log.pending(&id).await.unwrap());
        assert_eq!(taken.pending.last().map(|row| row.id), Some(posted.id()));
        assert_eq!((taken.info.tail, taken.info.holding.map(|holding| holding.by)), (None, Some(owner("a"))));
        let written = after(None, vec![text_block(1, "one")]).consuming([taken.pending[0].id]);
        log.append(&taken.lease, written).await.unwrap();
        let (refused, not_taken) = log.post_and_take(&id, prompt("k3", "three"), &owner("b"), ttl).await.unwrap();
        assert!(matches!(not_taken, Err(LogError::Held { by, .. }) if by == owner("a")));
        assert_eq!(log.pending(&id).await.unwrap().last().map(|row| row.id), Some(refused.id()), "the post stands");
        let reused = log.post_and_take(&id, prompt("k3", "other"), &owner("b"), ttl).await;
        assert!(matches!(reused, Err(LogError::KeyReused { .. })));
        log.release(&taken.lease).await.unwrap();
        let (again, taken) = log.post_and_take(&id, prompt("k3", "three"), &owner("b"), ttl).await.unwrap();
        let taken = taken.unwrap();
        assert_eq!((again, taken.info.tail), (Posted::Duplicate(refused.id()), seq(1)));
        assert_eq!(taken.pending.len(), 2);
        let took = log.take(&id, &owner("b"), ttl).await.unwrap();
        assert!(took.lease.token() > taken.lease.token(), "each taking fences the one before");
        assert_eq!((took.info.tail, took.pending.len()), (seq(1), 2));
        let gone = log.post_and_take(&conversation("d"), prompt("k", "x"), &owner("a"), ttl).await;
        assert!(matches!(gone, Err(LogError::NotFound { .. })));
    }

    async fn what_a_post_names_is_kept_until_it_is_consumed(log) {
        let lease = begin(&log, "c").await;
        let blobs = [b"first", b"other", b"third"].map(|bytes| Blob::of(bytes));
        let digests = blobs.map(|blob| blob.digest);
        let block = Block { body: blobs[0].into(), ..text_block(1, "") };
        log.append(&lease, after(None, vec![block])).await.unwrap();
        let body = format!(r#"{{"attachments":[{{"digest":"{}"}},{{"digest":"{}"}}]}}"#, digests[1], digests[2]);
        let post = log.post(&conversation("c"), Post::new("k", "prompt", body)).await.unwrap().id();
        let mut all = digests.to_vec();
        all.sort();
        assert_eq!(log.named_blobs(None, 10).await.unwrap(), all);
        assert_eq!(log.named_blobs(Some(all[0]), 1).await.unwrap(), [all[1]]);
        let taken = after(seq(1), vec![text_block(2, "taken")]).consuming([post]);
        log.append(&lease, taken).await.unwrap();
        assert_eq!(log.named_blobs(None, 10).await.unwrap(), [digests[0]]);
    }

    async fn another_conversations_post_cannot_be_consumed(log) {
        let lease = begin(&log, "c").await;
        log.create(new_conversation("d")).await.unwrap();
        let posted = log.post(&conversation("d"), prompt("k", "x")).await.unwrap().id();
        let stolen = after(None, vec![text_block(1, "x")]).consuming([posted]);
        assert!(log.append(&lease, stolen).await.is_err());
        assert_eq!(log.pending(&conversation("d")).await.unwrap().len(), 1);
        assert_eq!(log.tail(&conversation("c")).await.unwrap(), None);
    }

    async fn a_client_key_is_taken_once_also_after_it_was_consumed(log) {
        let lease = begin(&log, "c").await;
        let id = conversation("c");
        let posted = log.post(&id, prompt("k", "x")).await.unwrap();
        assert!(matches!(posted, Posted::New(_)));
        let again = Posted::Duplicate(posted.id());
        assert_eq!(log.post(&id, prompt("k", "x")).await.unwrap(), again);
        assert!(matches!(log.post(&id, prompt("k", "y")).await, Err(LogError::KeyReused { .. })));
        log.append(&lease, after(None, vec![text_block(1, "x")]).consuming([posted.id()])).await.unwrap();
        log.pass(23 * 60 * 60);
        assert_eq!(log.post(&id, prompt("k", "x")).await.unwrap(), again);
        assert!(log.pending(&id).await.unwrap().is_empty());
        log.create(new_conversation("d")).await.unwrap();
        assert!(matches!(log.post(&conversation("d"), prompt("k", "x")).await.unwrap(), Posted::New(_)));
        log.pass(2 * 60 * 60);
        assert!(matches!(log.post(&id, prompt("k", "y")).await.unwrap(), Posted::New(_)));
        let unread = log.post(&id, prompt("waits", "x")).await.unwrap();
        log.pass(48 * 60 * 60);
        let again = log.post(&id, prompt("waits", "x")).await.unwrap();
        assert_eq!(again, Posted::Duplicate(unread.id()), "what still waits is never posted twice");
    }

    async fn due_work_is_claimed_by_one_the_longest_due_first(log) {
        for name in ["c1", "c2", "c3", "idle"] {
            log.create(new_conversation(name)).await.unwrap();
        }
        for name in ["c2", "c1", "c3"] {
            log.post(&conversation(name), prompt("k", "x")).await.unwrap();
            log.pass(1);
        }
        let first = log.claim(&owner("a"), TTL, 2).await.unwrap();
        let names = |claimed: &[Claimed]| -> Vec<String> {
            claimed.iter().map(|claimed| claimed.lease.key().id.to_string()).collect()
        };
        assert_eq!(names(&first), ["c2", "c1"]);
        assert_eq!(first[0].attempts, 1);
        let second = log.claim(&owner("b"), TTL, 9).await.unwrap();
        assert_eq!(names(&second), ["c3"]);
        assert_eq!(names(&log.claim(&owner("a"), TTL, 9).await.unwrap()), [""; 0], "all are held");
        fill(&log, &first[0].lease, 1, 1).await;
        log.pass(31);
        let again = log.claim(&owner("b"), TTL, 9).await.unwrap();
        assert_eq!(names(&again), ["c2", "c1", "c3"], "whose owner is silent is claimed again");
        assert_eq!(again.iter().map(|claimed| claimed.attempts).collect::<Vec<_>>(), [1, 2, 2]);
        assert!(is_stale_lease(&log.append(&first[1].lease, after(None, vec![text_block(1, "x")])).await));
    }

    async fn work_is_done_when_nothing_waits(log) {
        let lease = begin(&log, "c").await;
        let id = conversation("c");
        let first = log.post(&id, prompt("k1", "one")).await.unwrap().id();
        let second = log.post(&id, prompt("k2", "two")).await.unwrap().id();
        let append = after(None, vec![text_block(1, "one")]).consuming([first]).work(Work::Done);
        log.append(&lease, append).await.unwrap();
        log.release(&lease).await.unwrap();
        let claimed = log.claim(&owner("b"), TTL, 9).await.unwrap();
        assert_eq!(claimed.len(), 1, "a post that came meanwhile is not forgotten");
        let append = after(seq(1), vec![text_block(2, "two")]).consuming([second]).work(Work::Done);
        log.append(&claimed[0].lease, append).await.unwrap();
        log.release(&claimed[0].lease).await.unwrap();
        assert!(log.claim(&owner("b"), TTL, 9).await.unwrap().is_empty());
        let lease = log.acquire(&id, &owner("a"), TTL).await.unwrap();
        let append = after(seq(2), vec![]).work(Work::DueIn(Duration::from_secs(60)));
        log.append(&lease, append).await.unwrap();
        log.release(&lease).await.unwrap();
        log.pass(59);
        assert!(log.claim(&owner("b"), TTL, 9).await.unwrap().is_empty());
        log.pass(1);
        assert_eq!(log.claim(&owner("b"), TTL, 9).await.unwrap().len(), 1);
    }

    async fn what_asks_is_found_until_its_turn_ends(log) {
        let (lease, quiet) = (begin(&log, "c").await, begin(&log, "quiet").await);
        fill(&log, &quiet, 1, 3).await;
        let asking = async || -> Vec<(String, u64)> {
            let page = log.asking(&Scope::default(), None, 9).await.unwrap();
            assert_eq!(page.next, None);
            page.items.into_iter().map(|asking| (asking.key.id.to_string(), asking.from.get())).collect()
        };
        let kinds = [BlockKind::TurnHeader, BlockKind::ToolCall, BlockKind::ApprovalRequest, BlockKind::InputRequest];
        log.append(&lease, after(None, of_kinds(1, &kinds))).await.unwrap();
        let found = ("c".to_owned(), 3);
        assert_eq!(asking().await, std::slice::from_ref(&found));
        log.append(&lease, after(seq(4), of_kinds(5, &[BlockKind::ApprovalDecision]))).await.unwrap();
        assert_eq!(asking().await, std::slice::from_ref(&found), "the turn may ask for more than one thing");
        log.fork(&conversation("c"), nth(2), new_conversation("before")).await.unwrap();
        log.fork(&conversation("c"), nth(3), new_conversation("fork")).await.unwrap();
        log.fork(&conversation("fork"), nth(3), new_conversation("again")).await.unwrap();
        let all = [found, ("fork".to_owned(), 3), ("again".to_owned(), 3)];
        assert_eq!(asking().await, all);
        log.append(&lease, after(seq(5), of_kinds(6, &[BlockKind::ReactCompletion]))).await.unwrap();
        assert_eq!(asking().await, all[1..]);
        log.fork(&conversation("c"), nth(4), new_conversation("past")).await.unwrap();
        let first = log.asking(&Scope::default(), None, 2).await.unwrap();
        assert_eq!(first.items.len(), 2);
        let rest = log.asking(&Scope::default(), first.next, 2).await.unwrap();
        let rest: Vec<&str> = rest.items.iter().map(|asking| asking.key.id.as_str()).collect();
        assert_eq!(rest, ["past"], "also from a moment that is past where it came from");
        let other = log.asking(&elsewhere("c").scope, None, 9).await.unwrap();
        assert!(other.items.is_empty(), "scopes do not meet");
        let fork = log.acquire(&conversation("fork"), &owner("a"), TTL).await.unwrap();
        log.append(&fork, after(seq(3), of_kinds(4, &[BlockKind::TurnHeader]))).await.unwrap();
        log.delete(&log.acquire(&conversation("again"), &owner("a"), TTL).await.unwrap()).await.unwrap();
        assert_eq!(asking().await, [("past".to_owned(), 3)]);
    }

    async fn an_append_that_has_seen_the_inbox_does_not_overtake_a_post(log) {
        let lease = begin(&log, "c").await;
        let id = conversation("c");
        let nothing = InboxId::new(0);
        log.append(&lease, after(None, vec![text_block(1, "x")]).having_seen(nothing)).await.unwrap();
        let first = log.post(&id, prompt("k1", "one")).await.unwrap().id();
        let late = after(seq(1), vec![text_block(2, "end")]);
        let refused = log.append(&lease, late.clone().having_seen(nothing)).await;
        let stale = Stale::Posted { row: first };
        assert!(matches!(refused, Err(LogError::Conflict { stale: s, .. }) if s == stale), "{refused:?}");
        assert_eq!(texts(&log, "c").await, ["x"]);
        let append = late.consuming([first]).having_seen(first);
        assert_eq!(log.append(&lease, append.clone()).await.unwrap(), seq(2));
        log.post(&id, prompt("k2", "two")).await.unwrap();
        assert_eq!(log.append(&lease, append).await.unwrap(), seq(2), "a lost answer can still be asked for");
    }

    async fn a_follower_misses_nothing(log) {
        let lease = begin(&log, "c").await;
        fill(&log, &lease, 1, 2).await;
        let mut from_start = log.follow(&conversation("c"), None);
        let mut from_tail = log.follow(&conversation("c"), seq(2));
        let mut later = log.follow_later(&conversation("c"));
        assert_eq!(from_start.next().await.unwrap().unwrap(), nth(2), "what is there is told at once");
        let writer = {
            let (log, lease) = (log.clone(), lease.clone());
            tokio::spawn(async move {
                for round in 1..30 {
                    fill(&log, &lease, round * 2 + 1, round * 2 + 2).await;
                }
            })
        };
        for tails in [&mut from_start, &mut from_tail] {
            let mut last = nth(2);
            while last < nth(60) {
                let tail = tails.next().await.unwrap().unwrap();
                assert!(tail > last, "tails rise");
                let seen = log.read(&conversation("c"), tail, 1).await.unwrap();
                assert_eq!(seen.len(), 1, "what is told can be read");
                last = tail;
            }
        }
        while later.next().await.unwrap().unwrap() < nth(60) {}
        writer.await.unwrap();
        log.delete(&lease).await.unwrap();
        assert!(matches!(from_start.next().await, Some(Err(LogError::NotFound { .. }))));
        assert!(from_start.next().await.is_none());
    }

    async fn a_follower_of_the_inbox_hears_of_every_post(log) {
        log.create(new_conversation("c")).await.unwrap();
        let id = conversation("c");
        let first = log.post(&id, prompt("k1", "x")).await.unwrap().id();
        let (mut posts, mut later) = (log.posted(&id, None), log.posted_later(&id));
        assert_eq!(posts.next().await.unwrap().unwrap(), first);
        let second = log.post(&id, prompt("k2", "x")).await.unwrap().id();
        assert_eq!(posts.next().await.unwrap().unwrap(), second);
        while later.next().await.unwrap().unwrap() < second {}
        log.post(&id, prompt("k2", "x")).await.unwrap();
        let third = log.post(&id, prompt("k3", "x")).await.unwrap().id();
        assert_eq!(posts.next().await.unwrap().unwrap(), third, "a duplicate is no news");
        assert_eq!(log.posted(&id, Some(second)).next().await.unwrap().unwrap(), third);
    }

    async fn an_answer_is_kept_with_its_effect_or_not_at_all(log) {
        let first = answer("k", "first");
        let created = new_conversation("c").answering(Some(first.clone()));
        log.create(created.clone()).await.unwrap();
        assert_eq!(log.answered(&first.to).await.unwrap(), Some(first.clone()));
        let elsewhere = IdempotencyKey { scope: Scope::parse("o/t/her").unwrap(), ..first.to.clone() };
        assert_eq!(log.answered(&elsewhere).await.unwrap(), None);
        let other_route = IdempotencyKey { route: "POST /v1/others".to_owned(), ..first.to.clone() };
        assert_eq!(log.answered(&other_route).await.unwrap(), None);

        let again = Some(answer("k", "second"));
        assert!(is_answered(&log.create(new_conversation("d").answering(again.clone())).await));
        assert!(log.get(&conversation("d")).await.is_err(), "nothing was made");
        assert!(is_answered(&log.post(&conversation("c"), prompt("p", "x").answering(again.clone())).await));
        assert!(log.pending(&conversation("c")).await.unwrap().is_empty(), "nothing was posted");
        let lease = log.acquire(&conversation("c"), &owner("a"), TTL).await.unwrap();
        let append = after(None, vec![text_block(1, "x")]).answering(again.clone());
        assert!(is_answered(&log.append(&lease, append).await));
        assert_eq!(log.tail(&conversation("c")).await.unwrap(), None, "nothing was appended");
        assert!(is_answered(&log.keep_answer(answer("k", "third")).await));
        assert_eq!(log.answered(&first.to).await.unwrap(), Some(first), "the first answer stays");

        let refused = Some(answer("r", "never"));
        assert!(log.create(new_conversation("c").answering(refused.clone())).await.is_err());
        let stale = after(seq(9), vec![text_block(10, "x")]).answering(refused.clone());
        assert!(log.append(&lease, stale).await.is_err());
        assert!(log.post(&conversation("nowhere"), prompt("p", "x").answering(refused)).await.is_err());
        assert_eq!(log.answered(&answer("r", "").to).await.unwrap(), None, "no effect, no answer");
    }

    async fn every_effect_may_carry_an_answer(log) {
        let lease = begin(&log, "c").await;
        let append = after(None, vec![text_block(1, "x")]).answering(Some(answer("append", "1")));
        log.append(&lease, append.clone()).await.unwrap();
        assert_eq!(log.append(&lease, append).await.unwrap(), seq(1), "a lost answer is asked for again");
        log.post(&conversation("c"), prompt("p", "x").answering(Some(answer("post", "2")))).await.unwrap();
        let fork = new_conversation("f").from_parent(conversation("c").id, seq(1), Operator::Fork);
        log.fork(&conversation("c"), nth(1), fork.answering(Some(answer("fork", "3")))).await.unwrap();
        log.keep_answer(answer("alone", "4")).await.unwrap();
        for (key, body) in [("append", "1"), ("post", "2"), ("fork", "3"), ("alone", "4")] {
            let expected = answer(key, body);
            assert_eq!(log.answered(&expected.to).await.unwrap(), Some(expected), "{key}");
        }
        let pending = log.pending(&conversation("c")).await.unwrap();
        assert_eq!(pending[0].post, prompt("p", "x"), "what waits carries no answer");
    }

    async fn an_answer_is_forgotten_after_its_time(log) {
        log.keep_answer(answer("k", "old")).await.unwrap();
        log.pass(ANSWER_KEPT.as_secs() - 1);
        assert!(log.answered(&answer("k", "").to).await.unwrap().is_some());
        log.pass(2);
        assert_eq!(log.answered(&answer("k", "").to).await.unwrap(), None);
        log.keep_answer(answer("k", "new")).await.unwrap();
        assert_eq!(log.answered(&answer("k", "").to).await.unwrap(), Some(answer("k", "new")));
    }

    async fn of_requests_at_once_under_one_key_one_takes_effect(log) {
        let names: Vec<String> = (0..8).map(|n| format!("c{n}")).collect();
        let made = names.iter().map(|name| log.create(new_conversation(name).answering(Some(answer("k", name)))));
        let made = join_all(made).await;
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
        let told = log.answered(&answer("k", "").to).await.unwrap().expect("an answer");
        let there = log.list(&Scope::default(), None, 10).await.unwrap().items;
        assert_eq!(there.len(), 1);
        assert_eq!(there[0].key.id.as_str().as_bytes(), told.body, "the answer is that of the effect");
    }

    async fn a_token_is_known_by_its_digest_until_it_expires_or_is_revoked(log) {
        let (lasting, brief) = (token("lasting", 1, None, &log), token("brief", 2, Some(60), &log));
        log.add_token(lasting.clone()).await.unwrap();
        log.add_token(brief.clone()).await.unwrap();
        let taken = log.add_token(token("brief", 3, None, &log)).await;
        assert!(matches!(taken, Err(LogError::TokenExists { .. })));
        assert_eq!(log.find_token(&[1; 32]).await.unwrap(), Some(lasting.clone()));
        assert_eq!(log.find_token(&[2; 32]).await.unwrap(), Some(brief.clone()));
        assert_eq!(log.find_token(&[3; 32]).await.unwrap(), None);
        log.pass(60);
        assert_eq!(log.find_token(&[2; 32]).await.unwrap(), None, "it has expired");
        assert_eq!(log.tokens().await.unwrap(), [brief, lasting]);
        assert!(log.revoke_token("lasting").await.unwrap());
        assert!(!log.revoke_token("lasting").await.unwrap());
        assert_eq!(log.find_token(&[1; 32]).await.unwrap(), None);
    }

    async fn a_server_key_is_the_first_one_for_ever(log) {
        assert_eq!(log.server_key("cookies", [1; 32]).await.unwrap(), [1; 32]);
        assert_eq!(log.server_key("cookies", [2; 32]).await.unwrap(), [1; 32]);
        assert_eq!(log.server_key("links", [3; 32]).await.unwrap(), [3; 32]);
    }

    async fn members_come_and_go(log) {
        let nodes = ["n1", "n2"].map(|name| owner(name).node);
        let first = log.join(&nodes[0], Some("10.0.0.1:7000"), TTL).await.unwrap();
        let second = log.join(&nodes[1], None, TTL).await.unwrap();
        let alive = async || -> Vec<Owner> {
            log.alive().await.unwrap().into_iter().map(|member| member.owner).collect()
        };
        assert_eq!(alive().await, [first.clone(), second.clone()]);
        assert_eq!(log.alive().await.unwrap()[0].address.as_deref(), Some("10.0.0.1:7000"));
        log.pass(29);
        log.beat(&first).await.unwrap();
        log.pass(1);
        assert_eq!(alive().await, std::slice::from_ref(&first), "a silent one is gone");
        assert!(matches!(log.beat(&second).await, Err(LogError::NotAMember { .. })));
        let again = log.join(&nodes[1], None, TTL).await.unwrap();
        assert!(again.epoch > second.epoch);
        assert!(matches!(log.beat(&second).await, Err(LogError::NotAMember { .. })), "its former self stays gone");
        log.leave(&second).await.unwrap();
        assert_eq!(alive().await, [first.clone(), again.clone()], "and cannot take it along");
        log.leave(&again).await.unwrap();
        log.leave(&again).await.unwrap();
        assert_eq!(alive().await, [first]);
        assert!(matches!(log.beat(&owner("n3")).await, Err(LogError::NotAMember { .. })));
    }

    async fn what_a_member_held_is_free_when_it_is_gone(log) {
        let long = TTL * 100;
        for name in ["left", "silent", "again", "there"] {
            log.create(new_conversation(name)).await.unwrap();
            log.post(&conversation(name), prompt("k", "x")).await.unwrap();
            let member = log.join(&owner(name).node, None, TTL).await.unwrap();
            log.acquire(&conversation(name), &member, long).await.unwrap();
            if name == "left" {
                log.leave(&member).await.unwrap();
            }
        }
        log.pass(20);
        log.join(&owner("again").node, None, TTL).await.unwrap();
        log.beat(&Owner::new(owner("there").node, 1)).await.unwrap();
        log.pass(10);
        for name in ["left", "silent", "again"] {
            let gone = log.claim(&Owner::new(owner(name).node, 1), TTL, 9).await;
            assert!(matches!(gone, Err(LogError::NotAMember { .. })), "{name}: {gone:?}");
        }
        let claimed = log.claim(&owner("b"), TTL, 9).await.unwrap();
        let mut names: Vec<&str> = claimed.iter().map(|claimed| claimed.lease.key().id.as_str()).collect();
        names.sort();
        assert_eq!(names, ["again", "left", "silent"]);
        let held = log.acquire(&conversation("there"), &owner("b"), TTL).await;
        assert!(matches!(held, Err(LogError::Held { .. })));
    }
}
