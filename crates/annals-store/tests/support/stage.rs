//! A log with memory search, things to say in it, and the index as text.
#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use annals_core::ids::Scope;
use annals_embed::{Embedder, StaticTable};
use annals_store::recall::{Query, RecallHits, Within};
use annals_store::testing::{self, at, conversation, say};
use annals_store::{BlockLog as _, NewConversation, Recall as _, SqliteLog, SqliteOptions, SqliteRecall};

pub(crate) use annals_store::testing::{Says, answer, attachment, file, key, prompt};

pub(crate) fn scope(text: &str) -> Scope {
    Scope::parse(text).unwrap()
}

/// A log in a folder of its own.
pub(crate) struct Stage {
    folder: Option<tempfile::TempDir>,
    path: PathBuf,
    pub(crate) log: SqliteLog,
    /// How far the index may be behind the log; `None` for what is usual.
    lag_max_passages: Option<usize>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("annals.db");
        Stage {
            folder: Some(folder),
            ..Stage::at(&path, Some(StaticTable::embedder()))
        }
    }

    pub(crate) fn at(path: &Path, embedder: Option<Arc<dyn Embedder>>) -> Self {
        Stage {
            folder: None,
            path: path.to_owned(),
            log: open(path, embedder, None),
            lag_max_passages: None,
        }
    }

    /// With an index that follows once this many passages are missing.
    pub(crate) fn following(lag_max_passages: usize) -> Self {
        let mut stage = Stage::new();
        stage.lag_max_passages = Some(lag_max_passages);
        stage.reopen(Some(StaticTable::embedder()));
        stage
    }

    pub(crate) fn reopen(&mut self, embedder: Option<Arc<dyn Embedder>>) {
        self.log = open(&self.path, embedder, self.lag_max_passages);
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    pub(crate) fn recall(&self) -> &SqliteRecall {
        self.log.recall().unwrap()
    }

    pub(crate) fn new_conversation(&self, name: &str, of: &str) -> NewConversation {
        NewConversation::new(key(of, name), at(0))
    }

    /// One append to a conversation of `t/p/u`, made if it is new.
    pub(crate) async fn says(&self, name: &str, says: Vec<Says>) {
        self.says_in("t/p/u", name, says).await;
    }

    pub(crate) async fn says_in(&self, of: &str, name: &str, says: Vec<Says>) {
        say(&self.log, &key(of, name), &says).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.delete_in("t/p/u", name).await;
    }

    pub(crate) async fn delete_in(&self, of: &str, name: &str) {
        testing::delete(&self.log, &key(of, name)).await;
    }

    /// Waits for whatever the writer does after an answer: it takes requests one after the other.
    pub(crate) async fn settle(&self) {
        let _ = self
            .log
            .create(self.new_conversation("settled", "t/p/nobody"))
            .await;
    }

    pub(crate) fn query(&self, name: &str, text: &str) -> Query {
        Query::new(scope("t/p/u"), conversation(name).id, text, at(1_000))
    }

    pub(crate) async fn search(&self, name: &str, text: &str) -> RecallHits {
        self.recall().search(self.query(name, text)).await.unwrap()
    }

    /// The whole index, once it is up to the log.
    pub(crate) async fn index(&self) -> String {
        self.recall().catch_up().await.unwrap();
        dump(&self.path)
    }

    /// Searches all conversations of a scope.
    pub(crate) async fn everywhere(&self, of: &str, text: &str) -> RecallHits {
        let query = Query {
            scope: scope(of),
            within: Within::Scope,
            limit: 50,
            ..self.query("none", text)
        };
        self.recall().search(query).await.unwrap()
    }
}

fn open(path: &Path, embedder: Option<Arc<dyn Embedder>>, lag_max_passages: Option<usize>) -> SqliteLog {
    let mut options = SqliteOptions::default();
    if let Some(embedder) = embedder {
        options = options.recall(embedder);
    }
    if let Some(passages) = lag_max_passages {
        options = options.lag_max_passages(passages);
    }
    SqliteLog::open(path, options).unwrap()
}

/// The whole index as sorted lines, without the numbers that depend on the order of making.
pub(crate) fn dump(path: &Path) -> String {
    let database = rusqlite::Connection::open(path).unwrap();
    database
        .execute_batch(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.instances USING fts5vocab (main, recall_text, instance)",
        )
        .unwrap();
    let place = "(SELECT conversation FROM recall_source WHERE first <= doc ORDER BY first DESC LIMIT 1)";
    let number = "(doc - (SELECT max(first) FROM recall_source WHERE first <= doc))";
    let queries = [
        format!(
            "SELECT 'passage ' || {place} || ' ' || {number} || ' ' || concat_ws(' ', seq, start, length, ts, target, hex(vector)) FROM recall_passage"
        ),
        format!("SELECT 'term ' || {place} || ' ' || {number} || ' ' || term FROM temp.instances"),
        "SELECT concat_ws(' ', 'source', conversation, next, upto) FROM recall_source".to_owned(),
        "SELECT concat_ws(' ', 'file', conversation, digest) FROM recall_file".to_owned(),
    ];
    let mut lines: Vec<String> = Vec::new();
    for query in queries {
        let mut statement = database.prepare(&query).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        lines.extend(rows.map(Result::unwrap));
    }
    lines.sort();
    lines.join("\n")
}
