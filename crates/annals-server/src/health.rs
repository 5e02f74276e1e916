//! Whether the server lives, whether it can work, and what it offers.

use annals_core::view::ToolSchema;
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

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

/// The store answers, and the server does not stop.
pub(crate) async fn ready(State(app): State<App>) -> Result<Json<Health>, Problem> {
    if app.stopping.is_cancelled() {
        return Err(Problem::new(Code::Unavailable, "the server stops").retry_after(5));
    }
    app.store().list(app.agent.scope(), None, 1).await?;
    Ok(Json(Health { status: "ok" }))
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
