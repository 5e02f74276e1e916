//! What a call that waits for a person would do: its arguments in full, its command or code, what becomes of its file.

use std::sync::Arc;

use annals_content::TreeRequest;
use annals_core::block::payload::CallText;
use annals_core::ids::CallId;
use annals_tools::{BodyParam, FacetParam, Proposal, Tool, ToolCx};
use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::moment::whole_arguments;
use super::views::Looked;
use crate::app::App;
use crate::door::Caller;
use crate::problem::Problem;
use crate::request::{Params, Place};
use crate::schemas::Tree;

#[derive(Deserialize)]
pub(crate) struct OfCall {
    call: String,
}

/// A call, as a person decides about it.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(crate) struct Proposed {
    arguments: Value,
    /// The command or the code, as a tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Tree>")]
    code: Option<Arc<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<Change>,
    /// Why the call would fail, were it allowed now.
    #[serde(skip_serializing_if = "Option::is_none")]
    fails: Option<String>,
}

/// What would become of a file, against how it is now.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
struct Change {
    path: String,
    /// Whether there is no such text now.
    is_new: bool,
    #[schemars(with = "Tree")]
    difference: Arc<Value>,
}

pub(crate) async fn proposal(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    Params(asked): Params<OfCall>,
) -> Result<Json<Proposed>, Problem> {
    let looked = Looked::of(&app, &caller, &place).await?;
    let missing = || Problem::not_found("the call");
    let id = CallId::parse(&asked.call).map_err(|_| missing())?;
    let written = looked.whole.call_block(&id).ok_or_else(missing)?;
    let said = written.text().and_then(CallText::parse).ok_or_else(missing)?;
    let arguments = whole_arguments(&looked, written, said.params.get()).await;
    let mut proposed = Proposed {
        arguments,
        code: None,
        change: None,
        fails: None,
    };
    let Some(tool) = looked.agent.tools().get(&said.tool_id) else {
        return Ok(Json(proposed));
    };
    if let Some(code) = code_of(&**tool, &proposed.arguments) {
        proposed.code = Some(app.trees.one(code).await?);
    }
    let cx = ToolCx::new(
        Arc::new(looked.agent.reading(&place.conversation()?, None).await?),
        written.turn.clone(),
        id,
        looked.agent.world().now(),
        CancellationToken::new(),
    );
    match tool.proposes(&cx, &proposed.arguments).await {
        Some(Proposal::Change { path, before, after }) => {
            let is_new = before.is_none();
            let before = before.unwrap_or_default();
            let difference = app.trees.one(TreeRequest::Difference { before, after }).await?;
            proposed.change = Some(Change {
                path,
                is_new,
                difference,
            });
        }
        Some(Proposal::Fails(error)) => proposed.fails = Some(error.message),
        _ => {}
    }
    Ok(Json(proposed))
}

/// What of a call's arguments is run.
fn code_of(tool: &dyn Tool, arguments: &Value) -> Option<TreeRequest> {
    let text = |name: &str| arguments.get(name)?.as_str().map(str::to_owned);
    let code = |text: String, language: Option<String>| TreeRequest::Code {
        text,
        language: language.unwrap_or_default(),
    };
    let facet = tool.spec().facets().iter().find_map(|facet| match facet {
        FacetParam::Command(name) => Some(code(text(name)?, Some("bash".to_owned()))),
        FacetParam::Script { code: name, language } => Some(code(text(name)?, text(language))),
        _ => None,
    });
    facet.or_else(|| match tool.spec().body()? {
        BodyParam::Code(name) => Some(code(text(name)?, text("language").or(Some("python".to_owned())))),
        _ => None,
    })
}
