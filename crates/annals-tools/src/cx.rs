//! What a tool may touch while it runs: narrow on purpose, never the whole session.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use annals_core::block::payload::InputResponse;
use annals_core::code::Code;
use annals_core::ids::{CallId, ConversationId, Scope, TurnId};
use annals_core::path::LogicalPath;
use annals_core::redact::Secrets;
use annals_core::settings::Settings;
use annals_core::time::Timestamp;
use annals_core::turn::outcome::Outcome;
use annals_core::view::View;
use annals_sandbox::{Failure, LazySandbox, Op, OpResult, Sandbox};
use annals_store::{ArtifactStore, Recall, Workspace};
use tokio_util::sync::CancellationToken;

use crate::access::CallPlace;
use crate::failure::ToolFailure;
use crate::input::{InputAsk, Inputs};
use crate::skills::{NoSkills, Skills};
use crate::tree::Restored;

/// The timeline of an open conversation. Appending changes it in place; a clone of the inner `Arc` is the timeline as
/// it was at that moment, for as long as somebody holds it.
pub type SharedTimeline = Arc<RwLock<Arc<View>>>;

/// What all calls of one conversation share. Made once for a session.
#[derive(Clone)]
pub struct ConversationCx {
    /// Which conversation.
    pub conversation: ConversationId,
    /// Whose it is. Everything a tool resolves, it resolves under this scope.
    pub scope: Scope,
    /// What has happened so far. A plain lock: it is held for lookups only, never across an await.
    pub timeline: SharedTimeline,
    /// OUT_DIR.
    pub workspace: Arc<Workspace>,
    /// Bytes by digest.
    pub artifacts: ArtifactStore,
    /// Where side effects happen, if anywhere; opened on first need.
    pub sandbox: Option<Arc<LazySandbox>>,
    /// Skills that `sk:` paths name.
    pub skills: Arc<dyn Skills>,
    /// Memory search over the log, if it has one.
    pub recall: Option<Arc<dyn Recall>>,
    /// What the user set.
    pub settings: Arc<Settings>,
    /// Whether the tree is what history says.
    pub restored: Arc<Restored>,
    /// Secrets, of which a call gets those that its tool declares.
    pub secrets: Vault,
}

/// Secrets that nobody reads but a call whose tool declares them.
#[derive(Clone, Debug, Default)]
pub struct Vault(Arc<Secrets>);

impl Vault {
    /// With these.
    pub fn new(secrets: Secrets) -> Self {
        Vault(Arc::new(secrets))
    }
}

impl ConversationCx {
    /// A conversation with nothing but its timeline and files: no sandbox, no skills, no memory search, default settings.
    pub fn new(
        conversation: ConversationId,
        scope: Scope,
        timeline: SharedTimeline,
        workspace: Arc<Workspace>,
        artifacts: ArtifactStore,
    ) -> Self {
        ConversationCx {
            conversation,
            scope,
            timeline,
            workspace,
            artifacts,
            sandbox: None,
            skills: Arc::new(NoSkills),
            recall: None,
            settings: Arc::default(),
            restored: Arc::default(),
            secrets: Vault::default(),
        }
    }
}

/// The surroundings of one tool call. Cheap to clone.
#[derive(Clone)]
pub struct ToolCx {
    shared: Arc<ConversationCx>,
    turn: TurnId,
    call: CallId,
    now: Timestamp,
    cancel: CancellationToken,
    /// Where the call stands among the calls of its answer, when it is one of several.
    place: Option<CallPlace>,
    /// The names of the secrets that the tool declares.
    granted: Arc<[String]>,
    inputs: Arc<Inputs>,
    is_attended: bool,
    guard: Option<Guard>,
    reporter: Option<Reporter>,
}

/// Until when this process may act for its turn, as far as it knows now; nothing once it may not. Asked again right before
/// something happens outside, since a process may stand still at any moment and go on when another has taken its place.
pub type Guard = Arc<dyn Fn() -> Option<Instant> + Send + Sync>;

/// How far a call has come, for whoever watches: nothing keeps it, and what nobody takes in time is lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolProgress {
    /// How far.
    pub progress: f64,
    /// Of what, if that is known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}

/// Hears how far a call has come.
pub type Reporter = Arc<dyn Fn(ToolProgress) + Send + Sync>;

impl ToolCx {
    /// The surroundings of the call `call`, made in `turn` at `now`.
    pub fn new(
        shared: Arc<ConversationCx>,
        turn: TurnId,
        call: CallId,
        now: Timestamp,
        cancel: CancellationToken,
    ) -> Self {
        ToolCx {
            shared,
            turn,
            call,
            now,
            cancel,
            place: None,
            granted: Arc::default(),
            inputs: Arc::default(),
            is_attended: true,
            guard: None,
            reporter: None,
        }
    }

    /// The same surroundings, in which somebody hears how far the call has come.
    #[must_use]
    pub fn reporting(mut self, reporter: Reporter) -> Self {
        self.reporter = Some(reporter);
        self
    }

    /// Says how far the call has come. Say it seldom: a few times a second is more than anybody reads.
    pub fn report(&self, progress: ToolProgress) {
        if let Some(reporter) = &self.reporter {
            reporter(progress);
        }
    }

    /// The same surroundings for as long as the guard says so.
    #[must_use]
    pub fn guarded(mut self, guard: Guard) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Whether this process may still act for the turn.
    pub fn may_act(&self) -> bool {
        self.guard.as_ref().is_none_or(|until| until().is_some())
    }

    /// The same surroundings in a turn during which a person can be asked, or not.
    #[must_use]
    pub fn attended(mut self, is_attended: bool) -> Self {
        self.is_attended = is_attended;
        self
    }

    /// Whether a person can be asked. Where none can, a call that asks fails; one that can do without should.
    pub fn is_attended(&self) -> bool {
        self.is_attended
    }

    /// The same surroundings in which these answers to the call's questions are known, in the order of the questions.
    #[must_use]
    pub fn answered(mut self, answers: Vec<InputResponse>) -> Self {
        self.inputs = Arc::new(Inputs::answered(answers));
        self
    }

    /// Asks a person or a client. The first question of a run gets the first answer, and so on; a question that has none
    /// yet is an error, with which the call has to end. The turn then waits for the answer, and the call is run again from
    /// its beginning: ask before you act.
    ///
    /// ```
    /// use annals_tools::{InputAsk, ToolCx, ToolResult};
    ///
    /// fn book(cx: &ToolCx) -> ToolResult {
    ///     let seat = cx.ask(InputAsk::new("Which seat?"))?;
    ///     Ok(seat.content.unwrap_or_default())
    /// }
    /// ```
    pub fn ask(&self, ask: InputAsk) -> Result<InputResponse, ToolFailure> {
        self.inputs.ask(ask)
    }

    /// What the call asks, if this is what it came to.
    pub fn asks(&self, outcome: &Outcome) -> Option<InputAsk> {
        self.inputs.open(outcome)
    }

    /// The same surroundings for a tool that declares these secrets.
    #[must_use]
    pub fn granting(mut self, secrets: &[String]) -> Self {
        self.granted = secrets.into();
        self
    }

    /// The value of a secret that the tool declares; none if it does not, or if nobody configured it.
    pub fn secret(&self, name: &str) -> Option<&Arc<str>> {
        let is_granted = self.granted.iter().any(|granted| granted == name);
        is_granted.then(|| self.shared.secrets.0.get(name)).flatten()
    }

    /// The operation with the secrets of this call in its environment, under their names.
    pub(crate) fn with_secrets(&self, mut op: Op) -> Op {
        let env = match &mut op {
            Op::CommandRun(run) => &mut run.env,
            Op::CodeRun(run) => &mut run.env,
            _ => return op,
        };
        for name in self.granted.iter() {
            if let Some(value) = self.secret(name) {
                env.insert(name.clone(), value.to_string());
            }
        }
        op
    }

    /// What all calls of this conversation share.
    pub fn shared(&self) -> &Arc<ConversationCx> {
        &self.shared
    }

    /// The running turn.
    pub fn turn(&self) -> &TurnId {
        &self.turn
    }

    /// This call.
    pub fn call(&self) -> &CallId {
        &self.call
    }

    /// `tc:<turn>.<call>.result`, where the answer of this call will be.
    pub fn result_path(&self) -> LogicalPath {
        LogicalPath::result(&self.turn, &self.call)
    }

    /// The conversation.
    pub fn conversation(&self) -> &ConversationId {
        &self.shared.conversation
    }

    /// Whose it is.
    pub fn scope(&self) -> &Scope {
        &self.shared.scope
    }

    /// When the call was made. Tools read no other clock, so that a run can be replayed.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Fires when the turn is cancelled or the call has run out of time.
    pub fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// The same surroundings with another token.
    #[must_use]
    pub fn with_cancel(&self, cancel: CancellationToken) -> Self {
        ToolCx {
            cancel,
            ..self.clone()
        }
    }

    /// The same surroundings at this place among the calls of one answer.
    #[must_use]
    pub fn at(self, place: CallPlace) -> Self {
        ToolCx {
            place: Some(place),
            ..self
        }
    }

    /// What the user set.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Skills by name.
    pub fn skills(&self) -> &dyn Skills {
        &*self.shared.skills
    }

    /// Memory search, if the log has one.
    pub fn recall(&self) -> Option<&Arc<dyn Recall>> {
        self.shared.recall.as_ref()
    }

    /// Asks the timeline something. The closure must be quick: appending waits for it.
    pub fn timeline<T>(&self, ask: impl FnOnce(&View) -> T) -> T {
        // A reader cannot leave the timeline half changed, so a poisoned lock still holds a whole one.
        ask(&self
            .shared
            .timeline
            .read()
            .unwrap_or_else(PoisonError::into_inner))
    }

    /// OUT_DIR.
    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.shared.workspace
    }

    /// Bytes by digest.
    pub fn artifacts(&self) -> &ArtifactStore {
        &self.shared.artifacts
    }

    /// The sandbox, opened now if nobody needed it before. A tool that does not declare what it uses waits here until
    /// earlier calls of the same answer are done with the workspace.
    pub async fn sandbox(&self) -> Result<Arc<dyn Sandbox>, ToolFailure> {
        if let Some(place) = &self.place {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    return Err(ToolFailure::new(Code::Cancelled, "the turn was cancelled before the tool used the sandbox"));
                }
                () = place.wait_for_workspace() => {}
            }
        }
        let target = self.shared.sandbox.as_ref().ok_or_else(|| {
            ToolFailure::new(
                Code::SandboxNotConfigured,
                "this session has no sandbox, and nothing runs without one: start it with a sandbox target",
            )
        })?;
        target
            .sandbox()
            .await
            .map_err(|error| ToolFailure::new(Code::SandboxNotAvailable, error.to_string()))
    }

    /// The target of this session, to look at without opening it.
    pub fn sandbox_target(&self) -> Option<&Arc<LazySandbox>> {
        self.shared.sandbox.as_ref()
    }

    /// Performs one operation in the sandbox, bounded by this call's cancellation.
    pub async fn dispatch(&self, op: Op) -> Result<Result<OpResult, Failure>, ToolFailure> {
        let sandbox = self.sandbox().await?;
        Ok(self.dispatch_in(&*sandbox, op).await)
    }

    /// The same in a sandbox that is open, unless another process may have taken this one's place meanwhile.
    pub(crate) async fn dispatch_in(&self, sandbox: &dyn Sandbox, op: Op) -> Result<OpResult, Failure> {
        let Some(guard) = &self.guard else {
            return sandbox.dispatch(self.with_secrets(op), &self.cancel).await;
        };
        let op = self.with_secrets(op);
        let again = matches!(op, Op::CommandRun(_) | Op::CodeRun(_)).then(|| op.clone());
        let mut op = op;
        loop {
            let until = guard().ok_or_else(Failure::cancelled)?;
            let done = sandbox.dispatch(op.not_after(until), &self.cancel).await;
            // Nothing began. This process may have been given more time since it asked.
            match (done, &again) {
                (Err(failure), Some(again)) if failure.is_late() && !self.cancel.is_cancelled() => {
                    op = again.clone();
                }
                (done, _) => return done,
            }
        }
    }
}
