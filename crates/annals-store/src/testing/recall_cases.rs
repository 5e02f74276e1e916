//! One function for each rule of memory search.

use std::collections::BTreeSet;

use annals_core::ids::Seq;
use futures::future::BoxFuture;

use super::sample::at;
use super::saying::{Remembering, answer, attachment, file, key, prompt, query};
use crate::log::{LogError, NewConversation, Operator};
use crate::recall::rank::SearchMode;
use crate::recall::{Query, RecallHits, RecallTarget};

/// A rule of memory search, tried on an empty store.
#[derive(Clone, Copy)]
pub struct RecallCase {
    /// The behaviour.
    pub name: &'static str,
    /// Panics if the search behaves otherwise.
    pub run: fn(Remembering) -> BoxFuture<'static, ()>,
}

macro_rules! cases {
    ($($(#[doc = $doc:literal])* async fn $name:ident($on:ident) $body:block)*) => {
        /// Every rule of memory search.
        pub const RECALL_CASES: &[RecallCase] =
            &[$(RecallCase { name: stringify!($name), run: |on| Box::pin($name(on)) },)*];
        $($(#[doc = $doc])* async fn $name($on: Remembering) $body)*
    };
}

fn texts(found: &RecallHits) -> Vec<&str> {
    found.hits.iter().map(|hit| hit.text.as_str()).collect()
}

fn set(found: &RecallHits) -> BTreeSet<&str> {
    texts(found).into_iter().collect()
}

cases! {
    async fn what_was_said_is_found_by_words_and_by_meaning(on) {
        on.says("c", &[
            prompt("Please move the invoices of Acme to the archive"),
            answer("Done: 14 invoices moved."),
        ])
        .await;
        on.says("c", &[prompt("What is the weather in Lisbon?"), answer("Sunny, 24 degrees.")]).await;
        let found = on.search("c", "bills of acme").await;
        assert_eq!(texts(&found)[0], "Please move the invoices of Acme to the archive");
        let hit = &found.hits[0];
        assert_eq!((hit.target, hit.seq.get(), hit.turn.as_str()), (RecallTarget::User, 1, "turn_1"));
        assert_eq!(hit.path.as_ref().map(|path| path.as_str()), Some("ar:turn_1.user.prompt"));
        let warm = on.search("c", "climate in portugal").await;
        assert_eq!(texts(&warm)[0], "What is the weather in Lisbon?");
        assert_eq!(found.shortfall, None);
    }

    async fn misspelt_words_other_writing_and_file_names_are_found(on) {
        on.says("c", &[
            prompt("Deploy the kubernetes cluster to Frankfurt"),
            prompt("東京の会議は三月に延期されました"),
            prompt("Встреча с Ольгой перенесена на четверг"),
            attachment("quarterly_numbers.csv", "region,total\nnorth,12500\nsouth,9800\n"),
            file("notes/plan.md", "# Plan\n\nCall the bank first."),
        ])
        .await;
        for (query, expected) in [
            ("kuberntes", "Deploy"),
            ("frankfrut", "Deploy"),
            ("会議", "東京"),
            ("ольгой четверг", "Встреча"),
            ("quarterly numbers", "region"),
            ("12,500", "region"),
            ("plan.md", "# Plan"),
        ] {
            let found = on.search("c", query).await;
            let first = texts(&found).first().copied().unwrap_or_default();
            assert!(first.starts_with(expected), "{query}: {found:?}");
        }
    }

    async fn what_others_say_does_not_decide_what_a_misspelt_word_means(on) {
        // The slip may mean either; only one of them is of this scope.
        on.says_in("t/p/other", "c", &[prompt("the kuberneted estate")]).await;
        on.says("c", &[prompt("the ukberneter cluster")]).await;
        let by_words = Query { by: SearchMode::Lexical, ..query(&key("t/p/u", "c"), "kuberneter") };
        assert_eq!(texts(&on.find(by_words).await), ["the ukberneter cluster"]);
    }

    async fn a_file_that_is_read_again_is_remembered_once(on) {
        let content = "The pelican budget is 4,200 euros.";
        on.says("c", &[file("budget.md", content), file("budget.md", content)]).await;
        on.says("c", &[file("budget.md", content)]).await;
        assert_eq!(on.search("c", "pelican budget").await.hits.len(), 1);
    }

    async fn targets_days_and_the_running_turn_narrow_the_search(on) {
        on.says("c", &[
            prompt("the heron report"),
            answer("the heron report is done"),
            attachment("h.txt", "heron heron"),
        ])
        .await;
        let heron = || query(&key("t/p/u", "c"), "heron");
        let only = |target| Query { targets: vec![target], ..heron() };
        assert_eq!(texts(&on.find(only(RecallTarget::Attachment)).await), ["heron heron"]);
        assert_eq!(texts(&on.find(only(RecallTarget::User)).await), ["the heron report"]);
        let before = Some((key("t/p/u", "c").id, Seq::try_new(2).expect("from 1")));
        assert_eq!(texts(&on.find(Query { before, ..heron() }).await), ["the heron report"]);
        let later = Query { now: at(86_400 * 10), ..heron() };
        assert!(on.find(later.days(5)).await.hits.is_empty());
        assert_eq!(on.find(Query { limit: 2, ..heron() }).await.hits.len(), 2);
    }

    async fn a_fork_remembers_what_it_shares_and_nothing_else(on) {
        on.says("a", &[prompt("the osprey contract")]).await;
        on.says("a", &[prompt("the secret after the fork")]).await;
        let (a, b) = (key("t/p/u", "a"), key("t/p/u", "b"));
        let new = NewConversation::new(b, at(0));
        let new = new.from_parent(a.id.clone(), Seq::try_new(1).ok(), Operator::Fork);
        on.store.fork(&a, Seq::FIRST, new).await.expect("a fork");
        assert_eq!(texts(&on.search("b", "osprey contract").await), ["the osprey contract"]);
        let secret = on.search("b", "secret after the fork").await;
        assert!(!set(&secret).contains("the secret after the fork"), "{secret:?}");
        on.deletes("a").await;
        assert_eq!(texts(&on.search("b", "osprey contract").await), ["the osprey contract"]);
        let everywhere = on.everywhere("t/p/u", "osprey contract secret fork").await;
        let shown = everywhere.hits.first().map(|hit| hit.conversation.as_str());
        assert_eq!((texts(&everywhere), shown), (vec!["the osprey contract"], Some("b")));
        on.deletes("b").await;
        assert!(on.everywhere("t/p/u", "osprey contract secret fork").await.hits.is_empty());
    }

    async fn a_deleted_conversation_is_forgotten(on) {
        on.says("a", &[prompt("the ibis password is swordfish"), file("x.md", "ibis file")]).await;
        on.says("b", &[prompt("something else entirely")]).await;
        on.recall.catch_up().await.expect("an index");
        on.deletes("a").await;
        let found = on.everywhere("t/p/u", "ibis swordfish").await;
        assert!(!texts(&found).iter().any(|text| text.contains("ibis")), "{found:?}");
        on.says("c", &[prompt("a new ibis")]).await;
        assert_eq!(texts(&on.everywhere("t/p/u", "ibis").await)[0], "a new ibis");
    }

    async fn another_scopes_conversation_does_not_exist(on) {
        on.says_in("t/p/other", "secret", &[prompt("the falcon code is 7781")]).await;
        on.says("mine", &[prompt("a falcon flew by")]).await;
        let asked = on.recall.search(query(&key("t/p/u", "secret"), "falcon code")).await;
        assert!(matches!(asked, Err(LogError::NotFound { .. })), "{asked:?}");
        assert_eq!(texts(&on.everywhere("t/p/u", "falcon code 7781").await), ["a falcon flew by"]);
        on.says_in("t/p/a", "x", &[prompt("rook")]).await;
        on.says_in("t/p/ab", "y", &[prompt("rook rook")]).await;
        assert_eq!(texts(&on.everywhere("t/p/a", "rook").await), ["rook"]);
        assert!(on.everywhere("t/q/a", "rook").await.hits.is_empty());
    }

    async fn what_an_append_wrote_is_found_by_the_next_search(on) {
        for number in 1..=70 {
            let text = format!("the tern number{number} report");
            on.says("c", &[prompt(&text)]).await;
            if number % 9 == 0 {
                assert_eq!(texts(&on.search("c", &format!("number{number}")).await)[0], text);
            }
        }
        let running = Query {
            before: Some((key("t/p/u", "c").id, Seq::try_new(2).expect("from 1"))),
            ..query(&key("t/p/u", "c"), "tern")
        };
        assert_eq!(texts(&on.find(running).await), ["the tern number1 report"]);
    }

    async fn what_is_deleted_or_forked_before_the_index_came_to_it_is_as_if_it_had(on) {
        on.says("a", &[prompt("dunlin one")]).await;
        on.says("a", &[prompt("dunlin two")]).await;
        on.says("gone", &[prompt("dunlin gone")]).await;
        let new = NewConversation::new(key("t/p/u", "b"), at(0));
        on.store.fork(&key("t/p/u", "a"), Seq::FIRST, new).await.expect("a fork");
        on.says("b", &[prompt("dunlin of the fork")]).await;
        on.deletes("gone").await;
        on.deletes("a").await;
        on.says("c", &[prompt("dunlin three")]).await;
        let found = on.everywhere("t/p/u", "dunlin").await;
        assert_eq!(set(&found), BTreeSet::from(["dunlin one", "dunlin of the fork", "dunlin three"]));
    }

    async fn a_rebuilt_index_gives_the_same_answers(on) {
        for name in ["a", "b", "c"] {
            let prompts: Vec<_> = (0..90).map(|number| prompt(&format!("stork {number} of {name}"))).collect();
            on.says(name, &prompts).await;
            on.says(name, &[file("f.md", "# Storks\n\nThe white stork and the black stork.")]).await;
        }
        let ask = async || {
            let everywhere = on.everywhere("t/p/u", "stork 29 of b, black").await;
            (everywhere, on.search("a", "white stork 17").await)
        };
        let before = ask().await;
        let progress = on.recall.reindex(&mut |_| true).await.expect("an index");
        assert_eq!((progress.blocks, progress.of_blocks), (273, 273));
        assert_eq!(ask().await, before);
        let stopped = on.recall.reindex(&mut |_| false).await.expect("an index");
        assert!(stopped.blocks < 273, "{stopped:?}");
        assert_eq!(ask().await, before);
    }

    async fn a_query_without_words_finds_nothing_and_a_strange_one_fails_nowhere(on) {
        on.says("c", &[prompt("some text")]).await;
        for query in [
            "",
            "   ",
            "\"",
            "a AND b OR NOT c*",
            "text^2 NEAR(x)",
            "\u{0}",
            "'; DROP TABLE annals.block; --",
            &"x ".repeat(5_000),
        ] {
            on.search("c", query).await;
        }
        assert!(on.search("c", "?!").await.hits.is_empty());
    }
}
