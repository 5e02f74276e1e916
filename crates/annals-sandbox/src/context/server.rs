//! The context service on a socket: a request is a line, an answer is a line and then the bytes.

use std::io;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;

use futures::StreamExt;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{ContextError, ContextService, Fetched};

/// A request is one short line.
const REQUEST_MAX_BYTES: u64 = 8_192;
/// Answers in the making at once.
const CONNECTIONS_MAX_COUNT: usize = 16;

#[derive(Deserialize)]
struct Request {
    path: String,
}

/// Answers on `listener` until `closed`. Must be called within a Tokio runtime.
pub(crate) fn serve(
    listener: StdUnixListener,
    service: Arc<dyn ContextService>,
    closed: CancellationToken,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    tokio::spawn(async move {
        tokio::select! {
            () = closed.cancelled() => {}
            () = accept(listener, service, &closed) => {}
        }
    });
    Ok(())
}

async fn accept(listener: UnixListener, service: Arc<dyn ContextService>, closed: &CancellationToken) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX_COUNT));
    while let Ok((stream, _)) = listener.accept().await {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let (service, closed) = (Arc::clone(&service), closed.clone());
        tokio::spawn(async move {
            let _slot = slot;
            tokio::select! {
                // A program that does not read its answer is its own concern.
                _ = answer(&*service, stream) => {}
                () = closed.cancelled() => {}
            }
        });
    }
}

async fn answer(service: &dyn ContextService, stream: UnixStream) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    BufReader::new(reader.take(REQUEST_MAX_BYTES))
        .read_line(&mut line)
        .await?;
    let fetched = match serde_json::from_str::<Request>(&line) {
        Ok(request) => service.fetch(&request.path).await,
        Err(_) => Err(ContextError::new(
            "invalid_request",
            "send {\"path\": \"fi:turn_1.files/report.md\"} on one line",
        )),
    };
    match fetched {
        Ok(fetched) => send(&mut writer, fetched).await?,
        Err(error) => {
            let head = json!({"ok": false, "error": {"code": error.code, "message": error.message}});
            writer.write_all(format!("{head}\n").as_bytes()).await?;
        }
    }
    writer.shutdown().await
}

async fn send(writer: &mut (impl AsyncWriteExt + Unpin), mut fetched: Fetched) -> io::Result<()> {
    let kind = if fetched.is_text { "text" } else { "binary" };
    let head = json!({
        "ok": true, "path": fetched.path, "mime": fetched.mime, "kind": kind, "size_bytes": fetched.size_bytes,
    });
    writer.write_all(format!("{head}\n").as_bytes()).await?;
    while let Some(piece) = fetched.body.next().await {
        // A body that ends early is seen inside by its length.
        let piece = piece.map_err(io::Error::other)?;
        writer.write_all(&piece).await?;
    }
    Ok(())
}
