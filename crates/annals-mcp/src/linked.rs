//! Resources for the model: what a server's results link to, and what it lists. They are read through that server alone, and
//! only by addresses that it gave out itself.
//!
//! One tool, `mcp.read_resource`, stands for one of each server, `SERVER.read_resource`: rules about the server hold for them.

use std::sync::Arc;

use annals_core::code::Code;
use annals_core::turn::outcome::Outcome;
use annals_tools::{Effect, Family, SpecError, Tool, ToolCx, ToolFailure, ToolSpec, Uses, serialise};
use async_trait::async_trait;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::connection::{Connection, ConnectionError};
use crate::limits;
use crate::name;
use crate::pins::Pins;
use crate::result::{self, Origin};
use crate::server::{RemoteServer, ServerError};
use crate::text;
use crate::tool::TIMEOUT;

/// The tool that reads what any server linked to.
pub const READ: &str = "mcp.read_resource";
/// The tool of one server, below its namespace.
const READ_OF_ONE: &str = "read_resource";
const SCHEME: &str = "mcp:";

/// Where a resource of a server is: `mcp:SERVER/URI`, as on the command line.
pub fn address(namespace: &str, uri: &str) -> String {
    format!("{SCHEME}{namespace}/{uri}")
}

/// The server and its own address of the resource.
fn parted(address: &str) -> Option<(&str, &str)> {
    address.trim().strip_prefix(SCHEME)?.split_once('/')
}

/// Reads resources of one server; none if it has none.
pub(crate) fn reader(server: &Arc<RemoteServer>, pins: &Pins) -> Result<Option<ReadOfOne>, SpecError> {
    match pins.has_resources {
        true => ReadOfOne::new(server.clone(), pins).map(Some),
        false => Ok(None),
    }
}

/// What the model is offered to read resources with: nothing where no server has any.
pub(crate) fn offered(readers: Vec<ReadOfOne>) -> Result<Vec<Arc<dyn Tool>>, SpecError> {
    match readers.is_empty() {
        true => Ok(Vec::new()),
        false => Ok(vec![Arc::new(ReadResource::new(readers)?)]),
    }
}

/// `mcp.read_resource`.
struct ReadResource {
    spec: ToolSpec,
    readers: Vec<Arc<ReadOfOne>>,
}

impl ReadResource {
    fn new(readers: Vec<ReadOfOne>) -> Result<Self, SpecError> {
        let spec = ToolSpec::builder(READ)
            .description(
                "Reads a resource that a result of an MCP server links to, by its `mcp:SERVER/…` address; `mcp:SERVER/` alone \
                 lists what the server has. What it gives becomes files of the turn.",
            )
            .parameters(json!({
                "type": "object",
                "properties": {"resource": {"type": "string", "description": "The address, as it was linked or listed."}},
                "required": ["resource"],
                "additionalProperties": false,
            }))
            // What it passes on has the effects of its own tool.
            .effect(Effect::None)
            .build()?;
        Ok(ReadResource {
            spec,
            readers: readers.into_iter().map(Arc::new).collect(),
        })
    }
}

#[async_trait]
impl Tool for ReadResource {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn passes_on(&self, args: &Value) -> Option<(Arc<dyn Tool>, Value)> {
        let (server, uri) = parted(args.get("resource")?.as_str()?)?;
        let reader = self.readers.iter().find(|reader| reader.is_of(server))?;
        Some((reader.clone(), json!({ "uri": uri })))
    }

    fn behind(&self) -> Vec<Arc<dyn Tool>> {
        let readers = self.readers.iter();
        readers.map(|reader| reader.clone() as Arc<dyn Tool>).collect()
    }

    /// Runs for what it cannot pass on.
    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let given = args.get("resource").and_then(Value::as_str).unwrap_or_default();
        let servers: Vec<&str> = self.readers.iter().map(|reader| reader.namespace()).collect();
        let message = format!(
            "`{}` names no resource of a server: give `{SCHEME}SERVER/…` as it was linked; servers with resources: {}",
            text::one_line(given, 200),
            servers.join(", ")
        );
        let failure = ToolFailure::new(Code::FileNotFound, message);
        serialise::answer(cx, &self.spec, Err(failure)).await
    }
}

/// `SERVER.read_resource`.
pub(crate) struct ReadOfOne {
    spec: ToolSpec,
    server: Arc<RemoteServer>,
}

impl ReadOfOne {
    fn new(server: Arc<RemoteServer>, pins: &Pins) -> Result<Self, SpecError> {
        let config = server.config();
        let spec = ToolSpec::builder(&own_name(&config.namespace, pins))
            .description(format!(
                "Reads a resource that the MCP server `{}` linked to or lists; without an address it lists them.",
                config.name
            ))
            .parameters(json!({
                "type": "object",
                "properties": {"uri": {"type": "string", "description": "The server's own address of it."}},
                "required": ["uri"],
                "additionalProperties": false,
            }))
            .family(Family::Plain)
            // That reading changes nothing is only the server's word.
            .effect(Effect::Once)
            .writes(Uses::named(format!("mcp:{}", config.namespace)))
            .timeout(TIMEOUT)
            .build()?;
        Ok(ReadOfOne { spec, server })
    }

    fn namespace(&self) -> &str {
        &self.server.config().namespace
    }

    fn is_of(&self, server: &str) -> bool {
        let config = self.server.config();
        config.namespace == server || config.name == server
    }

    /// What the resource consists of, as the parts of a result.
    async fn read(&self, cx: &ToolCx, uri: &str) -> Result<CallToolResult, ToolFailure> {
        let connection = self
            .server
            .connection()
            .await
            .map_err(|error| self.failure(&error))?;
        let failed = |error: ConnectionError| self.failure(&self.server.failed(error));
        let address = address(self.namespace(), uri);
        let was_linked = cx.timeline(|timeline| timeline.pool().of_url(&address).is_some());
        if !was_linked && !is_listed(&connection, uri).await.map_err(failed)? {
            let message = format!(
                "`{}` was not linked to in this conversation, and the server does not list it: `{}` lists what it has",
                text::one_line(&address, 300),
                self::address(self.namespace(), "")
            );
            return Err(ToolFailure::new(Code::FileNotFound, message));
        }
        let contents = connection.resource_contents(uri).await.map_err(failed)?;
        let parts = contents.into_iter().map(ContentBlock::resource).collect();
        Ok(CallToolResult::success(parts))
    }

    /// What the server has to read, with addresses that can be read here.
    async fn listed(&self) -> Result<Value, ToolFailure> {
        let connection = self
            .server
            .connection()
            .await
            .map_err(|error| self.failure(&error))?;
        let listed = connection.resources().await;
        let listed = listed.map_err(|error| self.failure(&self.server.failed(error)))?;
        let more = listed.len().saturating_sub(limits::RESOURCES_SHOWN_MAX);
        let shown: Vec<Value> = listed
            .into_iter()
            .take(limits::RESOURCES_SHOWN_MAX)
            .map(|resource| {
                json!({
                    "resource": address(self.namespace(), &resource.uri),
                    "name": resource.name,
                    "description": resource.description,
                    "mime_type": resource.mime_type,
                })
            })
            .collect();
        Ok(json!({ "resources": shown, "more": more }))
    }

    fn failure(&self, error: &ServerError) -> ToolFailure {
        let words = self.server.hidden(&error.to_string()).into_owned();
        ToolFailure::new(error.code(), words)
    }

    async fn answered(&self, cx: &ToolCx, uri: &str) -> Outcome {
        if uri.is_empty() {
            return serialise::answer(cx, &self.spec, self.listed().await).await;
        }
        match self.read(cx, uri).await {
            Err(failure) => serialise::answer(cx, &self.spec, Err(failure)).await,
            Ok(read) => {
                let origin = Origin {
                    server: self.namespace(),
                    spec: &self.spec,
                    output: None,
                    links_are_read: true,
                };
                result::outcome(cx, origin, read).await
            }
        }
    }
}

#[async_trait]
impl Tool for ReadOfOne {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let uri = args.get("uri").and_then(Value::as_str).unwrap_or_default();
        tokio::select! {
            biased;
            () = cx.cancel().cancelled() => {
                let failure = self.failure(&self.server.failed(ConnectionError::Cancelled));
                serialise::answer(cx, &self.spec, Err(failure)).await
            }
            outcome = self.answered(cx, uri) => outcome,
        }
    }
}

async fn is_listed(connection: &Connection, uri: &str) -> Result<bool, ConnectionError> {
    let listed = connection.resources().await?;
    Ok(listed.iter().any(|resource| resource.uri == uri))
}

/// A name that no tool of the server has, whatever it calls them.
fn own_name(namespace: &str, pins: &Pins) -> String {
    let names = name::tool_names(Some(namespace), pins.tools.iter().map(|tool| tool.name.as_str()));
    let is_taken = |candidate: &String| names.values().any(|name| name.as_str() == candidate);
    let plain = format!("{namespace}.{READ_OF_ONE}");
    let numbered = (2_usize..).map(|at| format!("{plain}_{at}"));
    let mut candidates = std::iter::once(plain.clone()).chain(numbered);
    candidates.find(|candidate| !is_taken(candidate)).unwrap_or(plain)
}

#[cfg(test)]
mod tests {
    use annals_core::redact::Secrets;

    use super::*;
    use crate::config::Servers;

    fn pins(tools: &[&str]) -> Pins {
        let definition =
            |name: &&str| serde_json::from_value(json!({"name": name, "inputSchema": {}})).unwrap();
        Pins::new(String::new(), tools.iter().map(definition)).resources(true)
    }

    fn server(name: &str) -> Arc<RemoteServer> {
        let list = json!({"mcpServers": {name: {"command": "x"}}}).to_string();
        let config = Servers::from_json(&list).unwrap().get(name).unwrap().clone();
        Arc::new(RemoteServer::new(config, "/nowhere".into(), Secrets::new()))
    }

    #[test]
    fn one_tool_stands_for_a_tool_of_each_server_that_has_resources() {
        let (one, two) = (server("my-docs"), server("plain"));
        let readers: Vec<ReadOfOne> = [(&one, pins(&[])), (&two, Pins::default())]
            .into_iter()
            .filter_map(|(server, pins)| reader(server, &pins).unwrap())
            .collect();
        let offered = offered(readers).unwrap();
        assert_eq!(offered.len(), 1);
        for spelt in ["mcp:my_docs/x://a/b", "mcp:my-docs/x://a/b"] {
            let (tool, args) = offered[0].passes_on(&json!({ "resource": spelt })).unwrap();
            assert_eq!(tool.spec().name().as_str(), "my_docs.read_resource");
            assert_eq!(args, json!({"uri": "x://a/b"}));
        }
        for elsewhere in ["mcp:plain/x://a", "https://example.org/a", "x://a", "mcp:"] {
            assert!(
                offered[0].passes_on(&json!({ "resource": elsewhere })).is_none(),
                "{elsewhere}"
            );
        }
        assert!(super::offered(Vec::new()).unwrap().is_empty());
    }

    #[test]
    fn no_tool_of_a_server_loses_its_name_to_the_reader() {
        for (tools, name) in [
            (&["work"][..], "srv.read_resource"),
            (&["read_resource"], "srv.read_resource_2"),
            (&["readResource", "read_resource_2"], "srv.read_resource_3"),
        ] {
            assert_eq!(own_name("srv", &pins(tools)), name, "{tools:?}");
        }
    }
}
