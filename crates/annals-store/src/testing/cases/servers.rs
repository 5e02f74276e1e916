//! What servers of one store share: answers to requests, tokens, keys, members.

use annals_core::block::{Block, BlockKind};
use annals_core::ids::Scope;
use futures::future::join_all;

use super::{Case, Subject, TTL, answer, begin, is_answered, nth, prompt, seq, token};
use crate::log::{ANSWER_KEPT, BlockLogExt as _, IdempotencyKey, LogError, Operator, Owner, Post};
use crate::testing::sample::{after, conversation, new_conversation, owner, text_block};

cases! {
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

    async fn a_text_may_have_a_nul_wherever_it_stands(log) {
        let lease = begin(&log, "c").await;
        let block = Block {
            kind: BlockKind::from_tag("x.kind\0"),
            author: "author\0".into(),
            mime: "text/\0".into(),
            ..text_block(1, "body\0")
        };
        log.append(&lease, after(None, vec![block.clone()])).await.unwrap();
        assert_eq!(log.read_all(&conversation("c")).await.unwrap(), [block]);
        let post = Post::new("key\0", "kind\0", "body\0");
        log.post(&conversation("c"), post.clone()).await.unwrap();
        assert_eq!(log.pending(&conversation("c")).await.unwrap()[0].post, post);
        let mut kept = answer("key\0", "body\0");
        kept.to.route.push('\0');
        log.keep_answer(kept.clone()).await.unwrap();
        assert_eq!(log.answered(&kept.to).await.unwrap(), Some(kept));
        let named = token("name\0", 1, None, &log);
        log.add_token(named.clone()).await.unwrap();
        assert_eq!(log.find_token(&[1; 32]).await.unwrap(), Some(named));
        assert!(log.revoke_token("name\0").await.unwrap());
        assert_eq!(log.server_key("name\0", [1; 32]).await.unwrap(), [1; 32]);
        assert_eq!(log.server_key("name", [2; 32]).await.unwrap(), [2; 32]);
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
