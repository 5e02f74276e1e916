//! A stage of one's own: it notes what the person is interested in when a turn begins, refuses one tool, and
//! suggests what to ask next when the turn ends. What it contributes is on the timeline like everything else.

#![allow(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use annals::prelude::*;

#[tool(name = "delete_everything", description = "Delete everything")]
async fn delete_everything(_cx: &ToolCx) -> ToolResult {
    Ok(json!("gone"))
}

struct Careful;

#[async_trait]
impl Hooks for Careful {
    async fn turn_started(&self, cx: &HookCx, _timeline: &Timeline) -> Vec<NewBlock> {
        let turn = &cx.turn;
        let path = LogicalPath::stage(turn, "coordinator").expect("a plain name");
        vec![NewBlock::new(BlockKind::StageCoordinator, turn, path).text("text/plain", "prefers small steps")]
    }

    async fn before_call(&self, _cx: &HookCx, tool: &ToolSpec, _args: &Value) -> Verdict {
        match tool.name().as_str() {
            "delete_everything" => Verdict::Deny("nothing is deleted here: ask a person".to_owned()),
            _ => Verdict::Allow,
        }
    }

    async fn turn_ending(&self, cx: &HookCx, _timeline: &Timeline) -> Vec<NewBlock> {
        let turn = &cx.turn;
        let path = LogicalPath::stage(turn, "suggested_followups").expect("a plain name");
        vec![
            NewBlock::new(BlockKind::StageSuggestedFollowups, turn, path)
                .json(&json!(["What is left to do?"])),
        ]
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    annals::launcher::init();
    let data = tempfile::tempdir()?;
    let script = Script::of([
        ScriptStep::call("tc_1", "delete_everything", json!({})),
        ScriptStep {
            expect: vec!["prefers small steps".to_owned()],
            ..ScriptStep::text("I was not allowed to, and that is good.")
        },
    ]);
    let agent = Agent::builder()
        .model(ScriptModel::new("stage", script))
        .tool(delete_everything)
        .hooks(Careful)
        .home(data.path())
        .build()
        .await?;
    let turn = agent.run(agent.session("conv_1").await?, "Clean up").await?;
    println!("{}", turn.answer());
    let session = turn.into_session();
    session.timeline(|timeline| {
        for block in timeline
            .blocks()
            .iter()
            .filter(|block| block.kind.tag().starts_with("stage."))
        {
            println!("{}: {}", block.kind, block.text().unwrap_or_default());
        }
    });
    Ok(session.close().await?)
}
