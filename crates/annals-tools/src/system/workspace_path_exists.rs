//! `workspace_path_exists`: whether something has this path.

use annals_core::turn::outcome::Outcome;
use annals_sandbox::{FilesExists, Op};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::Uses;
use crate::cx::ToolCx;
use crate::serialise;
use crate::spec::{Effect, ToolSpec};
use crate::tool::Tool;

/// The tool.
pub struct WorkspacePathExists {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Args {
    path: String,
}

impl WorkspacePathExists {
    /// `workspace_path_exists`.
    pub fn new() -> Self {
        let spec = ToolSpec::builder("workspace_path_exists")
            .description("Say whether a path exists in the workspace.")
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
        WorkspacePathExists { spec }
    }
}

impl Default for WorkspacePathExists {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for WorkspacePathExists {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        match crate::__private::typed::<Args>(args) {
            Ok(args) => {
                let op = Op::FilesExists(FilesExists::new(args.path));
                super::perform(cx, &self.spec, op).await
            }
            Err(failure) => serialise::answer(cx, &self.spec, Err(failure)).await,
        }
    }
}
