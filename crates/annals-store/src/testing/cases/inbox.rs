//! What is posted, claimed, asked and followed.

use std::time::Duration;

use annals_core::block::{Blob, Block, BlockKind};
use annals_core::ids::Scope;
use futures::StreamExt as _;

use super::{Case, Subject, TTL, begin, elsewhere, fill, is_stale_lease, nth, of_kinds, prompt, seq, texts};
use crate::clock::Clock as _;
use crate::log::{BlockLogExt as _, Claimed, InboxId, LogError, Post, Posted, Stale, Work};
use crate::testing::sample::{after, conversation, new_conversation, owner, text_block};

cases! {
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
}
