//! A server's tools as tools of an agent: pinned, named, ordered, and each failure a result that the model reads.

use std::sync::Arc;
use std::time::Duration;

use annals_core::turn::outcome::Outcome;
use annals_tools::{
    Effect, Family, SpecError, Tool, ToolCx, ToolFailure, ToolName, ToolSpec, Uses, serialise,
};
use async_trait::async_trait;
use serde_json::Value;

use crate::definition::{Definition, Digest};
use crate::limits;
use crate::name;
use crate::pins::Pins;
use crate::result::{self, Origin};
use crate::server::{RemoteServer, ServerError};

/// The last bound of a call; those of the connection come first.
pub(crate) const TIMEOUT: Duration =
    Duration::from_secs(limits::CALL_TIMEOUT_TOTAL.as_secs() + 2 * limits::STARTUP_TIMEOUT.as_secs());

/// One tool of a server.
pub struct RemoteTool {
    spec: ToolSpec,
    server: Arc<RemoteServer>,
    definition: Definition,
    accepted: Digest,
    output: Option<jsonschema::Validator>,
}

/// The accepted tools of a server, and for each that cannot be offered the reason.
pub fn tools(server: &Arc<RemoteServer>, pins: &Pins) -> (Vec<RemoteTool>, Vec<SpecError>) {
    let config = server.config();
    let names = name::tool_names(
        Some(&config.namespace),
        pins.tools.iter().map(|tool| tool.name.as_str()),
    );
    let mut refused = Vec::new();
    let mut offered = Vec::new();
    for definition in &pins.tools {
        let Some(name) = names.get(definition.name.as_str()) else {
            continue;
        };
        if !config.offered.includes(&definition.name) {
            continue;
        }
        match RemoteTool::new(server.clone(), name, definition.clone()) {
            Ok(tool) => offered.push(tool),
            Err(error) => refused.push(error),
        }
    }
    (offered, refused)
}

impl RemoteTool {
    fn new(server: Arc<RemoteServer>, name: &ToolName, definition: Definition) -> Result<Self, SpecError> {
        let config = server.config();
        let is_renamed =
            name.as_str().strip_prefix(&format!("{}.", config.namespace)) != Some(&definition.name);
        let session = Uses::named(format!("mcp:{}", config.namespace));
        let mut spec = ToolSpec::builder(name.as_str())
            .description(definition.shown_description(&config.name, is_renamed))
            .parameters(definition.shown_schema())
            .family(Family::Plain)
            .effect(effect(&definition, &config.replay))
            .timeout(TIMEOUT);
        // Calls to one server run in their order; those that say they only read run together. A lie costs order, no more.
        spec = match definition.hint("readOnlyHint") {
            Some(true) => spec.reads(session),
            _ => spec.writes(session),
        };
        let output = definition.output_schema.as_ref();
        Ok(RemoteTool {
            spec: spec.build()?,
            output: output.and_then(|schema| jsonschema::validator_for(schema).ok()),
            accepted: definition.digest(),
            server,
            definition,
        })
    }

    /// What it was accepted as.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Its server's configuration name.
    pub fn server(&self) -> &str {
        &self.server.config().name
    }
}

/// A lost call runs again only if the server says that this is harmless *and* the person names the tool.
fn effect(definition: &Definition, replay: &[String]) -> Effect {
    let is_harmless =
        definition.hint("idempotentHint") == Some(true) || definition.hint("readOnlyHint") == Some(true);
    match is_harmless && replay.contains(&definition.name) {
        true => Effect::Replayable,
        false => Effect::Once,
    }
}

#[async_trait]
impl Tool for RemoteTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let arguments = match args {
            Value::Object(arguments) => arguments,
            _ => serde_json::Map::new(),
        };
        let called = self
            .server
            .call(
                &self.definition.name,
                &self.accepted,
                arguments,
                cx.cancel(),
                |_| {},
            )
            .await;
        match called {
            Ok(result) => {
                let origin = Origin {
                    server: &self.server.config().namespace,
                    spec: &self.spec,
                    output: self.output.as_ref(),
                };
                result::outcome(cx, origin, result).await
            }
            Err(error) => serialise::answer(cx, &self.spec, Err(failure(&error))).await,
        }
    }
}

/// What the model reads of a call that failed.
fn failure(error: &ServerError) -> ToolFailure {
    ToolFailure::new(error.code(), error.to_string())
}
