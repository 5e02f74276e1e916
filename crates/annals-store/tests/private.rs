//! Who may read a home, and what a home that may not be written is good for.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use annals_embed::StaticTable;
use annals_store::recall::Query;
use annals_store::testing::{after, at, conversation, new_conversation, owner, text_block};
use annals_store::{BlockLog, BlockLogExt as _, Home, LogError, Recall as _, SqliteOptions};

const TTL: Duration = Duration::from_secs(60);

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(work)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn everything_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(everything_below(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

fn assert_private(home: &Path) {
    for path in everything_below(home) {
        assert_eq!(mode(&path) & 0o077, 0, "{} is open to others", path.display());
    }
}

async fn fill(home: &Home) {
    let log = home.open_log(SqliteOptions::default()).unwrap();
    let artifacts = home.open_artifacts().unwrap();
    artifacts.put(&b"kept"[..]).await.unwrap();
    log.create(new_conversation("c")).await.unwrap();
    let lease = log.acquire(&conversation("c"), &owner("a"), TTL).await.unwrap();
    log.append(&lease, after(None, vec![text_block(1, "the albatross")]))
        .await
        .unwrap();
    // With the log open, its write-ahead log and the index of that are there too.
    assert!(
        everything_below(home.root())
            .iter()
            .any(|path| path.ends_with("annals.db-wal"))
    );
    assert_private(home.root());
}

#[test]
fn what_a_home_holds_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().join("new/home"));
    block_on(fill(&home));
    assert_private(home.root());
}

#[test]
fn a_home_that_was_open_to_others_is_closed_when_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().join("home"));
    block_on(fill(&home));
    fs::set_permissions(home.log_path(), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(home.artifacts_path(), fs::Permissions::from_mode(0o755)).unwrap();
    drop(home.open_log(SqliteOptions::default()).unwrap());
    home.open_artifacts().unwrap();
    assert_private(home.root());
}

/// Runs as an ordinary user: nothing is read-only for root. On Linux the raw call changes this thread and those it starts.
fn as_nobody(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        // SAFETY: plain system calls that change who this thread is.
        unsafe {
            if libc::geteuid() == 0 {
                assert_eq!(libc::syscall(libc::SYS_setresgid, 65_534, 65_534, 65_534), 0);
                assert_eq!(libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534), 0);
            }
        }
        work();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_home_that_may_not_be_written_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().join("home"));
    block_on(fill(&home));
    let lock = |folder_mode: u32, file_mode: u32| {
        for path in everything_below(home.root()) {
            let mode = if path.is_dir() { folder_mode } else { file_mode };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    lock(0o555, 0o444);
    let before = fs::read(home.log_path()).unwrap();
    let read = home.clone();
    as_nobody(move || block_on(read_only(read)));
    assert_eq!(fs::read(home.log_path()).unwrap(), before);
    lock(0o700, 0o600);
}

async fn read_only(home: Home) {
    let log = home
        .open_log(SqliteOptions::default().recall(StaticTable::embedder()))
        .unwrap();
    let key = conversation("c");
    assert_eq!(log.read_all(&key).await.unwrap()[0].text(), Some("the albatross"));
    assert_eq!(log.list(&key.scope, None, 10).await.unwrap().items.len(), 1);
    let digest = annals_core::block::BlobDigest::of(b"kept");
    assert_eq!(
        &home.open_artifacts().unwrap().get(&digest).await.unwrap()[..],
        b"kept"
    );
    let query = Query::new(key.scope.clone(), key.id.clone(), "albatross", at(0));
    log.recall().unwrap().search(query).await.unwrap();
    let refused = log.acquire(&key, &owner("b"), TTL).await;
    assert!(matches!(refused, Err(LogError::ReadOnly { .. })), "{refused:?}");
    let created = log.create(new_conversation("d")).await.unwrap_err();
    assert!(
        created.to_string().contains(home.log_path().to_str().unwrap()),
        "{created}"
    );
}
