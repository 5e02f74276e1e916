//! Power is lost at any moment: unsynced bytes vanish, tear or stay as they like; nothing acknowledged is lost.

#[path = "support/broken_disk.rs"]
#[allow(dead_code)]
mod broken_disk;
#[path = "support/crash.rs"]
#[allow(dead_code)]
mod crash;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use annals_core::block::BlobDigest;
use annals_store::disk::{self, DiskStep};
use annals_store::testing::{after, conversation, new_conversation, owner};
use annals_store::{ArtifactStore, BlockLog, BlockLogExt, LogError, SqliteLog};
use broken_disk::{Image, Record, Syncs};
use crash::{Rng, expected, remembering};

const NAMES: [&str; 3] = ["c0", "c1", "c2"];

/// Writes to several conversations at once, twice opened and closed, with frequent checkpoints, while the index of memory
/// search follows in commits that are not synced.
async fn workload(folder: &Path) {
    let path = folder.join("annals.db");
    for session in 0..2 {
        let options = remembering().vfs(broken_disk::NAME).checkpoint_pages(12);
        let before = disk::recorded_steps().len();
        let log = Arc::new(SqliteLog::open(&path, options).unwrap());
        let synced = DiskStep::SyncedFolder(folder.to_path_buf());
        assert!(
            disk::recorded_steps()[before..].contains(&synced),
            "opening syncs the folder"
        );
        broken_disk::folder_synced(folder);
        let writers = NAMES.map(|name| {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let id = conversation(name);
                if session == 0 {
                    log.create(new_conversation(name)).await.unwrap();
                }
                let lease = log
                    .acquire(&id, &owner("w"), Duration::from_secs(60))
                    .await
                    .unwrap();
                let mut tail = log.tail(&id).await.unwrap();
                for round in 0..12 {
                    let first = tail.map_or(1, |tail| tail.get() + 1);
                    let blocks = (first..=first + round % 3)
                        .map(|number| expected(name, number))
                        .collect();
                    let last = log.append(&lease, after(tail, blocks)).await.unwrap();
                    broken_disk::acknowledge(name, last.unwrap().get());
                    tail = last;
                }
            })
        });
        for writer in writers {
            writer.await.unwrap();
        }
    }
}

/// What is looked at after a loss of power. Making an index anew takes its time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judged {
    Blocks,
    BlocksAndIndex,
}

impl Judged {
    fn at(moment: usize) -> Self {
        match moment % 5 {
            0 => Judged::BlocksAndIndex,
            _ => Judged::Blocks,
        }
    }
}

/// Opens the image with the ordinary file layer; tells whether every promise was kept. The index must be what the log
/// makes it, wherever it ends.
async fn keeps_its_promises(image: &Image, names: &[&str], judged: Judged) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in &image.files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let path = folder.path().join("annals.db");
    let log = SqliteLog::open(&path, remembering()).map_err(|error| format!("does not reopen: {error}"))?;
    for name in names.iter().copied() {
        let promised = image.acknowledged.get(name).copied().unwrap_or(0);
        let blocks = match log.read_all(&conversation(name)).await {
            Err(LogError::NotFound { .. }) if promised == 0 => continue,
            read => read.map_err(|error| error.to_string())?,
        };
        if (blocks.len() as u64) < promised {
            return Err(format!(
                "{name}: {promised} were acknowledged, {} are there",
                blocks.len()
            ));
        }
        if blocks
            .iter()
            .zip(1..)
            .any(|(block, number)| *block != expected(name, number))
        {
            return Err(format!("{name}: a torn block"));
        }
    }
    if judged == Judged::BlocksAndIndex {
        crash::judge_index(&path, &log, "power was lost").await;
    }
    Ok(())
}

async fn recorded() -> (tempfile::TempDir, Record) {
    broken_disk::register();
    disk::record_steps();
    let folder = tempfile::tempdir().unwrap();
    workload(folder.path()).await;
    let record = broken_disk::record(folder.path());
    (folder, record)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_keeps_what_it_acknowledged_when_power_is_lost_at_any_moment() {
    let (_folder, record) = recorded().await;
    assert!(record.ops.len() > 200, "{} operations", record.ops.len());
    let mut rng = Rng(7);
    const MOMENTS: usize = 150;
    for moment in 0..MOMENTS {
        let count = record.ops.len() * (moment + 1) / MOMENTS;
        let image = record.image(count, Syncs::Honoured, &mut |end| rng.below(end));
        if let Err(why) = keeps_its_promises(&image, &NAMES, Judged::at(moment)).await {
            panic!(
                "power lost after {count} of {} operations: {why}",
                record.ops.len()
            );
        }
    }

    // The same disk without working syncs must lose something, or this test could not fail.
    let mut lost = 0;
    for moment in 0..20 {
        let count = record.ops.len() * (moment + 1) / 20;
        let image = record.image(count, Syncs::Ignored, &mut |end| rng.below(end));
        lost += u64::from(keeps_its_promises(&image, &NAMES, Judged::Blocks).await.is_err());
    }
    assert!(
        lost > 0,
        "a disk that ignores syncs lost nothing: the layer does not work"
    );
}

#[tokio::test]
async fn a_sync_that_fails_takes_no_block_with_it_that_is_acknowledged_later() {
    broken_disk::register();
    let folder = tempfile::tempdir().unwrap();
    let options = remembering().lag_max_passages(1).vfs(broken_disk::NAME);
    let log = SqliteLog::open(folder.path().join("annals.db"), options).unwrap();
    broken_disk::folder_synced(folder.path());
    let (name, id) = ("failing", conversation("failing"));
    log.create(new_conversation(name)).await.unwrap();
    let lease = log
        .acquire(&id, &owner("w"), Duration::from_secs(60))
        .await
        .unwrap();
    let mut tail = None;
    for round in 0..6 {
        let first = 1 + 4 * round;
        let blocks = || (first..first + 4).map(|number| expected(name, number)).collect();
        if round % 2 == 1 {
            // The index follows the last blocks in commits that are not synced. This sync is theirs too.
            broken_disk::set_fault(folder.path(), Some(broken_disk::Fault::Sync));
            log.append(&lease, after(tail, blocks())).await.unwrap_err();
            broken_disk::set_fault(folder.path(), None);
        }
        tail = log.append(&lease, after(tail, blocks())).await.unwrap();
        broken_disk::acknowledge(name, first + 3);
    }
    let record = broken_disk::record(folder.path());
    let mut rng = Rng(11);
    for count in (record.ops.len() / 2..=record.ops.len()).rev().step_by(3) {
        let image = record.image(count, Syncs::Honoured, &mut |end| rng.below(end));
        if let Err(why) = keeps_its_promises(&image, &[name], Judged::at(count)).await {
            panic!(
                "power lost after {count} of {} operations: {why}",
                record.ops.len()
            );
        }
    }
}

/// What a disk holds when only synced names and bytes are sure.
#[derive(Clone, Default)]
struct Folders {
    /// Names that are durable, and names that are merely there.
    durable: BTreeSet<PathBuf>,
    present: BTreeSet<PathBuf>,
    /// Which names hold synced bytes; moves along with a rename.
    synced: BTreeMap<PathBuf, bool>,
}

impl Folders {
    fn step(&mut self, step: &DiskStep) {
        match step {
            DiskStep::Created(path) | DiskStep::MadeFolder(path) => {
                self.present.insert(path.clone());
            }
            DiskStep::Wrote(path) => {
                self.synced.insert(path.clone(), false);
            }
            DiskStep::SyncedFile(path) => {
                self.synced.insert(path.clone(), true);
            }
            DiskStep::Renamed(from, to) => {
                self.present.remove(from);
                self.present.insert(to.clone());
                let synced = self.synced.remove(from).unwrap_or(false);
                self.synced.insert(to.clone(), synced);
            }
            DiskStep::SyncedFolder(folder) => {
                let names = self
                    .present
                    .iter()
                    .filter(|path| path.parent() == Some(folder))
                    .cloned();
                self.durable.extend(names.collect::<Vec<_>>());
            }
        }
    }

    /// Whether the file and every folder above it, below `root`, are durable.
    fn keeps(&self, path: &Path, root: &Path) -> bool {
        let whole = self.synced.get(path) == Some(&true);
        whole
            && path
                .ancestors()
                .take_while(|above| *above != root)
                .all(|above| self.durable.contains(above))
    }
}

#[tokio::test]
async fn an_artifact_is_durable_with_every_folder_above_it_before_it_is_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    disk::record_steps();
    let store = ArtifactStore::open(folder.path().join("artifacts")).unwrap();
    let root = folder.path().join("artifacts").canonicalize().unwrap();
    let ours = |path: &Path| path.starts_with(&root);
    let mut acknowledged: Vec<(usize, BlobDigest, PathBuf)> = Vec::new();
    for number in 0..20_u64 {
        let source = folder.path().join("source");
        std::fs::write(&source, number.to_le_bytes()).unwrap();
        let stored = match number % 2 {
            0 => store.put(number.to_le_bytes().to_vec()).await.unwrap(),
            _ => store.put_file(&source).await.unwrap(),
        };
        let steps = disk::recorded_steps().len();
        acknowledged.push((steps, stored.blob.digest, root.join(&stored.key)));
    }
    let steps = disk::recorded_steps();
    let mut folders = Folders::default();
    for (done, step) in steps.iter().enumerate() {
        if let DiskStep::Renamed(from, to) = step
            && ours(to)
        {
            assert_eq!(
                folders.synced.get(from),
                Some(&true),
                "renamed before its bytes were synced"
            );
        }
        folders.step(step);
        for (steps, digest, path) in acknowledged.iter().filter(|(steps, ..)| *steps == done + 1) {
            assert!(
                folders.keeps(path, &root),
                "{digest} was acknowledged after {steps} steps, but is not safe"
            );
        }
    }
}
