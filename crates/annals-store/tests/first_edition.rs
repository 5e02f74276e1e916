//! What the first edition stored opens for ever: blocks, artifacts, memory, forks. `fixtures/first-edition` says what it is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annals_core::block::{Blob, BlobDigest, BlockJson};
use annals_core::ids::{ConversationId, ConversationKey, Scope};
use annals_core::settings::CacheSettings;
use annals_core::time::{Timestamp, Zone};
use annals_core::view::{Announce, Outline, Tail, View};
use annals_embed::StaticTable;
use annals_store::recall::{Hit, Query, Within};
use annals_store::testing::{after, at, owner, text_block};
use annals_store::{
    BlockLog, BlockLogExt as _, Home, ImportAs, LogError, MemoryLog, Operator, Recall as _, SqliteLog,
    SqliteOptions, export_conversation, import_conversation, named_by,
};

const DEMO: &str = "conv_c8d12b2c7f9d41ab";
const FORK: &str = "conv_b652f2f019ea9550";

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/first-edition")
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A copy of the home, since opening it changes it.
fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(&fixture().join("home"), folder.path());
    let home = Home::new(folder.path());
    (folder, home)
}

fn open(home: &Home) -> SqliteLog {
    home.open_log(SqliteOptions::default().recall(StaticTable::embedder()))
        .unwrap()
}

fn key(scope: &str, id: &str) -> ConversationKey {
    ConversationKey::new(Scope::parse(scope).unwrap(), ConversationId::parse(id).unwrap())
}

fn conversations() -> [ConversationKey; 4] {
    let own = Scope::default().to_string();
    [
        key(&own, DEMO),
        key(&own, FORK),
        key(&own, "conv_fixture"),
        key("other/p/u", "conv_other"),
    ]
}

/// Blocks as JSON Lines. Where bytes are kept was a path of that machine; it is told by digest now.
fn lines(blocks: &[annals_core::block::Block]) -> Vec<serde_json::Value> {
    let line = |block| serde_json::to_value(BlockJson::from(block)).unwrap();
    blocks.iter().map(line).map(without_place).collect()
}

fn without_place(mut line: serde_json::Value) -> serde_json::Value {
    if let Some(meta) = line.get_mut("meta").and_then(|meta| meta.as_object_mut()) {
        meta.remove("hosted_uri");
    }
    line
}

fn expected(id: &str) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(fixture().join(format!("expected/{id}.jsonl"))).unwrap();
    let lines = text.split_terminator('\n');
    lines
        .map(|line| without_place(serde_json::from_str(line).unwrap()))
        .collect()
}

#[tokio::test]
async fn every_block_and_artifact_of_an_old_home_is_there() {
    let (_folder, home) = home();
    let (log, artifacts) = (open(&home), home.open_artifacts().unwrap());
    let mut named = BTreeSet::new();
    for key in conversations() {
        let blocks = log.read_all(&key).await.unwrap();
        assert_eq!(lines(&blocks), expected(key.id.as_str()), "{key}");
        // Code was kept in the text of its block only.
        let texts = blocks.iter().filter_map(|block| block.text());
        let texts: BTreeSet<BlobDigest> = texts.map(|text| Blob::of(text.as_bytes()).digest).collect();
        for digest in blocks.iter().flat_map(named_by) {
            match artifacts.get(&digest).await {
                Ok(_) => drop(named.insert(digest)),
                Err(error) => assert!(texts.contains(&digest), "{key}: {error}"),
            }
        }
    }
    assert_eq!(named.len(), 8, "every artifact of the home is named by a block");
    let fork = log.get(&conversations()[1]).await.unwrap();
    assert_eq!(fork.lineage[0].parent.as_str(), DEMO);
    assert_eq!(fork.lineage[0].operator, Operator::Fork);
    let own = log.list(&Scope::default(), None, 10).await.unwrap();
    assert_eq!(own.items.len(), 3);
    let hidden = key(&Scope::default().to_string(), "conv_other");
    assert!(matches!(log.get(&hidden).await, Err(LogError::NotFound { .. })));
}

/// What the first edition printed as the model's view: up to the last cache point, and the tail after it.
fn printed_view(id: &str) -> (String, String) {
    let text = fs::read_to_string(fixture().join(format!("expected/{id}.view.txt"))).unwrap();
    let (stable, tail) = text.split_once("\n=>[3]\n\n").unwrap();
    (format!("{stable}\n=>[3]\n"), tail.to_owned())
}

/// Up to the last cache point not a byte of the view may differ: a provider may have it in its cache, and the digest of an
/// old prompt is made from it. The tail is never cached, and was worded otherwise since: a source is `sid | title | place`
/// now, without its type, and the tokens that the announcement counts include the tail. So of the tail only what it tells
/// is compared.
#[tokio::test]
async fn the_model_sees_an_old_conversation_as_it_was_shown_then() {
    let (_folder, home) = home();
    let log = open(&home);
    for key in &conversations()[..3] {
        let view = View::fold(log.read_all(key).await.unwrap().into_iter().map(Arc::new)).unwrap();
        let (stable, printed) = printed_view(key.id.as_str());
        let outline = Outline::of(&view, &CacheSettings::default(), None);
        assert_eq!(outline.to_text(), stable, "{key}");

        let tail = Tail::of(&view, &announce()).texts().concat();
        let sources = printed.lines().filter_map(|line| line.strip_prefix("[S:"));
        for source in sources {
            let (sid, told) = source.split_once("] ").unwrap();
            let (title_and_place, _type) = told.rsplit_once(" | ").unwrap();
            let line = format!("\n{sid} | {title_and_place}\n");
            assert!(tail.contains(&line), "{key}: {line} is not in {tail}");
        }
        assert_eq!(plan_of(&tail), plan_of(&printed), "{key}");
    }
}

fn announce() -> Announce {
    Announce {
        iteration: 1,
        max_iterations: 15,
        fixed_tokens: 0,
        window_tokens: 128_000,
        now: at(0),
        timezone: Zone::default(),
    }
}

/// The lines of the plan, which end the tail.
fn plan_of(tail: &str) -> Option<&str> {
    let at = tail.find("\nplan plan:")?;
    Some(tail[at..].trim())
}

#[tokio::test]
async fn an_old_home_is_written_on_and_stays_itself() {
    let (_folder, home) = home();
    let before = {
        let log = open(&home);
        for key in conversations() {
            let tail = log.tail(&key).await.unwrap();
            let lease = log
                .acquire(&key, &owner("new"), std::time::Duration::from_secs(60))
                .await
                .unwrap();
            let next = tail.map_or(1, |tail| tail.get() + 1);
            log.append(&lease, after(tail, vec![text_block(next, "and on")]))
                .await
                .unwrap();
            log.release(&lease).await.unwrap();
        }
        log.read_all(&conversations()[1]).await.unwrap()
    };
    let log = open(&home);
    assert_eq!(log.read_all(&conversations()[1]).await.unwrap(), before);
    let mut new = annals_store::NewConversation::new(key("local/default/me", "again"), at(0));
    new.title = Some("A fork of old blocks".to_owned());
    let cut = before[5].seq;
    log.fork(&conversations()[1], cut, new.clone()).await.unwrap();
    assert_eq!(log.read_all(&new.key).await.unwrap(), before[..6]);
    assert!(matches!(log.create(new).await, Err(LogError::Exists { .. })));
}

#[tokio::test]
async fn an_old_home_is_searched() {
    let (_folder, home) = home();
    search(&open(&home)).await;
}

/// Memory search came with schema 2.
#[tokio::test]
async fn a_log_of_the_first_schema_is_opened_and_searched() {
    let (_folder, home) = home();
    let database = rusqlite::Connection::open(home.log_path()).unwrap();
    database
        .execute_batch(
            "DROP TABLE recall_vocabulary; DROP TABLE recall_text; DROP TABLE recall_file; DROP TABLE recall_passage;
             DROP TABLE recall_source; DROP TABLE recall_scope; DROP TABLE recall_state; PRAGMA user_version = 1;",
        )
        .unwrap();
    drop(database);
    let log = open(&home);
    assert_eq!(
        lines(&log.read_all(&conversations()[2]).await.unwrap()),
        expected("conv_fixture")
    );
    search(&log).await;
}

/// Passages as the first edition printed them, but for their scores, which only order them: path, whose words, conversation,
/// time, text.
async fn search(log: &SqliteLog) {
    let id = ConversationId::parse("conv_fixture").unwrap();
    let query = |within| Query {
        within,
        ..Query::new(
            Scope::default(),
            id.clone(),
            "report written",
            Timestamp::from_unix_millis(1_800_000_000_000),
        )
    };
    let line = |hit: &Hit| {
        let (path, words) = (hit.path.as_ref().unwrap(), hit.text.split_whitespace());
        let words = words.collect::<Vec<_>>().join(" ");
        format!(
            "{path}  {}  {}  {}\n    {words}\n",
            hit.target.as_str(),
            hit.conversation,
            hit.ts
        )
    };
    let recall = log.recall().unwrap();
    let found = recall
        .search(query(Within::Conversation(id.clone())))
        .await
        .unwrap();
    let shown: String = found.hits.iter().map(line).collect();
    let printed = fs::read_to_string(fixture().join("expected/memory.txt")).unwrap();
    let printed = printed
        .split_inclusive('\n')
        .map(|line| match line.starts_with("0.") {
            true => line.split_once("  ").unwrap().1,
            false => line,
        });
    // Notes are remembered since; what was found then comes first, in the same order.
    let printed: String = printed.collect();
    assert!(shown.starts_with(&printed), "{shown}\n{printed}");
    let of_all = recall.search(query(Within::Scope)).await.unwrap();
    let from: BTreeSet<&str> = of_all.hits.iter().map(|hit| hit.conversation.as_str()).collect();
    assert!(
        from.contains("conv_fixture") && !from.contains("conv_other"),
        "{from:?}"
    );
}

/// The first edition named bytes that it kept in a block's text only; such a conversation can be exported now.
#[tokio::test]
async fn every_old_conversation_is_exported_and_comes_back() {
    let (folder, home) = home();
    let (log, artifacts) = (open(&home), home.open_artifacts().unwrap());
    for key in conversations() {
        let mut file = Vec::new();
        export_conversation(&log, &artifacts, &key, &mut file)
            .await
            .unwrap();
        let text = String::from_utf8(file.clone()).unwrap();
        for path in ["file://", "/tmp/", folder.path().to_str().unwrap()] {
            assert!(
                !text.contains(path),
                "a path of a machine is in the export of {key}"
            );
        }
        let elsewhere = tempfile::tempdir().unwrap();
        let (other, kept) = (
            MemoryLog::default(),
            annals_store::ArtifactStore::open(elsewhere.path()).unwrap(),
        );
        let import_as = ImportAs {
            id: None,
            scope: key.scope.clone(),
            owner: owner("import"),
        };
        import_conversation(&other, &kept, &mut std::io::Cursor::new(file), import_as)
            .await
            .unwrap();
        let blocks = other.read_all(&key).await.unwrap();
        assert_eq!(blocks, log.read_all(&key).await.unwrap());
    }
}

#[tokio::test]
async fn an_old_export_is_imported() {
    let (_folder, home) = home();
    let (log, artifacts) = (Arc::new(MemoryLog::default()), home.open_artifacts().unwrap());
    let file = fs::read(fixture().join("conv_fixture.annals")).unwrap();
    let import_as = ImportAs {
        id: None,
        scope: Scope::default(),
        owner: owner("import"),
    };
    let mut reader = std::io::Cursor::new(file);
    import_conversation(&*log, &artifacts, &mut reader, import_as)
        .await
        .unwrap();
    let blocks = log.read_all(&conversations()[2]).await.unwrap();
    assert_eq!(lines(&blocks), expected("conv_fixture"));
}
