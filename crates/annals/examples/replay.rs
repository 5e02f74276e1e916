//! A turn replayed from its log: the script is made from the blocks, and the same things happen again.

#![allow(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use annals::model::ScriptCall;
use annals::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

/// Adds two numbers.
#[tool]
async fn add(_cx: &ToolCx, args: Add) -> ToolResult {
    Ok(json!(args.a + args.b))
}

/// What the model said in a conversation, as a script that says it again.
fn script_of(timeline: &Timeline) -> Script {
    let mut steps: Vec<ScriptStep> = Vec::new();
    for block in timeline.blocks() {
        match block.kind {
            BlockKind::ToolCall => {
                let call: Value = serde_json::from_str(block.text().unwrap_or_default()).unwrap_or_default();
                steps.push(ScriptStep {
                    tool_calls: vec![ScriptCall {
                        id: call["tool_call_id"].as_str().map(str::to_owned),
                        tool: call["tool_id"].as_str().unwrap_or_default().to_owned(),
                        params: Some(call["params"].clone()),
                        arguments: None,
                    }],
                    ..ScriptStep::default()
                });
            }
            BlockKind::AssistantCompletion => steps.push(ScriptStep::text(block.text().unwrap_or_default())),
            _ => {}
        }
    }
    Script::of(steps)
}

async fn play(script: Script, prompt: &str) -> Result<Session, Box<dyn std::error::Error>> {
    let data = tempfile::tempdir()?;
    // Time and ids follow from a seed, so the same inputs give the same bytes.
    let agent = Agent::builder()
        .model(ScriptModel::new("replay", script))
        .tool(add)
        .home(data.path())
        .world(World::seeded(7))
        .build()
        .await?;
    Ok(agent
        .run(agent.session("conv_1").await?, prompt)
        .await?
        .into_session())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    annals::launcher::init();
    let original = Script::of([
        ScriptStep::call("tc_1", "add", json!({"a": 20, "b": 22})),
        ScriptStep::text("It is 42."),
    ]);
    let first = play(original, "What is 20 + 22?").await?;
    let second = play(first.timeline(|view| script_of(view)), "What is 20 + 22?").await?;
    let shape = |session: &Session| {
        session.timeline(|timeline| {
            timeline
                .blocks()
                .iter()
                .map(|block| (block.kind.to_string(), block.text().map(str::to_owned)))
                .collect::<Vec<_>>()
        })
    };
    let is_same = shape(&first) == shape(&second);
    println!(
        "{} blocks, replayed {}",
        shape(&first).len(),
        if is_same { "the same" } else { "differently" }
    );
    if is_same {
        Ok(())
    } else {
        Err("the replay differs".into())
    }
}
