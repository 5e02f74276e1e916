//! Documents, with their pictures and sources.

use annals_core::turn::outcome::{Content, Outcome};
use annals_tools::rendering;
use serde_json::json;

use crate::stage::{Stage, codes, error_code};

/// The smallest PNG that decoders take: one red pixel.
const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0,
    1, 8, 2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 12, b'I', b'D', b'A', b'T', 0x08, 0xd7, 0x63, 0xf8,
    0xcf, 0xc0, 0, 0, 3, 1, 1, 0, 0x18, 0xdd, 0x8d, 0xb0, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42,
    0x60, 0x82,
];

fn stage() -> Stage {
    Stage::with(|_, _| {}, rendering::all(&annals_content::Content::new()))
}

fn warning(outcome: &Outcome) -> &str {
    outcome.artifacts[0]
        .digest
        .write_warning
        .as_deref()
        .unwrap_or("-")
}

/// The shape of the last call without sizes, which differ between versions of the layout engine.
fn shape(stage: &Stage) -> String {
    let mut shape = stage.shape();
    for marker in ["\"size_bytes\":", "<"] {
        let mut pieces = shape.split(marker).map(str::to_owned);
        let mut out = pieces.next().unwrap();
        for piece in pieces {
            out.push_str(marker);
            out.push_str(&format!(
                "N{}",
                piece.trim_start_matches(|c: char| c.is_ascii_digit())
            ));
        }
        shape = out;
    }
    shape
}

#[tokio::test]
async fn a_pdf_and_a_picture_are_shown_and_office_files_are_named() {
    let mut stage = stage();
    let content = "# Report\n\nSome *words*, a table:\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n";
    let mut shapes = Vec::new();
    for (tool, path) in [
        ("write_pdf", "report.pdf"),
        ("write_png", "report.png"),
        ("write_docx", "report.docx"),
        ("write_pptx", "report.pptx"),
    ] {
        let args = json!({"path": path, "content": content, "format": "markdown", "title": "A report"});
        let outcome = stage.call(&format!("rendering_tools.{tool}"), args).await;
        assert_eq!((codes(&outcome), error_code(&outcome)), (vec![], None), "{tool}");
        assert!(outcome.artifacts[0].file.hosted_uri.is_some());
        shapes.push(shape(&stage).lines().skip(1).collect::<Vec<_>>().join("\n"));
    }
    insta::assert_snapshot!(shapes.join("\n\n"));
}

#[tokio::test]
async fn pictures_of_earlier_turns_come_back_and_missing_ones_are_named() {
    let mut stage = stage();
    stage.put_on_disk("turn_1/files/plain.png", PNG);
    stage.begin("turn_2");
    stage.put_on_disk("turn_2/files/my chart.png", PNG);
    let content = "![a](turn_1/files/plain.png) ![b](my%20chart.png) ![c](turn_1/files/gone.png) ![d](https://example.com/x.png)\n";
    let outcome = stage
        .call(
            "rendering_tools.write_pdf",
            json!({"path": "r.pdf", "content": content}),
        )
        .await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["tool_call_error.missing_assets"], None)
    );
    assert_eq!(
        outcome.notices[0].facts["missing"],
        json!(["turn_1/files/gone.png"])
    );
    let warning = warning(&outcome);
    assert!(
        warning.contains("`turn_1/files/gone.png` not found") && warning.contains("remote image"),
        "{warning}"
    );
    assert!(
        !warning.contains("plain.png") && !warning.contains("chart"),
        "{warning}"
    );
}

#[tokio::test]
async fn citations_are_resolved_and_unknown_ones_are_named() {
    let mut stage = stage();
    stage.call("react.write", json!({"path": "source.md", "channel": "canvas", "content": "what the source says", "kind": "file"})).await;
    stage.clear_disk();
    stage.begin("turn_2");
    let content = "A claim [[S:1]] and another [[S:1,7]]. `[[S:9]]`";
    let outcome = stage
        .call(
            "rendering_tools.write_pdf",
            json!({"path": "r.pdf", "content": content}),
        )
        .await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["tool_call_warning.missing_sources"], None)
    );
    assert_eq!(outcome.notices[0].facts["missing"], json!([7]));
    assert_eq!(
        outcome.artifacts[0]
            .digest
            .sources_used
            .iter()
            .map(|sid| sid.get())
            .collect::<Vec<_>>(),
        [1]
    );
    assert_eq!(
        stage.disk("turn_1/files/source.md").as_deref(),
        Some("what the source says"),
        "file sources are rehosted"
    );
}

#[tokio::test]
async fn paths_are_rewritten_or_refused_as_everywhere() {
    let mut stage = stage();
    stage.begin("turn_2");
    let outcome = stage
        .call(
            "rendering_tools.write_pdf",
            json!({"path": "turn_1/files/r.pdf", "content": "words"}),
        )
        .await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["protocol_violation.path_rewritten"], None)
    );
    assert_eq!(
        outcome.artifacts[0].digest.artifact_path.as_str(),
        "fi:turn_2.files/r.pdf"
    );
    let outcome = stage
        .call(
            "rendering_tools.write_pdf",
            json!({"path": "../r.pdf", "content": "words"}),
        )
        .await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["tool_call_error"], Some("unsafe_path"))
    );
}

#[tokio::test]
async fn html_runs_no_scripts_and_reaches_nothing() {
    let canary = crate::server::Server::canary().await;
    let mut stage = stage();
    let content = format!(
        "<html><body><p>words</p><script>fetch('{0}')</script><img src='{0}a.png'><link rel=stylesheet href='{0}s.css'>\
         <iframe src='{0}'></iframe><img src='file:///etc/passwd'><object data='{0}'></object></body></html>",
        canary.url("/")
    );
    for (tool, path) in [
        ("write_pdf", "r.pdf"),
        ("write_png", "r.png"),
        ("write_docx", "r.docx"),
        ("write_pptx", "r.pptx"),
    ] {
        let args = json!({"path": path, "content": content, "format": "html"});
        let outcome = stage.call(&format!("rendering_tools.{tool}"), args).await;
        assert_eq!(error_code(&outcome), None, "{tool}");
    }
    assert_eq!(canary.connections(), 0);
}

#[tokio::test]
async fn a_document_that_cannot_be_made_is_an_error_with_its_path() {
    let mut stage = stage();
    let huge = "word ".repeat(1_000_000);
    let outcome = stage
        .call(
            "rendering_tools.write_docx",
            json!({"path": "r.docx", "content": huge}),
        )
        .await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["tool_result_error"], Some("document_too_large"))
    );
    assert_eq!(outcome.artifacts[0].content, Content::Absent);
    assert!(outcome.artifacts[0].digest.error.is_some());
    assert_eq!(stage.disk("turn_1/files/r.docx"), None);
    let odd = stage
        .call(
            "rendering_tools.write_pdf",
            json!({"path": "report", "content": "words"}),
        )
        .await;
    assert!(
        warning(&odd).contains("does not end in .pdf"),
        "{}",
        warning(&odd)
    );
    assert_eq!(*odd.artifacts[0].digest.mime, *"application/pdf");
}

#[tokio::test]
async fn pictures_are_found_under_any_name_and_bad_ones_are_told_apart() {
    let mut stage = stage();
    for (name, bytes) in [
        ("my chart (1).png", PNG),
        ("图表.png", PNG),
        ("empty.png", b"".as_slice()),
        ("page.png", b"<html>not a picture</html>"),
        ("broken.svg", b"<svg <"),
        (
            "linked.svg",
            b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
        ),
    ] {
        stage.put_on_disk(&format!("turn_1/files/{name}"), bytes);
    }
    stage.begin("turn_2");
    let content = "![a](turn_1/files/my chart (1).png) ![b](<turn_1/files/my chart (1).png>) \
                   ![c](turn_1/files/my%20chart%20(1).png \"A caption\") ![d](turn_1/files/图表.png)\n\n\
                   ![e](turn_1/files/empty.png) ![f](turn_1/files/page.png) ![g](turn_1/files/broken.svg) \
                   ![h](turn_1/files/linked.svg) [a link](turn_1/files/图表.png)";
    for tool in ["write_pdf", "write_docx", "write_pptx"] {
        let path = format!("r.{}", &tool["write_".len()..]);
        let outcome = stage
            .call(
                &format!("rendering_tools.{tool}"),
                json!({"path": path, "content": content}),
            )
            .await;
        assert_eq!((codes(&outcome), error_code(&outcome)), (vec![], None), "{tool}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(warning(&outcome).replace("; ", "\n"), @r"
            image `turn_1/files/empty.png` cannot be shown: it is empty
            image `turn_1/files/page.png` cannot be shown: it is neither PNG, JPEG, GIF, WebP nor SVG
            image `turn_1/files/broken.svg` cannot be shown: it is not valid SVG
            image `turn_1/files/linked.svg` shows `file:///etc/passwd`, which is left out: put the bytes into the drawing
            ");
        }
    }
}

#[tokio::test]
async fn an_empty_document_is_refused() {
    let mut stage = stage();
    let outcome = stage
        .call(
            "rendering_tools.write_pdf",
            json!({"path": "r.pdf", "content": " \n"}),
        )
        .await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["tool_call_error"], Some("empty_content"))
    );
}
