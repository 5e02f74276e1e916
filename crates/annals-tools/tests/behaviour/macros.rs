use std::time::Duration;

use annals_core::ids::TurnId;
use annals_tools::{
    Access, Effect, Family, Json, Notice, Resource, SpecError, State, Tool as _, ToolCx, ToolFailure,
    ToolOutput, ToolResult, ToolTable, ToolTableError, arguments, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

use crate::stage::{Stage, codes, json as answer};

#[derive(Deserialize, JsonSchema)]
struct AddOne {
    /// The number to add to.
    x: i64,
}

#[tool(name = "add_one", description = "Add 1 to x", crate = annals_tools)]
async fn add_one(_cx: &ToolCx, args: AddOne) -> ToolResult {
    Ok(json!(args.x + 1))
}

/// Which turn is running.
#[tool(name = "clock.turn", replayable, resource = "clock", timeout_s = 3, crate = annals_tools)]
async fn running_turn(cx: &ToolCx) -> ToolResult {
    Ok(json!(cx.turn().as_str()))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Unit {
    Metre,
    Foot,
}

#[derive(Deserialize, JsonSchema)]
struct Convert {
    #[serde(rename = "to")]
    unit: Unit,
    value: f64,
    digits: Option<u8>,
}

#[tool(crate = annals_tools, resource = "scale:{to}")]
async fn convert(_cx: &ToolCx, args: Convert) -> ToolResult {
    let factor = match args.unit {
        Unit::Metre => 0.3048,
        Unit::Foot => 1.0 / 0.3048,
    };
    let parsed: f64 = format!(
        "{:.*}",
        usize::from(args.digits.unwrap_or(2)),
        args.value * factor
    )
    .parse()?;
    Ok(json!({ "value": parsed }))
}

#[tokio::test]
async fn a_function_is_a_tool() {
    let mut stage = Stage::with(
        |_, _| {},
        vec![Arc::new(add_one), Arc::new(running_turn), Arc::new(convert)],
    );
    assert_eq!(answer(&stage.call("add_one", json!({"x": 41})).await), json!(42));
    assert_eq!(
        answer(&stage.call("clock.turn", json!({})).await),
        json!("turn_1")
    );
    assert_eq!(
        answer(&stage.call("convert", json!({"to": "metre", "value": 10.0})).await),
        json!({"value": 3.05})
    );
    let refused = stage.call("add_one", json!({"x": "many"})).await;
    assert_eq!(codes(&refused), ["protocol_violation.tool_signature_red"]);
}

#[test]
fn a_functions_declaration_comes_from_its_attribute_docs_and_type() {
    insta::assert_snapshot!(
        serde_json::to_string_pretty(&[add_one.spec().schema(), convert.spec().schema()]).unwrap()
    );
    let spec = running_turn.spec();
    assert_eq!(
        (spec.name().as_str(), spec.description()),
        ("clock.turn", "Which turn is running.")
    );
    assert_eq!(
        (spec.effect(), spec.family()),
        (Effect::Replayable, Family::Plain)
    );
    assert_eq!(spec.timeout(), Some(Duration::from_secs(3)));
    let turn = TurnId::parse("turn_1").unwrap();
    let writes = |name: &str| Some(Access::NOTHING.write(Resource::Named(name.into())));
    assert_eq!(running_turn.access(&turn, &json!({})), writes("clock"));
    assert_eq!(
        convert.access(&turn, &json!({"to": "foot"})),
        writes("scale:foot")
    );
    assert_eq!(add_one.access(&turn, &json!({})), None);
}

/// What two tools share.
struct Notebook {
    pages: std::sync::Mutex<Vec<String>>,
}

#[arguments(crate = annals_tools)]
struct Page {
    text: String,
    #[serde(default)]
    times: Option<u8>,
}

#[tool(name = "notebook.add", description = "Add a page", crate = annals_tools)]
async fn add_page(_cx: &ToolCx, notebook: State<Notebook>, page: Page) -> ToolResult<()> {
    if page.text.is_empty() {
        return Err(ToolFailure::new("empty_page", "give the page a text").into());
    }
    for _ in 0..page.times.unwrap_or(1) {
        notebook
            .pages
            .lock()
            .map_err(|_| "poisoned")?
            .push(page.text.clone());
    }
    Ok(())
}

#[tool(name = "notebook.print", description = "Print all pages", crate = annals_tools)]
async fn print_pages(_cx: &ToolCx, notebook: State<Notebook>) -> ToolResult<ToolOutput> {
    let pages = notebook.pages.lock().map_err(|_| "poisoned")?.join("\n");
    Ok(ToolOutput::text("printed")
        .file("pages/all.txt", pages)
        .notice(Notice::new("ink_low", "the ink is low")))
}

#[tokio::test]
async fn tools_share_a_state_and_leave_files_text_and_notices() {
    let notebook = State::new(Notebook {
        pages: std::sync::Mutex::default(),
    });
    let mut stage = Stage::with(
        |_, _| {},
        vec![
            Arc::new(add_page(notebook.clone())),
            Arc::new(print_pages(notebook)),
        ],
    );
    let added = stage
        .call("notebook.add", json!({"text": "one", "times": 2}))
        .await;
    assert_eq!(answer(&added), json!({"ok": true}));
    let refused = stage.call("notebook.add", json!({"text": ""})).await;
    assert_eq!(crate::stage::error_code(&refused), Some("empty_page"));
    let printed = stage.call("notebook.print", json!({})).await;
    assert_eq!(codes(&printed), ["ink_low"]);
    let annals_core::turn::outcome::Output::Payload(payload) = &printed.output else {
        panic!("no payload")
    };
    assert_eq!((&*payload.mime, &*payload.text), ("text/markdown", "printed"));
    assert_eq!(
        stage.disk("turn_1/files/pages/all.txt").as_deref(),
        Some("one\none")
    );
    assert_eq!(
        printed.artifacts[0].digest.artifact_path.as_str(),
        "fi:turn_1.files/pages/all.txt"
    );
}

#[tool(description = "Hand in the final figures", crate = annals_tools)]
async fn hand_in(_cx: &ToolCx, args: AddOne) -> ToolOutput {
    ToolOutput::value(json!({"total": args.x})).end_turn()
}

#[tokio::test]
async fn a_tool_can_end_the_turn_with_a_value() {
    let mut stage = Stage::with(|_, _| {}, vec![Arc::new(hand_in)]);
    let outcome = stage.call("hand_in", json!({"x": 7})).await;
    assert_eq!(answer(&outcome), json!({"total": 7}));
    let block = &outcome.beside[0];
    assert_eq!(block.kind, annals_core::block::BlockKind::AssistantCompletion);
    let answered = stage
        .tool_cx("tc_end")
        .timeline(|timeline| timeline.current_turn().is_some_and(|turn| turn.answer.is_some()));
    assert!(answered, "the turn machine ends a turn that has its answer");
}

#[derive(serde::Serialize)]
struct Figures {
    low: i64,
    high: i64,
}

#[tool(description = "A typed value", crate = annals_tools)]
async fn figures(_cx: &ToolCx) -> Result<Json<Figures>, Box<dyn std::error::Error>> {
    let low = "3".parse()?;
    Ok(Json(Figures { low, high: 9 }))
}

#[tool(description = "A file of the workspace", crate = annals_tools)]
async fn first_file(cx: &ToolCx) -> ToolResult<annals_sandbox::OpResult> {
    let read = annals_sandbox::Op::FilesRead(annals_sandbox::FilesRead::text("turn_1/files/notes.txt"));
    Ok(cx.dispatch(read).await??)
}

#[tokio::test]
async fn typed_values_are_json_and_sandbox_results_keep_their_shape() {
    let mut stage = Stage::with(
        |cx, workspace| {
            let backend = Arc::new(annals_sandbox::TrustedHost);
            cx.sandbox = Some(Arc::new(crate::stage::target(backend, workspace)));
        },
        vec![Arc::new(figures), Arc::new(first_file)],
    );
    assert_eq!(
        answer(&stage.call("figures", json!({})).await),
        json!({"low": 3, "high": 9})
    );
    let missing = stage.call("first_file", json!({})).await;
    assert_eq!(crate::stage::error_code(&missing), Some("file_not_found"));
    stage.put_on_disk("turn_1/files/notes.txt", b"milk");
    assert_eq!(
        answer(&stage.call("first_file", json!({})).await),
        json!({"data": "milk"})
    );
}

#[derive(Deserialize, JsonSchema)]
enum Choice {
    Yes,
    No,
}

#[tool(description = "Arguments that are no object", crate = annals_tools)]
async fn choose(_cx: &ToolCx, args: Choice) -> &'static str {
    match args {
        Choice::Yes => "yes",
        Choice::No => "no",
    }
}

#[test]
fn arguments_that_are_no_object_are_an_error_of_the_table_and_no_panic() {
    let refused = ToolTable::builder().add(choose).build().err();
    assert_eq!(
        refused,
        Some(ToolTableError::Spec(SpecError::NotAnObject {
            tool: "choose".to_owned()
        }))
    );
}
