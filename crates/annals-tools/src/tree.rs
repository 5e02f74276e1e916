//! The working tree and the log: before a call the tree is what history says, after it what changed is hosted.
//!
//! OUT_DIR is a cache. A fork, or another machine, starts with an empty one; the log names every file that history
//! speaks of by digest: files of turns by their blocks, other files by the changes that calls recorded. They are
//! brought back once, before the first use of a sandbox. A sandbox that does not work in OUT_DIR itself gets the tree
//! by manifest, and what it changed is fetched.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write as _};
use std::sync::Arc;

use annals_core::block::{Blob, BlobDigest, Block, Body, WorkspaceChange};
use annals_core::code::Code;
use annals_core::ids::{Seq, TurnId};
use annals_core::path::RelPath;
use annals_core::timeline::Timeline;
use annals_core::turn::outcome::{Notice, Outcome};
use annals_sandbox::{
    ByteStream, ChangeLimits, Changes, Digest, Failure, FailureKind, Manifest, Sandbox, Snapshot, TreeFile,
    TreeSource,
};
use annals_store::{ArtifactStore, Workspace};
use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _};
use tokio::sync::OnceCell;

use crate::cx::ToolCx;
use crate::disk;

/// What of one call's changes is hosted: what a person or a program writes, not what a build makes.
const KEPT: ChangeLimits = ChangeLimits {
    files: 200,
    file_bytes: 10_000_000,
    total_bytes: 50_000_000,
};

/// Files that a notice names before it only counts.
const NAMED_MAX_COUNT: usize = 5;

/// Whether the tree of an open conversation is what history says.
#[derive(Debug, Default)]
pub struct Restored(OnceCell<()>);

/// What history says of a file.
enum Said {
    Text(Vec<u8>),
    Stored { digest: BlobDigest, executable: bool },
    Gone,
}

/// Whether a file that lies on disk gives way to what history says of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnDisk {
    GivesWay,
    /// A file of the running turn, which its code may have changed. It is missing where another machine takes the turn up.
    Stays,
}

/// Makes the tree what history says, once for an open conversation; concurrent calls wait for it. What could not be
/// brought back is told.
pub(crate) async fn restore(cx: &ToolCx) -> Option<Notice> {
    let mut missing = Vec::new();
    let restored = &cx.shared().restored.0;
    restored
        .get_or_init(|| async {
            for (path, (said, on_disk)) in cx.timeline(|timeline| said(timeline, cx.turn())) {
                if on_disk == OnDisk::Stays && cx.workspace().open_at(&path).is_ok() {
                    continue;
                }
                if let Err(reason) = bring(cx.workspace(), cx.artifacts(), &path, said).await {
                    missing.push((path.as_str().to_owned(), reason));
                }
            }
        })
        .await;
    let why = missing.first().map(|(_, reason)| reason.clone())?;
    let names = named(missing.iter().map(|(path, _)| path.as_str()));
    let message = format!("files of this conversation could not be brought back ({why}): {names}");
    Some(Notice::new(Code::WorkspaceIncomplete, message))
}

/// The files of the tree in the order in which history says something of them, the latest word of each.
fn said(timeline: &Timeline, running: &TurnId) -> BTreeMap<RelPath, (Said, OnDisk)> {
    let mut words: Vec<(Seq, RelPath, (Said, OnDisk))> = Vec::new();
    for block in timeline.files() {
        let Some(physical) = block.path.as_ref().and_then(|path| path.physical()) else {
            continue;
        };
        let on_disk = match physical.turn() == running.as_str() {
            true => OnDisk::Stays,
            false => OnDisk::GivesWay,
        };
        if let (Ok(path), Some(said)) = (RelPath::parse(physical.as_str()), content(block)) {
            words.push((block.seq, path, (said, on_disk)));
        }
    }
    for block in timeline.blocks() {
        for change in block.meta().workspace() {
            let said = change.blob.map_or(Said::Gone, |blob| Said::Stored {
                digest: blob.digest,
                executable: change.executable,
            });
            words.push((block.seq, change.path, (said, OnDisk::GivesWay)));
        }
    }
    words.sort_by_key(|(seq, ..)| *seq);
    words.into_iter().map(|(_, path, said)| (path, said)).collect()
}

fn content(block: &Block) -> Option<Said> {
    let named = block.meta().file.as_ref().and_then(|file| file.content_digest);
    let stored = |digest| Said::Stored {
        digest,
        executable: false,
    };
    match (&block.body, named) {
        (Body::Text(text), Some(digest)) if BlobDigest::of(text.as_bytes()) != digest => Some(stored(digest)),
        (Body::Text(text), _) => Some(Said::Text(text.as_bytes().to_vec())),
        (Body::Blob(blob), named) => Some(stored(named.unwrap_or(blob.digest))),
        (Body::Empty, named) => named.map(stored),
    }
}

async fn bring(
    workspace: &Workspace,
    artifacts: &ArtifactStore,
    path: &RelPath,
    said: Said,
) -> Result<(), String> {
    let (wanted, executable) = match &said {
        Said::Text(text) => (BlobDigest::of(text), false),
        Said::Stored { digest, executable } => (*digest, *executable),
        Said::Gone => {
            let _ = workspace.remove_at(path);
            return Ok(());
        }
    };
    let found = {
        let (workspace, path) = (workspace.clone(), path.clone());
        disk::blocking(move || annals_store::hash_file(&mut workspace.open_at(&path)?)).await
    };
    if found.is_ok_and(|blob| blob.digest == wanted) {
        return Ok(());
    }
    let body = match said {
        Said::Text(text) => futures::stream::once(async { Ok(text.into()) }).boxed(),
        _ => {
            let pieces = artifacts.stream(&wanted).await;
            let pieces = pieces.map_err(|_| "its bytes are not in the artifact store".to_owned())?;
            pieces
                .map_err(|error| Failure::new(FailureKind::OsError, error.to_string()))
                .boxed()
        }
    };
    write(workspace, path, executable, body).await
}

async fn write(
    workspace: &Workspace,
    path: &RelPath,
    executable: bool,
    mut body: ByteStream,
) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let mut draft = {
        let (workspace, path) = (workspace.clone(), path.clone());
        disk::blocking(move || workspace.draft_at(&path, executable)).await
    }
    .map_err(failed)?;
    while let Some(piece) = body.try_next().await.map_err(|failure| failure.message)? {
        draft = disk::blocking(move || draft.file.write_all(&piece).map(|()| draft))
            .await
            .map_err(failed)?;
    }
    disk::blocking(move || draft.publish())
        .await
        .map_err(|errno| failed(errno.into()))
}

/// A new sandbox stands in for one that was lost.
fn replaced() -> Notice {
    let message = "the sandbox was lost and a new one has taken its place: files of the workspace are as this \
                   conversation has them; processes, installed packages and files elsewhere are gone";
    Notice::new(Code::SandboxReplaced, message)
}

/// One use of a sandbox: the tree is in it, and what it changes will be known.
pub(crate) struct Visit {
    sandbox: Arc<dyn Sandbox>,
    before: Snapshot,
    notices: Vec<Notice>,
}

impl Visit {
    /// Brings the tree to what history says, into the sandbox too if that is elsewhere.
    pub(crate) async fn begin(cx: &ToolCx, sandbox: &Arc<dyn Sandbox>) -> Result<Self, Failure> {
        let mut notices: Vec<Notice> = restore(cx).await.into_iter().collect();
        if !sandbox.capabilities().works_in_place {
            let tree = LocalFiles::of(cx.workspace()).await?;
            let put = sandbox.put_tree(&tree.manifest, &tree).await?;
            notices.extend(put.replaced.then(replaced));
        }
        Ok(Visit {
            sandbox: Arc::clone(sandbox),
            before: sandbox.snapshot().await?,
            notices,
        })
    }

    /// Fetches what changed into OUT_DIR, if the sandbox is elsewhere.
    pub(crate) async fn fetch(self, cx: &ToolCx) -> Result<Vec<Notice>, Failure> {
        if !self.sandbox.capabilities().works_in_place {
            let limits = ChangeLimits {
                file_bytes: crate::exec::FILE_MAX_BYTES,
                total_bytes: 4 * crate::exec::FILE_MAX_BYTES,
                ..KEPT
            };
            let changes = self.sandbox.changed(&self.before, &limits).await?;
            self.fetch_all(cx, &changes).await;
        }
        Ok(self.notices)
    }

    /// Hosts what changed and adds it to the outcome, so that it is durable before the result is written.
    pub(crate) async fn host(self, cx: &ToolCx, outcome: &mut Outcome) {
        let changes = match self.sandbox.changed(&self.before, &KEPT).await {
            Ok(changes) => changes,
            // A sandbox that died says so in the call's own result.
            Err(_) => return outcome.notices.extend(self.notices),
        };
        let mut lost = self.fetch_all(cx, &changes).await;
        for (path, file) in &changes.written.0 {
            let Ok(path) = RelPath::parse(path) else { continue };
            match host(cx, &path).await {
                Some(blob) => outcome.workspace.push(WorkspaceChange {
                    path,
                    blob: Some(blob),
                    executable: file.executable,
                }),
                None => lost.push(path.as_str().to_owned()),
            }
        }
        let removed = changes
            .removed
            .iter()
            .filter_map(|path| RelPath::parse(path).ok());
        outcome.workspace.extend(removed.map(|path| WorkspaceChange {
            path,
            blob: None,
            executable: false,
        }));
        lost.extend(changes.left_out.into_iter().map(|left| left.path));
        if !lost.is_empty() {
            let names = named(lost.iter().map(String::as_str));
            let message = format!(
                "these files are in the workspace but are not kept with the conversation, because they are too many or \
                 too large: {names}"
            );
            outcome.notices.push(Notice::new(Code::WorkspaceNotKept, message));
        }
        outcome.notices.extend(self.notices);
    }

    /// What is to be told of a call that changed nothing.
    pub(crate) fn into_notices(self) -> Vec<Notice> {
        self.notices
    }

    /// The paths that could not be fetched.
    async fn fetch_all(&self, cx: &ToolCx, changes: &Changes) -> Vec<String> {
        let mut lost = Vec::new();
        if self.sandbox.capabilities().works_in_place {
            return lost;
        }
        for (path, file) in &changes.written.0 {
            let fetched = match (RelPath::parse(path), self.sandbox.get(path).await) {
                (Ok(to), Ok(body)) => write(cx.workspace(), &to, file.executable, body).await,
                _ => Err("it cannot be fetched".to_owned()),
            };
            if fetched.is_err() {
                lost.push(path.clone());
            }
        }
        for path in changes
            .removed
            .iter()
            .filter_map(|path| RelPath::parse(path).ok())
        {
            let _ = cx.workspace().remove_at(&path);
        }
        lost
    }
}

async fn host(cx: &ToolCx, path: &RelPath) -> Option<Blob> {
    let file = {
        let (workspace, path) = (Arc::clone(cx.workspace()), path.clone());
        disk::blocking(move || workspace.open_at(&path)).await.ok()?
    };
    let stored = cx.artifacts().put_open_file(file).await.ok()?;
    Some(stored.blob)
}

/// The first of these, and how many more.
fn named<'p>(paths: impl ExactSizeIterator<Item = &'p str>) -> String {
    let count = paths.len();
    let mut names: Vec<String> = paths
        .take(NAMED_MAX_COUNT)
        .map(|path| format!("`{path}`"))
        .collect();
    if count > NAMED_MAX_COUNT {
        names.push(format!("and {} more", count - NAMED_MAX_COUNT));
    }
    names.join(", ")
}

/// OUT_DIR as a manifest, and the bytes behind it.
struct LocalFiles {
    workspace: Workspace,
    manifest: Manifest,
    paths: HashMap<Digest, RelPath>,
}

impl LocalFiles {
    async fn of(workspace: &Workspace) -> Result<Self, Failure> {
        let workspace = workspace.clone();
        disk::blocking(move || {
            let (mut manifest, mut paths) = (Manifest::default(), HashMap::new());
            let entries = workspace
                .tree()
                .map_err(|error| Failure::os("list the workspace", error))?;
            for entry in entries {
                // What vanished meanwhile is no part of the tree.
                let hashed = workspace
                    .open_at(&entry.path)
                    .and_then(|mut file| annals_store::hash_file(&mut file));
                let Ok(blob) = hashed else { continue };
                let file = TreeFile {
                    digest: Digest(blob.digest.0),
                    size_bytes: blob.size_bytes,
                    executable: entry.executable,
                };
                manifest.0.insert(entry.path.as_str().to_owned(), file);
                paths.insert(file.digest, entry.path);
            }
            Ok(LocalFiles {
                workspace,
                manifest,
                paths,
            })
        })
        .await
    }
}

#[async_trait]
impl TreeSource for LocalFiles {
    async fn open(&self, digest: &Digest) -> Result<ByteStream, Failure> {
        let path = self.paths.get(digest).cloned();
        let path =
            path.ok_or_else(|| Failure::os("find a file", format!("no file has the digest {digest}")))?;
        let workspace = self.workspace.clone();
        let file = disk::blocking(move || workspace.open_at(&path)).await;
        file.map(disk::stream)
            .map_err(|error| Failure::os("open a file", error))
    }
}
