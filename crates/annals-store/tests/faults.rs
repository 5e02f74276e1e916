//! Damaged files, full and read-only disks, odd processes: each has a clear error, and nothing is lost.

#[path = "support/broken_disk.rs"]
#[allow(dead_code)]
mod broken_disk;

use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use annals_core::block::Block;
use annals_core::ids::Seq;
use annals_store::testing::{after, conversation, new_conversation, owner, text_block};
use annals_store::{BlockLog, BlockLogExt, Lease, LogError, SqliteLog, SqliteOptions};
use broken_disk::Fault;

const TTL: Duration = Duration::from_secs(60);

fn open(path: &Path) -> Result<SqliteLog, LogError> {
    SqliteLog::open(path, SqliteOptions::default())
}

async fn begin(log: &SqliteLog, blocks: u64) -> Lease {
    log.create(new_conversation("c")).await.unwrap();
    let lease = log.acquire(&conversation("c"), &owner("a"), TTL).await.unwrap();
    let blocks: Vec<Block> = (1..=blocks)
        .map(|n| text_block(n, &format!("marker-{n} {}", "x".repeat(900))))
        .collect();
    log.append(&lease, after(None, blocks)).await.unwrap();
    lease
}

/// An error as a test can show it: without the folder.
fn shown(error: &LogError, folder: &Path) -> String {
    error.to_string().replace(&folder.display().to_string(), "[HOME]")
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("annals.db");
    std::fs::write(
        &path,
        "these are somebody's notes, not a database at all".repeat(100),
    )
    .unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, LogError::Corrupt { .. }));
    insta::assert_snapshot!(shown(&error, folder.path()), @"the log `[HOME]/annals.db` is damaged: file is not a database; restore it from a backup, or export what still reads");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_database_of_another_program_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("annals.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other
        .execute_batch("CREATE TABLE block (recipe TEXT); INSERT INTO block VALUES ('soup')")
        .unwrap();
    drop(other);
    assert!(matches!(open(&path), Err(LogError::Foreign { .. })));
    let other = rusqlite::Connection::open(&path).unwrap();
    assert_eq!(
        other
            .query_row("SELECT recipe FROM block", [], |row| row.get::<_, String>(0))
            .unwrap(),
        "soup"
    );
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("annals.db");
    begin(&open(&path).unwrap(), 1).await;
    rusqlite::Connection::open(&path)
        .unwrap()
        .pragma_update(None, "user_version", 999)
        .unwrap();
    let error = open(&path).unwrap_err();
    insta::assert_snapshot!(shown(&error, folder.path()), @"the log `[HOME]/annals.db` has schema 999, this program knows up to 4: use a newer `annals`");
}

#[tokio::test]
async fn a_truncated_database_is_damaged_not_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("annals.db");
    begin(&open(&path).unwrap(), 200).await;
    let whole = std::fs::metadata(&path).unwrap().len();
    for keep in [whole / 2, whole / 10, 100] {
        let cut = folder.path().join(format!("cut-{keep}.db"));
        std::fs::copy(&path, &cut).unwrap();
        std::fs::OpenOptions::new()
            .write(true)
            .open(&cut)
            .unwrap()
            .set_len(keep)
            .unwrap();
        let read = match open(&cut) {
            Ok(log) => log.read_all(&conversation("c")).await.map(drop),
            Err(error) => Err(error),
        };
        assert!(
            matches!(read, Err(LogError::Corrupt { .. })),
            "{keep} of {whole} bytes: {read:?}"
        );
    }
}

#[tokio::test]
async fn a_flipped_bit_in_a_block_is_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("annals.db");
    begin(&open(&path).unwrap(), 50).await;
    let bytes = std::fs::read(&path).unwrap();
    let place = bytes
        .windows(10)
        .position(|window| window == b"marker-33 ")
        .unwrap();
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(place as u64 + 200)).unwrap();
    file.write_all(b"y").unwrap();
    drop(file);
    let log = open(&path).unwrap();
    let error = log.read_all(&conversation("c")).await.unwrap_err();
    insta::assert_snapshot!(shown(&error, folder.path()), @"the log `[HOME]/annals.db` is damaged: conversation `c`: block 33 does not match its checksum; restore it from a backup, or export what still reads");
    let before = log.read(&conversation("c"), Seq::FIRST, 32).await.unwrap();
    assert_eq!(before.len(), 32, "what is whole still reads");
}

#[tokio::test]
async fn a_missing_block_is_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("annals.db");
    begin(&open(&path).unwrap(), 5).await;
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute("DELETE FROM block WHERE seq = 3", [])
        .unwrap();
    let error = open(&path)
        .unwrap()
        .read_all(&conversation("c"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("block 3 is missing"), "{error}");
}

/// Writes while the disk fails in one way, then goes on when it works again.
async fn survives(fault: Fault, is_expected: impl Fn(&LogError) -> bool) {
    broken_disk::register();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("annals.db");
    let options = || SqliteOptions::default().vfs(broken_disk::NAME);
    let log = SqliteLog::open(&path, options()).unwrap();
    let lease = begin(&log, 3).await;
    let next = || vec![text_block(4, "next"), text_block(5, "and more")];
    broken_disk::set_fault(folder.path(), Some(fault));
    for _ in 0..3 {
        let error = log
            .append(&lease, after(Seq::try_new(3).ok(), next()))
            .await
            .unwrap_err();
        assert!(is_expected(&error), "{error:?}");
    }
    assert_eq!(
        log.read_all(&conversation("c")).await.unwrap().len(),
        3,
        "readers go on"
    );
    broken_disk::set_fault(folder.path(), None);
    log.append(&lease, after(Seq::try_new(3).ok(), next()))
        .await
        .unwrap();
    drop(log);
    let log = SqliteLog::open(&path, options()).unwrap();
    assert_eq!(log.read_all(&conversation("c")).await.unwrap().len(), 5);
}

#[tokio::test]
async fn a_full_disk_refuses_the_append_and_loses_nothing() {
    survives(Fault::Full, |error| matches!(error, LogError::DiskFull { .. })).await;
}

#[tokio::test]
async fn a_read_only_disk_refuses_the_append_and_loses_nothing() {
    survives(Fault::ReadOnly, |error| {
        matches!(error, LogError::ReadOnly { .. })
    })
    .await;
}

#[tokio::test]
async fn a_sync_that_fails_is_never_acknowledged() {
    survives(Fault::Sync, |error| matches!(error, LogError::Storage { .. })).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_failing_append_of_a_group_does_not_fail_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("annals.db");
    let log = open(&path).unwrap();
    let beside = rusqlite::Connection::open(&path).unwrap();
    beside
        .execute_batch(
            "CREATE TRIGGER picky BEFORE INSERT ON block WHEN NEW.body = 'poison'
             BEGIN SELECT RAISE(ABORT, 'refused'); END",
        )
        .unwrap();
    let mut leases = Vec::new();
    for number in 0..20 {
        let name = format!("c{number}");
        log.create(new_conversation(&name)).await.unwrap();
        leases.push(log.acquire(&conversation(&name), &owner("a"), TTL).await.unwrap());
    }
    for round in 0..5 {
        let appends = leases.iter().enumerate().map(|(number, lease)| {
            let text = if number == 7 { "poison" } else { "fine" };
            log.append(
                lease,
                after(Seq::try_new(round).ok().filter(|_| number != 7), {
                    let place = if number == 7 { 1 } else { round + 1 };
                    vec![text_block(place, text)]
                }),
            )
        });
        let outcomes = futures::future::join_all(appends).await;
        for (number, outcome) in outcomes.iter().enumerate() {
            assert_eq!(outcome.is_err(), number == 7, "{number}: {outcome:?}");
        }
    }
    let count: i64 = beside
        .query_row("SELECT count(*) FROM block", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 19 * 5);
}

const HOLDER_PATH: &str = "ANNALS_TEST_HOLDER_PATH";

fn holder(path: &Path) -> std::process::Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "the_other_process_that_holds_a_conversation",
            "--nocapture",
        ])
        .env(HOLDER_PATH, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(
        lines.map_while(Result::ok).any(|line| line.ends_with("HELD")),
        "the other process holds it"
    );
    child
}

/// Not a test of its own: another process that takes the conversation and waits.
#[tokio::test]
async fn the_other_process_that_holds_a_conversation() {
    if let Ok(path) = std::env::var(HOLDER_PATH) {
        let log = open(path.as_ref()).unwrap();
        log.acquire(&conversation("c"), &owner("annals"), Duration::from_secs(1 << 30))
            .await
            .unwrap();
        writeln!(std::io::stdout(), "\nHELD").unwrap();
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
    }
}

#[tokio::test]
async fn two_processes_share_a_file_but_not_a_conversation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("annals.db");
    let log = open(&path).unwrap();
    log.create(new_conversation("c")).await.unwrap();
    log.create(new_conversation("free")).await.unwrap();
    let mut other = holder(&path);
    let id = conversation("c");
    // The same name does not make another process the same holder.
    assert!(matches!(
        log.acquire(&id, &owner("annals"), TTL).await,
        Err(LogError::Held { .. })
    ));
    log.acquire(&conversation("free"), &owner("annals"), TTL)
        .await
        .unwrap();
    // Killed, it cannot give its lease back; its death is proof enough.
    other.kill().unwrap();
    other.wait().unwrap();
    let lease = log.acquire(&id, &owner("annals"), TTL).await.unwrap();
    log.append(&lease, after(None, vec![text_block(1, "mine")]))
        .await
        .unwrap();
}

#[tokio::test]
async fn many_handles_may_open_a_new_file_at_once() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("home/annals.db");
        let opened: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| open(&path))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for log in opened {
            log.unwrap().get(&conversation("c")).await.unwrap_err();
        }
    }
}

/// Changes one thing in the file behind the log's back.
fn tamper(path: &Path, statement: &str) {
    let changed = rusqlite::Connection::open(path)
        .unwrap()
        .execute(statement, [])
        .unwrap();
    assert!(changed > 0, "{statement}");
}

#[tokio::test]
async fn a_changed_word_conversation_scope_or_post_is_found() {
    // A word, one of the texts that blocks share; a block that points to another word; and every column of a conversation.
    let tampered = [
        "UPDATE word SET text = 'react.tool.resulu' WHERE text = 'react.tool.result'",
        "UPDATE word SET text = 'turn_2' WHERE text = 'turn_1'",
        "UPDATE word SET sum = sum + 1",
        "UPDATE block SET kind = author WHERE seq = 2",
        "UPDATE block SET conversation = conversation, sum = sum + 1",
        "UPDATE conversation SET title = 'B'",
        "UPDATE conversation SET created = created + 1",
        "UPDATE conversation SET cut = 1",
        "UPDATE conversation SET lineage = '[]'",
        "UPDATE scope SET text = 'local/default/mf'",
        "UPDATE inbox SET body = x'00'",
    ];
    for statement in tampered {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("annals.db");
        {
            let log = open(&path).unwrap();
            begin(&log, 3).await;
            let post = annals_store::Post::new("k", "prompt", "hello");
            annals_store::Inbox::post(&log, &conversation("c"), post)
                .await
                .unwrap();
        }
        tamper(&path, statement);
        let log = open(&path).unwrap();
        let key = match statement.contains("scope") {
            true => annals_core::ids::ConversationKey::parse("local/default/mf/c").unwrap(),
            false => conversation("c"),
        };
        let read = log.read_all(&key).await.map(drop);
        let pending = annals_store::Inbox::pending(&log, &key).await.map(drop);
        let found = [read, pending]
            .into_iter()
            .any(|outcome| matches!(outcome, Err(LogError::Corrupt { .. })));
        assert!(found, "{statement}");
    }
}

#[tokio::test]
async fn a_changed_word_under_old_blocks_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("annals.db");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/first-edition/home/annals.db");
    std::fs::copy(fixture, &path).unwrap();
    drop(open(&path).unwrap());
    tamper(
        &path,
        "UPDATE word SET text = 'user.prompu' WHERE text = 'user.prompt'",
    );
    let key = conversation("conv_fixture");
    let read = open(&path).unwrap().read_all(&key).await;
    assert!(matches!(read, Err(LogError::Corrupt { .. })), "{read:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_process_appends_or_posts_is_told_to_followers() {
    use annals_store::{Inbox as _, Tails as _};
    use futures::StreamExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("annals.db");
    // Two handles share the file and nothing in memory, as two processes do.
    let (here, there) = (open(&path).unwrap(), open(&path).unwrap());
    let lease = begin(&there, 1).await;
    let key = conversation("c");
    let mut tails = here.follow(&key, None);
    let mut posts = here.posted(&key, None);
    assert_eq!(tails.next().await.unwrap().unwrap(), Seq::FIRST);
    let mut slowest = Duration::ZERO;
    for number in 2..=12 {
        let begun = std::time::Instant::now();
        there
            .append(
                &lease,
                after(Seq::try_new(number - 1).ok(), vec![text_block(number, "x")]),
            )
            .await
            .unwrap();
        assert_eq!(tails.next().await.unwrap().unwrap().get(), number);
        slowest = slowest.max(begun.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "told after {slowest:?}");
    let post = annals_store::Post::new("k", "cancel", Vec::new());
    let posted = there.post(&key, post).await.unwrap().id();
    assert_eq!(posts.next().await.unwrap().unwrap(), posted);
    there.delete(&lease).await.unwrap();
    assert!(matches!(tails.next().await, Some(Err(LogError::NotFound { .. }))));
    // The thread that asks ends with the last follower, and begins again with the next.
    drop((tails, posts));
    tokio::time::sleep(Duration::from_millis(200)).await;
    let lease = begin(&there, 1).await;
    let mut again = here.follow(&key, Some(Seq::FIRST));
    let next = tokio::spawn(async move { again.next().await });
    there
        .append(&lease, after(Some(Seq::FIRST), vec![text_block(2, "x")]))
        .await
        .unwrap();
    assert_eq!(next.await.unwrap().unwrap().unwrap().get(), 2);
}
