//! The rendering tools: documents with pictures of the conversation and citations of its sources.

use annals_core::ids::TurnId;
use annals_runtime::{Agent, Attachment, Session, TurnRequest};
use annals_tools::rendering;
use serde_json::{Value, json};

use crate::common::{Bench, turn, turn_shape};

/// The smallest PNG that decoders take: one red pixel.
pub(crate) const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0,
    1, 8, 2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 12, b'I', b'D', b'A', b'T', 0x08, 0xd7, 0x63, 0xf8,
    0xcf, 0xc0, 0, 0, 3, 1, 1, 0, 0x18, 0xdd, 0x8d, 0xb0, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42,
    0x60, 0x82,
];

async fn agent(bench: &Bench, steps: Value) -> Agent {
    bench
        .builder(json!({ "steps": steps }))
        .tools(rendering::all(&annals_content::Content::new()))
        .build()
        .await
        .unwrap()
}

/// A first turn that leaves a picture (source 1) and a text (source 2) behind, and an OUT_DIR that was deleted.
async fn told(bench: &Bench, agent: &Agent) -> Session {
    let first = TurnRequest::new("Keep these")
        .turn_id(TurnId::parse("turn_1").unwrap())
        .attach(Attachment::new("chart.png", PNG));
    let session = agent.session("c").await.unwrap();
    let session = agent.run(session, first).await.unwrap().into_session();
    std::fs::remove_dir_all(bench.home.path().join("workspace/c/turn_1")).unwrap();
    session
}

fn keep() -> Value {
    json!({"tool_calls": [{"id": "w", "tool": "react.write",
        "params": {"path": "facts.md", "channel": "canvas", "content": "what the harbour office counted\n", "kind": "file"}}]})
}

fn render(id: &str, tool: &str, path: &str, content: &str) -> Value {
    json!({"id": id, "tool": format!("rendering_tools.{tool}"),
        "params": {"path": path, "content": content, "format": "markdown", "title": "Harbour"}})
}

#[tokio::test]
async fn one_report_in_four_forms_with_its_picture_and_its_sources() {
    let bench = Bench::new();
    let content = "# Harbour\n\n![chart](turn_1/attachments/chart.png)\n\nShips doubled [[S:2]], as the chart shows [[S:1]].\n";
    let agent = agent(
        &bench,
        json!([
            keep(),
            {"text": "Kept"},
            {"text": "Typesetting", "tool_calls": [
                render("pdf", "write_pdf", "report.pdf", content), render("png", "write_png", "report.png", content),
                render("docx", "write_docx", "report.docx", content), render("pptx", "write_pptx", "report.pptx", content)]},
            {"expect": ["[TOOL RESULT pdf].summary rendering_tools.write_pdf", "[TOOL RESULT pptx].artifact rendering_tools.write_pptx"],
             "text": "All four are ready"}
        ]),
    )
    .await;
    let session = told(&bench, &agent).await;
    let session = turn(&agent, session, "turn_2", "Print it").await;
    insta::assert_snapshot!(turn_shape(&session, "turn_2", &[]));
    for back in ["attachments/chart.png", "files/facts.md"] {
        let file = bench.home.path().join("workspace/c/turn_1").join(back);
        assert!(file.exists(), "`{back}` was brought back");
    }
}

#[tokio::test]
async fn what_a_document_lacks_is_told_and_the_document_is_made_all_the_same() {
    let bench = Bench::new();
    let content = "![gone](turn_1/files/gone.png)\n\nA claim [[S:2,9]].\n";
    let agent = agent(
        &bench,
        json!([
            keep(),
            {"text": "Kept"},
            {"tool_calls": [render("pdf", "write_pdf", "turn_1/files/report.pdf", content)]},
            {"expect": ["tool_call_error.missing_assets", "tool_call_warning.missing_sources"], "text": "Made, with gaps"}
        ]),
    )
    .await;
    let session = told(&bench, &agent).await;
    let session = turn(&agent, session, "turn_2", "Print it").await;
    insta::assert_snapshot!(turn_shape(&session, "turn_2", &[]));
}

#[tokio::test]
async fn content_by_reference_must_be_visible_and_a_document_that_cannot_be_made_says_why() {
    let bench = Bench::new();
    let call = |id: &str, path: &str, content: &str| json!({"tool_calls": [render(id, "write_docx", path, content)]});
    let agent = agent(
        &bench,
        json!([
            keep(),
            {"text": "Kept"},
            call("by", "facts.docx", "ref:fi:turn_1.files/facts.md"),
            call("unseen", "other.docx", "ref:fi:turn_1.files/other.md"),
            call("out", "../out.docx", "words"),
            {"tool_calls": [{"id": "deep", "tool": "rendering_tools.write_pdf", "params": {
                "path": "deep.pdf", "content": "<div>".repeat(1_200), "format": "html", "engine": "embedded"}}]},
            {"text": "One of four"}
        ]),
    )
    .await;
    let session = told(&bench, &agent).await;
    let session = turn(&agent, session, "turn_2", "Print it").await;
    insta::assert_snapshot!(turn_shape(&session, "turn_2", &[]));
}
