//! Every rule of the archive, and whatever blocks may say.

use std::sync::Arc;

use annals_core::block::{Block, BlockKind, Meta};
use annals_postgres::{Address, Partitions, PostgresLog, PostgresOptions, init};
use annals_store::testing::{
    ARCHIVE_CASES, Archiving, after, conversation, new_conversation, owner, text_block,
};
use annals_store::{ArtifactStore, BlockLog as _, BlockLogExt as _, export_conversation};
use annals_testbed::{PgBouncer, PostgresServer};
use object_store::memory::InMemory;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::node::{TTL, alone, debian};

const TEMPLATE: &str = "annals_template";

async fn template(server: &PostgresServer, partitions: u16) {
    let template = server.database(TEMPLATE, None).await;
    let partitions = Partitions::try_new(partitions).unwrap();
    init(&Address::parse(&template).unwrap(), partitions)
        .await
        .unwrap();
}

async fn keeps_the_contract(server: &PostgresServer, partitions: u16, url: impl Fn(&str) -> String) {
    template(server, partitions).await;
    for (number, case) in ARCHIVE_CASES.iter().enumerate() {
        let name = format!("case_{number}");
        server.database(&name, Some(TEMPLATE)).await;
        let (clock, objects) = (Archiving::clock(), Arc::new(InMemory::new()));
        let options = PostgresOptions::default()
            .clock(clock.clone())
            .artifacts(ArtifactStore::over(objects.clone()));
        let log = PostgresLog::open(Address::parse(&url(&name)).unwrap(), options).await;
        let log = Arc::new(log.unwrap());
        let subject = Archiving {
            store: log.clone(),
            archive: log,
            objects,
            clock,
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
async fn the_archive_on_postgres_keeps_its_contract() {
    let Some(server) = debian() else { return };
    keeps_the_contract(&server, 0, |name| server.url(name)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_archive_through_a_transaction_pooler_keeps_its_contract() {
    let Some(server) = debian() else { return };
    let Some(pooler) = PgBouncer::start(&server) else {
        return;
    };
    keeps_the_contract(&server, 16, |name| pooler.url(name)).await;
}

/// Any text, with U+0000 and what is hard to write as JSON more often than by chance.
fn text() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec!["\0", "\u{2028}", "\"", "\\", "\r\n", "🜚", "\u{7f}", "x"]);
    prop::collection::vec(prop_oneof![odd.prop_map(str::to_owned), any::<String>()], 0..6)
        .prop_map(|parts| parts.concat())
}

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let block = (text(), text(), prop::option::of(text()), any::<u32>(), 0..4_u8);
    prop::collection::vec(block, 1..12).prop_map(|parts| {
        let block = |(number, (body, author, meta, tokens, kind)): (
            u64,
            (String, String, Option<String>, u32, u8),
        )| {
            let known = text_block(number, &body);
            Block {
                author: author.into(),
                tokens,
                kind: match kind {
                    0 => BlockKind::from_tag("x.acme.score"),
                    1 => BlockKind::UserPrompt,
                    _ => known.kind.clone(),
                },
                meta: meta.map(|text| {
                    Box::new(Meta::EMPTY.with("odd \0 key", serde_json::json!({"a": [text, null, 1.5]})))
                }),
                ..known
            }
        };
        (1..).zip(parts).map(block).collect()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_blocks_say_every_reader_sees_the_same_bytes_after_they_were_archived() {
    let Some(server) = debian() else { return };
    let node = alone(&server, "any").await;
    let runtime = tokio::runtime::Handle::current();
    let tried = tokio::task::spawn_blocking(move || {
        let mut runner = TestRunner::new(ProptestConfig::with_cases(40));
        let number = std::cell::Cell::new(0);
        runner.run(&blocks(), |blocks| {
            number.set(number.get() + 1);
            let name = format!("c{}", number.get());
            runtime.block_on(async {
                let (log, key) = (&node.log, conversation(&name));
                log.create(new_conversation(&name)).await.unwrap();
                let lease = log.acquire(&key, &owner("a"), TTL).await.unwrap();
                log.append(&lease, after(None, blocks.clone())).await.unwrap();
                log.release(&lease).await.unwrap();
                let export = async || {
                    let mut bytes = Vec::new();
                    let exported = export_conversation(&**log, &node.artifacts, &key, &mut bytes).await;
                    exported.map(|_| bytes).unwrap()
                };
                let before = export().await;
                assert_eq!(node.archive_all().await, 1);
                assert_eq!(export().await, before);
                assert_eq!(log.read_all(&key).await.unwrap(), blocks);
            });
            Ok(())
        })
    });
    tried.await.unwrap().unwrap();
}
