//! `list_workspace_files`: one directory, not what lies below it.

use annals_core::turn::outcome::Outcome;
use annals_sandbox::{FilesList, Op};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::Uses;
use crate::cx::ToolCx;
use crate::serialise;
use crate::spec::{Effect, ToolSpec};
use crate::tool::Tool;

/// The tool.
pub struct ListWorkspaceFiles {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Args {
    #[serde(default = "top")]
    path: String,
}

impl ListWorkspaceFiles {
    /// `list_workspace_files`.
    pub fn new() -> Self {
        let spec = ToolSpec::builder("list_workspace_files")
            .description("List one directory of the workspace.")
            .effect(Effect::None)
            .reads(Uses::WorkspacePath("path".into()))
            .parameters(json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Relative to the workspace. Default: its top."},
                },
                "required": [],
                "additionalProperties": false,
            }))
            .build()
            .expect("a built-in's declaration is valid");
        ListWorkspaceFiles { spec }
    }
}

impl Default for ListWorkspaceFiles {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for ListWorkspaceFiles {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        match crate::__private::typed::<Args>(args) {
            Ok(args) => {
                let op = Op::FilesList(FilesList::new(args.path));
                super::perform(cx, &self.spec, op).await
            }
            Err(failure) => serialise::answer(cx, &self.spec, Err(failure)).await,
        }
    }
}

fn top() -> String {
    ".".to_owned()
}
