//! A sandbox of processes on this machine: the common body of [`crate::local`] and [`crate::trusted_host`], which
//! differ only in the isolation layers they ask for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, FailureKind};
use crate::files::FileOps;
use crate::interpreters;
use crate::language::Language;
use crate::last_words::last_words;
use crate::ops::{Cmd, CodeResult, CodeRun, CommandResult, CommandRun, Op, OpResult};
use crate::owners::Claim;
use crate::process::client::{Running, SupervisorHandle};
use crate::process::wire::{Moment, RunRequest, Source};
use crate::sandbox::{Capabilities, Sandbox};
use crate::spec::SandboxSpec;
use crate::transfer;
use crate::tree::{ByteStream, ChangeLimits, Changes, Manifest, Snapshot, TreePut, TreeSource};

/// File operations of one sandbox that run at once; more would only queue in the kernel.
const FILE_OPERATIONS_AT_ONCE: usize = 16;

/// A supervisor of processes, a workspace, and what every command gets.
pub(crate) struct HostSandbox {
    pub(crate) spec: SandboxSpec,
    pub(crate) files: Arc<FileOps>,
    /// A workspace that nobody placed; removed with the sandbox.
    pub(crate) _own_directory: Option<tempfile::TempDir>,
    /// Ends this sandbox when a later owner opens one.
    pub(crate) _claim: Claim,
    pub(crate) supervisor: SupervisorHandle,
    pub(crate) capabilities: Capabilities,
    /// Environment of every command, before its own.
    pub(crate) env: BTreeMap<String, String>,
    /// The program of each language as seen from inside.
    pub(crate) programs: BTreeMap<Language, PathBuf>,
    pub(crate) shell: PathBuf,
    pub(crate) pipe_owner: Option<u32>,
    pub(crate) file_slots: Semaphore,
    pub(crate) closed: CancellationToken,
}

impl HostSandbox {
    pub(crate) fn file_slots() -> Semaphore {
        Semaphore::new(FILE_OPERATIONS_AT_ONCE)
    }

    fn check_open(&self) -> Result<(), Failure> {
        if self.closed.is_cancelled() {
            return Err(Failure::closed());
        }
        Ok(())
    }

    async fn on_files<T: Send + 'static>(
        &self,
        cancel: &CancellationToken,
        work: impl FnOnce(&FileOps) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let _slot = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Failure::cancelled()),
            () = self.closed.cancelled() => return Err(Failure::closed()),
            slot = self.file_slots.acquire() => slot.map_err(|_| Failure::closed())?,
        };
        let files = Arc::clone(&self.files);
        transfer::blocking(move || work(&files)).await?
    }

    async fn command(&self, op: CommandRun, cancel: &CancellationToken) -> Result<CommandResult, Failure> {
        let argv = match op.cmd {
            Cmd::Shell(line) => vec![self.shell.to_string_lossy().into_owned(), "-c".to_owned(), line],
            Cmd::Argv(argv) if argv.first().is_none_or(String::is_empty) => {
                return Err(Failure::new(
                    FailureKind::Unsupported,
                    "the command is empty; name a program",
                ));
            }
            Cmd::Argv(argv) => argv,
        };
        let mut request = self.request(argv, op.env, op.cwd.as_deref(), None)?;
        request.not_after = op.not_after.map(Moment::of);
        self.run(request, op.stdin, op.timeout, cancel).await
    }

    async fn code(&self, op: CodeRun, cancel: &CancellationToken) -> Result<CodeResult, Failure> {
        let program = self.programs.get(&op.language).ok_or_else(|| {
            let message = format!(
                "no {} interpreter (`{}`) that starts was found on this machine",
                op.language,
                op.language.program()
            );
            Failure::new(FailureKind::Unsupported, message)
        })?;
        let source = Source {
            file_name: op.language.file_name().to_owned(),
            text: op.code,
        };
        let argv = vec![program.to_string_lossy().into_owned()];
        let mut request = self.request(argv, op.env, op.cwd.as_deref(), Some(source))?;
        request.not_after = op.not_after.map(Moment::of);
        self.let_imports_find_the_workspace(op.language, &mut request);
        let result = self.run(request, op.stdin, op.timeout, cancel).await?;
        let error = (result.exit_code != 0).then(|| last_words(&result));
        let CommandResult {
            exit_code,
            stdout,
            stderr,
            elapsed_ms,
            ..
        } = result;
        Ok(CodeResult {
            exit_code,
            text: None,
            stdout,
            stderr,
            error,
            elapsed_ms,
        })
    }

    /// The source lies in a place of its own; modules that programs wrote lie in the workspace.
    fn let_imports_find_the_workspace(&self, language: Language, request: &mut RunRequest) {
        let Some(variable) = language.import_path_variable() else {
            return;
        };
        let workspace = request.cwd.to_string_lossy().into_owned();
        match request.env.iter_mut().find(|(name, _)| name == variable) {
            Some((_, path)) if path.is_empty() => *path = workspace,
            Some((_, path)) => *path = format!("{path}:{workspace}"),
            None => request.env.push((variable.to_owned(), workspace)),
        }
    }

    fn request(
        &self,
        argv: Vec<String>,
        env: BTreeMap<String, String>,
        cwd: Option<&str>,
        source: Option<Source>,
    ) -> Result<RunRequest, Failure> {
        let nul = |what: &str| {
            Failure::new(
                FailureKind::Unsupported,
                format!("{what} contains a NUL character"),
            )
        };
        if argv.iter().any(|argument| argument.contains('\0')) {
            return Err(nul("the command"));
        }
        if let Some((name, _)) = env
            .iter()
            .find(|(name, value)| name.contains('\0') || value.contains('\0'))
        {
            return Err(nul(&format!("environment variable `{}`", name.escape_debug())));
        }
        if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains('=')) {
            let message = format!("`{name}` is no name for an environment variable");
            return Err(Failure::new(FailureKind::Unsupported, message));
        }
        let inside = self.files.inside();
        let cwd = cwd
            .map(|cwd| self.files.relative(cwd))
            .transpose()?
            .map_or(inside.to_owned(), |cwd| inside.join(cwd));
        let mut all = self.env.clone();
        all.extend(env);
        Ok(RunRequest {
            argv,
            env: all.into_iter().collect(),
            cwd,
            source,
            not_after: None,
        })
    }

    async fn run(
        &self,
        request: RunRequest,
        stdin: Option<Vec<u8>>,
        timeout: Option<Duration>,
        cancel: &CancellationToken,
    ) -> Result<CommandResult, Failure> {
        let limits = &self.spec.limits;
        let timeout = timeout.unwrap_or(limits.timeout);
        let running = Running {
            request,
            stdin,
            timeout,
            limits,
            pipe_owner: self.pipe_owner,
        };
        self.supervisor.run(running, cancel, &self.closed).await
    }
}

#[async_trait]
impl Sandbox for HostSandbox {
    async fn dispatch(&self, op: Op, cancel: &CancellationToken) -> Result<OpResult, Failure> {
        self.check_open()?;
        if cancel.is_cancelled() {
            return Err(Failure::cancelled());
        }
        let limits = self.spec.limits.clone();
        match op {
            Op::CommandRun(op) => self.command(op, cancel).await.map(OpResult::Command),
            Op::CodeRun(op) => self.code(op, cancel).await.map(OpResult::Code),
            // One system call of a microsecond; handing it to another thread would cost ten times that.
            Op::FilesExists(op) => self.files.exists(&op).map(OpResult::Exists),
            Op::FilesRead(op) => self
                .on_files(cancel, move |files| files.read(&op, &limits))
                .await
                .map(OpResult::File),
            Op::FilesWrite(op) => self
                .on_files(cancel, move |files| files.write(&op))
                .await
                .map(OpResult::Written),
            Op::FilesList(op) => self
                .on_files(cancel, move |files| files.list(&op, &limits))
                .await
                .map(OpResult::Entries),
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn put_tree(&self, manifest: &Manifest, source: &dyn TreeSource) -> Result<TreePut, Failure> {
        self.check_open()?;
        transfer::put(&self.files, manifest, source).await
    }

    async fn snapshot(&self) -> Result<Snapshot, Failure> {
        self.check_open()?;
        self.on_files(&CancellationToken::new(), |files| Ok(transfer::snapshot(files)))
            .await
    }

    async fn changed(&self, since: &Snapshot, limits: &ChangeLimits) -> Result<Changes, Failure> {
        self.check_open()?;
        let (since, limits) = (since.clone(), *limits);
        self.on_files(&CancellationToken::new(), move |files| {
            Ok(transfer::changed(files, &since, &limits))
        })
        .await
    }

    async fn get(&self, path: &str) -> Result<ByteStream, Failure> {
        self.check_open()?;
        let path = path.to_owned();
        let cancel = CancellationToken::new();
        let file = self
            .on_files(&cancel, move |files| files.open_file(&path))
            .await?;
        Ok(transfer::stream(file))
    }

    async fn close(&self) {
        self.closed.cancel();
        self.supervisor.end();
        self.supervisor.ended().await;
    }
}

impl Drop for HostSandbox {
    fn drop(&mut self) {
        // The task that serves programs inside holds a clone.
        self.closed.cancel();
    }
}

/// The program of each language that this machine has.
pub(crate) fn programs() -> BTreeMap<Language, PathBuf> {
    interpreters::all()
        .map(|interpreter| (interpreter.language, interpreter.program.clone()))
        .collect()
}
