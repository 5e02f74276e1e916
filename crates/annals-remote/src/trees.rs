//! Trees in and out of a sandbox: one listing says what is there, one archive brings what is lacking.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use annals_sandbox::tree::LeftOut;
use annals_sandbox::{
    ByteStream, ChangeLimits, Changes, Digest, Failure, FailureKind, Manifest, Snapshot, TreeFile, TreePut,
    TreeSource,
};
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _, channel::mpsc};
use sha2::{Digest as _, Sha256};

use crate::archive;
use crate::error::ApiError;
use crate::guest::{self, Call};
use crate::owner;
use crate::remote::{Remote, run_file};

/// Pieces of an archive on their way at once.
const PIECES_AHEAD: usize = 8;
/// Archives that are sent before the network is given up.
const ATTEMPTS_MAX_COUNT: usize = 4;

/// What a listing says of a file.
#[derive(Debug, Clone)]
struct ListedFile {
    /// Changes whenever the file does.
    stamp: String,
    size_bytes: u64,
    executable: bool,
}

async fn listing(remote: &Remote) -> Result<BTreeMap<String, ListedFile>, Failure> {
    let (text, id) = remote.ask("stamps", [remote.facts.workspace.clone()]).await?;
    let text = String::from_utf8_lossy(&text);
    let found = guest::records(&text, &id, 6).into_iter().filter_map(|record| {
        let mode = u32::from_str_radix(record[1], 16).ok()?;
        let found = ListedFile {
            stamp: record[..5].join("|"),
            size_bytes: record[0].parse().ok()?,
            executable: mode & 0o100 != 0,
        };
        Some((record[5].strip_prefix("./")?.to_owned(), found))
    });
    Ok(found.collect())
}

/// Digests of files, from memory where the stamp is the same as when they were hashed.
async fn digests(
    remote: &Remote,
    files: &BTreeMap<String, ListedFile>,
    paths: impl Iterator<Item = &String>,
) -> Result<BTreeMap<String, Digest>, Failure> {
    let (mut digests, mut unknown) = (BTreeMap::new(), Vec::new());
    {
        let known = remote.known.lock().unwrap_or_else(PoisonError::into_inner);
        for path in paths {
            let stamp = files.get(path).map(|found| &found.stamp);
            match known.get(path) {
                Some((at, digest)) if Some(at) == stamp => drop(digests.insert(path.clone(), *digest)),
                _ => unknown.push(path.clone()),
            }
        }
    }
    if unknown.is_empty() {
        return Ok(digests);
    }
    let workspace = remote.facts.workspace.clone();
    let arguments = std::iter::once(workspace).chain(unknown.into_iter().map(|path| format!("./{path}")));
    let (text, _) = remote.ask("hash", arguments).await?;
    let mut known = remote.known.lock().unwrap_or_else(PoisonError::into_inner);
    for (path, digest) in String::from_utf8_lossy(&text).lines().filter_map(checksum) {
        if let Some(found) = files.get(&path) {
            known.insert(path.clone(), (found.stamp.clone(), digest));
        }
        digests.insert(path, digest);
    }
    Ok(digests)
}

/// One line of `sha256sum`, which escapes odd names and says so by a backslash in front.
fn checksum(line: &str) -> Option<(String, Digest)> {
    let (escaped, line) = match line.strip_prefix('\\') {
        Some(line) => (true, line),
        None => (false, line),
    };
    let (digest, path) = line.split_at_checked(64)?;
    let path = path.get(2..)?.strip_prefix("./")?;
    let path = match escaped {
        true => path
            .replace("\\n", "\n")
            .replace("\\r", "\r")
            .replace("\\\\", "\\"),
        false => path.to_owned(),
    };
    Some((path, digest.parse().ok()?))
}

pub(crate) async fn put(
    remote: &Remote,
    manifest: &Manifest,
    source: &dyn TreeSource,
) -> Result<TreePut, Failure> {
    if manifest.0.is_empty() {
        return Ok(TreePut::default());
    }
    let there = listing(remote).await?;
    let alike = manifest.0.iter().filter(|(path, file)| {
        there
            .get(*path)
            .is_some_and(|found| found.size_bytes == file.size_bytes)
    });
    let digests = digests(remote, &there, alike.map(|(path, _)| path)).await?;
    let lacking: Vec<(&String, &TreeFile)> = manifest
        .0
        .iter()
        .filter(|(path, file)| digests.get(*path) != Some(&file.digest))
        .collect();
    let put = TreePut {
        present: manifest.0.len() - lacking.len(),
        written: lacking.len(),
        replaced: false,
    };
    if lacking.is_empty() {
        return Ok(put);
    }
    send(remote, &lacking, source).await?;
    // So that the next call need not hash what has just been sent.
    let there = listing(remote).await?;
    let mut known = remote.known.lock().unwrap_or_else(PoisonError::into_inner);
    for (path, file) in lacking {
        if let Some(found) = there
            .get(path)
            .filter(|found| found.size_bytes == file.size_bytes)
        {
            known.insert(path.clone(), (found.stamp.clone(), file.digest));
        }
    }
    Ok(put)
}

async fn send(
    remote: &Remote,
    files: &[(&String, &TreeFile)],
    source: &dyn TreeSource,
) -> Result<(), Failure> {
    let folders: BTreeSet<String> = files
        .iter()
        .map(|(path, _)| path.rsplit_once('/').map_or(".", |(folder, _)| folder).to_owned())
        .collect();
    let (mut last, mut backoff) = (None, remote.timing.backoff());
    for _ in 0..ATTEMPTS_MAX_COUNT {
        let id = owner::call_id();
        let digest = match upload(remote, &id, files, source).await? {
            Ok(digest) => digest,
            Err(error) if error.is_transient() => {
                last = Some(error);
                // Also tells whether the sandbox is still there.
                remote
                    .ask("exists", [remote.facts.workspace.clone(), ".".to_owned()])
                    .await?;
                backoff.wait().await;
                continue;
            }
            Err(error) => return Err(Failure::os("send the workspace's files", error)),
        };
        let arguments = [remote.facts.workspace.clone(), digest.hex()];
        let call = Call::new(id, "unpack", arguments.into_iter().chain(folders.clone()));
        return remote.ask_call(call).await.map(drop);
    }
    let reason = last.map_or("no attempt was made".to_owned(), |error| error.to_string());
    Err(Failure::os("send the workspace's files", reason))
}

/// Sends the files as one archive and gives its digest. The outer failure is the source's: bytes that are not those of
/// the manifest end it before the archive is whole, so nothing of it is unpacked.
async fn upload(
    remote: &Remote,
    id: &str,
    files: &[(&String, &TreeFile)],
    source: &dyn TreeSource,
) -> Result<Result<Digest, ApiError>, Failure> {
    let (mut pieces, body) = mpsc::channel::<Result<Bytes, std::io::Error>>(PIECES_AHEAD);
    let path = run_file(id, ".tar");
    let sending = remote.daemon().upload_stream(&path, 0o600, body.boxed());
    let feeding = async move {
        let mut whole = Sha256::new();
        let fed = feed(files, source, &mut pieces, &mut whole).await;
        if fed.is_err() {
            // Breaks the request off; ending the stream in order would make a file of it.
            let _ = pieces.send(Err(std::io::Error::other("the source failed"))).await;
        }
        fed.map(|()| Digest(whole.finalize().into()))
    };
    let (sent, fed) = futures::join!(sending, feeding);
    let digest = fed?;
    Ok(sent.map(|()| digest))
}

async fn feed(
    files: &[(&String, &TreeFile)],
    source: &dyn TreeSource,
    pieces: &mut mpsc::Sender<Result<Bytes, std::io::Error>>,
    whole: &mut Sha256,
) -> Result<(), Failure> {
    for (path, file) in files {
        push(
            pieces,
            whole,
            archive::header(path, file.size_bytes, file.executable),
        )
        .await;
        content(path, file, source.open(&file.digest).await?, pieces, whole).await?;
        push(pieces, whole, archive::padding(file.size_bytes)).await;
    }
    push(pieces, whole, archive::end()).await;
    Ok(())
}

async fn content(
    path: &str,
    file: &TreeFile,
    mut body: ByteStream,
    pieces: &mut mpsc::Sender<Result<Bytes, std::io::Error>>,
    whole: &mut Sha256,
) -> Result<(), Failure> {
    let wrong = || {
        let message = format!("the bytes that came for `{path}` are not those of its digest");
        Failure::new(FailureKind::OsError, message)
    };
    let mut hasher = Sha256::new();
    let mut size_bytes = 0;
    while let Some(piece) = body.next().await {
        let piece = piece?;
        size_bytes += piece.len() as u64;
        if size_bytes > file.size_bytes {
            return Err(wrong());
        }
        hasher.update(&piece);
        push(pieces, whole, piece).await;
    }
    let is_it = size_bytes == file.size_bytes && Digest(hasher.finalize().into()) == file.digest;
    is_it.then_some(()).ok_or_else(wrong)
}

/// A request that ended early takes no more; what it says comes from the request itself.
async fn push(pieces: &mut mpsc::Sender<Result<Bytes, std::io::Error>>, whole: &mut Sha256, piece: Bytes) {
    whole.update(&piece);
    if !piece.is_empty() {
        let _ = pieces.send(Ok(piece)).await;
    }
}

pub(crate) async fn snapshot(remote: &Remote) -> Result<Snapshot, Failure> {
    let files = listing(remote).await?;
    Ok(Snapshot::from_stamps(
        files.into_iter().map(|(path, found)| (path, found.stamp)),
    ))
}

pub(crate) async fn changed(
    remote: &Remote,
    since: &Snapshot,
    limits: &ChangeLimits,
) -> Result<Changes, Failure> {
    let now = listing(remote).await?;
    let before: BTreeMap<&str, &str> = since.stamps().collect();
    let mut changes = Changes {
        removed: before
            .keys()
            .filter(|path| !now.contains_key(**path))
            .map(|path| (*path).to_owned())
            .collect(),
        ..Changes::default()
    };
    let mut left_bytes = limits.total_bytes;
    let mut hashed = Vec::new();
    for (path, found) in &now {
        if before.get(path.as_str()) == Some(&found.stamp.as_str()) {
            continue;
        }
        let beyond = if hashed.len() >= limits.files {
            format!("more than {} files changed", limits.files)
        } else if found.size_bytes > limits.file_bytes {
            format!("it has more than {} bytes", limits.file_bytes)
        } else if found.size_bytes > left_bytes {
            format!(
                "the changed files have more than {} bytes together",
                limits.total_bytes
            )
        } else {
            left_bytes -= found.size_bytes;
            hashed.push(path);
            continue;
        };
        let (path, reason) = (path.clone(), beyond);
        changes.left_out.push(LeftOut { path, reason });
    }
    let digests = digests(remote, &now, hashed.iter().copied()).await?;
    for path in hashed {
        match (digests.get(path), now.get(path)) {
            (Some(digest), Some(found)) => {
                let file = TreeFile {
                    digest: *digest,
                    size_bytes: found.size_bytes,
                    executable: found.executable,
                };
                changes.written.0.insert(path.clone(), file);
            }
            _ => changes.left_out.push(LeftOut {
                path: path.clone(),
                reason: "it cannot be read".to_owned(),
            }),
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_sha256sum_are_read_also_with_odd_names() {
        let hex = "a".repeat(64);
        let (path, digest) = checksum(&format!("{hex}  ./a b")).unwrap();
        assert_eq!((path.as_str(), digest.hex()), ("a b", hex.clone()));
        assert_eq!(checksum(&format!("\\{hex}  ./x\\ny")).unwrap().0, "x\ny");
        assert_eq!(checksum("sha256sum: none"), None);
    }
}
