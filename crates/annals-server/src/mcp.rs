//! `/mcp`: the protocol of `annals mcp serve` over streamable HTTP, behind the same door as everything else.
//!
//! Each scope has its own service and its own sessions, so a session of another scope is one that does not exist.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_core::ids::{ConversationId, Scope, TurnId};
use annals_mcp::serve::http::{HttpServer, SessionState, SessionStore, SessionStoreError};
use annals_mcp::serve::{AnnalsServer, Post};
use annals_runtime::{Agent, Attachment, Prompt, RunError, ToolCall};
use annals_store::Role;
use async_trait::async_trait;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures::StreamExt as _;
use http::Method;
use serde::Deserialize;
use tokio::time::Instant;

use crate::app::App;
use crate::door::{Access, Caller};
use crate::limits::TurnPlace;
use crate::problem::{Code, Problem};
use crate::request::read;
use crate::routes::Route;
use crate::side_table::{self, SideTable};
use crate::turns::{self, Admitted};

/// The tenant of scopes in which sessions are remembered.
pub(crate) const TENANT: &str = "annals.mcp";

/// Names the session of a request.
const SESSION: &str = "mcp-session-id";
/// Sessions that one scope may have in this process; idle ones end after five minutes and come back when they are used.
const SESSIONS_MAX: usize = 256;
/// A session that was begun this long ago is not remembered any more.
const SESSION_KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// Sessions that are over are forgotten this often.
const SWEPT_EVERY: Duration = Duration::from_secs(60 * 60);
/// What is remembered of a session. A client that says more of itself begins anew after a restart.
const SESSION_MAX_BYTES: usize = 4 * 1024;

/// The routes of the protocol.
pub(crate) fn table() -> Vec<Route> {
    const USE: Access = Access::Role(Role::Use);
    vec![
        Route::new(Method::POST, "/mcp", USE, answer)
            .about("A message of the Model Context Protocol; answered as JSON or as events.")
            .takes_object()
            .gives_object(),
        Route::new(Method::GET, "/mcp", USE, answer)
            .about(
                "Events of a session of the Model Context Protocol, or of an answer whose connection broke.",
            )
            .gives_bytes("text/event-stream"),
        Route::new(Method::DELETE, "/mcp", USE, answer)
            .about("Ends a session of the Model Context Protocol."),
    ]
}

/// What answers for each scope that was asked for.
#[derive(Default)]
pub(crate) struct Faces(Mutex<HashMap<Scope, HttpServer>>);

/// Whether a service is there for the next request, too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stays {
    Here,
    /// All the others have sessions.
    No,
}

impl Faces {
    async fn of(&self, app: &App, scope: &Scope) -> Result<(HttpServer, Stays), Problem> {
        if let Some(face) = self.faces().get(scope) {
            return Ok((face.clone(), Stays::Here));
        }
        let face = face(app, scope)?;
        let max = app.limits.mcp_scopes;
        for (idle, other) in self.crowd(max) {
            if other.sessions().await == 0 {
                self.faces().remove(&idle);
            }
        }
        let mut faces = self.faces();
        // Another request may have been faster, and its client has a session there.
        if faces.len() >= max && !faces.contains_key(scope) {
            return Ok((face, Stays::No));
        }
        let face = faces.entry(scope.clone()).or_insert(face).clone();
        Ok((face, Stays::Here))
    }

    /// All of them, when they have become many.
    fn crowd(&self, max: usize) -> Vec<(Scope, HttpServer)> {
        let faces = self.faces();
        let all = faces.iter().map(|(scope, face)| (scope.clone(), face.clone()));
        all.filter(|_| faces.len() >= max).collect()
    }

    fn faces(&self) -> std::sync::MutexGuard<'_, HashMap<Scope, HttpServer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn face(app: &App, scope: &Scope) -> Result<HttpServer, Problem> {
    let agent = app.agent(scope);
    let server = AnnalsServer::new(agent.clone())
        .post_by(Arc::new(Counted(app.clone())))
        .allow(&app.outside.mcp_tools)
        .map_err(|name| Problem::internal(format_args!("there is no tool `{name}`")))?;
    let kept = Arc::new(Kept {
        table: side_table::scope_of(TENANT, scope),
        agent,
        swept: Mutex::default(),
    });
    let stop = app.stopping.child_token();
    Ok(HttpServer::new(server, kept, app.limits.json_max_bytes, stop))
}

/// The part of a message that says whether it begins a session.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    method: String,
}

async fn answer(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let permit = app.usage.stream(&caller.name, &app.limits, Instant::now())?;
    let (face, stays) = app.mcp.of(&app, &caller.scope).await?;
    let (parts, body) = request.into_parts();
    let bytes = read(body, app.limits.json_max_bytes, &app.limits).await?;
    let begins_session = || {
        let message = serde_json::from_slice::<Message>(&bytes);
        message.is_ok_and(|message| message.method == "initialize")
    };
    let begins_session = parts.method == Method::POST && begins_session();
    // A request that stands alone needs nothing of an earlier one.
    if stays == Stays::No && (begins_session || parts.headers.contains_key(SESSION)) {
        let detail = format!("{} scopes have sessions here", app.limits.mcp_scopes);
        return Err(Problem::new(Code::TooManySessions, detail).retry_after(30));
    }
    if begins_session {
        let open = face.sessions().await;
        if open >= SESSIONS_MAX {
            let detail = format!("{open} sessions of `{}` are open", caller.scope);
            return Err(Problem::new(Code::TooManySessions, detail).retry_after(30));
        }
    }
    let request = Request::from_parts(parts, Body::from(bytes));
    let (parts, body) = face.service().handle(request).await.into_parts();
    // It counts as a stream for as long as it is one.
    let pieces = Body::new(body).into_data_stream().map(move |piece| {
        let _counted = &permit;
        piece
    });
    Ok(Response::from_parts(parts, Body::from_stream(pieces)))
}

/// Questions and calls count among the turns of their scope, as those of every other route.
struct Counted(App);

#[async_trait]
impl Post for Counted {
    async fn ask(&self, agent: &Agent, id: &ConversationId, mut prompt: Prompt) -> Result<TurnId, String> {
        let (client_key, place) = self.admit(agent, id, &prompt.attachments).await?;
        prompt.client_key = Some(client_key);
        let posted = agent.conversation(id).post(prompt).await;
        counted(place, posted)
    }

    async fn call(&self, agent: &Agent, id: &ConversationId, mut call: ToolCall) -> Result<TurnId, String> {
        let (client_key, place) = self.admit(agent, id, &[]).await?;
        call.client_key = Some(client_key);
        let posted = agent.conversation(id).post_call(call).await;
        counted(place, posted)
    }
}

impl Counted {
    /// The key of a turn that may be posted, and its place; webhooks owe its end from now on.
    async fn admit(
        &self,
        agent: &Agent,
        id: &ConversationId,
        attachments: &[Attachment],
    ) -> Result<(String, TurnPlace), String> {
        let admitted = turns::admit(&self.0, agent, id, attachments).await;
        let Admitted {
            client_key,
            turn,
            place,
        } = admitted.map_err(|problem| problem.detail)?;
        let owed = self.0.outside.webhooks.owe(agent, id, &turn).await;
        owed.map_err(|error| Problem::from(error).detail)?;
        Ok((client_key, place))
    }
}

fn counted(place: TurnPlace, posted: Result<TurnId, RunError>) -> Result<TurnId, String> {
    let turn = posted.map_err(|error| Problem::from(error).detail)?;
    place.posted();
    Ok(turn)
}

/// Sessions as the store remembers them, so that one goes on after a restart and on every node.
struct Kept {
    agent: Agent,
    table: Scope,
    swept: Mutex<Option<Instant>>,
}

impl Kept {
    fn table(&self) -> SideTable<'_> {
        SideTable::new(&**self.agent.log(), self.table.clone())
    }

    fn is_sweep_due(&self) -> bool {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = swept.is_none_or(|at| at.elapsed() >= SWEPT_EVERY);
        if is_due {
            *swept = Some(Instant::now());
        }
        is_due
    }
}

/// A session's id as the name of an entry; a client may send anything.
fn name(session: &str) -> Option<ConversationId> {
    ConversationId::parse(session).ok()
}

#[async_trait]
impl SessionStore for Kept {
    async fn load(&self, session: &str) -> Result<Option<SessionState>, SessionStoreError> {
        let Some(name) = name(session) else {
            return Ok(None);
        };
        let kept = self.table().get(&name).await?;
        Ok(kept.and_then(|text| serde_json::from_str(&text).ok()))
    }

    async fn store(&self, session: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let text = serde_json::to_string(state)?;
        let Some(name) = name(session).filter(|_| text.len() <= SESSION_MAX_BYTES) else {
            return Ok(());
        };
        let now = self.agent.world().now();
        self.table().put(&name, text, now).await?;
        if self.is_sweep_due() {
            let owner = self.agent.owner();
            self.table().sweep(&owner, now, |_| Some(SESSION_KEPT)).await?;
        }
        Ok(())
    }

    async fn delete(&self, session: &str) -> Result<(), SessionStoreError> {
        match name(session) {
            Some(name) => Ok(self.table().remove(&name, &self.agent.owner()).await?),
            None => Ok(()),
        }
    }
}
