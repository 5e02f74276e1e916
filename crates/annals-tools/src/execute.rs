//! Running one call so that nothing it does can hurt the turn.
//!
//! A panic, a call that never returns and a cancelled turn all end as an [`Outcome`]. It must not validate
//! (see [`validate`](crate::validate)) and must not write blocks.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use annals_core::code::Code;
use annals_core::turn::outcome::{Notice, Outcome};
use serde_json::Value;
use tokio::task::{JoinError, JoinHandle};

use crate::cx::ToolCx;
use crate::failure::ToolFailure;
use crate::serialise;
use crate::spec::{Family, ToolSpec};
use crate::table::ToolTable;
use crate::tool::Tool;

/// A call whose tool declares no limit ends after this. Tools with limits of their own end before.
pub const CALL_TIMEOUT_DEFAULT_SECONDS: u64 = 900;
/// A call that was told to stop has this long to end its processes and say what it had done.
const GRACE_SECONDS: u64 = 5;

/// Runs a call with arguments that were checked before, to its end or to its limit.
///
/// The tool runs as a task of its own: one that blocks its thread does not block the turn. When the returned
/// future is dropped, the task is stopped at its next await.
pub async fn perform(tool: &Arc<dyn Tool>, cx: &ToolCx, args: Value) -> Outcome {
    let cancel = cx.cancel().child_token();
    let limit = tool
        .spec()
        .timeout()
        .unwrap_or(Duration::from_secs(CALL_TIMEOUT_DEFAULT_SECONDS));
    let mut task = Task(tokio::spawn({
        let (tool, cx) = (tool.clone(), cx.with_cancel(cancel.clone()));
        async move {
            // This task may have waited for a processor.
            match cx.may_act() {
                true => tool.run(&cx, args).await,
                false => not_run(tool.spec(), &cancelled()),
            }
        }
    }));
    let stopped = tokio::select! {
        biased;
        done = &mut task.0 => return ended(tool.spec(), done),
        () = cx.cancel().cancelled() => cancelled(),
        () = tokio::time::sleep(limit) => timed_out(limit),
    };
    cancel.cancel();
    // The tool's own account of what it had done is better than ours, if it comes soon.
    match tokio::time::timeout(Duration::from_secs(GRACE_SECONDS), &mut task.0).await {
        Ok(Ok(outcome)) => combined(tool.spec(), &stopped, outcome),
        Ok(Err(_)) | Err(_) => not_run(tool.spec(), &stopped),
    }
}

/// Stops its task when it is dropped.
struct Task(JoinHandle<Outcome>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn cancelled() -> ToolFailure {
    ToolFailure::new(Code::Cancelled, "the turn was cancelled while the tool ran")
}

fn timed_out(limit: Duration) -> ToolFailure {
    ToolFailure::new(
        Code::Timeout,
        format!(
            "the tool did not end within {} s and was stopped",
            limit.as_secs_f64()
        ),
    )
}

fn ended(spec: &ToolSpec, done: Result<Outcome, JoinError>) -> Outcome {
    match done {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => {
            let message = format!("the tool panicked: {}", panic_text(&*error.into_panic()));
            not_run(spec, &ToolFailure::new(Code::ToolExecutionException, message))
        }
        Err(_) => not_run(
            spec,
            &ToolFailure::new(Code::ToolExecutionException, "the tool was stopped"),
        ),
    }
}

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// A call that could not run to its end.
fn not_run(spec: &ToolSpec, failure: &ToolFailure) -> Outcome {
    let mut outcome = serialise::failed(failure);
    outcome.notices.extend(call_error(spec, failure));
    outcome
}

/// What the tool still said after it was stopped, with the reason why it was.
fn combined(spec: &ToolSpec, stopped: &ToolFailure, mut outcome: Outcome) -> Outcome {
    let mut error = stopped.shown();
    if let Some(said) = outcome.error.take().filter(|said| said.code != error.code) {
        error.message = format!("{} ({}: {})", error.message, said.code, said.message);
    }
    outcome.error = Some(error);
    outcome.notices.extend(call_error(spec, stopped));
    outcome
}

/// `tool_call_error`; exec tools say everything in their report.
fn call_error(spec: &ToolSpec, failure: &ToolFailure) -> Option<Notice> {
    (spec.family() != Family::Exec).then(|| {
        Notice::new(Code::ToolCallError, failure.message.clone())
            .with("error", failure.kind.clone())
            .with("tool_id", spec.name().as_str())
    })
}

/// What a call to a tool that does not exist gets.
pub fn unknown_tool(table: &ToolTable, name: &str) -> Outcome {
    let shown: String = name.chars().take(80).collect();
    let mut message = format!("there is no tool `{shown}`");
    match table.nearest(name) {
        Some(near) => message.push_str(&format!(": did you mean `{near}`?")),
        None => message.push_str(": call one of the tools you were offered"),
    }
    let failure = ToolFailure::new(Code::UnknownTool, message);
    let notice = Notice::new(Code::ViolationUnknownTool, failure.message.clone()).with("tool_id", shown);
    Outcome {
        notices: vec![notice],
        ..serialise::failed(&failure)
    }
}
