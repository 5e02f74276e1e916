//! Artifacts and the workspace: verified, deduplicated, impossible to escape, and rebuilt from nothing.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annals_core::block::{Blob, BlobDigest};
use annals_core::path::PhysicalPath;
use annals_core::time::Timestamp;
use annals_store::{ArtifactError, ArtifactStore, Home, Materialised, Workspace, WorkspaceError};
use futures::TryStreamExt;

fn store() -> (tempfile::TempDir, ArtifactStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = ArtifactStore::open(folder.path().join("artifacts")).unwrap();
    (folder, store)
}

fn place(folder: &tempfile::TempDir, key: &str) -> PathBuf {
    folder.path().join("artifacts").join(key)
}

fn path(text: &str) -> PhysicalPath {
    PhysicalPath::parse(text).unwrap()
}

async fn both_kinds() -> Vec<(tempfile::TempDir, ArtifactStore)> {
    let memory = ArtifactStore::over(Arc::new(object_store::memory::InMemory::new()));
    vec![store(), (tempfile::tempdir().unwrap(), memory)]
}

const MAX_BYTES: u64 = 1 << 20;

#[tokio::test]
async fn bytes_come_back_by_their_digest_from_files_and_from_objects() {
    for (folder, store) in both_kinds().await {
        let large: Vec<u8> = (0..700_000_u32).map(|n| n as u8).collect();
        for bytes in [&b""[..], b"x", &large] {
            let stored = store.put(bytes.to_vec()).await.unwrap();
            assert_eq!(stored.blob, Blob::of(bytes));
            assert_eq!(stored.uri, stored.blob.digest.uri());
            assert_eq!(store.get(&stored.blob.digest).await.unwrap(), bytes);
            let pieces: Vec<bytes::Bytes> = store
                .stream(&stored.blob.digest)
                .await
                .unwrap()
                .try_collect()
                .await
                .unwrap();
            assert_eq!(pieces.concat(), bytes);
            let source = folder.path().join("source");
            std::fs::write(&source, bytes).unwrap();
            assert_eq!(store.put_file(&source).await.unwrap(), stored);
        }
        let part = store.range(&Blob::of(&large).digest, 1_000..1_004).await.unwrap();
        assert_eq!(part, &large[1_000..1_004]);
        let digest = Blob::of(&large).digest;
        let last = store.range(&digest, 699_999..900_000).await.unwrap();
        assert_eq!(last, &large[699_999..]);
        assert!(store.range(&digest, 700_000..700_001).await.is_err());
        assert_eq!(store.size_bytes(&digest).await.unwrap(), Some(700_000));
        let missing = Blob::of(b"never put").digest;
        assert!(!store.contains(&missing).await.unwrap());
        assert!(
            matches!(store.get(&missing).await, Err(ArtifactError::Missing { digest }) if digest == missing)
        );
        assert!(matches!(
            store.stream(&missing).await.err(),
            Some(ArtifactError::Missing { .. })
        ));
        let now = Timestamp::from_unix_micros(0);
        assert_eq!(store.garbage([], now).await.unwrap().seen, 3);
    }
}

#[tokio::test]
async fn a_store_that_never_kept_anything_has_no_garbage() {
    for (_folder, store) in both_kinds().await {
        let swept = store.gc([], Timestamp::from_unix_micros(i64::MAX)).await;
        assert_eq!(swept.unwrap(), annals_store::Swept::default());
    }
}

#[tokio::test]
async fn damaged_bytes_are_refused_by_name_and_healed_by_putting_them_again() {
    let (folder, store) = store();
    let stored = store.put(&b"the original"[..]).await.unwrap();
    let digest = stored.blob.digest;
    for damage in [&b"the Original"[..], b"", b"the original and more"] {
        std::fs::write(place(&folder, &stored.key), damage).unwrap();
        let error = store.get(&digest).await.unwrap_err();
        assert!(error.to_string().contains(&digest.to_string()), "{error}");
        let streamed: Result<Vec<_>, _> = store.stream(&digest).await.unwrap().try_collect().await;
        assert!(matches!(streamed, Err(ArtifactError::Corrupt { .. })));
        store.put(&b"the original"[..]).await.unwrap();
        assert_eq!(store.get(&digest).await.unwrap(), &b"the original"[..]);
    }
}

#[tokio::test]
async fn equal_bytes_are_kept_once() {
    let (folder, store) = store();
    let puts = (0..20).map(|_| store.put(&b"same"[..]));
    for stored in futures::future::join_all(puts).await {
        assert_eq!(stored.unwrap().blob, Blob::of(b"same"));
    }
    let kept = files_below(&folder.path().join("artifacts/sha256"));
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(
        files_below(&folder.path().join("artifacts/tmp")),
        Vec::<PathBuf>::new()
    );
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path))
        } else {
            found.push(path)
        }
    }
    found
}

fn age(path: &Path, micros: i64) {
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_micros(micros as u64);
    std::fs::File::options()
        .append(true)
        .open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

#[tokio::test]
async fn garbage_collection_keeps_what_is_named_or_new_and_removes_the_rest() {
    let (folder, store) = store();
    let mut put = Vec::new();
    for text in ["named", "new", "used again", "garbage"] {
        let stored = store.put(text.as_bytes().to_vec()).await.unwrap();
        age(&place(&folder, &stored.key), 1_000_000);
        put.push(stored);
    }
    std::fs::write(place(&folder, "tmp/put-left"), "left by a crash").unwrap();
    age(&place(&folder, "tmp/put-left"), 1_000_000);
    std::fs::write(place(&folder, "sha256/notes.txt"), "not ours").unwrap();
    age(&place(&folder, "sha256/notes.txt"), 1_000_000);
    age(&place(&folder, &put[1].key), 3_000_000);
    store.put(&b"used again"[..]).await.unwrap();

    let swept = store
        .gc([put[0].blob.digest], Timestamp::from_unix_micros(2_000_000))
        .await
        .unwrap();
    assert_eq!((swept.seen, swept.removed), (4, 1));
    assert_eq!(
        swept.freed_bytes,
        ("garbage".len() + "left by a crash".len()) as u64
    );
    let left: Vec<bool> = {
        let mut left = Vec::new();
        for stored in &put {
            left.push(store.contains(&stored.blob.digest).await.unwrap());
        }
        left
    };
    assert_eq!(left, [true, true, true, false]);
    assert!(place(&folder, "sha256/notes.txt").exists());
}

#[tokio::test]
async fn a_store_that_is_no_folder_says_so() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        ArtifactStore::open_url("gopher://x/y"),
        Err(ArtifactError::UnknownScheme { .. })
    ));
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(ArtifactStore::open(&file).is_err());
    ArtifactStore::open_url(&format!("file:{}", folder.path().join("a").display())).unwrap();
}

#[tokio::test]
async fn a_deleted_workspace_is_rebuilt_from_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path());
    let id = annals_store::testing::conversation("c");
    let artifacts = home.open_artifacts().unwrap();
    let stored = artifacts.put(&b"report"[..]).await.unwrap();
    let file = path("turn_1/files/a/b/report.md");
    let bring = async |digest: &BlobDigest| {
        let workspace = Workspace::open(home.workspace_path(&id)).unwrap();
        let done = workspace.materialise(&file, digest, &artifacts).await.unwrap();
        (done, workspace.read(&file, MAX_BYTES).unwrap())
    };
    assert_eq!(
        bring(&stored.blob.digest).await,
        (Materialised::Rehosted, b"report".to_vec())
    );
    assert_eq!(
        bring(&stored.blob.digest).await,
        (Materialised::Present, b"report".to_vec())
    );
    std::fs::remove_dir_all(home.workspace_path(&id)).unwrap();
    assert_eq!(bring(&stored.blob.digest).await.0, Materialised::Rehosted);
    Workspace::open(home.workspace_path(&id))
        .unwrap()
        .write(&file, b"changed")
        .unwrap();
    assert_eq!(
        bring(&stored.blob.digest).await,
        (Materialised::Rehosted, b"report".to_vec())
    );
}

#[tokio::test]
async fn damaged_bytes_never_reach_the_workspace() {
    let (folder, store) = store();
    let stored = store.put(&b"good"[..]).await.unwrap();
    std::fs::write(place(&folder, &stored.key), "evil").unwrap();
    let workspace = Workspace::open(folder.path().join("w")).unwrap();
    let file = path("turn_1/files/x");
    let outcome = workspace.materialise(&file, &stored.blob.digest, &store).await;
    assert!(matches!(
        outcome,
        Err(WorkspaceError::Artifact(ArtifactError::Corrupt { .. }))
    ));
    assert!(!workspace.exists(&file));
    assert_eq!(
        files_below(&folder.path().join("w")),
        Vec::<PathBuf>::new(),
        "nothing is left behind"
    );
}

#[test]
fn files_are_written_read_listed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(folder.path().join("new/w")).unwrap();
    for (file, text) in [
        ("turn_1/files/b.txt", "bb"),
        ("turn_1/files/a/z", ""),
        ("turn_2/attachments/m.pdf", "pdf"),
    ] {
        workspace.write(&path(file), text.as_bytes()).unwrap();
    }
    workspace.write(&path("turn_1/files/b.txt"), b"again").unwrap();
    std::fs::write(workspace.root().join("turn_1/files/.annals-draft-1-1"), "half").unwrap();
    std::fs::write(workspace.root().join("turn_1/stray"), "outside the folders").unwrap();
    let listed = || -> Vec<(String, u64)> {
        let files = workspace.list().unwrap();
        files
            .into_iter()
            .map(|entry| (entry.path.to_string(), entry.size_bytes))
            .collect()
    };
    let all = [
        ("turn_1/files/a/z", 0),
        ("turn_1/files/b.txt", 5),
        ("turn_2/attachments/m.pdf", 3),
    ];
    assert_eq!(listed(), all.map(|(path, size)| (path.to_owned(), size)));
    let file = path("turn_1/files/b.txt");
    workspace.set_read_only(&file).unwrap();
    workspace.write(&file, b"replaced").unwrap();
    assert_eq!(
        (
            workspace.read(&file, MAX_BYTES).unwrap(),
            workspace.size_bytes(&file).unwrap()
        ),
        (b"replaced".to_vec(), 8)
    );
    workspace.remove(&file).unwrap();
    assert!(!workspace.exists(&file));
    assert!(matches!(
        workspace.read(&file, MAX_BYTES),
        Err(WorkspaceError::NotFound { .. })
    ));
    assert!(matches!(
        workspace.read(&path("turn_1/files/a"), MAX_BYTES),
        Err(WorkspaceError::NotAFile { .. })
    ));
}

#[test]
fn no_symlink_leads_out_of_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    let workspace = Workspace::open(folder.path().join("w")).unwrap();
    workspace.write(&path("turn_1/files/inside"), b"inside").unwrap();
    let files = workspace.root().join("turn_1/files");
    symlink(&outside, files.join("folder")).unwrap();
    symlink(outside.join("secret"), files.join("absolute")).unwrap();
    symlink("../../../outside/secret", files.join("relative")).unwrap();
    symlink("/proc/self/root/etc/passwd", files.join("magic")).unwrap();
    symlink("inside", files.join("good")).unwrap();
    symlink("/nowhere", files.join("dangling")).unwrap();

    for bad in ["folder/secret", "absolute", "relative", "magic", "dangling"] {
        let bad = path(&format!("turn_1/files/{bad}"));
        assert!(
            matches!(
                workspace.read(&bad, MAX_BYTES),
                Err(WorkspaceError::Escapes { .. })
            ),
            "{bad}"
        );
        assert!(!workspace.exists(&bad));
    }
    assert_eq!(
        workspace.read(&path("turn_1/files/good"), MAX_BYTES).unwrap(),
        b"inside"
    );
    let through = workspace.write(&path("turn_1/files/folder/new"), b"x");
    assert!(
        matches!(through, Err(WorkspaceError::Escapes { .. })),
        "{through:?}"
    );
    assert!(matches!(
        workspace.remove(&path("turn_1/files/folder/secret")),
        Err(WorkspaceError::Escapes { .. })
    ));
    workspace.write(&path("turn_1/files/absolute"), b"mine").unwrap();
    assert_eq!(
        std::fs::read(outside.join("secret")).unwrap(),
        b"secret",
        "the link was replaced, not followed"
    );
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    let listed: Vec<String> = workspace
        .list()
        .unwrap()
        .into_iter()
        .map(|e| e.path.to_string())
        .collect();
    assert_eq!(listed, ["turn_1/files/absolute", "turn_1/files/inside"]);
}

#[test]
fn a_fifo_left_by_executed_code_blocks_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    workspace.write(&path("turn_1/files/x"), b"").unwrap();
    let fifo = workspace.root().join("turn_1/files/fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    assert!(matches!(
        workspace.read(&path("turn_1/files/fifo"), MAX_BYTES),
        Err(WorkspaceError::NotAFile { .. })
    ));
}

#[tokio::test]
async fn what_arrives_in_pieces_is_kept_like_the_whole_and_a_dropped_draft_leaves_nothing() {
    let (folder, local) = store();
    let remote = ArtifactStore::over(std::sync::Arc::new(object_store::memory::InMemory::new()));
    let whole: Vec<u8> = (0..1_000_003_u32).map(|n| n as u8).collect();
    for (store, size) in [
        (&local, 0),
        (&local, 1),
        (&local, whole.len()),
        (&remote, whole.len()),
    ] {
        let mut draft = store.draft().await.unwrap();
        for piece in whole[..size].chunks(10_007) {
            draft.write(piece).await.unwrap();
        }
        let kept = draft.keep().await.unwrap();
        assert_eq!(store.get(&kept.blob.digest).await.unwrap(), &whole[..size]);
        assert_eq!(kept, store.put(whole[..size].to_vec()).await.unwrap());
    }
    let mut draft = local.draft().await.unwrap();
    draft.write(&whole).await.unwrap();
    drop(draft);
    let left = std::fs::read_dir(place(&folder, "tmp")).unwrap().count();
    assert_eq!(left, 0);
}
