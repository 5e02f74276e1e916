//! Memory search on PostgreSQL: its contract, the same answers as SQLite's, and several nodes that index at once.

use std::sync::Arc;

use annals_core::ids::Seq;
use annals_embed::{EmbedError, Embedder, StaticTable, Vector};
use annals_postgres::{Address, Partitions, PostgresLog, PostgresOptions, init, init_as, migrate, status};
use annals_store::recall::rank::SearchMode;
use annals_store::recall::{Hit, Query, Recall, RecallIndex, Shortfall};
use annals_store::testing::{
    RECALL_CASES, Remembering, Says, answer, at, attachment, delete, file, key, prompt, query, query_scope,
    say,
};
use annals_store::{BlockLog as _, LogError, MemoryLog, NewConversation, SqliteLog, SqliteOptions, Store};
use annals_testbed::{Durability, Edition, PgBouncer, PostgresServer};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio_postgres::NoTls;

fn debian() -> Option<PostgresServer> {
    PostgresServer::start(Edition::Debian, Durability::Volatile, &[])
}

async fn open_with(url: &str, embedder: Option<Arc<dyn Embedder>>) -> PostgresLog {
    let mut options = PostgresOptions::default().lag_max_passages(10);
    if let Some(embedder) = embedder {
        options = options.recall(embedder);
    }
    PostgresLog::open(Address::parse(url).unwrap(), options)
        .await
        .unwrap()
}

async fn open(url: &str) -> PostgresLog {
    open_with(url, Some(StaticTable::embedder())).await
}

async fn made(server: &PostgresServer, name: &str) -> String {
    let url = server.database(name, None).await;
    init(&Address::parse(&url).unwrap(), Partitions::NONE)
        .await
        .unwrap();
    url
}

async fn keeps_the_contract(server: &PostgresServer, url: impl Fn(&str) -> String) {
    made(server, "template").await;
    for (number, case) in RECALL_CASES.iter().enumerate() {
        let database = format!("case_{number}");
        server.database(&database, Some("template")).await;
        let log = open(&url(&database)).await;
        let recall = Arc::new(log.recall().unwrap().clone());
        let subject = Remembering {
            store: Arc::new(log),
            recall,
        };
        let outcome = tokio::spawn((case.run)(subject)).await;
        assert!(
            outcome.is_ok(),
            "PostgreSQL breaks the rule `{}`: see the panic above",
            case.name
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_search_on_postgres_keeps_its_contract() {
    let Some(server) = debian() else { return };
    keeps_the_contract(&server, |name| server.url(name)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_search_on_postgres_18_through_a_transaction_pooler_keeps_its_contract() {
    let Some(server) = PostgresServer::start(Edition::Npm18, Durability::Volatile, &[]) else {
        return;
    };
    let Some(pooler) = PgBouncer::start(&server) else {
        return;
    };
    keeps_the_contract(&server, |name| pooler.url(name)).await;
}

/// One thing that happens to a log.
#[derive(Clone, Debug)]
enum Event {
    Says { to: usize, kind: usize, text: String },
    Forks { from: usize, at: u64 },
    Deletes { which: usize },
    Searches { text: String },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    // Few words, so that they meet; some of them slips of others, some long, in several writings.
    let word = prop::sample::select(vec![
        "invoice",
        "invoces",
        "archive",
        "lisbon",
        "lisbno",
        "train",
        "trains",
        "budget",
        "the",
        "of",
        "und",
        "東京",
        "会議は",
        "maxIterations",
        "12,500",
        "Ольгой",
        "a",
        "kubernetes",
        "kuberntes",
        "\u{0}x",
    ]);
    let text = prop::collection::vec(word, 1..40).prop_map(|words| words.join(" "));
    let event = prop_oneof![
        8 => (0usize..4, 0usize..4, text.clone())
            .prop_map(|(to, kind, text)| Event::Says { to, kind, text }),
        1 => (0usize..4, 1u64..4).prop_map(|(from, at)| Event::Forks { from, at }),
        1 => (0usize..4).prop_map(|which| Event::Deletes { which }),
        3 => text.prop_map(|text| Event::Searches { text }),
    ];
    prop::collection::vec(event, 5..40)
}

fn said(kind: usize, text: &str) -> Says {
    match kind {
        0 => prompt(text),
        1 => answer(text),
        2 => attachment("notes.txt", text),
        _ => file("out/plan.md", text),
    }
}

/// Does the same to a log, and tells what each search found.
async fn play(store: &dyn Store, recall: &dyn Recall, scope: &str, events: &[Event]) -> Vec<Vec<Hit>> {
    let conversation = |number: usize| key(scope, &format!("c{number}"));
    let mut found = Vec::new();
    for (number, event) in events.iter().enumerate() {
        match event {
            Event::Says { to, kind, text } => {
                say(store, &conversation(*to), &[said(*kind, text)]).await;
            }
            Event::Forks { from, at: seq } => {
                let new = NewConversation::new(key(scope, &format!("fork{number}")), at(0));
                let seq = Seq::try_new(*seq).unwrap();
                let _absent = store.fork(&conversation(*from), seq, new).await;
                // Words of its own too, which its parent must not show.
                let forked = key(scope, &format!("fork{number}"));
                if store.get(&forked).await.is_ok() {
                    say(store, &forked, &[prompt("the archive of the fork in lisbon")]).await;
                }
            }
            Event::Deletes { which } => {
                if store.get(&conversation(*which)).await.is_ok() {
                    delete(store, &conversation(*which)).await;
                }
            }
            Event::Searches { text } => {
                for by in [SearchMode::Hybrid, SearchMode::Lexical, SearchMode::Semantic] {
                    let everywhere = Query {
                        by,
                        ..query_scope(scope, text)
                    };
                    found.push(recall.search(everywhere).await.unwrap().hits);
                }
                for which in 0..4 {
                    match recall.search(query(&conversation(which), text)).await {
                        Ok(hits) => found.push(hits.hits),
                        Err(LogError::NotFound { .. }) => found.push(Vec::new()),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    }
    found
}

#[test]
fn the_same_log_gives_the_same_answers_on_postgres_on_sqlite_and_in_memory() {
    let Some(server) = debian() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (postgres, sqlite) = runtime.block_on(async {
        let url = made(&server, "same").await;
        let options = SqliteOptions::default().recall(StaticTable::embedder());
        let sqlite = SqliteLog::open(folder.path().join("annals.db"), options).unwrap();
        (open(&url).await, sqlite)
    });
    let memory = MemoryLog::default();
    // Each corpus is a scope of its own in every log, so that none may notice those before it.
    let cases = std::cell::Cell::new(0);
    let answers = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 20,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&events(), |events| {
        cases.set(cases.get() + 1);
        let scope = format!("t/p/case{}", cases.get());
        let (plain, here, there) = runtime.block_on(async {
            (
                play(&memory, &memory.recall(StaticTable::embedder()), &scope, &events).await,
                play(&sqlite, sqlite.recall().unwrap(), &scope, &events).await,
                play(&postgres, postgres.recall().unwrap(), &scope, &events).await,
            )
        });
        answers.set(answers.get() + here.iter().map(Vec::len).sum::<usize>());
        prop_assert_eq!(&here, &there);
        prop_assert_eq!(plain, here);
        Ok(())
    });
    outcome.unwrap();
    assert!(answers.get() > 200, "only {} hits were compared", answers.get());
}

/// The whole index as sorted lines.
async fn dump(url: &str) -> String {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut lines: Vec<String> = Vec::new();
    for statement in [
        "SELECT concat_ws(' ', 'passage', p.conversation, p.place, p.seq, p.start, p.length, p.ts, p.target, p.vector)
         FROM annals.recall_passage p",
        "SELECT concat_ws(' ', 'term', scope_key, term, chunk, places) FROM annals.recall_term",
        "SELECT concat_ws(' ', 'source', conversation, next, upto) FROM annals.recall_source",
        "SELECT concat_ws(' ', 'file', conversation, digest) FROM annals.recall_file",
    ] {
        let rows = client.query(statement, &[]).await.unwrap();
        lines.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    lines.sort();
    lines.join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_index_and_search_at_once_add_nothing_twice() {
    let Some(server) = debian() else { return };
    let url = made(&server, "nodes").await;
    let nodes = [
        Arc::new(open(&url).await),
        Arc::new(open(&url).await),
        Arc::new(open(&url).await),
    ];
    let mut tasks = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        let node = Arc::clone(node);
        tasks.push(tokio::spawn(async move {
            let own = key("t/p/u", &format!("c{number}"));
            for round in 1..=40 {
                let text = format!("plover number{round} of {number}");
                say(&*node, &own, &[prompt(&text), file("f.md", &text)]).await;
                if round % 5 == 0 {
                    // All of them bring the conversations of all of them into the index.
                    let word = format!("number{round}");
                    let found = node.recall().unwrap().search(query_scope("t/p/u", &word)).await;
                    let found = found.unwrap();
                    assert!(found.hits.iter().any(|hit| hit.text == text), "{found:?}");
                }
                if round == 20 && number == 0 {
                    node.recall().unwrap().reindex(&mut |_| true).await.unwrap();
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let recall = nodes[1].recall().unwrap();
    recall.catch_up().await.unwrap();
    let index = dump(&url).await;
    assert_eq!(
        index.lines().filter(|line| line.starts_with("passage")).count(),
        240
    );
    recall.reindex(&mut |_| true).await.unwrap();
    assert_eq!(dump(&url).await, index);
}

#[tokio::test]
async fn the_index_follows_without_anybody_asking_and_status_tells_how_far() {
    let Some(server) = debian() else { return };
    let url = made(&server, "follows").await;
    let log = open(&url).await;
    let behind = async || {
        let index = status(&Address::parse(&url).unwrap())
            .await
            .unwrap()
            .index
            .unwrap();
        (index.conversations_behind, index.blocks_behind)
    };
    for number in 1..=9 {
        say(&log, &key("t/p/u", "c"), &[prompt(&format!("swift {number}"))]).await;
    }
    assert_eq!(behind().await, (1, 9));
    say(&log, &key("t/p/u", "c"), &[prompt("swift 10")]).await;
    for _ in 0..200 {
        if behind().await == (0, 0) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(behind().await, (0, 0), "nobody has asked");
    // A node without memory search leaves its blocks, which the next search adds.
    let without = open_with(&url, None).await;
    assert!(without.recall().is_none());
    say(&without, &key("t/p/u", "c"), &[prompt("a late swift")]).await;
    assert_eq!(behind().await, (1, 1));
    let found = log.recall().unwrap().search(query_scope("t/p/u", "late")).await;
    assert_eq!(found.unwrap().hits[0].text, "a late swift");
    assert_eq!(behind().await, (0, 0));
    // And forgets what it deletes.
    delete(&without, &key("t/p/u", "c")).await;
    assert_eq!(dump(&url).await, "");
}

#[tokio::test]
async fn what_forks_share_of_a_deleted_conversation_stays_and_no_word_more() {
    let Some(server) = debian() else { return };
    let url = made(&server, "cut").await;
    let log = open(&url).await;
    let (a, b) = (key("t/p/u", "a"), key("t/p/u", "b"));
    // Passages on both sides of a chunk's border, with words that only one side has and words that both have.
    let shared: Vec<Says> = (0..300).map(|n| prompt(&format!("egret shared{n}"))).collect();
    let own: Vec<Says> = (0..40).map(|n| prompt(&format!("egret own{n}"))).collect();
    say(&log, &a, &shared).await;
    say(&log, &a, &own).await;
    log.fork(
        &a,
        Seq::try_new(300).unwrap(),
        NewConversation::new(b.clone(), at(0)),
    )
    .await
    .unwrap();
    let recall = log.recall().unwrap();
    recall.catch_up().await.unwrap();
    assert!(dump(&url).await.contains(" own7 "));
    delete(&log, &a).await;
    let index = dump(&url).await;
    assert!(
        !index.contains(" own7 ") && index.contains(" shared299 "),
        "{index}"
    );
    recall.reindex(&mut |_| true).await.unwrap();
    assert_eq!(dump(&url).await, index);
    let found = recall.search(query(&b, "shared299")).await.unwrap();
    assert_eq!(found.hits[0].text, "egret shared299");
}

#[tokio::test]
async fn an_older_database_is_expanded_and_what_it_has_is_found() {
    let Some(server) = debian() else { return };
    let url = server.database("older", None).await;
    let address = Address::parse(&url).unwrap();
    init_as(&address, 1).await.unwrap();
    let refused = PostgresLog::open(address.clone(), PostgresOptions::default()).await;
    assert!(
        matches!(
            refused,
            Err(LogError::Unprepared {
                command: "migrate",
                ..
            })
        ),
        "{refused:?}"
    );
    assert!(status(&address).await.unwrap().index.is_none());
    let migrated = migrate(&address).await.unwrap();
    assert_eq!(migrated.from, 1);
    // Programs of the schema before it go on.
    server
        .execute(
            "older",
            "DO $$ BEGIN ASSERT (SELECT oldest = 1 AND schema > 1 FROM annals.meta); END $$",
        )
        .await;
    let without = open_with(&url, None).await;
    say(&without, &key("t/p/u", "c"), &[prompt("an old avocet")]).await;
    let log = open(&url).await;
    let found = log.recall().unwrap().search(query_scope("t/p/u", "avocet")).await;
    assert_eq!(found.unwrap().hits.len(), 1);
    // What such a program deletes, without knowing of the index, goes with the next upkeep.
    server
        .execute(
            "older",
            "DELETE FROM annals.head; DELETE FROM annals.block; DELETE FROM annals.conversation",
        )
        .await;
    let recall = log.recall().unwrap();
    assert!(
        recall
            .search(query_scope("t/p/u", "avocet"))
            .await
            .unwrap()
            .hits
            .is_empty()
    );
    recall.catch_up().await.unwrap();
    assert_eq!(dump(&url).await, "");
}

/// An embedder that needs somebody else: it gives vectors only when it is asked.
struct Elsewhere;

#[async_trait::async_trait]
impl Embedder for Elsewhere {
    fn identity(&self) -> &str {
        "elsewhere"
    }

    fn dimension(&self) -> Option<usize> {
        None
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vector>, EmbedError> {
        StaticTable::embedder().embed(texts).await
    }
}

#[tokio::test]
async fn vectors_of_an_embedder_elsewhere_come_later_and_two_are_never_compared() {
    let Some(server) = debian() else { return };
    let url = made(&server, "embedders").await;
    let log = open_with(&url, Some(Arc::new(Elsewhere))).await;
    let c = key("t/p/u", "c");
    say(
        &log,
        &c,
        &[prompt("the client paid 300 euros"), prompt("nothing of interest")],
    )
    .await;
    let recall = log.recall().unwrap();
    let found = recall.search(query(&c, "client")).await.unwrap();
    assert_eq!(found.hits[0].text, "the client paid 300 euros");
    assert_eq!(found.shortfall, Some(Shortfall::Pending { passages: 2 }));
    recall.catch_up().await.unwrap();
    let meant = query(&c, "how much money did the customer give us");
    let found = recall.search(meant.clone()).await.unwrap();
    assert_eq!(
        (found.hits[0].text.as_str(), found.shortfall),
        ("the client paid 300 euros", None)
    );
    let built_in = open(&url).await;
    let built_in = built_in.recall().unwrap();
    let found = built_in.search(meant.clone()).await.unwrap();
    assert!(
        matches!(found.shortfall, Some(Shortfall::OtherEmbedder { .. })),
        "{found:?}"
    );
    built_in.reindex(&mut |_| true).await.unwrap();
    assert_eq!(built_in.search(meant).await.unwrap().shortfall, None);
}
