//! A conversation on a temporary disk, and calls made in it.

use std::sync::Arc;

use annals_core::block::{BlockKind, NewBlock};
use annals_core::ids::{CallId, ConversationId, Scope, TurnId};
use annals_core::path::{LogicalPath, PhysicalPath};
use annals_core::time::Timestamp;
use annals_core::turn::outcome::{Outcome, Output};
use annals_core::turn::round::{self, NewAnswer, NewCall};
use annals_sandbox::{Backend, LazySandbox, LocalTree, SandboxName, SandboxSpec};
use annals_store::{ArtifactStore, Workspace};
use annals_tools::{
    ConversationCx, SharedTimeline, Tool, ToolCx, ToolTable, execute, reference, tool, validate,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) struct Stage {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) cx: Arc<ConversationCx>,
    pub(crate) turn: TurnId,
    pub(crate) table: ToolTable,
    pub(crate) cancel: CancellationToken,
    calls: u32,
}

/// A sandbox of this backend on the files of this conversation.
pub(crate) fn target(backend: Arc<dyn Backend>, workspace: &Workspace) -> LazySandbox {
    let name = SandboxName::new(workspace.root().display().to_string(), 1);
    LazySandbox::new(backend, SandboxSpec::new(name)).local(LocalTree::at(workspace.root()))
}

impl Stage {
    /// An empty conversation in its first turn, `turn_1`, with all built-in tools.
    pub(crate) fn new() -> Self {
        Self::with(|_, _| {}, vec![])
    }

    pub(crate) fn with(
        change: impl FnOnce(&mut ConversationCx, &Workspace),
        tools: Vec<Arc<dyn Tool>>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path().join("out")).unwrap();
        let artifacts = ArtifactStore::open(dir.path().join("artifacts")).unwrap();
        let mut cx = ConversationCx::new(
            ConversationId::parse("c1").unwrap(),
            Scope::default(),
            SharedTimeline::default(),
            Arc::new(workspace.clone()),
            artifacts,
        );
        change(&mut cx, &workspace);
        let table = ToolTable::builder()
            .add_all(annals_tools::react::all())
            .add_all(annals_tools::system::all())
            .add_all(tools)
            .build()
            .unwrap();
        let turn = TurnId::parse("turn_1").unwrap();
        let mut stage = Stage {
            dir,
            cx: Arc::new(cx),
            turn,
            table,
            cancel: CancellationToken::new(),
            calls: 0,
        };
        stage.begin("turn_1");
        stage
    }

    /// The same conversation with an empty OUT_DIR of its own: what a fork, or another machine, starts with.
    #[allow(dead_code, reason = "the tests of files use it, and share this module")]
    pub(crate) fn elsewhere(&self, backend: Arc<dyn Backend>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path().join("out")).unwrap();
        let timeline = self.cx.timeline.read().unwrap().clone();
        let mut cx = ConversationCx::new(
            self.cx.conversation.clone(),
            self.cx.scope.clone(),
            Arc::new(std::sync::RwLock::new(timeline)),
            Arc::new(workspace.clone()),
            self.cx.artifacts.clone(),
        );
        cx.sandbox = Some(Arc::new(target(backend, &workspace)));
        Stage {
            dir,
            cx: Arc::new(cx),
            turn: self.turn.clone(),
            table: self.table.clone(),
            cancel: self.cancel.clone(),
            calls: self.calls,
        }
    }

    /// Begins another turn.
    pub(crate) fn begin(&mut self, turn: &str) {
        self.turn = TurnId::parse(turn).unwrap();
        let header = NewBlock::new(
            BlockKind::TurnHeader,
            &self.turn,
            LogicalPath::turn_header(&self.turn),
        );
        let prompt = NewBlock::new(
            BlockKind::UserPrompt,
            &self.turn,
            LogicalPath::user_prompt(&self.turn),
        );
        self.append(vec![header, prompt.text("text/plain", "please")]);
    }

    pub(crate) fn append(&self, blocks: Vec<NewBlock>) {
        let mut timeline = self.cx.timeline.write().unwrap();
        let timeline = Arc::make_mut(&mut timeline);
        for block in blocks {
            let ts = Timestamp::from_unix_millis(1_770_603_271_112);
            let block = block.seal(timeline.next_seq(), ts);
            timeline.push(Arc::new(block)).unwrap();
        }
    }

    pub(crate) fn tool_cx(&self, call: &str) -> ToolCx {
        ToolCx::new(
            self.cx.clone(),
            self.turn.clone(),
            CallId::parse(call).unwrap(),
            Timestamp::from_unix_millis(1_770_603_271_112),
            self.cancel.clone(),
        )
    }

    /// Makes a call as a model would: its blocks, the gate, the run, its results' blocks.
    pub(crate) async fn call(&mut self, name: &str, args: Value) -> Outcome {
        self.calls += 1;
        let id = format!("c{}", self.calls);
        let cx = self.tool_cx(&id);
        let tool = self
            .table
            .get(name)
            .unwrap_or_else(|| panic!("no tool `{name}`"))
            .clone();
        let call = NewCall {
            id: cx.call().clone(),
            tool: name.to_owned(),
            params: args.as_object().cloned().unwrap_or_default(),
            unreadable: None,
            cut: tool::cut_of(&*tool, &self.turn, cx.call(), &args),
        };
        let answer = NewAnswer {
            calls: vec![call],
            ..NewAnswer::default()
        };
        self.append(round::answer_blocks(&self.turn, self.calls, cx.now(), &answer));
        let outcome =
            match validate::read(&args.to_string()).and_then(|args| validate::check(tool.spec(), args)) {
                Err(violation) => violation.outcome(),
                Ok(checked) => match reference::resolve(&cx, checked.args).await {
                    Err(not_visible) => not_visible.outcome(),
                    Ok(args) => {
                        let mut outcome = execute::perform(&tool, &cx, args).await;
                        outcome.notices.splice(0..0, checked.notices);
                        outcome
                    }
                },
            };
        let blocks = {
            let timeline = self.cx.timeline.read().unwrap();
            round::outcome_blocks(&timeline, &self.turn, cx.call(), outcome.clone())
        };
        self.append(blocks);
        outcome
    }

    /// The blocks of the last call, one line each.
    pub(crate) fn shape(&self) -> String {
        let timeline = self.cx.timeline.read().unwrap();
        let last_call = timeline
            .blocks()
            .iter()
            .rposition(|block| block.kind == BlockKind::ToolCall)
            .unwrap();
        let lines = timeline.blocks()[last_call..].iter().map(|block| {
            let body = match (block.text(), block.blob()) {
                (Some(text), _) => text.replace('\n', "⏎"),
                (None, Some(blob)) => format!("<{} bytes>", blob.size_bytes),
                (None, None) => "-".to_owned(),
            };
            let path = block.path.as_ref().map_or("", |path| path.as_str());
            format!("{} {path} {} | {body}", block.kind, block.mime)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The text of the latest block at a path.
    pub(crate) fn shown(&self, path: &str) -> String {
        let timeline = self.cx.timeline.read().unwrap();
        let block = timeline.latest(&LogicalPath::parse(path).unwrap());
        block
            .and_then(|block| block.text())
            .unwrap_or_default()
            .to_owned()
    }

    pub(crate) fn disk(&self, path: &str) -> Option<String> {
        let path = PhysicalPath::parse(path).unwrap();
        self.cx
            .workspace
            .read(&path, 100_000_000)
            .ok()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn put_on_disk(&self, path: &str, bytes: &[u8]) {
        self.cx
            .workspace
            .write(&PhysicalPath::parse(path).unwrap(), bytes)
            .unwrap();
    }

    /// Deletes OUT_DIR's files, as anybody may at any time.
    pub(crate) fn clear_disk(&self) {
        for entry in self.cx.workspace.list().unwrap() {
            self.cx.workspace.remove(&entry.path).unwrap();
        }
    }

    pub(crate) async fn whole(&self, path: &str) -> String {
        let path = LogicalPath::parse(path).unwrap();
        let whole = annals_tools::content::whole(&self.cx, &path, Some(&self.turn))
            .await
            .unwrap();
        String::from_utf8(whole.bytes).unwrap()
    }
}

/// The JSON that answers a call.
pub(crate) fn json(outcome: &Outcome) -> Value {
    let payload = match &outcome.output {
        Output::Payload(payload) => Some(payload),
        _ => outcome.closing.as_ref(),
    };
    let payload = payload.unwrap_or_else(|| panic!("no payload: {:?}", outcome.output));
    serde_json::from_str(&payload.text).unwrap()
}

pub(crate) fn codes(outcome: &Outcome) -> Vec<&str> {
    outcome
        .notices
        .iter()
        .map(|notice| notice.code.as_str())
        .collect()
}

pub(crate) fn error_code(outcome: &Outcome) -> Option<&str> {
    outcome.error.as_ref().map(|error| error.code.as_str())
}

pub(crate) fn path(text: &str) -> LogicalPath {
    LogicalPath::parse(text).unwrap()
}
