//! Secrets: in no block, no view and no delta; with the tools that declare them, and with no other.

mod common;

annals_sandbox::helpers_in_tests!(annals_content::init);

use std::sync::Arc;

use annals_core::redact::Secrets;
use annals_runtime::{Attachment, TurnRequest, Update};
use annals_sandbox::{CommandRun, Op, OpResult, Registry};
use annals_tools::{DynamicTool, Tool, ToolCx, ToolSpec};
use common::{Bench, Heard};
use serde_json::{Value, json};

const VALUE: &str = "hunter2/hunter2\"é";

fn secrets() -> Secrets {
    let mut secrets = Secrets::new();
    secrets.insert("DB_PASSWORD", VALUE).unwrap();
    secrets
}

/// A tool that tells the secret it can reach: from its surroundings, and from a command that it runs.
fn teller(
    name: &str,
    spec: impl FnOnce(annals_tools::spec::ToolSpecBuilder) -> annals_tools::spec::ToolSpecBuilder,
) -> Arc<dyn Tool> {
    let spec = spec(ToolSpec::builder(name).description("Tells"))
        .build()
        .unwrap();
    let body = |cx: ToolCx, _: Value| async move {
        let direct = cx.secret("DB_PASSWORD").map(|value| value.len());
        let print = CommandRun::shell("printf %s \"$DB_PASSWORD\" | wc -c; printf %s \"$DB_PASSWORD\"");
        let ran = cx.dispatch(Op::CommandRun(print)).await?;
        let Ok(OpResult::Command(ran)) = ran else {
            return Ok(json!({"direct": direct, "ran": format!("{ran:?}")}));
        };
        Ok(json!({"direct": direct, "output": ran.stdout.text()}))
    };
    Arc::new(DynamicTool::with_spec(spec, body))
}

/// All deltas, one after the other.
fn told(heard: &Heard) -> String {
    let heard = heard.0.lock().unwrap();
    let deltas = heard.iter().filter_map(|update| match update {
        Update::Delta(delta) => Some(delta.text.as_str()),
        _ => None,
    });
    deltas.collect()
}

#[tokio::test]
async fn a_secret_reaches_the_tool_that_declares_it_and_is_written_nowhere() {
    let bench = Bench::new();
    let call = |tool: &str| json!({"id": tool, "tool": tool, "params": {"note": format!("with {VALUE}")}});
    let any = json!({"type": "object"});
    let tools = vec![
        teller("declares", |spec| {
            spec.parameters(any.clone()).secret("secret:DB_PASSWORD")
        }),
        teller("does_not", |spec| spec.parameters(any.clone())),
    ];
    let script = json!({"steps": [
        {"thinking": format!("I know {VALUE}"), "text": format!("Using {VALUE} now"),
         "tool_calls": [call("declares"), call("does_not")]},
        {"text": format!("The password is {VALUE}, and sk-ant-api03-0123456789abcdefghijklmnop a key."), "chunk_ms": 0},
    ]});
    let agent = bench
        .builder(script)
        .tools(tools)
        .secrets(secrets())
        .sandbox(Registry::default().get("trusted-host").unwrap())
        .build()
        .await
        .unwrap();
    let heard = Heard::default();
    let request = TurnRequest::new(format!("Use {VALUE}, please"))
        .attach(Attachment::new("notes.txt", format!("line\n{VALUE}\n")))
        .listen(heard.listener());
    let turn = agent
        .run(agent.session("c").await.unwrap(), request)
        .await
        .unwrap();
    let session = turn.into_session();
    let (blocks, view): (Vec<String>, String) = session.timeline(|timeline| {
        let blocks = timeline
            .blocks()
            .iter()
            .map(|block| format!("{block:?}"))
            .collect();
        (blocks, format!("{:?}", timeline.pool()))
    });
    let all = blocks.join("\n");
    assert!(!all.contains("hunter2") && !all.contains("sk-ant"), "{all}");
    assert!(!view.contains("hunter2"), "{view}");
    for kept in [
        "with [secret:DB_PASSWORD]",
        "Using [secret:DB_PASSWORD] now",
        "[secret:anthropic] a key",
    ] {
        assert!(all.contains(kept), "`{kept}` is not in {all}");
    }
    let result = |tool: &str| {
        let path = format!("{tool}.result");
        blocks
            .iter()
            .find(|block| block.contains(&path) && block.contains("direct"))
            .cloned()
            .unwrap_or_default()
    };
    let length = VALUE.len();
    assert!(
        result("declares").contains(&format!("{length}")),
        "{}",
        result("declares")
    );
    assert!(result("does_not").contains("null"), "{}", result("does_not"));
    // Deltas are pieces: the value must not be in what they make together either.
    let told = told(&heard);
    assert!(
        told.contains("The password is [secret:DB_PASSWORD], and"),
        "{told}"
    );
    assert!(!told.contains("hunter2") && !told.contains("sk-ant"), "{told}");
}

#[tokio::test]
async fn an_attachment_says_what_is_in_it_and_its_text_can_be_read() {
    use std::io::Write as _;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text) in [
        ("[Content_Types].xml", "<Types/>"),
        (
            "word/document.xml",
            "<w:document><w:p><w:r><w:t>Tides of 2025</w:t></w:r></w:p></w:document>",
        ),
    ] {
        zip.start_file(name, zip::write::SimpleFileOptions::default())
            .unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    let docx = zip.finish().unwrap().into_inner();
    let bench = Bench::new();
    let read = json!({"paths": ["ar:turn_1.user.attachment.text.1"]});
    let agent = bench
        .agent(json!([
            {"expect": ["Tides of 2025", "document, 3 words", "table, 1 row, 2 columns: month, net"],
             "tool_calls": [{"id": "tc_1", "tool": "react.read", "params": read}]},
            {"text": "Read."},
        ]))
        .await;
    let request = TurnRequest::new("What is in them?")
        .turn_id(annals_core::ids::TurnId::parse("turn_1").unwrap())
        .attach(Attachment::new("tides.docx", docx))
        .attach(Attachment::new("sales.csv", "month,net\njan,3\n"));
    let turn = agent
        .run(agent.session("c").await.unwrap(), request)
        .await
        .unwrap();
    assert_eq!(turn.answer(), "Read.");
    let shape = common::shape(&turn.into_session());
    assert!(
        shape.contains("user.attachment.text ar:turn_1.user.attachment.text.1 Tides of 2025"),
        "{shape}"
    );
}

/// A model that cannot call tools writes its calls as text; everything else is the same.
#[test]
fn every_sequence_is_the_same_in_the_timeline_layout() {
    annals_requirements::again_in_the_timeline_layout(&[]);
}

/// A title is stored beside the conversation and shown in every list; a prompt may lie in the inbox for long.
#[tokio::test]
async fn a_title_and_a_waiting_prompt_do_not_keep_a_secret() {
    let bench = Bench::new();
    let agent = bench
        .builder(json!({"steps": []}))
        .secrets(secrets())
        .build()
        .await
        .unwrap();
    let session = agent
        .new_session(Some(format!("Use {VALUE}, please")))
        .await
        .unwrap();
    let id = session.id().clone();
    session.close().await.unwrap();
    let key = agent.key(&id);
    let title = agent.log().get(&key).await.unwrap().title.unwrap();
    assert_eq!(title, "Use [secret:DB_PASSWORD], please");
    // Whoever cuts a title asks before cutting: half a secret is not recognised.
    let cut: String = agent
        .redact(&format!("My password is {VALUE}"))
        .chars()
        .take(20)
        .collect();
    assert!(!cut.contains("hunter"), "{cut}");

    agent
        .conversation(&id)
        .only_posting()
        .post(format!("Use {VALUE}, please"))
        .await
        .unwrap();
    let waiting = agent.log().pending(&key).await.unwrap();
    let waiting = String::from_utf8_lossy(&waiting[0].post.body);
    assert!(waiting.contains("[secret:DB_PASSWORD], please"), "{waiting}");
    assert!(!waiting.contains("hunter2"), "{waiting}");
}
