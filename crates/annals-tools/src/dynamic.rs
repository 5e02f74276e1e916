//! Tools made at run time from a name, a schema and a closure.

use std::future::Future;
use std::pin::Pin;

use annals_core::turn::outcome::Outcome;
use async_trait::async_trait;
use serde_json::Value;

use crate::cx::ToolCx;
use crate::failure::ToolResult;
use crate::output::{IntoOutcome, ToolOutput};
use crate::spec::{SpecError, ToolSpec};
use crate::tool::Tool;

type Body = dyn Fn(ToolCx, Value) -> Pin<Box<dyn Future<Output = ToolOutput> + Send>> + Send + Sync;

/// A tool that is a closure.
pub struct DynamicTool {
    spec: ToolSpec,
    body: Box<Body>,
}

impl DynamicTool {
    /// A tool with this name, description and JSON Schema of an object. The closure gets a context of its own,
    /// because it may outlive the borrow.
    pub fn new<F, Fut, T>(name: &str, description: &str, schema: Value, body: F) -> Result<Self, SpecError>
    where
        F: Fn(ToolCx, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolResult<T>> + Send + 'static,
        T: IntoOutcome,
    {
        let spec = ToolSpec::builder(name)
            .description(description)
            .parameters(schema)
            .build()?;
        Ok(Self::with_spec(spec, body))
    }

    /// A tool with a declaration made elsewhere.
    pub fn with_spec<F, Fut, T>(spec: ToolSpec, body: F) -> Self
    where
        F: Fn(ToolCx, Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolResult<T>> + Send + 'static,
        T: IntoOutcome,
    {
        DynamicTool {
            spec,
            body: Box::new(move |cx, args| {
                let answer = body(cx, args);
                Box::pin(async move { answer.await.into_output() })
            }),
        }
    }
}

#[async_trait]
impl Tool for DynamicTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let output = (self.body)(cx.clone(), args).await;
        output.outcome(cx, &self.spec).await
    }
}
