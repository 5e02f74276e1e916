//! One run of code: its surroundings made ready, the code run exactly as written, its end told.

use std::sync::Arc;
use std::time::Duration;

use annals_core::block::ShownError;
use annals_core::code::Code;
use annals_core::limits;
use annals_core::turn::outcome::Notice;
use annals_sandbox::{Captured, CodeRun, Failure, FailureKind, Language, LazySandbox, Op, OpResult};

use super::context::Conversation;
use crate::cx::ToolCx;
use crate::mentioned;
use crate::tree::{self, Visit};

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ran {
    /// Why it failed; none when the code ran to its end and said so.
    pub(super) error: Option<ShownError>,
    /// What it printed.
    pub(super) stdout: Captured,
    /// What it printed as errors.
    pub(super) stderr: Captured,
    /// What the model should know of the working tree and the sandbox.
    pub(super) notices: Vec<Notice>,
}

impl Ran {
    fn not(code: Code, message: impl Into<String>) -> Self {
        Ran {
            error: Some(ShownError::new(code, message)),
            ..Ran::default()
        }
    }
}

/// Runs code in a sandbox of its own, in which only the current turn's files can be written.
pub(super) async fn run(cx: &ToolCx, language: Language, code: &str, timeout: Duration) -> Ran {
    let Some(target) = cx.sandbox_target() else {
        return Ran::not(
            Code::SandboxNotConfigured,
            "this session has no sandbox, and no code runs without one: start it with a sandbox target",
        );
    };
    let mut notices: Vec<Notice> = tree::restore(cx).await.into_iter().collect();
    // What the code names but nobody has is the code's to find out.
    mentioned::bring(cx, code).await;
    match inside(cx, target, language, code, timeout).await {
        Ok(ran) => {
            notices.extend(ran.notices);
            Ran { notices, ..ran }
        }
        Err(error) => Ran {
            error: Some(error),
            notices,
            ..Ran::default()
        },
    }
}

async fn inside(
    cx: &ToolCx,
    target: &LazySandbox,
    language: Language,
    code: &str,
    timeout: Duration,
) -> Result<Ran, ShownError> {
    let unavailable =
        |error: &dyn std::fmt::Display| ShownError::new(Code::SandboxNotAvailable, error.to_string());
    let mut opening = target
        .opening()
        .context(Arc::new(Conversation { cx: cx.clone() }));
    opening.spec.writable_subdirs = Some(vec![format!("{}/files", cx.turn())]);
    let limits = &mut opening.spec.limits;
    limits.cpu_seconds = limits.cpu_seconds.max(timeout.as_secs());
    let sandbox = target
        .open_another(opening)
        .await
        .map_err(|error| unavailable(&error))?;
    let out_dir = sandbox.capabilities().workspace.to_string_lossy().into_owned();
    let mut op = CodeRun::new(language, code).timeout(timeout);
    op.env
        .insert("FILES_DIR".into(), format!("{out_dir}/{}/files", cx.turn()));
    op.env.insert("OUT_DIR".into(), out_dir);
    // In OUT_DIR itself there is nothing to bring and nothing to fetch, and no walk is paid for.
    let is_elsewhere = !sandbox.capabilities().works_in_place;
    let visit = match is_elsewhere {
        true => Some(
            Visit::begin(cx, &sandbox)
                .await
                .map_err(|failure| unavailable(&failure))?,
        ),
        false => None,
    };
    let result = cx.dispatch_in(&*sandbox, Op::CodeRun(op)).await;
    let mut notices = Vec::new();
    if let Some(visit) = visit {
        match visit.fetch(cx).await {
            Ok(told) => notices = told,
            // A sandbox that died says so in the run's own result.
            Err(_) if result.is_err() => {}
            Err(failure) => return Err(unavailable(&failure)),
        }
    }
    sandbox.close().await;
    Ok(Ran {
        notices,
        ..ended(result, timeout)
    })
}

fn ended(result: Result<OpResult, Failure>, timeout: Duration) -> Ran {
    match result {
        Ok(OpResult::Code(result)) => {
            let error = result.error.map(|reason| {
                let message = match reason.as_str() {
                    reason if reason.contains("exit code") || reason.contains("signal") => reason.to_owned(),
                    reason => format!("{reason} (exit code {})", result.exit_code),
                };
                ShownError::new(Code::ExecutionFailed, message)
            });
            Ran {
                error,
                stdout: result.stdout,
                stderr: result.stderr,
                notices: Vec::new(),
            }
        }
        Ok(_) => Ran::not(
            Code::SandboxNotAvailable,
            "the sandbox answered something else than a run",
        ),
        Err(failure) => stopped(failure, timeout),
    }
}

fn stopped(failure: Failure, timeout: Duration) -> Ran {
    let message = match failure.kind {
        FailureKind::Timeout => {
            let most = limits::EXEC_TIMEOUT_MAX_SECONDS;
            let seconds = timeout.as_secs();
            format!(
                "the code did not end within {seconds} s and was ended with all it had started; timeout_s may be up to {most}"
            )
        }
        _ => failure.message,
    };
    let partial = failure.partial.map(|partial| *partial).unwrap_or_default();
    let error = Some(ShownError::new(failure.kind.as_str(), message));
    Ran {
        error,
        stdout: partial.stdout,
        stderr: partial.stderr,
        notices: Vec::new(),
    }
}
