//! `write_workspace_file`: one text file, whole.

use annals_core::turn::outcome::Outcome;
use annals_sandbox::{FilesWrite, Op};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::Uses;
use crate::cx::ToolCx;
use crate::proposal::{self, Proposal};
use crate::serialise;
use crate::spec::{Effect, ToolSpec};
use crate::tool::Tool;

/// The tool.
pub struct WriteWorkspaceFile {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Args {
    path: String,
    content: String,
}

impl WriteWorkspaceFile {
    /// `write_workspace_file`.
    pub fn new() -> Self {
        let spec = ToolSpec::builder("write_workspace_file")
            .description("Write a UTF-8 text file into the workspace, replacing it if it exists. For files the user should see, use react.write.")
            .effect(Effect::Replayable)
            .writes(Uses::WorkspacePath("path".into()))
            .parameters(json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "FIRST FIELD. Relative to the workspace."},
                    "content": {"type": "string", "description": "SECOND FIELD. The whole content."},
                },
                "required": ["path", "content"],
                "additionalProperties": false,
            }))
            .build()
            .expect("a built-in's declaration is valid");
        WriteWorkspaceFile { spec }
    }
}

impl Default for WriteWorkspaceFile {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for WriteWorkspaceFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn proposes(&self, cx: &ToolCx, args: &Value) -> Option<Proposal> {
        let args: Args = serde_json::from_value(args.clone()).ok()?;
        Some(Proposal::Change {
            before: proposal::text_in_workspace(cx, &args.path).await,
            path: args.path,
            after: args.content,
        })
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        match crate::__private::typed::<Args>(args) {
            Ok(args) => {
                let op = Op::FilesWrite(FilesWrite::new(args.path, args.content));
                super::perform(cx, &self.spec, op).await
            }
            Err(failure) => serialise::answer(cx, &self.spec, Err(failure)).await,
        }
    }
}
