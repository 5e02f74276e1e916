//! Conversations as files: exported while they are written, imported while they arrive.

use annals_core::ids::ConversationId;
use annals_store::{ImportAs, ImportError, export_conversation, import_answering};
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures::TryStreamExt as _;
use http::{HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufRead, BufReader};
use tokio_util::io::ReaderStream;

use crate::app::App;
use crate::conversations::Made;
use crate::door::Caller;
use crate::idempotency::Once;
use crate::problem::{Code, Problem};
use crate::request::{Pace, Place, too_large};

/// Bytes on their way between the writer of an export and its connection.
const PIPE_BYTES: usize = 256 * 1024;

pub(crate) async fn export(
    State(app): State<App>,
    caller: Caller,
    place: Place,
) -> Result<Response, Problem> {
    let (agent, id) = (app.agent(&caller.scope), place.conversation()?);
    let key = agent.key(&id);
    app.store().get(&key).await?;
    let (reader, mut writer) = tokio::io::duplex(PIPE_BYTES);
    app.tasks.spawn(async move {
        let exported = export_conversation(&**agent.log(), agent.artifacts(), &key, &mut writer).await;
        // The reader finds out by the missing last line.
        if let Err(error) = exported {
            tracing::warn!(%error, "an export ended early");
        }
    });
    let name = format!("attachment; filename=\"{id}.annals\"");
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        ),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::from_str(&name).map_err(Problem::internal)?,
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, Body::from_stream(ReaderStream::new(reader))).into_response())
}

/// Reads an export from the body. The same file again is the same conversation, or a refusal that says so.
pub(crate) async fn import(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let agent = app.agent(&caller.scope);
    let (parts, body) = request.into_parts();
    let (max_bytes, mut pace) = (app.limits.upload_max_bytes, Pace::new(&app.limits));
    // On disk first: the digest of the request must be known before its effect.
    let file = tempfile::tempfile().map_err(Problem::internal)?;
    let mut file = tokio::fs::File::from_std(file);
    let (mut hash, mut taken_bytes) = (Sha256::new(), 0_u64);
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pace.wait(pieces.try_next()).await?.map_err(|_| ended_early())? {
        pace.came(piece.len());
        taken_bytes += piece.len() as u64;
        if taken_bytes > max_bytes {
            return Err(too_large(max_bytes));
        }
        hash.update(&piece);
        tokio::io::AsyncWriteExt::write_all(&mut file, &piece)
            .await
            .map_err(Problem::internal)?;
    }
    let once = Once::of(&caller, &parts, hash.finalize().into())?;
    if let Some(known) = once.known(&app).await? {
        return Ok(known);
    }
    tokio::io::AsyncSeekExt::rewind(&mut file)
        .await
        .map_err(Problem::internal)?;
    let mut reader: Box<dyn AsyncBufRead + Unpin + Send> = Box::new(BufReader::new(file));
    let import_as = ImportAs {
        id: None,
        scope: caller.scope.clone(),
        owner: agent.owner(),
    };
    let answer = |id: &ConversationId| {
        let made = Made { id: id.to_string() };
        once.answer(StatusCode::CREATED, serde_json::to_vec(&made).ok()?)
    };
    let imported = import_answering(&**agent.log(), agent.artifacts(), &mut *reader, import_as, answer).await;
    match imported {
        Ok(imported) => {
            let made = Made {
                id: imported.id.to_string(),
            };
            Ok((StatusCode::CREATED, Json(made)).into_response())
        }
        // The same request was under way, or its blocks were written by one whose answer was lost.
        Err(error) => match once.known(&app).await? {
            Some(known) => Ok(known),
            None => Err(refused(error)),
        },
    }
}

fn ended_early() -> Problem {
    Problem::bad_request("the body ended early")
}

fn refused(error: ImportError) -> Problem {
    match error {
        ImportError::Log(error) => error.into(),
        ImportError::Artifact(error) => Problem::internal(error),
        ImportError::Read(error) => Problem::internal(error),
        error => Problem::new(Code::Unprocessable, error.to_string()),
    }
}
