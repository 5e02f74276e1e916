//! Behind what the tools of a conversation run: layers in force, limits, and what was refused so far.

use annals_core::block::BlockKind;
use annals_core::code::Code;
use annals_core::ids::Seq;
use annals_sandbox::Bound;
use annals_sandbox::facts::Facts;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::OnceCell;

use super::views::Looked;
use crate::schemas::BoundSchema;

/// Codes that say that somebody or something did not let a call do what it wanted.
const REFUSALS: &[Code] = &[
    Code::DeniedByPolicy,
    Code::DeniedByPerson,
    Code::ApprovalExpired,
    Code::PathViolation,
    Code::ResourceLimit,
    Code::OutputTooLarge,
    Code::Timeout,
    Code::Unsupported,
    Code::AddressRefused,
    Code::McpHostRefused,
];

/// The sandbox at a moment.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(super) struct SandboxFacts {
    backend: String,
    layers: Vec<LayerFact>,
    #[schemars(with = "Vec<BoundSchema>")]
    limits: Vec<Bound>,
    refused: Vec<Refusal>,
}

/// One layer of the sandbox, and why it is missing if it is.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
struct LayerFact {
    name: &'static str,
    in_force: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

/// A call that was not let do what it wanted.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
struct Refusal {
    #[schemars(with = "u64")]
    seq: Seq,
    code: String,
    message: String,
}

pub(super) async fn of(looked: &Looked, at: Seq) -> SandboxFacts {
    let backend = looked.agent.sandbox().map(|backend| backend.name().to_owned());
    let is_local = backend.as_deref() == Some("local");
    SandboxFacts {
        layers: if is_local { layers().await } else { Vec::new() },
        limits: looked.agent.sandbox_bounds(),
        backend: backend.unwrap_or_else(|| "none: no tool of this agent runs commands".to_owned()),
        refused: refused(looked, at),
    }
}

/// Does not change while the program runs, and takes some processes to find out.
async fn layers() -> Vec<LayerFact> {
    static LAYERS: OnceCell<Vec<LayerFact>> = OnceCell::const_new();
    let gather = || async {
        let facts = tokio::task::spawn_blocking(Facts::gather).await;
        let facts = facts.ok().and_then(Result::ok);
        let layers = facts.into_iter().flat_map(|facts| facts.layers);
        let fact = |fact: annals_sandbox::facts::LayerFact| LayerFact {
            name: fact.layer.as_str(),
            in_force: fact.missing.is_none(),
            missing: fact.missing,
        };
        layers.map(fact).collect()
    };
    LAYERS.get_or_init(gather).await.clone()
}

fn refused(looked: &Looked, at: Seq) -> Vec<Refusal> {
    let blocks = looked.whole.blocks().iter().take_while(|block| block.seq <= at);
    let results = blocks.filter(|block| block.kind == BlockKind::ToolResult);
    let refusal = |block: &std::sync::Arc<annals_core::block::Block>| {
        let error = block.meta().error.as_ref()?;
        let is_refusal = REFUSALS.iter().any(|code| error.code == *code);
        is_refusal.then(|| Refusal {
            seq: block.seq,
            code: error.code.clone(),
            message: error.message.clone(),
        })
    };
    results.filter_map(refusal).collect()
}
