//! The conversation, readable from inside executed code: one socket, for one call, under one scope.
//!
//! A client sends `{"path": …}` on a line and gets a head on a line, then the bytes. It can read what the model
//! can read and nothing else, and it can change nothing: react tools do not exist here.

use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Arc;

use annals_core::path::LogicalPath;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::content::{self, Whole};
use crate::cx::ToolCx;
use crate::failure::ToolFailure;
use crate::mentioned;

/// A request is one short line.
const REQUEST_MAX_BYTES: u64 = 8_192;
/// Longer addresses of sockets are refused by the kernel.
const ADDRESS_MAX_BYTES: usize = 100;
/// Answers in the making at once.
const CONNECTIONS_MAX_COUNT: usize = 16;

/// A running service; it ends when dropped.
pub(super) struct ContextService {
    task: JoinHandle<()>,
}

#[derive(Deserialize)]
struct Request {
    path: String,
}

/// What a path gave.
struct Found {
    path: LogicalPath,
    whole: Whole,
}

impl ContextService {
    /// Listens at `socket` for the duration of a call.
    pub(super) fn start(cx: &ToolCx, socket: &Path) -> io::Result<Self> {
        let listener = bind(socket)?;
        let cx = cx.clone();
        let task = tokio::spawn(async move {
            let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX_COUNT));
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(slot) = slots.clone().acquire_owned().await else {
                    return;
                };
                let cx = cx.clone();
                tokio::spawn(async move {
                    let _slot = slot;
                    tokio::select! {
                        _ = serve(&cx, stream) => {}
                        () = cx.cancel().cancelled() => {}
                    }
                });
            }
        });
        Ok(ContextService { task })
    }
}

/// The address of a socket has room for some hundred bytes, and a folder for temporary files may lie deeper: then it
/// is bound below a handle of its folder.
fn bind(socket: &Path) -> io::Result<UnixListener> {
    let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else {
        return UnixListener::bind(socket);
    };
    if socket.as_os_str().len() < ADDRESS_MAX_BYTES {
        return UnixListener::bind(socket);
    }
    let folder = std::fs::File::open(folder)?;
    let short = Path::new("/proc/self/fd")
        .join(folder.as_raw_fd().to_string())
        .join(name);
    UnixListener::bind(short)
}

impl Drop for ContextService {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(cx: &ToolCx, stream: UnixStream) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    BufReader::new(reader.take(REQUEST_MAX_BYTES))
        .read_line(&mut line)
        .await?;
    let found = match serde_json::from_str::<Request>(&line) {
        Ok(request) => find(cx, &request.path).await,
        Err(_) => Err(ToolFailure::new(
            "invalid_request",
            "send {\"path\": \"fi:turn_1.files/report.md\"} on one line",
        )),
    };
    let (head, bytes) = match &found {
        Ok(Found { path, whole }) => {
            let kind = if whole.text().is_some() { "text" } else { "binary" };
            let head = json!({
                "ok": true, "path": path.as_str(), "mime": whole.mime, "kind": kind, "size_bytes": whole.bytes.len(),
            });
            (head, whole.bytes.as_slice())
        }
        Err(failure) => (
            json!({"ok": false, "error": {"code": failure.kind, "message": failure.message}}),
            &[][..],
        ),
    };
    writer.write_all(format!("{head}\n").as_bytes()).await?;
    writer.write_all(bytes).await?;
    writer.shutdown().await
}

async fn find(cx: &ToolCx, given: &str) -> Result<Found, ToolFailure> {
    let path =
        LogicalPath::parse(given).map_err(|error| ToolFailure::new(error.code(), error.to_string()))?;
    if let Some(physical) = path.physical() {
        // Code often goes on to open it by its physical path. Failing here is not failing to read it.
        let _ = mentioned::bring_one(cx, &physical).await;
    }
    let whole = content::whole(cx.shared(), &path, Some(cx.turn()))
        .await
        .map_err(|error| ToolFailure::new("path_missing", error.to_string()))?;
    Ok(Found { path, whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_may_lie_deeper_than_its_address_is_long() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("f".repeat(120));
        std::fs::create_dir(&folder).unwrap();
        let socket = folder.join("context.sock");
        let _listener = bind(&socket).unwrap();
        assert!(socket.exists());
    }
}
