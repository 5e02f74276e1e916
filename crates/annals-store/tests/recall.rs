//! Memory search over a real log: what is found, what never is, and that the index is nothing but the log once more.

#[path = "support/stage.rs"]
mod stage;

use std::collections::BTreeSet;
use std::sync::Arc;

use annals_core::ids::Seq;
use annals_embed::{EmbedError, Embedder, StaticTable, Vector};
use annals_store::recall::{Query, RecallHits, Shortfall};
use annals_store::testing::{RECALL_CASES, Remembering, conversation};
use annals_store::{BlockLog, BlockLogExt as _, MemoryLog, Operator, Recall, SqliteLog, SqliteOptions};
use async_trait::async_trait;
use proptest::prelude::*;
use stage::{Stage, answer, attachment, dump, file, key, prompt};

fn texts(found: &RecallHits) -> Vec<&str> {
    found.hits.iter().map(|hit| hit.text.as_str()).collect()
}

#[tokio::test]
async fn memory_search_in_memory_keeps_its_contract() {
    for case in RECALL_CASES {
        let log = MemoryLog::default();
        let subject = Remembering {
            recall: Arc::new(log.recall(StaticTable::embedder())),
            store: Arc::new(log),
        };
        let outcome = tokio::spawn((case.run)(subject)).await;
        assert!(
            outcome.is_ok(),
            "memory breaks the rule `{}`: see the panic above",
            case.name
        );
    }
}

#[tokio::test]
async fn memory_search_in_sqlite_keeps_its_contract() {
    for case in RECALL_CASES {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::default().recall(StaticTable::embedder());
        let log = SqliteLog::open(folder.path().join("annals.db"), options).unwrap();
        let recall = Arc::new(log.recall().unwrap().clone());
        let subject = Remembering {
            store: Arc::new(log),
            recall,
        };
        let outcome = tokio::spawn((case.run)(subject)).await;
        assert!(
            outcome.is_ok(),
            "SQLite breaks the rule `{}`: see the panic above",
            case.name
        );
    }
}

#[tokio::test]
async fn a_fork_remembers_what_it_shares_and_nothing_else() {
    let stage = Stage::new();
    stage.says("a", vec![prompt("the osprey contract")]).await;
    stage.says("a", vec![prompt("the secret after the fork")]).await;
    let new = stage.new_conversation("b", "t/p/u").from_parent(
        conversation("a").id,
        Seq::try_new(1).ok(),
        Operator::Fork,
    );
    stage.log.fork(&key("t/p/u", "a"), Seq::FIRST, new).await.unwrap();
    assert_eq!(
        texts(&stage.search("b", "osprey contract").await),
        ["the osprey contract"]
    );
    assert!(!texts(&stage.search("b", "secret after the fork").await).contains(&"the secret after the fork"));
    stage.delete("a").await;
    let found = stage.search("b", "osprey contract").await;
    assert_eq!(texts(&found), ["the osprey contract"]);
    let everywhere = stage.everywhere("t/p/u", "osprey contract secret fork").await;
    assert_eq!(
        (texts(&everywhere), everywhere.hits[0].conversation.as_str()),
        (vec!["the osprey contract"], "b")
    );
    stage.delete("b").await;
    assert!(
        stage
            .everywhere("t/p/u", "osprey contract secret fork")
            .await
            .hits
            .is_empty()
    );
    assert_eq!(dump(&stage.path()), "");
}

#[tokio::test]
async fn a_deleted_conversation_is_forgotten() {
    let stage = Stage::new();
    stage
        .says(
            "a",
            vec![
                prompt("the ibis password is swordfish"),
                file("x.md", "ibis file"),
            ],
        )
        .await;
    stage.says("b", vec![prompt("something else entirely")]).await;
    stage.delete("a").await;
    assert!(
        !texts(&stage.everywhere("t/p/u", "ibis swordfish").await)
            .iter()
            .any(|text| text.contains("ibis"))
    );
    stage.says("c", vec![prompt("a new ibis")]).await;
    assert_eq!(texts(&stage.everywhere("t/p/u", "ibis").await)[0], "a new ibis");
    assert!(!dump(&stage.path()).contains("swordfish"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn text_of_another_scope_is_never_returned(
        says in proptest::collection::vec((0usize..3, 0usize..2, "[a-d]{1,2}( [a-d]{1,2}){0,6}"), 1..25),
        query in "[a-d]{1,2}( [a-d]{1,2}){0,3}",
        deleted in proptest::option::of(0usize..3),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stage = Stage::new();
            let mut said: [BTreeSet<String>; 3] = Default::default();
            for (user, number, text) in says {
                let text = format!("u{user} {text}");
                stage.says_in(&format!("t/p/u{user}"), &format!("c{user}_{number}"), vec![prompt(&text)]).await;
                if !(number == 0 && deleted == Some(user)) {
                    said[user].insert(text);
                }
            }
            if let Some(user) = deleted {
                stage.says_in(&format!("t/p/u{user}"), &format!("c{user}_0"), vec![prompt(&query)]).await;
                stage.delete_in(&format!("t/p/u{user}"), &format!("c{user}_0")).await;
            }
            for (user, own) in said.iter().enumerate() {
                let found = stage.everywhere(&format!("t/p/u{user}"), &query).await;
                for text in texts(&found) {
                    assert!(own.contains(text), "u{user} was told {text:?} for {query:?}");
                }
            }
        });
    }
}

#[tokio::test]
async fn an_index_equals_its_rebuild() {
    let stage = Stage::new();
    stage
        .says(
            "a",
            vec![
                prompt("first words"),
                answer("second words"),
                file("f.md", "third words"),
            ],
        )
        .await;
    stage
        .says(
            "b",
            vec![prompt("other words"), attachment("t.txt", "fourth words")],
        )
        .await;
    stage.says("gone", vec![prompt("words to forget")]).await;
    stage.delete("gone").await;
    stage
        .says("a", vec![file("f.md", "third words"), answer("fifth words")])
        .await;
    let before = stage.index().await;
    assert!(before.lines().count() > 10, "{before}");
    let progress = stage.recall().reindex(|_| true).await.unwrap();
    assert_eq!((progress.blocks, progress.of_blocks), (7, 7));
    assert_eq!(dump(&stage.path()), before);
}

#[tokio::test]
async fn what_was_written_without_the_index_is_added_when_somebody_asks() {
    let mut stage = Stage::new();
    stage.says("a", vec![prompt("the first egret")]).await;
    stage.reopen(None);
    stage.says("a", vec![prompt("the second egret")]).await;
    stage.says("b", vec![prompt("the third egret")]).await;
    stage.reopen(Some(StaticTable::embedder()));
    stage.says("a", vec![prompt("the fourth egret")]).await;
    assert_eq!(stage.search("a", "egret").await.hits.len(), 3);
    assert_eq!(stage.everywhere("t/p/u", "egret").await.hits.len(), 4);
    let found = stage.index().await;
    stage.recall().reindex(|_| true).await.unwrap();
    assert_eq!(dump(&stage.path()), found);
}

#[tokio::test]
async fn a_reindex_that_is_stopped_is_finished_by_the_next_search() {
    let stage = Stage::new();
    for name in ["a", "b"] {
        let prompts = (0..300).map(|number| prompt(&format!("stork {number} of {name}")));
        stage.says(name, prompts.collect()).await;
    }
    let stopped = stage.recall().reindex(|_| false).await.unwrap();
    assert!((1..600).contains(&stopped.blocks), "{stopped:?}");
    assert_eq!(stopped.of_blocks, 600);
    let found = stage.everywhere("t/p/u", "stork 299").await;
    assert_eq!(
        texts(&found)[..2]
            .iter()
            .filter(|text| text.contains("299"))
            .count(),
        2,
        "{found:?}"
    );
    let index = dump(&stage.path());
    stage.recall().reindex(|_| true).await.unwrap();
    assert_eq!(dump(&stage.path()), index);
}

/// Blocks of the log that are in the index.
fn followed(stage: &Stage) -> usize {
    dump(&stage.path())
        .lines()
        .filter(|line| line.starts_with("passage "))
        .count()
}

#[tokio::test]
async fn the_index_follows_the_log_without_anybody_asking_and_is_never_far_behind() {
    let mut stage = Stage::following(10);
    for number in 1..=35 {
        let name = format!("c{}", number % 4);
        stage.says(&name, vec![prompt(&format!("swift {number}"))]).await;
        stage.settle().await;
        assert!(followed(&stage) + 10 > number, "{} of {number}", followed(&stage));
    }
    assert!(followed(&stage) < 35, "it does not follow block by block");
    let many = (0..700).map(|number| prompt(&format!("swift {number} of many")));
    stage.says("many", many.collect()).await;
    stage.settle().await;
    assert!(followed(&stage) + 10 > 735, "{}", followed(&stage));
    stage.delete("many").await;
    // What others leave, the next process takes up with its first commit.
    stage.reopen(None);
    for number in 36..=50 {
        stage.says("c1", vec![prompt(&format!("swift {number}"))]).await;
    }
    assert!(followed(&stage) <= 36);
    stage.reopen(Some(StaticTable::embedder()));
    stage.says("c2", vec![prompt("swift 51")]).await;
    stage.settle().await;
    assert!(followed(&stage) >= 50, "{}", followed(&stage));
    let index = stage.index().await;
    stage.recall().reindex(|_| true).await.unwrap();
    assert_eq!(dump(&stage.path()), index);
}

#[tokio::test]
async fn an_index_that_cannot_be_written_refuses_no_append() {
    let stage = Stage::following(1);
    stage.says("c", vec![prompt("the first avocet")]).await;
    let database = rusqlite::Connection::open(stage.path()).unwrap();
    database
        .execute_batch("ALTER TABLE recall_passage RENAME TO lost")
        .unwrap();
    stage.says("c", vec![prompt("the second avocet")]).await;
    stage.says("c", vec![prompt("the third avocet")]).await;
    assert_eq!(
        stage.log.tail(&key("t/p/u", "c")).await.unwrap(),
        Seq::try_new(3).ok()
    );
    assert!(stage.recall().search(stage.query("c", "avocet")).await.is_err());
    database
        .execute_batch("ALTER TABLE lost RENAME TO recall_passage")
        .unwrap();
    assert_eq!(stage.search("c", "avocet").await.hits.len(), 3);
}

#[tokio::test]
async fn long_texts_are_followed_in_steps_that_let_others_write() {
    let stage = Stage::following(1);
    let paragraph = format!("{}.\n\n", "word ".repeat(110));
    for number in 0..4 {
        let text = format!("{number} {}", paragraph.repeat(200));
        stage
            .says("long", vec![file(&format!("f{number}.md"), &text)])
            .await;
    }
    assert_eq!(stage.search("long", "word").await.hits.len(), 5);
    let index = stage.index().await;
    assert_eq!(followed(&stage), 800);
    stage.recall().reindex(|_| true).await.unwrap();
    assert_eq!(dump(&stage.path()), index);
}

#[tokio::test]
async fn a_search_adds_what_is_missing_and_not_what_the_running_turn_says() {
    let stage = Stage::new();
    stage.says("c", vec![prompt("the tern report")]).await;
    stage.says("c", vec![prompt("find the tern report")]).await;
    let running = Query {
        before: Some((conversation("c").id, Seq::try_new(2).unwrap())),
        ..stage.query("c", "tern")
    };
    let found = stage.recall().search(running.clone()).await.unwrap();
    assert_eq!(texts(&found), ["the tern report"]);
    assert_eq!(followed(&stage), 2, "all that was missing came in one step");
    stage.says("c", vec![answer("here is the tern report")]).await;
    let found = stage.recall().search(running).await.unwrap();
    assert_eq!(texts(&found), ["the tern report"]);
    assert_eq!(followed(&stage), 2, "nothing that may be shown was missing");
    assert_eq!(stage.search("c", "tern").await.hits.len(), 3);
    assert_eq!(followed(&stage), 3);
}

#[tokio::test]
async fn what_is_deleted_or_forked_before_the_index_came_to_it_is_as_if_it_had() {
    let stage = Stage::new();
    stage.says("a", vec![prompt("dunlin one")]).await;
    stage.says("a", vec![prompt("dunlin two")]).await;
    stage.says("gone", vec![prompt("dunlin gone")]).await;
    let new = stage.new_conversation("b", "t/p/u");
    stage.log.fork(&key("t/p/u", "a"), Seq::FIRST, new).await.unwrap();
    stage.says("b", vec![prompt("dunlin of the fork")]).await;
    stage.delete("gone").await;
    stage.delete("a").await;
    // These rows have the numbers of those that are gone.
    stage.says("c", vec![prompt("dunlin three")]).await;
    let found = stage.everywhere("t/p/u", "dunlin").await;
    let found: BTreeSet<&str> = texts(&found).into_iter().collect();
    assert_eq!(
        found,
        BTreeSet::from(["dunlin one", "dunlin of the fork", "dunlin three"])
    );
    let index = dump(&stage.path());
    stage.recall().reindex(|_| true).await.unwrap();
    assert_eq!(dump(&stage.path()), index);
}

#[tokio::test]
async fn a_log_without_memory_search_forgets_what_it_deletes() {
    let mut stage = Stage::new();
    stage.says("a", vec![prompt("the bittern password")]).await;
    stage.says("b", vec![prompt("a bittern")]).await;
    stage.index().await;
    stage.reopen(None);
    stage.delete("a").await;
    stage.delete("b").await;
    assert_eq!(dump(&stage.path()), "");
    // Rows get the numbers of those that were in the index.
    stage.says("c", vec![prompt("another bittern")]).await;
    stage.reopen(Some(StaticTable::embedder()));
    assert_eq!(texts(&stage.search("c", "bittern").await), ["another bittern"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_handles_on_one_file_write_and_search_together() {
    let one = Arc::new(Stage::following(5));
    let two = Arc::new(Stage::at(&one.path(), Some(StaticTable::embedder())));
    let mut tasks = Vec::new();
    for (stage, name) in [(&one, "a"), (&two, "b")] {
        let stage = Arc::clone(stage);
        tasks.push(tokio::spawn(async move {
            for number in 1..=30 {
                stage
                    .says(name, vec![prompt(&format!("plover {number} of {name}"))])
                    .await;
                if number % 7 == 0 {
                    let found = stage.search(name, &format!("plover {number}")).await;
                    assert!(
                        texts(&found).contains(&format!("plover {number} of {name}").as_str()),
                        "{found:?}"
                    );
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for stage in [&one, &two] {
        assert_eq!(stage.everywhere("t/p/u", "plover").await.hits.len(), 50);
    }
    let index = two.index().await;
    assert_eq!(followed(&one), 60);
    one.recall().reindex(|_| true).await.unwrap();
    assert_eq!(dump(&one.path()), index);
}

/// An embedder that needs somebody else: it gives vectors only when it is asked, and may fail.
struct Elsewhere {
    identity: String,
    fails: bool,
}

impl Elsewhere {
    fn named(identity: &str) -> Arc<dyn Embedder> {
        let identity = identity.to_owned();
        Arc::new(Elsewhere {
            identity,
            fails: false,
        })
    }
}

#[async_trait]
impl Embedder for Elsewhere {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn dimension(&self) -> Option<usize> {
        None
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vector>, EmbedError> {
        if self.fails {
            return Err(EmbedError::Endpoint {
                message: "nobody is there".to_owned(),
            });
        }
        StaticTable::embedder().embed(texts).await
    }
}

#[tokio::test]
async fn an_embedder_elsewhere_holds_nobody_up_and_its_vectors_come_later() {
    let mut stage = Stage::new();
    stage.reopen(Some(Elsewhere::named("elsewhere")));
    stage.recall().reindex(|_| true).await.unwrap();
    stage
        .says(
            "c",
            vec![prompt("the client paid 300 euros"), prompt("nothing of interest")],
        )
        .await;
    let found = stage.search("c", "client").await;
    assert_eq!(texts(&found), ["the client paid 300 euros"]);
    assert_eq!(found.shortfall, Some(Shortfall::Pending { passages: 2 }));
    stage.recall().catch_up().await.unwrap();
    let found = stage.search("c", "how much money did the customer give us").await;
    assert_eq!(
        (texts(&found)[0], &found.shortfall),
        ("the client paid 300 euros", &None)
    );
}

#[tokio::test]
async fn vectors_of_two_embedders_are_never_compared() {
    let mut stage = Stage::new();
    stage.says("c", vec![prompt("the kite invoice")]).await;
    stage.reopen(Some(Elsewhere::named("other")));
    stage.says("c", vec![prompt("the kite receipt")]).await;
    let found = stage.search("c", "kite").await;
    assert_eq!(found.hits.len(), 2);
    assert!(
        matches!(found.shortfall, Some(Shortfall::OtherEmbedder { .. })),
        "{found:?}"
    );
    let progress = stage.recall().reindex(|_| true).await.unwrap();
    assert_eq!(progress.vectors, 2);
    assert_eq!(stage.search("c", "kite").await.shortfall, None);
}

#[tokio::test]
async fn an_embedder_that_fails_leaves_the_words() {
    let mut stage = Stage::new();
    let fails = Elsewhere {
        identity: "broken".to_owned(),
        fails: true,
    };
    stage.reopen(Some(Arc::new(fails)));
    let failed = stage.recall().reindex(|_| true).await;
    assert!(failed.is_ok(), "there was nothing to embed: {failed:?}");
    stage.says("c", vec![prompt("the crane drawing")]).await;
    let found = stage.search("c", "crane").await;
    assert_eq!(texts(&found), ["the crane drawing"]);
    assert!(
        matches!(found.shortfall, Some(Shortfall::NoVector { .. })),
        "{found:?}"
    );
    assert!(stage.recall().reindex(|_| true).await.is_err());
}
