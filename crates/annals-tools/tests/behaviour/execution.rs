use std::sync::Arc;
use std::time::Duration;

use annals_tools::{DynamicTool, Family, Tool, ToolFailure, ToolResult, ToolSpec, execute};
use serde_json::{Value, json};

use crate::stage::{Stage, codes, error_code, json as answer};

fn spec(name: &str) -> annals_tools::ToolSpecBuilder {
    ToolSpec::builder(name).timeout(Duration::from_millis(20))
}

fn tool(name: &str, body: impl Fn() -> annals_tools::ToolResult + Send + Sync + 'static) -> Arc<dyn Tool> {
    let body = Arc::new(body);
    Arc::new(DynamicTool::with_spec(
        ToolSpec::builder(name).build().unwrap(),
        move |_, _| {
            let body = body.clone();
            async move { body() }
        },
    ))
}

#[tokio::test]
async fn a_tool_that_panics_gives_a_result() {
    let mut stage = Stage::with(|_, _| {}, vec![tool("boom", || panic!("index out of bounds"))]);
    let outcome = stage.call("boom", json!({})).await;
    assert_eq!(codes(&outcome), ["tool_call_error"]);
    assert_eq!(
        serde_json::to_string(&answer(&outcome)).unwrap(),
        r#"{"ok":false,"error_kind":"tool_execution_exception","message":"the tool panicked: index out of bounds"}"#
    );
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_never_returns_ends_at_its_limit() {
    let forever = DynamicTool::with_spec(spec("forever").build().unwrap(), |_, _| async {
        std::future::pending::<()>().await;
        Ok(Value::Null)
    });
    let mut stage = Stage::with(|_, _| {}, vec![Arc::new(forever)]);
    let outcome = stage.call("forever", json!({})).await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["tool_call_error"], Some("timeout"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_listens_says_itself_what_it_had_done() {
    let polite = DynamicTool::with_spec(spec("polite").build().unwrap(), |cx, _| async move {
        cx.cancel().cancelled().await;
        Err::<Value, _>(ToolFailure::new("half_done", "wrote 3 of 5 rows").into())
    });
    let mut stage = Stage::with(|_, _| {}, vec![Arc::new(polite)]);
    let outcome = stage.call("polite", json!({})).await;
    assert_eq!(error_code(&outcome), Some("timeout"));
    assert!(
        outcome
            .error
            .as_ref()
            .unwrap()
            .message
            .ends_with("(half_done: wrote 3 of 5 rows)")
    );
    assert_eq!(answer(&outcome)["error_kind"], "half_done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_its_thread_does_not_block_the_turn() {
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let hog = DynamicTool::with_spec(spec("hog").build().unwrap(), move |_, _| {
        let blocked = blocked.clone();
        async move {
            let _ = blocked.lock().unwrap().recv();
            Ok(Value::Null)
        }
    });
    let stage = Stage::with(|_, _| {}, vec![Arc::new(hog)]);
    let (tool, cx) = (stage.table.get("hog").unwrap().clone(), stage.tool_cx("c1"));
    let running = tokio::spawn(async move { execute::perform(&tool, &cx, json!({})).await });
    // The turn goes on meanwhile, and is told to stop.
    tokio::task::yield_now().await;
    stage.cancel.cancel();
    release.send(()).unwrap();
    let outcome = running.await.unwrap();
    assert!(
        matches!(error_code(&outcome), None | Some("cancelled")),
        "{outcome:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_ends_its_tools() {
    let waits = DynamicTool::with_spec(ToolSpec::builder("waits").build().unwrap(), |_, _| async {
        std::future::pending::<()>().await;
        Ok(Value::Null)
    });
    let mut stage = Stage::with(|_, _| {}, vec![Arc::new(waits)]);
    stage.cancel.cancel();
    let outcome = stage.call("waits", json!({})).await;
    assert_eq!(error_code(&outcome), Some("cancelled"));
}

#[tokio::test]
async fn exec_tools_say_everything_in_their_report() {
    let spec = ToolSpec::builder("exec_tools.crash")
        .family(Family::Exec)
        .build()
        .unwrap();
    fn crashing() -> ToolResult {
        panic!("no")
    }
    let crash = DynamicTool::with_spec(spec, |_, _| async { crashing() });
    let mut stage = Stage::with(|_, _| {}, vec![Arc::new(crash)]);
    let outcome = stage.call("exec_tools.crash", json!({})).await;
    assert!(outcome.notices.is_empty() && outcome.error.is_some());
}

#[tokio::test]
async fn sixty_calls_run_at_once() {
    let barrier = Arc::new(tokio::sync::Barrier::new(60));
    let meets = DynamicTool::with_spec(ToolSpec::builder("meets").build().unwrap(), move |_, _| {
        let barrier = barrier.clone();
        async move {
            barrier.wait().await;
            Ok(json!(true))
        }
    });
    let stage = Stage::with(|_, _| {}, vec![Arc::new(meets)]);
    let tool = stage.table.get("meets").unwrap().clone();
    let calls: Vec<_> = (0..60)
        .map(|n| {
            let (tool, cx) = (tool.clone(), stage.tool_cx(&format!("c{n}")));
            tokio::spawn(async move { execute::perform(&tool, &cx, json!({})).await })
        })
        .collect();
    for call in calls {
        assert_eq!(answer(&call.await.unwrap()), json!({"ok": true}));
    }
}
