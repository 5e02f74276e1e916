//! Programs and code in the sandbox: what they get, how they end, what is kept of their output.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annals_sandbox::{
    Captured, Cmd, CodeResult, CodeRun, CommandResult, CommandRun, Failure, FailureKind, Language,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::guest::{Call, Kind, Output, Report};
use crate::handle::Handle;
use crate::owner;
use crate::port::CodeRequest;
use crate::remote::{Begun, Remote, Terms, refusal, run_file, unsupported};

/// Bytes that travel within a call instead of as a file.
pub(crate) const INLINE_MAX_BYTES: usize = 32 << 10;

impl Handle {
    fn env(&self, remote: &Remote, own: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        if remote.facts.home.is_empty() {
            env.insert("HOME".to_owned(), remote.facts.workspace.clone());
        }
        if remote.facts.lang.is_empty() {
            env.insert("LANG".to_owned(), "C.UTF-8".to_owned());
        }
        if let Some(mailbox) = &self.mailbox {
            env.extend(mailbox.environment(&remote.facts.path));
        }
        env.extend(self.spec.env.clone());
        env.extend(own.clone());
        env
    }

    pub(crate) async fn command(
        &self,
        op: CommandRun,
        cancel: &CancellationToken,
    ) -> Result<CommandResult, Failure> {
        let (remote, _) = self.workspace().await?;
        let argv = match op.cmd {
            Cmd::Shell(line) => vec![remote.facts.shell().to_owned(), "-c".to_owned(), line],
            Cmd::Argv(argv) if argv.first().is_none_or(String::is_empty) => {
                return Err(unsupported("the command is empty; name a program"));
            }
            Cmd::Argv(argv) => argv,
        };
        let env = self.env(&remote, &op.env);
        let run = Run {
            argv,
            env,
            cwd: self.cwd(op.cwd.as_deref())?,
            stdin: op.stdin,
            source: None,
            timeout: op.timeout.unwrap_or(self.spec.limits.timeout),
        };
        self.run(&remote, run, cancel).await
    }

    pub(crate) async fn code(&self, op: CodeRun, cancel: &CancellationToken) -> Result<CodeResult, Failure> {
        let (remote, workspace) = self.workspace().await?;
        let cwd = self.cwd(op.cwd.as_deref())?;
        let Some(program) = remote.facts.programs.get(op.language.program()) else {
            return self.unless(cancel, self.code_in_kernel(&remote, &op, &cwd)).await;
        };
        let mut env = self.env(&remote, &op.env);
        if let Some(variable) = op.language.import_path_variable() {
            // The source lies in a place of its own; modules that programs wrote lie in the workspace.
            let path = env.entry(variable.to_owned()).or_default();
            let at = format!("{workspace}/{cwd}");
            *path = if path.is_empty() {
                at
            } else {
                format!("{path}:{at}")
            };
        }
        let run = Run {
            argv: vec![program.clone()],
            env,
            cwd,
            stdin: op.stdin,
            source: Some((op.language, op.code)),
            timeout: op.timeout.unwrap_or(self.spec.limits.timeout),
        };
        let result = self.run(&remote, run, cancel).await?;
        let error = (result.exit_code != 0).then(|| annals_sandbox::last_words(&result));
        Ok(CodeResult {
            exit_code: result.exit_code,
            text: None,
            stdout: result.stdout,
            stderr: result.stderr,
            error,
            elapsed_ms: result.elapsed_ms,
        })
    }

    async fn code_in_kernel(&self, remote: &Remote, op: &CodeRun, cwd: &str) -> Result<CodeResult, Failure> {
        if op.stdin.as_ref().is_some_and(|input| !input.is_empty()) {
            let language = op.language;
            return Err(unsupported(&format!(
                "{language} runs in a kernel here, which has no standard input"
            )));
        }
        let request = CodeRequest {
            language: op.language,
            code: &op.code,
            cwd: &format!("{}/{cwd}", remote.facts.workspace),
            env: &self.env(remote, &op.env),
            timeout: op.timeout.unwrap_or(self.spec.limits.timeout),
            kept_bytes: self.spec.limits.output_kept_bytes,
        };
        remote.daemon().run_code(&request).await
    }

    fn cwd(&self, cwd: Option<&str>) -> Result<String, Failure> {
        cwd.map_or(Ok(".".to_owned()), |cwd| self.relative(cwd))
    }

    async fn run(
        &self,
        remote: &Arc<Remote>,
        run: Run,
        cancel: &CancellationToken,
    ) -> Result<CommandResult, Failure> {
        check_words(&run.argv, &run.env)?;
        let started = Instant::now();
        let timeout = run.timeout;
        let program = run.argv.first().cloned().unwrap_or_default();
        let (call, terms) = self.prepared(remote, run).await?;
        let _mail = match &self.mailbox {
            Some(mailbox) => Some(mailbox.serve(remote, timeout).await?),
            None => None,
        };
        let mut guard = EndOnDrop {
            remote: Arc::clone(remote),
            id: call.id.clone(),
            begun: Arc::default(),
            armed: true,
        };
        let begun = Arc::clone(&guard.begun);
        let stopped = tokio::select! {
            biased;
            () = self.closed.cancelled() => Failure::closed(),
            () = cancel.cancelled() => Failure::cancelled(),
            () = tokio::time::sleep(timeout) => timed_out(timeout),
            report = remote.call(&call, &terms, &begun) => {
                guard.armed = false;
                let report = report?;
                return self.ended(remote, &call, &program, report, started).await;
            }
        };
        let report = remote.end(&call.id, &begun).await;
        guard.armed = false;
        let stopped = if self.closed.is_cancelled() {
            Failure::closed()
        } else {
            stopped
        };
        let Ok(report) = report else { return Err(stopped) };
        let partial = self.result(remote, &call, report, started).await;
        Err(match partial {
            Ok(partial) => stopped.partial(partial),
            Err(_) => stopped,
        })
    }

    /// The call of a run, with what is too large for it sent ahead.
    async fn prepared(&self, remote: &Remote, run: Run) -> Result<(Call, Terms), Failure> {
        let id = owner::call_id();
        let mut ahead = Vec::new();
        let stdin = match run.stdin {
            None => "-".to_owned(),
            Some(bytes) => match inline(bytes) {
                Ok(text) => format!("={text}"),
                Err(bytes) => {
                    ahead.push((run_file(&id, ".in"), bytes));
                    "@".to_owned()
                }
            },
        };
        let source = match run.source {
            None => "-".to_owned(),
            Some((language, code)) => match inline(code.into_bytes()) {
                Ok(text) => format!("={}={text}", language.file_name()),
                Err(bytes) => {
                    ahead.push((run_file(&id, ".source"), bytes));
                    format!("@{}", language.file_name())
                }
            },
        };
        if !ahead.is_empty() {
            let files: Vec<_> = ahead
                .iter()
                .map(|(path, bytes)| (path.as_str(), 0o644, &bytes[..]))
                .collect();
            remote.upload_all(&files).await?;
        }
        let most = self
            .spec
            .limits
            .output_total_bytes
            .saturating_add(1)
            .min(i64::MAX as u64);
        let limits = &self.spec.limits;
        let head = [
            most.to_string(),
            format!(
                "{} {} {}",
                limits.cpu_seconds,
                limits.file_bytes.div_ceil(512),
                limits.open_files
            ),
            remote.facts.workspace.clone(),
            run.cwd,
            stdin,
            source,
        ];
        let terms = Terms {
            env: run.env,
            timeout: Some(run.timeout),
        };
        Ok((Call::new(id, "run", head.into_iter().chain(run.argv)), terms))
    }

    async fn ended(
        &self,
        remote: &Remote,
        call: &Call,
        program: &str,
        report: Report,
        started: Instant,
    ) -> Result<CommandResult, Failure> {
        match report.kind {
            Kind::Exit | Kind::Ended => {}
            Kind::NoProgram => {
                let message = format!("there is no program `{program}` in the sandbox");
                return Err(Failure::new(FailureKind::FileNotFound, message));
            }
            refused => return Err(refusal(refused, "")),
        }
        let was_ended = report.kind == Kind::Ended;
        let result = self.result(remote, call, report, started).await?;
        let written = result.stdout.total_bytes() + result.stderr.total_bytes();
        let most = self.spec.limits.output_total_bytes;
        if written > most {
            let message = format!("the command wrote more than {most} bytes and was ended");
            return Err(Failure::new(FailureKind::OutputTooLarge, message).partial(result));
        }
        if was_ended {
            let message = "the command was ended from outside the sandbox";
            return Err(Failure::new(FailureKind::SandboxClosed, message).partial(result));
        }
        Ok(result)
    }

    async fn result(
        &self,
        remote: &Remote,
        call: &Call,
        report: Report,
        started: Instant,
    ) -> Result<CommandResult, Failure> {
        let kept = self.spec.limits.output_kept_bytes as u64;
        let size = report.stdout.size_bytes() + report.stderr.size_bytes();
        let stdout = captured(remote, &run_file(&call.id, "/out"), report.stdout, kept).await?;
        let stderr = captured(remote, &run_file(&call.id, "/err"), report.stderr, kept).await?;
        remote.finished(call.id.clone(), size);
        let signal = (report.number > 128 && report.number <= 128 + 64).then_some(report.number - 128);
        Ok(CommandResult {
            exit_code: report.number,
            signal,
            stdout,
            stderr,
            elapsed_ms: started.elapsed().as_millis() as u64,
        })
    }
}

/// A program to run, with all it gets.
struct Run {
    argv: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: String,
    stdin: Option<Vec<u8>>,
    source: Option<(Language, String)>,
    timeout: Duration,
}

/// Ends a call that nobody waits for any more. Hanging up alone does not.
struct EndOnDrop {
    remote: Arc<Remote>,
    id: String,
    begun: Arc<Begun>,
    armed: bool,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (remote, id, begun) = (Arc::clone(&self.remote), self.id.clone(), Arc::clone(&self.begun));
        runtime.spawn(async move {
            let _ = remote.end(&id, &begun).await;
        });
    }
}

fn timed_out(timeout: Duration) -> Failure {
    let message = format!(
        "it did not end within {} ms and was ended with all it had started",
        timeout.as_millis()
    );
    Failure::new(FailureKind::Timeout, message)
}

/// The bytes as a text that a command line can carry, or back.
fn inline(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    if bytes.len() > INLINE_MAX_BYTES || bytes.contains(&0) {
        return Err(bytes);
    }
    String::from_utf8(bytes).map_err(std::string::FromUtf8Error::into_bytes)
}

async fn captured(remote: &Remote, path: &str, output: Output, kept: u64) -> Result<Captured, Failure> {
    let size = output.size_bytes();
    let (head_bytes, tail_bytes) = (kept - kept / 2, kept / 2);
    match output {
        Output::Here(bytes) if size <= kept => Ok(bytes.into()),
        Output::Here(bytes) => {
            let tail = bytes[(size - tail_bytes) as usize..].to_vec();
            Ok(Captured::from_ends(
                bytes[..head_bytes as usize].to_vec(),
                tail,
                size,
            ))
        }
        Output::There(_) if size <= kept => Ok(remote.part(path, 0, size).await?.into()),
        Output::There(_) => {
            let head = remote.part(path, 0, head_bytes).await?;
            let tail = remote.part(path, size - tail_bytes, tail_bytes).await?;
            Ok(Captured::from_ends(head, tail, size))
        }
    }
}

fn check_words(argv: &[String], env: &BTreeMap<String, String>) -> Result<(), Failure> {
    if argv.iter().any(|argument| argument.contains('\0')) {
        return Err(unsupported("the command contains a NUL character"));
    }
    for (name, value) in env {
        if name.is_empty() || name.contains('=') || name.contains('\0') {
            let message = format!("`{}` is no name for an environment variable", name.escape_debug());
            return Err(unsupported(&message));
        }
        if value.contains('\0') {
            return Err(unsupported(&format!(
                "environment variable `{name}` contains a NUL character"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_line_cannot_carry_is_handed_back() {
        assert_eq!(inline(b"text".to_vec()), Ok("text".to_owned()));
        assert_eq!(inline(b"nul\0".to_vec()), Err(b"nul\0".to_vec()));
        assert_eq!(inline(vec![0xff]), Err(vec![0xff]));
        assert!(inline(vec![b'x'; INLINE_MAX_BYTES + 1]).is_err());
    }
}
