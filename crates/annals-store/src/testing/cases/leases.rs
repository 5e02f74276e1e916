//! Leases: who may write, for how long, and by which clock.

use super::{Case, Subject, TTL, begin, fill, is_stale_lease, seq, texts};
use crate::clock::Clock as _;
use crate::log::{LogError, Owner};
use crate::testing::sample::{after, at, conversation, owner, text_block};

cases! {
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
}
