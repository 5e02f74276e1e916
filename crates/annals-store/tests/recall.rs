//! Memory search over a real log: what is found, what never is, and that the index is nothing but the log once more.

#[path = "support/stage.rs"]
mod stage;

use std::collections::BTreeSet;
use std::sync::Arc;

use annals_core::ids::{Scope, Seq};
use annals_embed::{EmbedError, Embedder, StaticTable, Vector};
use annals_store::recall::{Query, RecallHits, Shortfall, Target, Within};
use annals_store::testing::{at, conversation};
use annals_store::{BlockLog, BlockLogExt as _, LogError, Operator, Recall};
use async_trait::async_trait;
use proptest::prelude::*;
use stage::{Stage, answer, attachment, dump, file, key, prompt, scope};

fn texts(found: &RecallHits) -> Vec<&str> {
    found.hits.iter().map(|hit| hit.text.as_str()).collect()
}

#[tokio::test]
async fn what_was_said_is_found_by_words_and_by_meaning() {
    let stage = Stage::new();
    stage
        .says(
            "c",
            vec![
                prompt("Please move the invoices of Acme to the archive"),
                answer("Done: 14 invoices moved."),
            ],
        )
        .await;
    stage
        .says(
            "c",
            vec![
                prompt("What is the weather in Lisbon?"),
                answer("Sunny, 24 degrees."),
            ],
        )
        .await;
    let found = stage.search("c", "bills of acme").await;
    assert_eq!(
        texts(&found)[0],
        "Please move the invoices of Acme to the archive"
    );
    let hit = &found.hits[0];
    assert_eq!(
        (hit.target, hit.seq.get(), hit.turn.as_str()),
        (Target::User, 1, "turn_1")
    );
    assert_eq!(hit.path.as_ref().unwrap().as_str(), "ar:turn_1.user.prompt");
    let warm = stage.search("c", "climate in portugal").await;
    assert_eq!(texts(&warm)[0], "What is the weather in Lisbon?");
    assert_eq!(found.shortfall, None);
}

#[tokio::test]
async fn misspelt_words_other_writing_and_file_names_are_found() {
    let stage = Stage::new();
    stage
        .says(
            "c",
            vec![
                prompt("Deploy the kubernetes cluster to Frankfurt"),
                prompt("東京の会議は三月に延期されました"),
                prompt("Встреча с Ольгой перенесена на четверг"),
                attachment("quarterly_numbers.csv", "region,total\nnorth,12500\nsouth,9800\n"),
                file("notes/plan.md", "# Plan\n\nCall the bank first."),
            ],
        )
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
        let found = stage.search("c", query).await;
        assert!(
            texts(&found)
                .first()
                .is_some_and(|text| text.starts_with(expected)),
            "{query}: {found:?}"
        );
    }
}

#[tokio::test]
async fn a_file_that_is_read_again_is_remembered_once() {
    let stage = Stage::new();
    let content = "The pelican budget is 4,200 euros.";
    stage
        .says("c", vec![file("budget.md", content), file("budget.md", content)])
        .await;
    assert_eq!(stage.search("c", "pelican budget").await.hits.len(), 1);
}

#[tokio::test]
async fn targets_days_and_the_running_turn_narrow_the_search() {
    let stage = Stage::new();
    stage
        .says(
            "c",
            vec![
                prompt("the heron report"),
                answer("the heron report is done"),
                attachment("h.txt", "heron heron"),
            ],
        )
        .await;
    let query = || stage.query("c", "heron");
    let only = |targets: Vec<Target>| Query { targets, ..query() };
    let found = |query: Query| async { texts(&stage.recall().search(query).await.unwrap()).join("|") };
    assert_eq!(found(only(vec![Target::Attachment])).await, "heron heron");
    assert_eq!(found(only(vec![Target::User])).await, "the heron report");
    assert_eq!(
        found(Query {
            before: Some((conversation("c").id, Seq::try_new(2).unwrap())),
            ..query()
        })
        .await,
        "the heron report"
    );
    assert_eq!(
        found(
            Query {
                now: at(86_400 * 10),
                ..query()
            }
            .days(5)
        )
        .await,
        ""
    );
    assert_eq!(
        stage
            .recall()
            .search(Query { limit: 2, ..query() })
            .await
            .unwrap()
            .hits
            .len(),
        2
    );
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

#[tokio::test]
async fn another_scopes_conversation_does_not_exist() {
    let stage = Stage::new();
    stage
        .says_in("t/p/other", "secret", vec![prompt("the falcon code is 7781")])
        .await;
    stage.says("mine", vec![prompt("a falcon flew by")]).await;
    let asked = stage.recall().search(stage.query("secret", "falcon code")).await;
    assert!(matches!(asked, Err(LogError::NotFound { .. })), "{asked:?}");
    assert_eq!(
        texts(&stage.everywhere("t/p/u", "falcon code 7781").await),
        ["a falcon flew by"]
    );
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

#[tokio::test]
async fn a_query_without_words_finds_nothing_and_a_strange_one_fails_nowhere() {
    let stage = Stage::new();
    stage.says("c", vec![prompt("some text")]).await;
    for query in [
        "",
        "   ",
        "?!",
        "\"",
        "a AND b OR NOT c*",
        "text^2 NEAR(x)",
        "\u{0}",
        &"x ".repeat(5_000),
    ] {
        stage.search("c", query).await;
    }
    assert!(stage.search("c", "?!").await.hits.is_empty());
}

#[tokio::test]
async fn the_scope_decides_also_when_two_scopes_share_a_log_and_a_name() {
    let stage = Stage::new();
    stage.says_in("t/p/a", "x", vec![prompt("rook")]).await;
    stage.says_in("t/p/ab", "y", vec![prompt("rook rook")]).await;
    assert_eq!(texts(&stage.everywhere("t/p/a", "rook").await), ["rook"]);
    let within = Query {
        within: Within::Scope,
        ..Query::new(scope("t/q/a"), conversation("x").id, "rook", at(0))
    };
    assert!(stage.recall().search(within).await.unwrap().hits.is_empty());
    let _: Scope = scope("t/p/a");
}
