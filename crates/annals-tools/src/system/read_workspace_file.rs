//! `read_workspace_file`: one text file of the workspace.

use annals_core::turn::outcome::Outcome;
use annals_sandbox::{FilesRead, Op};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::Uses;
use crate::cx::ToolCx;
use crate::serialise;
use crate::spec::{Effect, ToolSpec};
use crate::tool::Tool;

/// The tool.
pub struct ReadWorkspaceFile {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Args {
    path: String,
}

impl ReadWorkspaceFile {
    /// `read_workspace_file`.
    pub fn new() -> Self {
        let spec = ToolSpec::builder("read_workspace_file")
            .description("Read a text file of the workspace.")
            .effect(Effect::None)
            .reads(Uses::WorkspacePath("path".into()))
            .parameters(json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Relative to the workspace."},
                },
                "required": ["path"],
                "additionalProperties": false,
            }))
            .build()
            .expect("a built-in's declaration is valid");
        ReadWorkspaceFile { spec }
    }
}

impl Default for ReadWorkspaceFile {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for ReadWorkspaceFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        match crate::__private::typed::<Args>(args) {
            Ok(args) => {
                let op = Op::FilesRead(FilesRead::text(args.path));
                super::perform(cx, &self.spec, op).await
            }
            Err(failure) => serialise::answer(cx, &self.spec, Err(failure)).await,
        }
    }
}
