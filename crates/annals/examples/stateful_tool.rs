//! Tools that share a state, leave a file, and end the turn with a value of their own.

#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::sync::Mutex;

use annals::prelude::*;

#[derive(Default)]
struct Ledger {
    entries: Mutex<Vec<(String, i64)>>,
}

#[arguments]
struct Entry {
    /// What it was for.
    purpose: String,
    /// In cents; negative when money went out.
    cents: i64,
}

/// Write one entry into the ledger.
#[tool(name = "ledger.add")]
async fn add_entry(_cx: &ToolCx, ledger: State<Ledger>, entry: Entry) -> ToolResult<()> {
    if entry.cents == 0 {
        return Err("an entry of nothing is no entry: give an amount".into());
    }
    let mut entries = ledger.entries.lock().map_err(|_| "the ledger is broken")?;
    entries.push((entry.purpose, entry.cents));
    Ok(())
}

/// Close the ledger: its entries as a file, its balance as the answer.
#[tool(name = "ledger.close")]
async fn close_ledger(_cx: &ToolCx, ledger: State<Ledger>) -> ToolResult<ToolOutput> {
    let entries = ledger.entries.lock().map_err(|_| "the ledger is broken")?;
    let lines: Vec<String> = entries
        .iter()
        .map(|(purpose, cents)| format!("{purpose},{cents}"))
        .collect();
    let balance: i64 = entries.iter().map(|(_, cents)| cents).sum();
    Ok(ToolOutput::value(json!({ "balance_cents": balance }))
        .file("ledger.csv", lines.join("\n"))
        .end_turn())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    annals::launcher::init();
    let data = tempfile::tempdir()?;
    let script = Script::of([
        ScriptStep::call("tc_1", "ledger.add", json!({"purpose": "books", "cents": -4200})),
        ScriptStep::call("tc_2", "ledger.add", json!({"purpose": "refund", "cents": 700})),
        ScriptStep::call("tc_3", "ledger.close", json!({})),
    ]);
    let ledger = State::new(Ledger::default());
    let agent = Agent::builder()
        .model(ScriptModel::new("ledger", script))
        .tool(add_entry(ledger.clone()))
        .tool(close_ledger(ledger))
        .home(data.path())
        .build()
        .await?;
    let turn = agent.run(agent.session("conv_1").await?, "Do the books").await?;
    println!("{} ({:?})", turn.answer(), turn.end());
    Ok(turn.into_session().close().await?)
}
