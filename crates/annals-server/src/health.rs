//! Whether the server lives, whether it can work, and what it offers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_core::view::ToolSchema;
use annals_store::Store;
use axum::Json;
use axum::extract::State;
use futures::future::{BoxFuture, FutureExt as _, Shared};
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::app::App;
use crate::door::Caller;
use crate::problem::{Code, Problem};

/// How the server is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
}

/// The process answers.
pub(crate) async fn live() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// The store takes writes, and the server does not stop.
pub(crate) async fn ready(State(app): State<App>) -> Result<Json<Health>, Problem> {
    if app.stopping.is_cancelled() {
        return Err(Problem::new(Code::Unavailable, "the server stops").retry_after(5));
    }
    app.readiness.check(app.store()).await?;
    Ok(Json(Health { status: "ok" }))
}

/// How long the store may take to say whether it takes writes.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// For this long, an answer counts for everybody: nobody needs a token to ask, and each answer costs the store a commit.
const ANSWER_KEPT: Duration = Duration::from_secs(1);

/// Whether the store takes writes, asked once for all who want to know.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<Asked>>);

struct Asked {
    at: Instant,
    answer: Shared<BoxFuture<'static, Result<(), Problem>>>,
}

impl Readiness {
    async fn check(&self, store: &Arc<dyn Store>) -> Result<(), Problem> {
        let answer = self.asked(store);
        let answered = tokio::time::timeout(ANSWER_MAX, answer).await;
        let silent = |_| Problem::new(Code::Unavailable, "the store does not answer").retry_after(1);
        answered.map_err(silent)?
    }

    /// The answer that is on its way or came just now, or else the next one. A store that hangs is asked once.
    fn asked(&self, store: &Arc<dyn Store>) -> Shared<BoxFuture<'static, Result<(), Problem>>> {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = asked
            .as_ref()
            .filter(|asked| asked.answer.peek().is_none() || asked.at.elapsed() < ANSWER_KEPT);
        if let Some(current) = current {
            return current.answer.clone();
        }
        let store = Arc::clone(store);
        // Goes on when nobody waits for it any more.
        let task = tokio::spawn(async move { store.check_writes().await.map_err(Problem::from) });
        let answer = task.map(|ended| {
            let broken = |_| Problem::new(Code::Internal, "something in the server went wrong");
            ended.map_err(broken)?
        });
        let answer = answer.boxed().shared();
        *asked = Some(Asked {
            at: Instant::now(),
            answer: answer.clone(),
        });
        answer
    }
}

/// The tools of the agent.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Tools {
    items: Vec<Tool>,
    /// Always null: there is one page.
    next_cursor: Option<String>,
}

/// A tool that the model may call.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Tool {
    name: String,
    description: String,
    /// A JSON Schema.
    parameters: Value,
}

pub(crate) async fn tools(State(app): State<App>, _: Caller) -> Json<Tools> {
    let tool = |schema: &ToolSchema| Tool {
        name: schema.name.to_string(),
        description: schema.description.to_string(),
        parameters: serde_json::to_value(&schema.parameters).unwrap_or_default(),
    };
    Json(Tools {
        items: app.agent.tools().schemas().iter().map(tool).collect(),
        next_cursor: None,
    })
}

/// What has no route.
pub(crate) async fn missing() -> Problem {
    Problem::not_found("the path")
}

/// What has a route with other methods.
pub(crate) async fn other_method() -> Problem {
    Problem::new(Code::MethodNotAllowed, "the path does not take this method")
}

/// What panicked is a fault of ours, and says nothing of it to others.
pub(crate) fn panicked(_: Box<dyn std::any::Any + Send + 'static>) -> axum::response::Response {
    use axum::response::IntoResponse as _;
    let problem = Problem::new(Code::Internal, "something in the server went wrong");
    debug_assert_eq!(problem.code.status(), StatusCode::INTERNAL_SERVER_ERROR);
    problem.into_response()
}
