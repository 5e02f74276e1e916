//! The context service for programs inside: there is no way in from the sandbox's network, so they write their requests
//! into a pipe that a command prints, and find their answers as files.
//!
//! A request is a line: a name, and JSON in base64. A program that hears nothing asks again under the same name, so a
//! line that is lost with a connection costs only time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annals_sandbox::context::{ContextError, ContextService, FILES, environment};
use annals_sandbox::{ByteStream, Failure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::task::AbortOnDropHandle;

use crate::error::ApiError;
use crate::guest::Call;
use crate::owner;
use crate::port::{Command, CommandEvent, Daemon};
use crate::remote::{BASE, Begun, Remote};

/// Answers in the making at once.
const ANSWERS_AT_ONCE: usize = 8;
/// Times that an answer is sent before the program inside asks again.
const ATTEMPTS_MAX_COUNT: usize = 3;

/// The service of one handle, with a folder of its own.
pub(crate) struct Mailbox {
    service: Arc<dyn ContextService>,
    folder: String,
    /// The sandbox that has the folder with the modules that programs import.
    laid_out_in: Mutex<Option<String>>,
}

#[derive(Deserialize)]
struct Request {
    path: String,
}

impl Mailbox {
    pub(crate) fn new(service: Arc<dyn ContextService>) -> Self {
        Self {
            service,
            folder: format!("{BASE}/context-{}", owner::call_id()),
            laid_out_in: Mutex::default(),
        }
    }

    /// The variables by which programs find it; `path` is the search path without it.
    pub(crate) fn environment(&self, path: &str) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::from(environment(&self.folder, path));
        variables.insert("ANNALS_CTX_DIR".to_owned(), self.folder.clone());
        variables
    }

    /// Answers programs until the result is dropped, at most for `timeout`.
    pub(crate) async fn serve(&self, remote: &Arc<Remote>, timeout: Duration) -> Result<Serving, Failure> {
        self.lay_out(remote).await?;
        let post = Post {
            service: Arc::clone(&self.service),
            remote: Arc::clone(remote),
            folder: self.folder.clone(),
            slots: Arc::new(Semaphore::new(ANSWERS_AT_ONCE)),
        };
        let begun = Arc::new(Begun::default());
        let command = Command {
            line: Call::new(owner::call_id(), "watch", [self.folder.clone()])
                .sent(BASE)
                .command,
            timeout: Some(timeout + Duration::from_secs(1)),
            env: BTreeMap::new(),
        };
        let task = tokio::spawn(watch(post, command, Arc::clone(&begun)));
        Ok(Serving {
            _task: AbortOnDropHandle::new(task),
            begun,
            daemon: Arc::clone(remote.daemon()),
        })
    }

    async fn lay_out(&self, remote: &Remote) -> Result<(), Failure> {
        let mut laid_out_in = self.laid_out_in.lock().await;
        if laid_out_in.as_deref() == Some(&remote.id) {
            return Ok(());
        }
        let paths = FILES.map(|file| format!("{}/{}", self.folder, file.path));
        let files = FILES.iter().zip(&paths).map(|(file, path)| {
            let mode = if file.executable { 0o755 } else { 0o644 };
            (path.as_str(), mode, file.text.as_bytes())
        });
        remote.upload_all(&files.collect::<Vec<_>>()).await?;
        *laid_out_in = Some(remote.id.clone());
        Ok(())
    }
}

/// Ends the service when it is dropped, and the command that prints the requests.
pub(crate) struct Serving {
    _task: AbortOnDropHandle<()>,
    begun: Arc<Begun>,
    daemon: Arc<dyn Daemon>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let (Some(command), Ok(runtime)) = (self.begun.get(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let daemon = Arc::clone(&self.daemon);
        runtime.spawn(async move {
            let _ = daemon.interrupt(&command).await;
        });
    }
}

async fn watch(post: Post, command: Command, begun: Arc<Begun>) {
    let mut backoff = post.remote.timing.backoff();
    let daemon = post.remote.daemon();
    while post.remote.lost().is_none() {
        if let Ok(mut events) = daemon.start(&command).await {
            while let Some(Ok(event)) = events.next().await {
                match event {
                    CommandEvent::Begun(name) => begun.set(name),
                    CommandEvent::Line(line) => post.take(&line).await,
                }
            }
            // Two commands on one pipe would each get some of the requests.
            if let Some(command) = begun.get() {
                let _ = daemon.interrupt(&command).await;
            }
        }
        backoff.wait().await;
    }
}

/// Takes requests and sends answers.
#[derive(Clone)]
struct Post {
    service: Arc<dyn ContextService>,
    remote: Arc<Remote>,
    folder: String,
    slots: Arc<Semaphore>,
}

impl Post {
    async fn take(&self, line: &str) {
        let Some((name, request)) = line.trim().split_once(' ') else {
            return;
        };
        let is_name = !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else {
            return;
        };
        if !is_name {
            return;
        }
        let (post, name) = (self.clone(), name.to_owned());
        let request = BASE64
            .decode(request)
            .ok()
            .and_then(|json| serde_json::from_slice(&json).ok());
        tokio::spawn(async move {
            let _slot = slot;
            for _ in 0..ATTEMPTS_MAX_COUNT {
                match post.answer(&name, request.as_ref()).await {
                    Err(error) if error.is_transient() => {}
                    _ => return,
                }
            }
        });
    }

    async fn answer(&self, name: &str, request: Option<&Request>) -> Result<(), ApiError> {
        let fetched = match request {
            Some(request) => self.service.fetch(&request.path).await,
            None => Err(ContextError::new(
                "invalid_request",
                "the request is not JSON with a `path`",
            )),
        };
        let (head, body): (_, ByteStream) = match fetched {
            Ok(fetched) => {
                let kind = if fetched.is_text { "text" } else { "binary" };
                let head = json!({
                    "ok": true, "path": fetched.path, "mime": fetched.mime, "kind": kind, "size_bytes": fetched.size_bytes,
                });
                (head, fetched.body)
            }
            Err(error) => {
                let head = json!({"ok": false, "error": {"code": error.code, "message": error.message}});
                (head, stream::empty().boxed())
            }
        };
        let whole = stream::once(async move { Ok(Bytes::from(format!("{head}\n"))) })
            .chain(body.map(|piece| piece.map_err(std::io::Error::other)));
        let (draft, path) = (
            format!("{}/{name}.part", self.folder),
            format!("{}/{name}", self.folder),
        );
        let daemon = self.remote.daemon();
        daemon.upload_stream(&draft, 0o644, whole.boxed()).await?;
        daemon.rename(&draft, &path).await
    }
}
