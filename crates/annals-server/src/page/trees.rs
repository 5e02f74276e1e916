//! Texts of blocks as trees: markdown and code, made in the content helper and kept by digest.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use annals_content::{Content, ContentError, TreeRequest};
use annals_core::block::{BlobDigest, Block, BlockKind};
use annals_core::ids::Seq;
use annals_store::BlockLogExt as _;
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::App;
use crate::conversations::seq;
use crate::door::Caller;
use crate::problem::{Code, Problem};
use crate::request::{Params, Place};
use crate::schemas::Tree;

const LIMIT_MAX: usize = 200;
/// Trees that are kept; a screen shows some tens.
const KEPT: usize = 2_000;
/// A longer text is shown as it was written.
const TEXT_MAX_BYTES: usize = 64 * 1024;

/// Makes trees, and keeps those it made.
#[derive(Default)]
pub(crate) struct Trees {
    content: Content,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    trees: HashMap<BlobDigest, Arc<Value>>,
    order: VecDeque<BlobDigest>,
}

impl Trees {
    /// One tree for each request, in their order.
    pub(super) async fn make(&self, requests: Vec<TreeRequest>) -> Result<Vec<Arc<Value>>, ContentError> {
        let digest = |request| serde_json::to_vec(request).map(|bytes| BlobDigest::of(&bytes));
        let digests: Vec<Option<BlobDigest>> = requests.iter().map(|request| digest(request).ok()).collect();
        let mut found: Vec<Option<Arc<Value>>> = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let get = |digest: &Option<BlobDigest>| kept.trees.get(digest.as_ref()?).cloned();
            digests.iter().map(get).collect()
        };
        let missing: Vec<usize> = (0..found.len()).filter(|at| found[*at].is_none()).collect();
        if !missing.is_empty() {
            let asked: Vec<TreeRequest> = missing.iter().map(|at| requests[*at].clone()).collect();
            let made = self.content.trees(&asked).await?;
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            for (at, tree) in missing.into_iter().zip(made) {
                let tree = Arc::new(tree);
                found[at] = Some(tree.clone());
                if let Some(digest) = digests[at] {
                    kept.keep(digest, tree);
                }
            }
        }
        Ok(found.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// The tree of a text that is still growing, so that keeping it would help nobody.
    pub(super) async fn passing(&self, request: TreeRequest) -> Result<Value, ContentError> {
        let made = self.content.trees(&[request]).await?;
        Ok(made.into_iter().next().unwrap_or_default())
    }

    /// The helpers that read what strangers wrote.
    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    /// One tree.
    pub(super) async fn one(&self, request: TreeRequest) -> Result<Arc<Value>, Problem> {
        let trees = self.make(vec![request]).await.map_err(unreadable)?;
        Ok(trees.into_iter().next().unwrap_or_default())
    }
}

impl Kept {
    fn keep(&mut self, digest: BlobDigest, tree: Arc<Value>) {
        if self.trees.insert(digest, tree).is_none() {
            self.order.push_back(digest);
        }
        while self.order.len() > KEPT {
            let oldest = self.order.pop_front();
            oldest.and_then(|digest| self.trees.remove(&digest));
        }
    }
}

/// The helper met a bound, or the text is not what it should be.
pub(super) fn unreadable(error: ContentError) -> Problem {
    Problem::new(
        Code::Unprocessable,
        format!("this text cannot be shown as a tree: {error}"),
    )
}

#[derive(Deserialize)]
pub(crate) struct Range {
    after: Option<u64>,
    limit: Option<usize>,
}

/// Trees of the blocks of a range that have one.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Trees", extend("additionalProperties" = false))]
pub(crate) struct TreesOf {
    items: Vec<TreeOf>,
}

/// The tree of a block.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
struct TreeOf {
    #[schemars(with = "u64")]
    seq: Seq,
    #[schemars(with = "Tree")]
    tree: Arc<Value>,
}

pub(crate) async fn trees(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    Params(range): Params<Range>,
) -> Result<Json<TreesOf>, Problem> {
    let key = app.agent(&caller.scope).key(&place.conversation()?);
    let after = range.after.filter(|after| *after > 0).map(seq).transpose()?;
    let limit = range.limit.unwrap_or(LIMIT_MAX).clamp(1, LIMIT_MAX);
    let blocks = app.store().read_after(&key, after, limit).await?;
    let asked: Vec<(Seq, TreeRequest)> = blocks
        .iter()
        .filter_map(|block| Some((block.seq, request_of(block)?)))
        .collect();
    let (seqs, requests): (Vec<Seq>, Vec<TreeRequest>) = asked.into_iter().unzip();
    let made = app.trees.make(requests).await.map_err(unreadable)?;
    let items = seqs.into_iter().zip(made).map(|(seq, tree)| TreeOf { seq, tree });
    Ok(Json(TreesOf {
        items: items.collect(),
    }))
}

/// What the tree of a block is made of, if it has one.
fn request_of(block: &Block) -> Option<TreeRequest> {
    let text = block
        .text()
        .filter(|text| !text.is_empty() && text.len() <= TEXT_MAX_BYTES)?;
    let code = |language: &str| TreeRequest::Code {
        text: text.to_owned(),
        language: language.to_owned(),
    };
    match (&block.kind, &*block.mime) {
        (BlockKind::ToolCode, _) => Some(code("python")),
        // What a file's block shows is on the file's own panel.
        _ if block
            .path
            .as_ref()
            .is_some_and(|path| path.as_str().starts_with("fi:")) =>
        {
            None
        }
        (_, "text/markdown") => Some(TreeRequest::Markdown {
            text: text.to_owned(),
        }),
        (BlockKind::ToolResult, "application/json") => {
            let value: Value = serde_json::from_str(text).ok()?;
            Some(TreeRequest::Code {
                text: serde_json::to_string_pretty(&value).ok()?,
                language: "json".to_owned(),
            })
        }
        _ => None,
    }
}
