//! Trees in and out of a workspace of this machine: hashing, comparing, streaming. Everything here blocks, except
//! where it says otherwise.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use annals_files::{Links, Walk};
use bytes::Bytes;
use futures::{StreamExt, stream};
use sha2::{Digest as _, Sha256};

use crate::failure::{Failure, FailureKind};
use crate::files::FileOps;
use crate::tree::{
    ByteStream, ChangeLimits, Changes, Digest, LeftOut, Manifest, Snapshot, Stamp, TreeFile, TreePut,
    TreeSource,
};

const PIECE_BYTES: usize = 64 << 10;

/// Files beyond this are not part of a snapshot; a workspace that has more is reported as such.
const SNAPSHOT_MAX_ENTRIES: usize = 100_000;

/// Stamps of all files, by a walk that reads none of them.
pub(crate) fn snapshot(files: &FileOps) -> Snapshot {
    let walk = Walk::new(&files.root).take(SNAPSHOT_MAX_ENTRIES);
    let stamps = walk.filter(annals_files::Entry::is_file).filter_map(|entry| {
        let stamp = Stamp::Here(annals_files::Stamp::of(&entry.stat));
        Some((entry.path.to_str()?.to_owned(), stamp))
    });
    Snapshot(stamps.collect())
}

/// What is different now. Only files whose stamp differs are read.
pub(crate) fn changed(files: &FileOps, since: &Snapshot, limits: &ChangeLimits) -> Changes {
    let now = snapshot(files);
    let mut changes = Changes {
        removed: since
            .0
            .keys()
            .filter(|path| !now.0.contains_key(*path))
            .cloned()
            .collect(),
        ..Changes::default()
    };
    let mut left_bytes = limits.total_bytes;
    for (path, stamp) in now.0 {
        if since.0.get(&path) == Some(&stamp) {
            continue;
        }
        let hashed = if changes.written.0.len() >= limits.files {
            Err(format!("more than {} files changed", limits.files))
        } else {
            hash_within(files, &path, limits, left_bytes)
        };
        match hashed {
            Ok(file) => {
                left_bytes -= file.size_bytes.min(left_bytes);
                changes.written.0.insert(path, file);
            }
            Err(reason) => changes.left_out.push(LeftOut { path, reason }),
        }
    }
    changes
}

fn hash_within(
    files: &FileOps,
    path: &str,
    limits: &ChangeLimits,
    left_bytes: u64,
) -> Result<TreeFile, String> {
    use std::os::unix::fs::MetadataExt as _;

    let file = files.open_file(path).map_err(|failure| failure.message)?;
    let meta = file.metadata().map_err(|error| error.to_string())?;
    let bound = limits.file_bytes.min(left_bytes);
    let beyond = |size_bytes: u64| {
        if size_bytes > limits.file_bytes {
            format!("it has more than {} bytes", limits.file_bytes)
        } else {
            format!(
                "the changed files have more than {} bytes together",
                limits.total_bytes
            )
        }
    };
    if meta.len() > bound {
        return Err(beyond(meta.len()));
    }
    let (digest, size_bytes) = hash(file, bound).map_err(|error| error.to_string())?;
    if size_bytes > bound {
        return Err(beyond(size_bytes));
    }
    Ok(TreeFile {
        digest,
        size_bytes,
        executable: meta.mode() & 0o100 != 0,
    })
}

/// The digest of at most `bound` bytes and one, and how many there were.
fn hash(file: std::fs::File, bound: u64) -> io::Result<(Digest, u64)> {
    let mut reader = file.take(bound.saturating_add(1));
    let mut hasher = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut size_bytes = 0;
    loop {
        match reader.read(&mut piece)? {
            0 => return Ok((Digest(hasher.finalize().into()), size_bytes)),
            read => {
                hasher.update(&piece[..read]);
                size_bytes += read as u64;
            }
        }
    }
}

/// Whether the file at `path` has these bytes already.
fn has(files: &FileOps, path: &str, wanted: &TreeFile) -> bool {
    let Ok((file, stat)) = files.root.open_file(Path::new(path), Links::Inside) else {
        return false;
    };
    stat.st_size as u64 == wanted.size_bytes
        && hash(file, wanted.size_bytes).is_ok_and(|(digest, _)| digest == wanted.digest)
}

/// Brings files in. Async: bytes come as they come, and the disk is used on threads that may block.
pub(crate) async fn put(
    files: &Arc<FileOps>,
    manifest: &Manifest,
    source: &dyn TreeSource,
) -> Result<TreePut, Failure> {
    let missing = blocking({
        let (files, manifest) = (Arc::clone(files), manifest.clone());
        move || {
            let lacking = manifest
                .0
                .into_iter()
                .filter(|(path, file)| !has(&files, path, file));
            lacking.collect::<BTreeMap<_, _>>()
        }
    })
    .await?;
    let put = TreePut {
        present: manifest.0.len() - missing.len(),
        written: missing.len(),
        replaced: false,
    };
    for (path, file) in missing {
        write(files, path, file, source.open(&file.digest).await?).await?;
    }
    Ok(put)
}

async fn write(
    files: &Arc<FileOps>,
    path: String,
    wanted: TreeFile,
    mut body: ByteStream,
) -> Result<(), Failure> {
    let mode = if wanted.executable { 0o755 } else { 0o644 };
    let mut draft = blocking({
        let (files, path) = (Arc::clone(files), path.clone());
        move || files.draft(&path, mode)
    })
    .await??;
    let mut hasher = Sha256::new();
    while let Some(piece) = body.next().await {
        let piece = piece?;
        hasher.update(&piece);
        draft = blocking(move || draft.file.write_all(&piece).map(|()| draft))
            .await?
            .map_err(|error| Failure::os(format_args!("write `{path}`"), error))?;
    }
    if Digest(hasher.finalize().into()) != wanted.digest {
        let message = format!("the bytes that came for `{path}` are not those of its digest");
        return Err(Failure::new(FailureKind::OsError, message));
    }
    let files = Arc::clone(files);
    blocking(move || files.publish(&path, draft)).await?
}

/// The content of an open file, in pieces. Async.
pub(crate) fn stream(file: std::fs::File) -> ByteStream {
    let pieces = stream::try_unfold(file, |file| async {
        let read = blocking(move || {
            let mut piece = vec![0; PIECE_BYTES];
            let read = (&file).read(&mut piece)?;
            piece.truncate(read);
            io::Result::Ok((piece, file))
        });
        let (piece, file) = read.await?.map_err(|error| Failure::os("read the file", error))?;
        Ok((!piece.is_empty()).then(|| (Bytes::from(piece), file)))
    });
    pieces.boxed()
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Failure::os("perform the file operation", error))
}
