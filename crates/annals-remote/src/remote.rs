//! One sandbox of a server, as long as it lives: calls in it, files to and from it, and whether it is still there.
//!
//! A connection that breaks proves nothing. A call is sent again under its id until its report comes, and only the
//! control plane's word, or a silence that lasts, makes a sandbox lost. A lost one is never used again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use annals_sandbox::{Digest, Failure, FailureKind, Language};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::error::ApiError;
use crate::guest::{Call, Kind, Output, Report};
use crate::http::Download;
use crate::owner;
use crate::port::{Command, CommandEvent, ControlPlane, Daemon, Phase, Upload};
use crate::slot::Site;
use crate::timing::{Backoff, Timing};

/// Streams that end without a report before the sandbox counts as damaged.
const SILENT_ENDS_MAX_COUNT: u32 = 3;
const VERBS_AT_ONCE: usize = 16;
/// Calls whose files are removed together.
const FORGET_AT_ONCE: usize = 32;
/// Output that is removed at once, because it takes room.
const FORGET_LARGE_BYTES: u64 = 1 << 20;
/// The service inside kills a call this long after its own bound, in case nobody here does.
const KILL_GRACE: Duration = Duration::from_secs(30);

/// Where Annals keeps its own files inside.
pub(crate) const BASE: &str = "/tmp/annals";

/// A sandbox of the server.
pub(crate) struct Remote {
    pub(crate) id: String,
    control: Arc<dyn ControlPlane>,
    daemon: Arc<dyn Daemon>,
    pub(crate) facts: Facts,
    lost: OnceLock<String>,
    pub(crate) timing: Timing,
    /// Verbs that run at once: each is a process inside.
    verbs: Semaphore,
    /// Calls whose report has arrived.
    finished: Mutex<Vec<String>>,
    /// What files are known to hold, by path: the stamp under which they were hashed, and the digest.
    pub(crate) known: Mutex<BTreeMap<String, (String, Digest)>>,
}

/// What is inside, found out once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// Physical path of the workspace.
    pub(crate) workspace: String,
    /// Programs by name.
    pub(crate) programs: BTreeMap<String, String>,
    pub(crate) path: String,
    pub(crate) home: String,
    pub(crate) lang: String,
}

/// Programs without which the script inside cannot work.
const REQUIRED: [&str; 11] = [
    "find",
    "grep",
    "head",
    "mkfifo",
    "mv",
    "readlink",
    "sha256sum",
    "stat",
    "tar",
    "wc",
    "xargs",
];

impl Facts {
    fn read(text: &str) -> Self {
        let mut facts = Self::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
            let value = value.to_owned();
            match name {
                "workspace" => facts.workspace = value,
                "PATH" => facts.path = value,
                "HOME" => facts.home = value,
                "LANG" => facts.lang = value,
                _ => drop(facts.programs.insert(name.to_owned(), value)),
            }
        }
        facts
    }

    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let is_missing = |program: &&str| !self.programs.contains_key(*program);
        REQUIRED.into_iter().filter(is_missing).collect()
    }

    pub(crate) fn languages(&self) -> Vec<Language> {
        let has = |language: &Language| self.programs.contains_key(language.program());
        Language::ALL.into_iter().filter(has).collect()
    }

    pub(crate) fn shell(&self) -> &str {
        self.programs.get("bash").map_or("sh", String::as_str)
    }
}

/// What a call runs under, beside its arguments.
#[derive(Debug, Clone, Default)]
pub(crate) struct Terms {
    pub(crate) env: BTreeMap<String, String>,
    /// How long it may take.
    pub(crate) timeout: Option<Duration>,
}

impl Remote {
    /// A sandbox that answers. Puts the script into it and finds out what is inside.
    pub(crate) async fn prepare(id: String, site: &Site, daemon: Arc<dyn Daemon>) -> Result<Self, Failure> {
        let mut remote = Self {
            id,
            control: Arc::clone(&site.control),
            daemon,
            facts: Facts::default(),
            lost: OnceLock::new(),
            timing: site.timing,
            verbs: Semaphore::new(VERBS_AT_ONCE),
            finished: Mutex::default(),
            known: Mutex::default(),
        };
        remote
            .upload(
                &format!("{BASE}/guest.sh"),
                0o755,
                crate::guest::SCRIPT.as_bytes(),
            )
            .await?;
        let told = remote.ask("probe", [site.workspace.clone()]).await?;
        remote.facts = Facts::read(&String::from_utf8_lossy(&told.0));
        let missing = remote.facts.missing();
        match missing.is_empty() {
            true => Ok(remote),
            false => Err(Failure::new(
                FailureKind::Unsupported,
                format!(
                    "the image lacks programs that Annals needs inside: {}; choose another image",
                    missing.join(", ")
                ),
            )),
        }
    }

    /// Why it is not used any more.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// From now on nothing is asked of it.
    pub(crate) fn lose(&self, reason: impl Into<String>) {
        let _ = self.lost.set(reason.into());
    }

    /// The failure of everything asked of a lost sandbox.
    pub(crate) fn lost_failure(&self) -> Failure {
        let reason = self.lost().unwrap_or("it is gone");
        let message = format!(
            "the sandbox was lost ({reason}); what ran in it has not been repeated; the next call gets a new sandbox \
             with the files of the workspace"
        );
        Failure::new(FailureKind::SandboxClosed, message)
    }

    pub(crate) async fn delete(&self) {
        self.lose("it was deleted");
        if let Err(error) = self.control.delete(&self.id).await {
            tracing::warn!(sandbox = %self.id, "{error}; it is left to expire");
        }
    }

    pub(crate) async fn renew(&self, ttl: Duration) {
        match self.control.renew(&self.id, ttl).await {
            Err(error) if error.is_not_found() => self.lose("it expired"),
            Err(error) => tracing::warn!(sandbox = %self.id, "{error}"),
            Ok(()) => {}
        }
    }

    /// Asks the server whether the sandbox is still there, and wakes it if it sleeps.
    async fn check(&self) -> Result<(), Failure> {
        if self.lost().is_some() {
            return Err(self.lost_failure());
        }
        match self.control.status(&self.id).await {
            Ok(status) if status.phase.is_over() => self.lose(status.told),
            Ok(status) if status.phase == Phase::Paused => {
                if let Err(error) = self.control.wake(&self.id).await {
                    self.lose(format!("it was paused and cannot be resumed: {error}"));
                }
            }
            Ok(_) => {}
            Err(error) if error.is_not_found() => self.lose("the server has it no more"),
            Err(error) => self.lose(error.to_string()),
        }
        match self.lost() {
            Some(_) => Err(self.lost_failure()),
            None => Ok(()),
        }
    }

    /// Repeats what is harmless to repeat until it is answered or the sandbox is lost.
    async fn persist<T, F: Future<Output = Result<T, ApiError>> + Send>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<T, Failure> {
        let started = Instant::now();
        let mut backoff = self.timing.backoff();
        loop {
            if self.lost().is_some() {
                return Err(self.lost_failure());
            }
            let error = match attempt().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            // A proxy that has lost the sandbox says 404, too; the control plane knows.
            self.check().await?;
            if !error.is_transient() {
                return Err(Failure::new(FailureKind::OsError, error.to_string()));
            }
            if started.elapsed() > self.timing.reach {
                self.lose(error.to_string());
                return Err(self.lost_failure());
            }
            backoff.wait().await;
        }
    }

    /// Performs a call, once, however often it has to be sent. `begun` gets the command's name.
    pub(crate) async fn call(&self, call: &Call, terms: &Terms, begun: &Begun) -> Result<Report, Failure> {
        let sent = call.sent(BASE);
        if let Some(arguments) = &sent.arguments_file {
            self.upload(&run_file(&call.id, ".args"), 0o600, arguments.as_bytes())
                .await?;
        }
        let command = Command {
            line: sent.command,
            timeout: terms.timeout.map(|timeout| timeout + KILL_GRACE),
            env: terms.env.clone(),
        };
        let mut out_of_reach: Option<Instant> = None;
        let mut silent_ends = 0;
        let mut backoff = self.timing.backoff();
        loop {
            if self.lost().is_some() {
                return Err(self.lost_failure());
            }
            let attempt = self.attempt(&command, &call.id, begun).await;
            // What runs under a bound of its own may be reached again and again, as through a proxy that ends quiet
            // streams; what has none must not.
            if attempt.has_begun && terms.timeout.is_some() {
                out_of_reach = None;
            }
            let error = match attempt.end {
                Ok(Some(report)) => return self.reported(call, report),
                Ok(None) => {
                    silent_ends += 1;
                    None
                }
                Err(error) => Some(error),
            };
            self.check().await?;
            match error {
                Some(error) if !error.is_transient() && !error.is_not_found() => {
                    return Err(Failure::new(FailureKind::OsError, error.to_string()));
                }
                Some(error)
                    if out_of_reach.get_or_insert_with(Instant::now).elapsed() > self.timing.reach =>
                {
                    self.lose(error.to_string());
                }
                Some(_) => {}
                None => out_of_reach = None,
            }
            if silent_ends >= SILENT_ENDS_MAX_COUNT {
                self.lose("its files of Annals are gone");
            }
            backoff.wait().await;
        }
    }

    async fn attempt(&self, command: &Command, id: &str, begun: &Begun) -> Attempt {
        let mut has_begun = false;
        let end = async {
            let mut events = self.daemon.start(command).await?;
            while let Some(event) = events.next().await {
                match event? {
                    CommandEvent::Begun(name) => {
                        has_begun = true;
                        begun.set(name);
                    }
                    CommandEvent::Line(line) => {
                        if let Some(report) = Report::read(&line, id) {
                            return Ok(Some(report));
                        }
                    }
                }
            }
            Ok(None)
        };
        let end = end.await;
        Attempt { has_begun, end }
    }

    fn reported(&self, call: &Call, report: Report) -> Result<Report, Failure> {
        if report.kind == Kind::Lost {
            return Err(Failure::new(
                FailureKind::SandboxClosed,
                "the command's process in the sandbox was killed before it could say how the command ended",
            ));
        }
        if matches!(report.stdout, Output::Here(_)) && matches!(report.stderr, Output::Here(_)) {
            self.finished(call.id.clone(), 0);
        }
        Ok(report)
    }

    /// A call of a verb that answers with its standard output, and that output's id.
    pub(crate) async fn ask(
        &self,
        verb: &'static str,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<(Vec<u8>, String), Failure> {
        let call = Call::new(owner::call_id(), verb, arguments);
        self.ask_call(call).await
    }

    pub(crate) async fn ask_call(&self, call: Call) -> Result<(Vec<u8>, String), Failure> {
        let _slot = self.verbs.acquire().await.map_err(|_| self.lost_failure())?;
        let report = self.call(&call, &Terms::default(), &Begun::default()).await?;
        if report.kind != Kind::Exit || report.number != 0 {
            let said = self
                .output(&call.id, "err", report.stderr, 1 << 10)
                .await
                .unwrap_or_default();
            return Err(refusal(report.kind, String::from_utf8_lossy(&said).trim()));
        }
        let answer = self
            .output(&call.id, "out", report.stdout, ANSWER_MAX_BYTES)
            .await?;
        self.finished(call.id.clone(), answer.len() as u64);
        Ok((answer, call.id))
    }

    /// Ends a call that runs or may still arrive, and gives its report.
    pub(crate) async fn end(&self, id: &str, begun: &Begun) -> Result<Report, Failure> {
        if let Some(command) = begun.get() {
            // Best effort: the script's own `end` follows, which also catches what left the process group.
            let _ = self.daemon.interrupt(&command).await;
        }
        self.call(&Call::end(id), &Terms::default(), &Begun::default())
            .await
    }

    /// Output of a call, at most `most` bytes of it.
    async fn output(&self, id: &str, name: &str, output: Output, most: u64) -> Result<Vec<u8>, Failure> {
        match output {
            Output::Here(bytes) => Ok(bytes),
            Output::There(size) if size > most => Err(Failure::new(
                FailureKind::OutputTooLarge,
                format!("the sandbox's answer has {size} bytes; the bound is {most}"),
            )),
            Output::There(size) => self.part(&run_file(id, &format!("/{name}")), 0, size).await,
        }
    }

    /// `length` bytes of a file that does not change, from `offset` on.
    pub(crate) async fn part(&self, path: &str, offset: u64, length: u64) -> Result<Vec<u8>, Failure> {
        let mut body = self.file(path.to_owned(), offset, length);
        let mut bytes = Vec::with_capacity(length as usize);
        while let Some(piece) = body.next().await {
            bytes.extend_from_slice(&piece?);
        }
        Ok(bytes)
    }

    /// `length` bytes of a file from `offset` on, as a stream that goes on where a broken connection left it.
    fn file(
        &self,
        path: String,
        offset: u64,
        length: u64,
    ) -> impl futures::Stream<Item = Result<Bytes, Failure>> + '_ + Unpin {
        Box::pin(stream::try_unfold(
            Reading::new(path, offset, length, &self.timing),
            move |mut reading| async move {
                Ok(self.next_piece(&mut reading).await?.map(|piece| (piece, reading)))
            },
        ))
    }

    /// The same for somebody who keeps the sandbox only by its handle.
    pub(crate) fn into_file(self: Arc<Self>, path: String, length: u64) -> annals_sandbox::ByteStream {
        let reading = Reading::new(path, 0, length, &self.timing);
        stream::try_unfold((self, reading), |(remote, mut reading)| async move {
            let piece = remote.next_piece(&mut reading).await?;
            Ok(piece.map(|piece| (piece, (remote, reading))))
        })
        .boxed()
    }

    async fn next_piece(&self, reading: &mut Reading) -> Result<Option<Bytes>, Failure> {
        const PIECE_MAX_BYTES: usize = 64 << 10;
        const FRUITLESS_MAX_COUNT: u32 = 5;
        while reading.left > 0 {
            if reading.buffer.is_empty() {
                match self.fill(reading).await {
                    Ok(true) => (reading.fruitless, reading.backoff) = (0, self.timing.backoff()),
                    // It ended before its length, or broke off: go on from there, unless nothing ever comes.
                    failed => {
                        reading.download = None;
                        reading.fruitless += 1;
                        self.check().await?;
                        if reading.fruitless > FRUITLESS_MAX_COUNT {
                            let error = failed
                                .err()
                                .map_or("it is shorter than it was".to_owned(), |e| e.to_string());
                            return Err(Failure::os("read a file of the sandbox", error));
                        }
                        reading.backoff.wait().await;
                        continue;
                    }
                }
            }
            let take = reading
                .buffer
                .len()
                .min(PIECE_MAX_BYTES)
                .min(reading.left as usize);
            let piece = reading.buffer.split_to(take);
            reading.offset += take as u64;
            reading.left -= take as u64;
            return Ok(Some(piece));
        }
        Ok(None)
    }

    /// Whether bytes came.
    async fn fill(&self, reading: &mut Reading) -> Result<bool, ApiError> {
        let download = match &mut reading.download {
            Some(download) => download,
            none => none.insert(self.daemon.download(&reading.path, reading.offset).await?),
        };
        Ok(match download.next().await? {
            Some(bytes) => {
                reading.buffer = bytes;
                true
            }
            None => false,
        })
    }

    /// Writes one of Annals' own files.
    pub(crate) async fn upload(&self, path: &str, mode: u32, bytes: &[u8]) -> Result<(), Failure> {
        self.upload_all(&[(path, mode, bytes)]).await
    }

    /// Writes several of them in one request.
    pub(crate) async fn upload_all(&self, files: &[(&str, u32, &[u8])]) -> Result<(), Failure> {
        let files: Vec<_> = files
            .iter()
            .map(|&(path, mode, bytes)| Upload { path, mode, bytes })
            .collect();
        self.persist(|| self.daemon.upload(&files)).await
    }

    pub(crate) fn daemon(&self) -> &Arc<dyn Daemon> {
        &self.daemon
    }

    /// The call's files may go; they go together with others, or at once if they are large.
    pub(crate) fn finished(&self, id: String, size_bytes: u64) {
        let full = {
            let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
            finished.push(id);
            let is_due = finished.len() >= FORGET_AT_ONCE || size_bytes > FORGET_LARGE_BYTES;
            is_due.then(|| std::mem::take(&mut *finished))
        };
        let Some(ids) = full else { return };
        let command = Command {
            line: Call::new(owner::call_id(), "forget", ids).sent(BASE).command,
            ..Command::default()
        };
        let daemon = Arc::clone(&self.daemon);
        // Nobody waits for it, and files that stay cost only room.
        tokio::spawn(async move {
            if let Ok(mut events) = daemon.start(&command).await {
                while let Some(Ok(_)) = events.next().await {}
            }
        });
    }
}

/// Answers of verbs; a listing of a hundred thousand files fits.
const ANSWER_MAX_BYTES: u64 = 32 << 20;

/// Path of a file of a call.
pub(crate) fn run_file(id: &str, name: &str) -> String {
    format!("{BASE}/runs/{id}{name}")
}

/// What this sandbox, or this wire, does not do.
pub(crate) fn unsupported(message: &str) -> Failure {
    Failure::new(FailureKind::Unsupported, message)
}

/// What a verb's refusal means to the caller.
pub(crate) fn refusal(kind: Kind, said: &str) -> Failure {
    let (failure, message) = match kind {
        Kind::Outside => (FailureKind::PathViolation, "the path leads out of the workspace"),
        Kind::NoFile => (FailureKind::FileNotFound, "there is no such file"),
        Kind::NoDirectory => (FailureKind::FileNotFound, "there is no such directory"),
        Kind::Directory => (FailureKind::OsError, "it is a directory"),
        Kind::NotDirectory => (FailureKind::OsError, "it is not a directory"),
        Kind::Special => (FailureKind::OsError, "it is not a regular file"),
        Kind::Large => (
            FailureKind::OutputTooLarge,
            "the file is larger than a read may return",
        ),
        Kind::Damaged => (FailureKind::OsError, "the archive did not arrive whole"),
        Kind::NoWorkspace => (FailureKind::OsError, "the workspace is gone from the sandbox"),
        _ => (FailureKind::OsError, "the sandbox could not do it"),
    };
    match said.is_empty() {
        true => Failure::new(failure, message),
        false => Failure::new(failure, format!("{message}: {said}")),
    }
}

/// One sending of a call.
struct Attempt {
    /// The service inside took it.
    has_begun: bool,
    /// The report, or nothing when the stream ended in order without one.
    end: Result<Option<Report>, ApiError>,
}

/// The name under which the service inside knows a command, once it has begun.
#[derive(Debug, Default)]
pub(crate) struct Begun(Mutex<Option<String>>);

impl Begun {
    pub(crate) fn set(&self, command: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(command);
    }

    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Reading {
    path: String,
    offset: u64,
    left: u64,
    download: Option<Download>,
    buffer: Bytes,
    fruitless: u32,
    backoff: Backoff,
}

impl Reading {
    fn new(path: String, offset: u64, length: u64, timing: &Timing) -> Self {
        Self {
            path,
            offset,
            left: length,
            download: None,
            buffer: Bytes::new(),
            fruitless: 0,
            backoff: timing.backoff(),
        }
    }
}
