//! What a caller has open: the operations of the port, on the sandbox of its conversation.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals_sandbox::{
    ByteStream, Capabilities, Captured, ChangeLimits, Changes, Cmd, CodeResult, CodeRun, CommandResult,
    CommandRun, Encoding, EntryKind, Failure, FailureKind, FileContent, FileData, FileEntries, FileEntry,
    FileWriteResult, FilesExists, FilesList, FilesRead, FilesWrite, Language, Manifest, Op, OpResult,
    OpenError, Opening, Sandbox, SandboxSpec, Snapshot, TreePut, TreeSource,
};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::guest::{self, Call, Kind, Output, Report};
use crate::kernel;
use crate::mailbox::Mailbox;
use crate::owner;
use crate::remote::{Begun, Remote, Terms, refusal, run_file};
use crate::slot::Slot;
use crate::trees;

/// Bytes that travel within a call instead of as a file.
const INLINE_MAX_BYTES: usize = 32 << 10;
/// Lost sandboxes that one `put_tree` replaces before it gives up.
const REPLACEMENTS_MAX_COUNT: usize = 3;

/// One opening of a sandbox.
pub(crate) struct Handle {
    slot: Arc<Slot>,
    spec: SandboxSpec,
    mailbox: Option<Mailbox>,
    capabilities: Capabilities,
    closed: CancellationToken,
    counted: AtomicBool,
    /// The sandbox that has the folders of the spec.
    folders_made_in: tokio::sync::Mutex<Option<String>>,
}

impl Handle {
    pub(crate) async fn open(slot: Arc<Slot>, opening: Opening) -> Result<Self, OpenError> {
        slot.opened();
        let mut handle = Self {
            capabilities: Capabilities {
                workspace: String::new().into(),
                works_in_place: false,
                read_only_parts: false,
                languages: Vec::new(),
                layers: std::collections::BTreeSet::new(),
            },
            closed: slot.fenced.child_token(),
            mailbox: opening.context.map(Mailbox::new),
            spec: opening.spec,
            slot,
            counted: AtomicBool::new(true),
            folders_made_in: tokio::sync::Mutex::default(),
        };
        let remote = handle.slot.ensure().await?;
        let folders = handle.make_folders(&remote).await;
        folders.map_err(|failure| OpenError::Spec {
            reason: failure.message,
        })?;
        handle.capabilities.workspace = remote.facts.workspace.clone().into();
        handle.capabilities.languages = remote.facts.languages();
        Ok(handle)
    }

    /// Makes the folders that the spec lets be written, once in a sandbox.
    async fn make_folders(&self, remote: &Remote) -> Result<(), Failure> {
        let Some(folders) = self
            .spec
            .writable_subdirs
            .as_ref()
            .filter(|folders| !folders.is_empty())
        else {
            return Ok(());
        };
        let mut made_in = self.folders_made_in.lock().await;
        if made_in.as_deref() == Some(&remote.id) {
            return Ok(());
        }
        let workspace = Path::new(&remote.facts.workspace);
        let folders = folders.iter().map(|folder| relative(workspace, folder));
        let folders: Vec<String> = folders.collect::<Result<_, _>>()?;
        let arguments = std::iter::once(remote.facts.workspace.clone()).chain(folders);
        remote.ask("folders", arguments).await?;
        *made_in = Some(remote.id.clone());
        Ok(())
    }

    fn release(&self) {
        if self.counted.swap(false, Ordering::Relaxed) {
            self.slot.closed();
        }
    }

    /// The sandbox, unless this handle is closed or the sandbox is lost: only [`Sandbox::put_tree`] replaces one, so
    /// that nothing ever runs in a workspace whose files are gone.
    async fn remote(&self) -> Result<Arc<Remote>, Failure> {
        if self.closed.is_cancelled() {
            return Err(Failure::closed());
        }
        match self.slot.current().await {
            Some(remote) if remote.lost().is_none() => Ok(remote),
            Some(lost) => Err(lost.lost_failure()),
            None => Err(Failure::closed()),
        }
    }

    async fn workspace(&self) -> Result<(Arc<Remote>, String), Failure> {
        let remote = self.remote().await?;
        let workspace = remote.facts.workspace.clone();
        Ok((remote, workspace))
    }

    /// A path below the workspace, by its text alone; links are looked at inside.
    fn relative(&self, path: &str) -> Result<String, Failure> {
        relative(&self.capabilities.workspace, path)
    }

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

    async fn command(&self, op: CommandRun, cancel: &CancellationToken) -> Result<CommandResult, Failure> {
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

    async fn code(&self, op: CodeRun, cancel: &CancellationToken) -> Result<CodeResult, Failure> {
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
        let run = kernel::KernelRun {
            language: op.language,
            code: &op.code,
            cwd: &format!("{}/{cwd}", remote.facts.workspace),
            env: &self.env(remote, &op.env),
            timeout: op.timeout.unwrap_or(self.spec.limits.timeout),
            kept_bytes: self.spec.limits.output_kept_bytes,
        };
        kernel::run(remote, &run).await
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
        let head = [
            most.to_string(),
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

    async fn read(&self, op: FilesRead) -> Result<FileContent, Failure> {
        let path = self.relative(&op.path)?;
        let (remote, workspace) = self.workspace().await?;
        let most = self.spec.limits.read_bytes;
        let read = remote.ask("read", [workspace, path, most.to_string()]).await;
        let (bytes, _) = read.map_err(|failure| named(failure, &op.path))?;
        let data = match op.encoding {
            Encoding::Bytes => FileData::Bytes(bytes),
            Encoding::Utf8 => FileData::Text(String::from_utf8(bytes).map_err(|_| {
                unsupported(&format!(
                    "`{}` is not UTF-8 text; read it as bytes",
                    op.path.escape_debug()
                ))
            })?),
        };
        Ok(FileContent { data })
    }

    async fn write(&self, op: FilesWrite) -> Result<FileWriteResult, Failure> {
        let path = self.relative(&op.path)?;
        if path == "." {
            let message = format!("path `{}` names the workspace itself", op.path.escape_debug());
            return Err(Failure::new(FailureKind::PathViolation, message));
        }
        let (remote, workspace) = self.workspace().await?;
        let id = owner::call_id();
        let bytes_written = op.data.len() as u64;
        let has_base64 = remote.facts.programs.contains_key("base64");
        let content = if op.data.len() <= INLINE_MAX_BYTES && has_base64 {
            format!("={}", BASE64.encode(&op.data))
        } else {
            remote.upload(&run_file(&id, ".in"), 0o644, &op.data).await?;
            "@".to_owned()
        };
        let mode = format!("{:o}", op.mode & 0o777);
        let call = Call::new(id, "write", [workspace, path, mode, content]);
        remote
            .ask_call(call)
            .await
            .map_err(|failure| named(failure, &op.path))?;
        Ok(FileWriteResult { bytes_written })
    }

    async fn list(&self, op: FilesList) -> Result<FileEntries, Failure> {
        let path = self.relative(&op.path)?;
        let (remote, workspace) = self.workspace().await?;
        let listed = remote.ask("list", [workspace, path]).await;
        let (text, id) = listed.map_err(|failure| named(failure, &op.path))?;
        let text = String::from_utf8_lossy(&text);
        let mut entries: Vec<FileEntry> = guest::records(&text, &id, 3)
            .into_iter()
            .filter_map(|record| {
                let kind = kind(u32::from_str_radix(record[1], 16).ok()?);
                Some(FileEntry {
                    name: record[2].strip_prefix("./")?.to_owned(),
                    kind,
                    size_bytes: (kind == EntryKind::File)
                        .then(|| record[0].parse().ok())
                        .flatten(),
                })
            })
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let total = entries.len();
        entries.truncate(self.spec.limits.list_entries);
        Ok(FileEntries { entries, total })
    }

    async fn exists(&self, op: FilesExists) -> Result<bool, Failure> {
        let path = self.relative(&op.path)?;
        let (remote, workspace) = self.workspace().await?;
        let told = remote.ask("exists", [workspace, path]).await;
        let (told, _) = told.map_err(|failure| named(failure, &op.path))?;
        Ok(told.starts_with(b"1"))
    }

    async fn perform(&self, op: Op, cancel: &CancellationToken) -> Result<OpResult, Failure> {
        match op {
            Op::CommandRun(op) => self.command(op, cancel).await.map(OpResult::Command),
            Op::CodeRun(op) => self.code(op, cancel).await.map(OpResult::Code),
            Op::FilesExists(op) => self.unless(cancel, self.exists(op)).await.map(OpResult::Exists),
            Op::FilesRead(op) => self.unless(cancel, self.read(op)).await.map(OpResult::File),
            Op::FilesWrite(op) => self.unless(cancel, self.write(op)).await.map(OpResult::Written),
            Op::FilesList(op) => self.unless(cancel, self.list(op)).await.map(OpResult::Entries),
        }
    }

    /// What the future gives, unless the caller cancels or the sandbox is closed before.
    async fn unless<T>(
        &self,
        cancel: &CancellationToken,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(Failure::closed()),
            () = cancel.cancelled() => Err(Failure::cancelled()),
            done = work => done,
        }
    }
}

#[async_trait]
impl Sandbox for Handle {
    async fn dispatch(&self, op: Op, cancel: &CancellationToken) -> Result<OpResult, Failure> {
        if self.closed.is_cancelled() {
            return Err(Failure::closed());
        }
        if cancel.is_cancelled() {
            return Err(Failure::cancelled());
        }
        let result = self.perform(op, cancel).await;
        // Deleted by a later owner of the conversation, or by closing: that is no loss to be healed.
        match result {
            Err(failure) if self.closed.is_cancelled() && failure.kind == FailureKind::SandboxClosed => {
                Err(Failure {
                    partial: failure.partial,
                    ..Failure::closed()
                })
            }
            result => result,
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn put_tree(&self, manifest: &Manifest, source: &dyn TreeSource) -> Result<TreePut, Failure> {
        for path in manifest.0.keys() {
            let is_plain = !path.starts_with('/') && self.relative(path)? != ".";
            if !is_plain {
                let message = format!("path `{}` is no file below the workspace", path.escape_debug());
                return Err(Failure::new(FailureKind::PathViolation, message));
            }
        }
        let mut last = Failure::closed();
        for _ in 0..REPLACEMENTS_MAX_COUNT {
            if self.closed.is_cancelled() {
                return Err(Failure::closed());
            }
            let remote = self.slot.ensure().await.map_err(not_opened)?;
            let put = async {
                self.make_folders(&remote).await?;
                trees::put(&remote, manifest, source).await
            };
            match put.await {
                Err(failure) if remote.lost().is_some() => last = failure,
                put => {
                    let replaced = self.slot.take_replaced();
                    return put.map(|put| TreePut { replaced, ..put });
                }
            }
        }
        Err(last)
    }

    async fn snapshot(&self) -> Result<Snapshot, Failure> {
        let remote = self.remote().await?;
        trees::snapshot(&remote).await
    }

    async fn changed(&self, since: &Snapshot, limits: &ChangeLimits) -> Result<Changes, Failure> {
        let remote = self.remote().await?;
        trees::changed(&remote, since, limits).await
    }

    async fn get(&self, path: &str) -> Result<ByteStream, Failure> {
        let relative = self.relative(path)?;
        let (remote, workspace) = self.workspace().await?;
        let located = remote.ask("locate", [workspace, relative]).await;
        let (located, _) = located.map_err(|failure| named(failure, path))?;
        let located = String::from_utf8_lossy(&located).into_owned();
        let (size, physical) = located.split_once(' ').unwrap_or_default();
        let size = size
            .parse()
            .map_err(|_| unsupported("the sandbox did not tell the file's size"))?;
        Ok(remote.into_file(physical.to_owned(), size))
    }

    async fn close(&self) {
        self.closed.cancel();
        self.release();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.closed.cancel();
        self.release();
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

/// What a lost sandbox could not be replaced by.
fn not_opened(error: OpenError) -> Failure {
    match error {
        OpenError::Fenced { .. } => Failure::closed().detail(error.to_string()),
        error => Failure::new(FailureKind::SandboxClosed, error.to_string()),
    }
}

fn unsupported(message: &str) -> Failure {
    Failure::new(FailureKind::Unsupported, message)
}

fn timed_out(timeout: Duration) -> Failure {
    let message = format!(
        "it did not end within {} ms and was ended with all it had started",
        timeout.as_millis()
    );
    Failure::new(FailureKind::Timeout, message)
}

/// The failure, with the path that it is about.
fn named(failure: Failure, path: &str) -> Failure {
    let message = format!("`{}`: {}", path.escape_debug(), failure.message);
    match failure.kind {
        FailureKind::SandboxClosed => failure,
        _ => Failure { message, ..failure },
    }
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

fn kind(mode: u32) -> EntryKind {
    match mode & 0o170_000 {
        0o100_000 => EntryKind::File,
        0o040_000 => EntryKind::Directory,
        0o120_000 => EntryKind::Symlink,
        _ => EntryKind::Other,
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

fn relative(workspace: &Path, path: &str) -> Result<String, Failure> {
    let violation = |why: &str| {
        let message = format!("path `{}` {why}", path.escape_debug());
        Failure::new(FailureKind::PathViolation, message)
    };
    if path.is_empty() {
        return Err(violation("is empty; use `.` for the workspace itself"));
    }
    if path.contains('\0') {
        return Err(violation("contains a NUL character"));
    }
    let below = match Path::new(path).strip_prefix(workspace) {
        Ok(below) => below,
        Err(_) if path.starts_with('/') => {
            return Err(violation("is absolute; name files relative to the workspace"));
        }
        Err(_) => Path::new(path),
    };
    let mut parts = Vec::new();
    for component in below.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => parts.push(name.to_string_lossy()),
            _ => return Err(violation("leads upwards; name files below the workspace")),
        }
    }
    Ok(if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_the_workspace_or_refused() {
        let inside = |path: &str| relative(Path::new("/inside"), path).map_err(|failure| failure.kind);
        assert_eq!(inside("a/./b"), Ok("a/b".to_owned()));
        assert_eq!(inside("/inside/a"), Ok("a".to_owned()));
        assert_eq!(inside("."), Ok(".".to_owned()));
        for path in [
            "",
            "..",
            "a/../b",
            "/etc/passwd",
            "//etc",
            "a\0b",
            "/inside/../etc",
        ] {
            assert_eq!(inside(path), Err(FailureKind::PathViolation), "{path}");
        }
    }

    #[test]
    fn what_a_command_line_cannot_carry_is_handed_back() {
        assert_eq!(inline(b"text".to_vec()), Ok("text".to_owned()));
        assert_eq!(inline(b"nul\0".to_vec()), Err(b"nul\0".to_vec()));
        assert_eq!(inline(vec![0xff]), Err(vec![0xff]));
        assert!(inline(vec![b'x'; INLINE_MAX_BYTES + 1]).is_err());
    }
}
