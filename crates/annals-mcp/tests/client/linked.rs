//! What a server's results link to is read by the model: through that server, by addresses that it gave out, and by the rules
//! about it.

use std::path::Path;
use std::sync::Arc;

use annals_core::block::{Block, BlockKind};
use annals_model::ScriptModel;
use annals_model::script::Script;
use annals_runtime::{Agent, AgentBuilder};
use serde_json::{Value, json};

use super::asking::Rules;
use super::turns::{Recorded, set};

fn read(resource: &str) -> Value {
    json!({"tool_calls": [{"tool": "mcp.read_resource", "params": {"resource": resource}}]})
}

fn effects(home: &Path) -> String {
    std::fs::read_to_string(home.join("mcp/servers/srv/effects")).unwrap_or_default()
}

/// What came of a turn of these steps, block by block, and what the model was sent.
async fn turn(
    home: &Path,
    steps: Vec<Value>,
    more: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> (Vec<Arc<Block>>, String) {
    let servers = set(home, "call-links-to-its-own");
    assert!(servers.accept_new().await.iter().all(Result::is_ok));
    let script = Script::parse(&json!({ "steps": steps }).to_string()).unwrap();
    let sent = Arc::default();
    let model = Recorded {
        script: ScriptModel::new("test", script),
        sent: Arc::clone(&sent),
    };
    let builder = Agent::builder()
        .model(model)
        .tool_source(Arc::new(servers))
        .home(home);
    let agent = more(builder).build().await.unwrap();
    let session = agent.session("c1").await.unwrap();
    let turn = agent.run(session, "Work.").await.unwrap();
    let blocks = turn.session().timeline(|timeline| timeline.blocks().to_vec());
    let sent = sent.lock().unwrap();
    (blocks, format!("{sent:?}"))
}

/// Code and text of the first result of each call.
fn results(blocks: &[Arc<Block>]) -> Vec<(Option<String>, String)> {
    let firsts = blocks
        .iter()
        .filter(|block| block.kind == BlockKind::ToolResult && block.meta().result_count.is_some());
    firsts
        .map(|block| {
            let code = block.meta().error.as_ref().map(|error| error.code.to_string());
            (code, block.text().unwrap_or_default().to_owned())
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_result_links_to_is_read_through_its_server_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let steps = vec![
        json!({"tool_calls": [{"tool": "srv.work", "params": {}}]}),
        read("mcp:srv/x://greeting"),
        read("mcp:srv/x://listed"),
        read("mcp:srv/"),
        read("mcp:srv/file:///etc/passwd"),
        read("https://example.org/paper"),
        json!({"text": "Done."}),
    ];
    let (blocks, sent) = turn(home.path(), steps, |builder| builder).await;
    let results = results(&blocks);
    assert_eq!(results.len(), 6, "{results:?}");
    let linked = &results[0].1;
    assert!(
        linked.contains("resource `A greeting`: mcp:srv/x://greeting (mcp.read_resource reads it)"),
        "{linked}"
    );
    assert!(
        linked.contains("resource `hidden`: x://hidden") && !linked.contains("mcp:srv/x://hidden"),
        "an address that was changed is nobody's: {linked}"
    );
    let rows = blocks.iter().flat_map(|block| block.meta().sources.iter());
    let rows: Vec<String> = rows
        .map(|row| format!("{:?} {}", row.source_type, row.url))
        .collect();
    assert!(
        rows.contains(&"Resource mcp:srv/x://greeting".to_owned()),
        "{rows:?}"
    );
    // Both were read, into files of the turn.
    let files = blocks.iter().filter_map(|block| {
        let path = block.path.as_ref()?.to_string();
        path.contains(".files/mcp/srv/").then_some(path)
    });
    let files: Vec<String> = files.collect();
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(
        files[0].ends_with("-1-greeting.bin") && files[1].ends_with("-1-listed.bin"),
        "{files:?}"
    );
    let listed = &results[3].1;
    assert!(
        listed.contains("mcp:srv/x://listed") && listed.contains("On the list."),
        "{listed}"
    );
    for refused in &results[4..] {
        assert_eq!(refused.0.as_deref(), Some("file_not_found"), "{refused:?}");
    }
    assert_eq!(effects(home.path()), "read x://greeting\nread x://listed\n");
    // What the server says to programs is kept beside its result, and no model reads it.
    let noted = blocks.iter().filter_map(|block| block.meta().server_meta());
    assert_eq!(noted.collect::<Vec<_>>(), [json!({"vendor/trace": "t1"})]);
    assert!(!sent.contains("vendor/trace"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_about_the_server_holds_for_what_it_links_to() {
    let home = tempfile::tempdir().unwrap();
    let rules = "default = \"allow-all\"\n[[rule]]\ntool = \"srv.read_resource\"\ndecide = \"deny\"\nwhy = \"not read\"\n";
    let steps = vec![read("mcp:srv/x://listed"), json!({"text": "Done."})];
    let (blocks, _) = turn(home.path(), steps, |builder| builder.policy(Rules(rules))).await;
    let results = results(&blocks);
    assert_eq!(results[0].0.as_deref(), Some("denied_by_policy"), "{results:?}");
    assert_eq!(effects(home.path()), "");
}
