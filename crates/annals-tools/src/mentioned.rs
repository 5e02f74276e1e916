//! Files that a text speaks of, brought back into OUT_DIR before somebody opens them by their physical path.
//!
//! OUT_DIR is a cache: files of earlier turns come from the artifact store, or from their blocks. Files of the
//! running turn are what lies on disk, because its code may have changed them.

use annals_core::block::{BlobDigest, Body};
use annals_core::path::{LogicalPath, PhysicalPath, mentions};

use crate::cx::ToolCx;
use crate::disk;

/// What became of the files a text mentions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Where they lie now, in the order of their mention.
    pub present: Vec<PhysicalPath>,
    /// Files that are nowhere, or could not be brought, with the reason.
    pub missing: Vec<Missing>,
}

/// A mentioned file that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its path.
    pub path: PhysicalPath,
    /// What became of it, or that it never was.
    pub reason: String,
}

/// How the timeline keeps a file.
enum Kept {
    Bytes(BlobDigest),
    Text(Vec<u8>),
    Nothing,
}

/// Brings every file that `text` mentions.
pub async fn bring(cx: &ToolCx, text: &str) -> Brought {
    let mut brought = Brought::default();
    for mention in mentions::all(text) {
        let named = [Some(mention.path.clone()), mention.decoded()];
        let mut candidates = named
            .into_iter()
            .flatten()
            .filter_map(|path| path.physical())
            .peekable();
        let Some(first) = candidates.peek().cloned() else {
            continue;
        };
        if brought.present.contains(&first) || brought.missing.iter().any(|missing| missing.path == first) {
            continue;
        }
        let mut why = None;
        let mut found = None;
        for path in candidates {
            match bring_one(cx, &path).await {
                Ok(()) => {
                    found = Some(path);
                    break;
                }
                Err(reason) => why = why.or(Some(reason)),
            }
        }
        match found {
            Some(path) if brought.present.contains(&path) => {}
            Some(path) => brought.present.push(path),
            None => brought.missing.push(Missing {
                path: first,
                reason: why.unwrap_or_default(),
            }),
        }
    }
    brought
}

/// Makes sure that one file lies in OUT_DIR with its latest content.
pub async fn bring_one(cx: &ToolCx, path: &PhysicalPath) -> Result<(), String> {
    let is_running = path.turn() == cx.turn().as_str();
    if is_running && cx.workspace().exists(path) {
        return Ok(());
    }
    match kept(cx, &path.logical()) {
        Kept::Bytes(digest) => {
            let brought = cx.workspace().materialise(path, &digest, cx.artifacts()).await;
            match brought {
                Ok(_) => Ok(()),
                // The store may be away while the file is still here.
                Err(_) if cx.workspace().exists(path) => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        }
        Kept::Text(text) => {
            let is_same = disk::read(cx.workspace(), path)
                .await
                .is_ok_and(|bytes| bytes == text);
            if is_same {
                return Ok(());
            }
            disk::write(cx.workspace(), path, text)
                .await
                .map_err(|error| error.to_string())
        }
        Kept::Nothing if cx.workspace().exists(path) => Ok(()),
        Kept::Nothing => Err("there is no such file".into()),
    }
}

fn kept(cx: &ToolCx, path: &LogicalPath) -> Kept {
    cx.timeline(|timeline| {
        let Some(block) = timeline.latest(path) else {
            return Kept::Nothing;
        };
        let named = block.meta().file.as_ref().and_then(|file| file.content_digest);
        match (&block.body, named) {
            // What the block shows is often the whole; then the store need not be asked.
            (Body::Text(text), Some(digest)) if BlobDigest::of(text.as_bytes()) != digest => {
                Kept::Bytes(digest)
            }
            (Body::Text(text), _) => Kept::Text(text.as_bytes().to_vec()),
            (Body::Blob(blob), named) => Kept::Bytes(named.unwrap_or(blob.digest)),
            (Body::Empty, Some(digest)) => Kept::Bytes(digest),
            (Body::Empty, None) => Kept::Nothing,
        }
    })
}
