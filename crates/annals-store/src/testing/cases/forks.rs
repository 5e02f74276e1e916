//! What conversations share: forks, bytes that blocks name, scopes, appends at once.

use annals_core::block::Blob;
use annals_core::block::payload::ToolsTable;
use annals_core::ids::{ConversationKey, Scope, Seq, TurnId};
use futures::StreamExt as _;
use futures::future::join_all;

use super::{
    Case, Subject, TTL, begin, elsewhere, fill, is_stale_lease, is_stale_tail, nth, prompt, seq, texts,
};
use crate::log::{Append, BatchId, BlockLogExt as _, LogError, NewConversation, Work};
use crate::testing::sample::{after, at, conversation, new_conversation, owner, text_block, varied_blocks};

cases! {
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
}
