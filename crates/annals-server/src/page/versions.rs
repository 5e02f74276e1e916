//! One version of a file as a tree, and what changed between two.

use std::sync::Arc;

use annals_content::TreeRequest;
use annals_core::path::LogicalPath;
use annals_tools::content::{self, ContentError, Opened};
use axum::Json;
use axum::extract::State;
use futures::TryStreamExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::App;
use crate::conversations::seq;
use crate::door::Caller;
use crate::problem::{Code, Problem};
use crate::request::{Params, Place};
use crate::schemas::Tree;

/// What is read of a file; a tree shows less.
const READ_MAX_BYTES: usize = 2 * 1024 * 1024;

#[derive(Deserialize)]
pub(crate) struct Version {
    path: String,
    /// The block that wrote it.
    seq: u64,
}

/// A file to look at.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(crate) struct Preview {
    /// `markdown`, `code`, `table` or `binary`.
    kind: &'static str,
    mime: String,
    size_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Tree>")]
    tree: Option<Arc<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Tree>")]
    table: Option<Arc<Value>>,
    /// What is not shown.
    truncated_bytes: u64,
}

pub(crate) async fn preview(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    Params(version): Params<Version>,
) -> Result<Json<Preview>, Problem> {
    let read = read(&app, &caller, &place, &version.path, version.seq).await?;
    let Some(text) = read.text else {
        return Ok(Json(Preview {
            kind: "binary",
            mime: read.mime,
            size_bytes: read.size_bytes,
            tree: None,
            table: None,
            truncated_bytes: 0,
        }));
    };
    let unread = read.size_bytes.saturating_sub(text.len() as u64);
    let truncated_bytes = unread + annals_content::left_out(&text) as u64;
    let (kind, request) = request(&version.path, &read.mime, text);
    let tree = app.trees.one(request).await?;
    // A table has columns; JSON is one only if it has the form of one.
    let (kind, tree, table) = match (kind, tree.is_object()) {
        ("json" | "table", true) => ("table", None, Some(tree)),
        ("json", false) => ("code", Some(tree), None),
        _ => (kind, Some(tree), None),
    };
    Ok(Json(Preview {
        kind,
        mime: read.mime,
        size_bytes: read.size_bytes,
        tree,
        table,
        truncated_bytes: if kind == "table" { unread } else { truncated_bytes },
    }))
}

/// What is made of a text, by its type and its name.
fn request(path: &str, mime: &str, text: String) -> (&'static str, TreeRequest) {
    let extension = path.rsplit('/').next().and_then(|name| name.rsplit_once('.'));
    let extension = extension
        .map(|(_, extension)| extension.to_ascii_lowercase())
        .unwrap_or_default();
    match (mime, extension.as_str()) {
        ("text/markdown", _) | (_, "md" | "markdown") => ("markdown", TreeRequest::Markdown { text }),
        ("text/csv", _) | (_, "csv") => ("table", TreeRequest::Table { text, separator: ',' }),
        ("text/tab-separated-values", _) | (_, "tsv") => (
            "table",
            TreeRequest::Table {
                text,
                separator: '\t',
            },
        ),
        ("application/json", _) | (_, "json") => ("json", TreeRequest::Json { text }),
        _ => {
            let language = extension;
            ("code", TreeRequest::Code { text, language })
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct TwoVersions {
    path: String,
    from: u64,
    to: u64,
}

pub(crate) async fn difference(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    Params(two): Params<TwoVersions>,
) -> Result<Json<Arc<Value>>, Problem> {
    let before = read(&app, &caller, &place, &two.path, two.from).await?.text;
    let after = read(&app, &caller, &place, &two.path, two.to).await?.text;
    let (Some(before), Some(after)) = (before, after) else {
        let detail = format!(
            "`{}` is no text: its versions can be looked at one by one",
            two.path.escape_default()
        );
        return Err(Problem::new(Code::Unprocessable, detail));
    };
    Ok(Json(
        app.trees.one(TreeRequest::Difference { before, after }).await?,
    ))
}

/// A version that was read.
struct Read {
    mime: String,
    size_bytes: u64,
    /// None if it is no text.
    text: Option<String>,
}

/// The version of a file that a block wrote.
pub(super) async fn open(
    app: &App,
    caller: &Caller,
    place: &Place,
    path: &str,
    number: u64,
) -> Result<Opened, Problem> {
    let (agent, id) = (app.agent(&caller.scope), place.conversation()?);
    let missing = || Problem::not_found(format_args!("`{}`", path.escape_default()));
    let path = LogicalPath::parse(path).map_err(|_| missing())?;
    let cx = agent.reading(&id, Some(seq(number)?)).await?;
    content::open(&cx, &path, None)
        .await
        .map_err(|error| match error {
            ContentError::Missing(_) => missing(),
            error => Problem::internal(error),
        })
}

async fn read(app: &App, caller: &Caller, place: &Place, path: &str, number: u64) -> Result<Read, Problem> {
    let opened = open(app, caller, place, path, number).await?;
    let (mime, size_bytes, is_text) = (opened.mime.to_string(), opened.size_bytes, opened.is_text);
    if !is_text {
        return Ok(Read {
            mime,
            size_bytes,
            text: None,
        });
    }
    let mut body = opened.body;
    let mut bytes = Vec::new();
    while let Some(piece) = body.try_next().await.map_err(Problem::internal)? {
        bytes.extend_from_slice(&piece);
        if bytes.len() >= READ_MAX_BYTES {
            bytes.truncate(READ_MAX_BYTES);
            break;
        }
    }
    let text = Some(String::from_utf8_lossy(&bytes).into_owned());
    Ok(Read {
        mime,
        size_bytes,
        text,
    })
}
