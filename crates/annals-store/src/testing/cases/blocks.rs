//! Blocks and their conversations: what is read back, what is listed, what an append at the wrong place changes.

use annals_core::block::Block;
use annals_core::ids::{Scope, Seq};

use super::{Case, Subject, TTL, begin, elsewhere, fill, is_stale_tail, nth, seq, texts};
use crate::log::{BlockLogExt as _, LogError, NewConversation, Operator};
use crate::testing::sample::{after, at, conversation, new_conversation, owner, text_block, varied_blocks};

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
}
