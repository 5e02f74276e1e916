//! A session that meets hostile content of every door: each time the limit is named where the model or the person reads it,
//! and the same session goes on working in the same process.

mod common;
#[path = "../../annals-tools/src/web/tests/server.rs"]
#[allow(dead_code, reason = "not every kind of answer is needed here")]
mod server;

annals_sandbox::helpers_in_tests!(annals_content::init);

use std::io::Write as _;
use std::time::Duration;

use annals_content::{Content, Limits};
use annals_core::turn::TurnEnd;
use annals_runtime::{Attachment, TurnRequest};
use annals_sandbox::Isolation;
use annals_tools::rendering;
use annals_tools::web::WebFetch;
use annals_tools::web::egress::{EgressPolicy, Opened};
use annals_tools::web::fetch::{FetchLimits, Fetcher};
use common::{Bench, turn};
use serde_json::json;
use server::{Server, answer, target};

/// Bounds that other work on the machine does not bring nearer: processor time, stack, and time enough for everything.
fn limits() -> Limits {
    Limits {
        deadline: Duration::from_secs(300),
        stack_bytes: 2 << 20,
        ..Limits::default()
    }
}

/// The drawing as an address, every byte escaped.
fn inline(drawing: &str) -> String {
    let escaped: String = drawing.bytes().map(|byte| format!("%{byte:02x}")).collect();
    format!("![x](data:image/svg+xml,{escaped})")
}

fn render(id: &str, content: &str) -> serde_json::Value {
    json!({"tool_calls": [{"id": id, "tool": "rendering_tools.write_pdf",
        "params": {"path": format!("{id}.pdf"), "content": content, "format": "markdown", "title": "T"}}]})
}

/// A document whose one part unpacks to more than any document may.
fn bomb() -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    zip.start_file("word/document.xml", options).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..130 {
        zip.write_all(&zeros).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// What the model does: it meets each limit, and reads its name in the next request.
fn steps(site: &Server) -> serde_json::Value {
    let nested = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'>{}{}</svg>",
        "<svg>".repeat(541),
        "</svg>".repeat(541)
    );
    let doubling: String = (0..40)
        .map(|n| format!("<g id='g{n}'><use href='#g{0}'/><use href='#g{0}'/></g>", n + 1))
        .collect();
    let doubling = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'>{doubling}<rect id='g40' width='9' height='9'/></svg>"
    );
    let eight: Vec<String> = (0..8).map(|n| site.url(&format!("/rt{n}"))).collect();
    let fetch = |id: &str, urls: &[String]| json!({"tool_calls": [{"id": id, "tool": "web_tools.web_fetch", "params": {"urls": urls}}]});
    let expecting = |mut step: serde_json::Value, texts: &[&str]| {
        step["expect"] = json!(texts);
        step
    };
    json!([
        render("nested", &inline(&nested)),
        expecting(render("doubling", &inline(&doubling)), &["nests deeper than a stack of 2 MB"]),
        expecting(fetch("eight", &eight), &["comes to more than `100000` parts"]),
        expecting(fetch("one", &[site.url("/honest")]), &["it used more than 1.5 s of processor time"]),
        expecting(render("good", "# Fine\n\nwords"), &["It pulls **twice** a day."]),
        {"text": "All done", "expect": ["good.pdf"]},
        {"text": "Still here"},
    ])
}

fn answers(session: &annals_runtime::Session) -> Vec<String> {
    session.timeline(|timeline| {
        let blocks = timeline.blocks().iter();
        let answers = blocks.filter(|block| block.kind.tag() == "assistant.completion");
        answers
            .filter_map(|block| block.text().map(str::to_owned))
            .collect()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_limit_is_named_in_the_session_and_the_session_works_on() {
    let site = Server::start(|head| match target(head) {
        "/honest" => answer(200, "text/html", b"<p>It pulls <b>twice</b> a day.</p>"),
        _ => answer(200, "text/html", "<rt>".repeat(400_000).as_bytes()),
    })
    .await;
    let pages = Content::with(
        Limits {
            cpu: Duration::from_millis(1_500),
            ..limits()
        },
        Isolation::Full,
    );
    let fetcher = Fetcher::with_limits(
        EgressPolicy::new([Opened::parse(&site.address.to_string()).unwrap()]).unwrap(),
        pages,
        FetchLimits {
            time: Duration::from_secs(300),
            ..FetchLimits::default()
        },
    );
    let documents = Content::with(limits(), Isolation::Full);
    let steps = steps(&site);
    let bench = Bench::new();
    let agent = bench
        .builder(json!({ "steps": steps }))
        .content(documents.clone())
        .tools(rendering::all(&documents))
        .tool(WebFetch::new(fetcher))
        .build()
        .await
        .unwrap();
    let session = agent.session("c").await.unwrap();
    let session = turn(&agent, session, "turn_1", "Look at these").await;
    assert_eq!(answers(&session), ["All done"]);
    let made = bench.home.path().join("workspace/c/turn_1");
    assert!(std::fs::read_dir(made).unwrap().count() > 0);

    let refused = agent
        .run(
            session,
            TurnRequest::new("And this?").attach(Attachment::new("a.docx", bomb())),
        )
        .await
        .unwrap_err();
    let said = refused.error.to_string();
    assert!(said.contains("a.docx") && said.contains("unpack"), "{said}");
    let ended = agent
        .run(refused.session, TurnRequest::new("Are you there?"))
        .await
        .unwrap();
    assert_eq!(ended.end(), TurnEnd::Complete);
    assert_eq!(answers(&ended.into_session()), ["All done", "Still here"]);
}
