//! A conversation on a temporary disk, a server beside it, and calls to its tools.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use annals_core::block::{BlockKind, NewBlock};
use annals_core::ids::{CallId, ConversationId, Scope, TurnId};
use annals_core::path::LogicalPath;
use annals_core::redact::Secrets;
use annals_core::time::Timestamp;
use annals_core::turn::outcome::{Outcome, Output};
use annals_mcp::connection::Patience;
use annals_mcp::{Pins, RemoteServer, Servers, tool};
use annals_store::{ArtifactStore, Workspace};
use annals_tools::{ConversationCx, SharedTimeline, Tool, ToolCx, execute};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) struct Stage {
    pub(crate) folder: tempfile::TempDir,
    cx: Arc<ConversationCx>,
    pub(crate) cancel: CancellationToken,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path().join("out")).unwrap();
        let artifacts = ArtifactStore::open(folder.path().join("artifacts")).unwrap();
        let cx = ConversationCx::new(
            ConversationId::parse("c1").unwrap(),
            Scope::default(),
            SharedTimeline::default(),
            Arc::new(workspace),
            artifacts,
        );
        let turn = TurnId::parse("turn_1").unwrap();
        {
            let mut timeline = cx.timeline.write().unwrap();
            let timeline = Arc::make_mut(&mut timeline);
            let header = NewBlock::new(BlockKind::TurnHeader, &turn, LogicalPath::turn_header(&turn));
            let block = header.seal(timeline.next_seq(), Timestamp::from_unix_millis(1));
            timeline.push(Arc::new(block)).unwrap();
        }
        Stage {
            folder,
            cx: Arc::new(cx),
            cancel: CancellationToken::new(),
        }
    }

    /// A server of this entry of the common form, called `srv`.
    pub(crate) fn server(&self, entry: &Value) -> RemoteServer {
        let list = json!({"mcpServers": {"srv": entry}}).to_string();
        let servers = Servers::from_json(&list).unwrap();
        let config = servers.get("srv").unwrap().clone();
        RemoteServer::new(config, self.folder.path().join("servers"), Secrets::new())
    }

    pub(crate) fn cx(&self) -> ToolCx {
        ToolCx::new(
            self.cx.clone(),
            TurnId::parse("turn_1").unwrap(),
            CallId::parse("tc_1").unwrap(),
            Timestamp::from_unix_millis(1_770_603_271_112),
            self.cancel.clone(),
        )
    }

    /// Calls a tool as a turn does.
    pub(crate) async fn call(&self, tools: &[Arc<dyn Tool>], name: &str, args: Value) -> Outcome {
        let tool = tools.iter().find(|tool| tool.spec().name().as_str() == name);
        let tool = tool.unwrap_or_else(|| panic!("there is no tool `{name}`"));
        execute::perform(tool, &self.cx(), args).await
    }
}

/// Short bounds; the paths through the code are those of long ones.
pub(crate) fn patience() -> Patience {
    Patience {
        startup: Duration::from_secs(30),
        idle: Duration::from_millis(1_500),
        total: Duration::from_secs(4),
    }
}

/// The tools of a server that were accepted.
pub(crate) fn tools(server: &Arc<RemoteServer>, pins: &Pins) -> Vec<Arc<dyn Tool>> {
    let (tools, _) = tool::tools(server, pins);
    tools
        .into_iter()
        .map(|tool| Arc::new(tool) as Arc<dyn Tool>)
        .collect()
}

/// Everything of an outcome that the model reads.
pub(crate) fn read(outcome: &Outcome) -> String {
    let mut read: Vec<String> = outcome
        .notices
        .iter()
        .map(|notice| notice.message.clone())
        .collect();
    if let Output::Payload(payload) = &outcome.output {
        read.push(payload.text.to_string());
    }
    read.extend(
        outcome
            .error
            .iter()
            .map(|error| format!("{}: {}", error.code, error.message)),
    );
    read.join("\n")
}

/// Waits until a file has these words in it.
pub(crate) async fn until(file: &Path, words: &str) {
    let has_come = async {
        while !std::fs::read_to_string(file).is_ok_and(|text| text.contains(words)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let came = tokio::time::timeout(Duration::from_secs(30), has_come).await;
    assert!(came.is_ok(), "`{words}` did not come into {}", file.display());
}

/// How a Python server is started in the sandbox.
pub(crate) fn python(script: &Path, args: &[&str]) -> Value {
    let script = script.canonicalize().unwrap();
    let argv: Vec<&str> = std::iter::once(script.to_str().unwrap())
        .chain(args.iter().copied())
        .collect();
    json!({"command": "python3", "args": argv, "read": [script.parent().unwrap()]})
}
