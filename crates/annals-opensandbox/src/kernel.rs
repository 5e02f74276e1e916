//! Code of a language whose interpreter is no program of the image, but a kernel behind execd.
//!
//! Each run gets a context of its own, so nothing of an earlier run is left in it. A kernel has neither standard input nor
//! exit codes, and what execd sends of it comes in any order: output, results and even the error may follow
//! `execution_complete`, so a stream counts only when it has ended. A run is not repeated when its stream breaks.

use std::collections::BTreeMap;

use annals_remote::{ApiError, CodeRequest};
use annals_sandbox::capture::Capture;
use annals_sandbox::{CodeResult, Failure, FailureKind, Language};
use tokio::time::Instant;

use crate::execd::Execd;

/// Runs code to its end, or to its bound.
pub(crate) async fn run(execd: &Execd, run: &CodeRequest<'_>) -> Result<CodeResult, Failure> {
    let started = Instant::now();
    let created = execd.create_context(run.language.as_str(), run.cwd).await;
    let context = created.map_err(|error| {
        let (language, program) = (run.language, run.language.program());
        let message = format!("the sandbox has neither `{program}` nor a {language} kernel: {error}");
        Failure::new(FailureKind::Unsupported, message)
    })?;
    let mut output = Collected::new(run.kept_bytes);
    let ran = tokio::time::timeout(run.timeout, in_context(execd, &context, run, &mut output)).await;
    if ran.is_err() {
        let _ = execd.interrupt_code(&context).await;
    }
    // What is left running in the context ends with it.
    let _ = execd.delete_context(&context).await;
    let elapsed_ms = started.elapsed().as_millis() as u64;
    match ran {
        Ok(Ok(())) => Ok(output.finish(elapsed_ms)),
        Ok(Err(failure)) => Err(failure),
        Err(_) => {
            let message = format!("the code did not end within {} ms", run.timeout.as_millis());
            let partial = output.finish(elapsed_ms);
            let partial = annals_sandbox::CommandResult {
                stdout: partial.stdout,
                stderr: partial.stderr,
                elapsed_ms,
                ..annals_sandbox::CommandResult::default()
            };
            Err(Failure::new(FailureKind::Timeout, message).partial(partial))
        }
    }
}

async fn in_context(
    execd: &Execd,
    context: &str,
    run: &CodeRequest<'_>,
    output: &mut Collected,
) -> Result<(), Failure> {
    let mut aside = Collected::new(0);
    execute(execd, context, &environment(run.language, run.env), &mut aside).await?;
    execute(execd, context, run.code, output).await
}

/// Code that sets variables; a context takes none.
fn environment(language: Language, env: &BTreeMap<String, String>) -> String {
    let json = serde_json::json!(env).to_string();
    match language {
        // A JSON text is a string literal of both languages once it is written as JSON again.
        Language::Python => {
            let literal = serde_json::json!(json);
            format!("import json, os\nos.environ.update(json.loads({literal}))")
        }
        Language::JavaScript => format!("Object.assign(process.env, {json});"),
        Language::Bash => {
            let quote = |text: &str| text.replace('\'', r"'\''");
            env.iter()
                .map(|(name, value)| format!("export {name}='{}'\n", quote(value)))
                .collect()
        }
    }
}

async fn execute(execd: &Execd, context: &str, code: &str, output: &mut Collected) -> Result<(), Failure> {
    let mut backoff = execd.backoff();
    loop {
        match attempt(execd, context, code, output).await {
            Ok(Attempt::Ended) => return Ok(()),
            // It was refused before it began.
            Ok(Attempt::Busy) => backoff.wait().await,
            Err(error) => {
                let message = format!("{error}; the code may have run and has not been repeated");
                return Err(Failure::new(FailureKind::SandboxClosed, message));
            }
        }
    }
}

enum Attempt {
    Ended,
    Busy,
}

async fn attempt(
    execd: &Execd,
    context: &str,
    code: &str,
    output: &mut Collected,
) -> Result<Attempt, ApiError> {
    let mut events = execd.code(context, code).await?;
    while let Some(event) = events.next().await? {
        let text = event.text.unwrap_or_default();
        match event.kind.as_deref() {
            Some("stdout") => output.stdout.push(text.as_bytes()),
            Some("stderr") => output.stderr.push(text.as_bytes()),
            Some("result") => {
                let results = event.results.unwrap_or_default();
                let told = results.get("text").or_else(|| results.get("text/plain"));
                output.text = told
                    .and_then(|told| told.as_str())
                    .map(str::to_owned)
                    .or(output.text.take());
            }
            Some("error") => {
                let error = event.error;
                output.error = Some(error.map_or(text, |error| format!("{}: {}", error.ename, error.evalue)));
            }
            Some(_) => {}
            None => {
                let message = event.message.unwrap_or_default();
                if message.contains("busy") {
                    return Ok(Attempt::Busy);
                }
                return Err(ApiError::Refused {
                    doing: "run the code",
                    status: 200,
                    code: event.code,
                    message,
                });
            }
        }
    }
    Ok(Attempt::Ended)
}

/// What code wrote, within a bound.
struct Collected {
    stdout: Capture,
    stderr: Capture,
    text: Option<String>,
    error: Option<String>,
}

impl Collected {
    fn new(kept_bytes: usize) -> Self {
        Self {
            stdout: Capture::new(kept_bytes),
            stderr: Capture::new(kept_bytes),
            text: None,
            error: None,
        }
    }

    fn finish(self, elapsed_ms: u64) -> CodeResult {
        CodeResult {
            exit_code: i32::from(self.error.is_some()),
            text: self.text,
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
            error: self.error,
            elapsed_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_set_by_code_of_the_language() {
        let env = BTreeMap::from([("A".to_owned(), "it's \"x\"\n".to_owned())]);
        assert_eq!(environment(Language::Bash, &env), "export A='it'\\''s \"x\"\n'\n");
        assert_eq!(
            environment(Language::JavaScript, &env),
            r#"Object.assign(process.env, {"A":"it's \"x\"\n"});"#
        );
        let python = environment(Language::Python, &env);
        assert!(
            python.ends_with(r#"json.loads("{\"A\":\"it's \\\"x\\\"\\n\"}"))"#),
            "{python}"
        );
    }
}
