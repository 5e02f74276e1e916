//! Running the calls of one answer: together where that is safe, written down in the order the model gave them.

use std::sync::Arc;

use annals_core::block::BlobDigest;
use annals_core::code::Code;
use annals_core::ids::CallId;
use annals_core::timeline::CallRecord;
use annals_core::turn::outcome::Outcome;
use annals_core::turn::{TurnEnd, recovery, round};
use annals_policy::Policy;
use annals_tools::cx::{Guard, Reporter};
use annals_tools::{CallOrder, CallPlace, InputAsk, ToolProgress, execute};
use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use crate::approval::{self, Ask, Standing};
use crate::driver::Drive;
use crate::error::RunError;
use crate::gate::{Allowed, Checked, Ready, State};
use crate::hooks::guarded;
use crate::input;
use crate::listen::{Audience, Update};
use crate::terms::TurnTerms;

/// Where a call has got to.
enum Stage {
    /// Its tool may start.
    Begun(Box<Begun>),
    /// It goes no further.
    Ended(usize, Ended),
}

/// A call whose tool may start.
struct Begun {
    at: usize,
    call: CallId,
    tool: String,
    ready: Ready,
    place: CallPlace,
}

struct Ended {
    call: CallId,
    tool: String,
    how: How,
}

enum How {
    /// It has its result.
    Done(Outcome),
    /// A person is asked first.
    Asks(Ask, BlobDigest),
    /// It began, and needs something before it can go on.
    Needs(InputAsk),
    /// A call before it waits for a person, so it has not begun.
    Held,
}

/// A call that the client is to perform, its tool, and what the client is asked.
type OfClient = (CallId, String, InputAsk);

impl Drive<'_> {
    /// Runs these calls. Calls that conflict run in the order given, each after the result of the one before is written;
    /// all others run together. Where a call has to wait for a person, the calls after it wait too.
    pub(crate) async fn run_calls(&mut self, calls: Vec<CallId>) -> Result<(), RunError> {
        self.take_in_grants();
        let mut checked = Vec::with_capacity(calls.len());
        for call in calls {
            checked.push(self.check(call).await?);
        }
        let uses = checked.iter().map(|call| call.access(&self.turn)).collect();
        let order = CallOrder::new(uses);
        let mut running: FuturesUnordered<BoxFuture<'static, Stage>> = FuturesUnordered::new();
        let mut ended: Vec<Option<Ended>> = checked.iter().map(|_| None).collect();
        for (at, call) in checked.into_iter().enumerate() {
            running.push(self.begin(at, call, order.place(at)));
        }
        let (mut written, mut of_client) = (0, Vec::new());
        while let Some(stage) = running.next().await {
            let mut begun = Vec::new();
            let mut reached = Some(stage);
            // Calls that may start at the same time are written down together.
            while let Some(stage) = reached {
                match stage {
                    Stage::Begun(call) => begun.push(call),
                    Stage::Ended(at, call) => ended[at] = Some(call),
                }
                reached = running.next().now_or_never().flatten();
            }
            self.write_started(begun.iter().map(|begun| &begun.call)).await?;
            if !begun.is_empty() {
                // A process that was stopped and goes on must not act for one that has taken its place.
                self.writer.journal.check()?;
            }
            for begun in begun {
                let journal = &self.writer.journal;
                let (audience, guard) = (journal.audience().clone(), journal.guard());
                let reporter = self.reporter(&begun.call);
                running.push(begun.perform(audience, self.cancel.clone(), (guard, reporter)));
            }
            while let Some(call) = ended.get_mut(written).and_then(Option::take) {
                of_client.extend(self.conclude(call, &order, written).await?);
                written += 1;
            }
        }
        self.ask_client(of_client).await
    }

    /// Writes down what the client is to perform: all of it at once and after everything else, so that a client that sees one
    /// of the calls sees all of them, and the turn rests.
    async fn ask_client(&mut self, calls: Vec<OfClient>) -> Result<(), RunError> {
        if calls.is_empty() {
            return Ok(());
        }
        let (now, turn) = (self.agent.world().now(), self.turn.clone());
        let mut blocks = Vec::with_capacity(calls.len());
        for (call, tool, ask) in calls {
            let journal = &self.writer.journal;
            let request = journal.read(|timeline| input::request(timeline, &turn, &call, &tool, ask, now));
            blocks.push(request.block(&turn));
            self.fresh.insert(call, None);
        }
        self.writer.journal.append(blocks).await
    }

    /// Writes down what became of a call, in its turn. One that the client is to perform is handed back.
    async fn conclude(
        &mut self,
        ended: Ended,
        order: &CallOrder,
        at: usize,
    ) -> Result<Option<OfClient>, RunError> {
        let Ended { call, tool, how } = ended;
        match how {
            How::Done(outcome) => {
                let cx = self.hook_cx(Some(&call));
                let hook = self.agent.hooks.after_call(&cx, &tool, &outcome);
                let _ = guarded("after_call", hook).await;
                self.write(&call, outcome).await?;
            }
            How::Asks(ask, _) if self.is_unattended() => self.write(&call, unattended(&ask)).await?,
            How::Asks(ask, digest) => self.ask_person(call, &tool, ask, digest).await?,
            How::Needs(ask) if ask.is_for_client => {
                order.park(at);
                return Ok(Some((call, tool, ask)));
            }
            How::Needs(ask) if self.is_unattended() => self.write(&call, unanswerable(&ask)).await?,
            How::Needs(ask) => {
                self.ask_for_input(call, &tool, ask).await?;
                order.park(at);
                return Ok(None);
            }
            How::Held => {
                self.fresh.insert(call, None);
            }
        }
        order.settle(at);
        Ok(None)
    }

    /// One call up to where its tool may start: allowed, in its turn, unless the turn was cancelled meanwhile.
    fn begin(&self, at: usize, call: Checked, place: CallPlace) -> BoxFuture<'static, Stage> {
        let Checked { id, tool, state } = call;
        let (hooks, hook_cx) = (self.agent.hooks.clone(), self.hook_cx(Some(&id)));
        let cancel = self.cancel.clone();
        async move {
            let begun = async {
                let allowed = match state {
                    State::Ready(ready) => ready.allowed(&*hooks, &hook_cx).await,
                    State::Refused(outcome) => Allowed::Refused(outcome),
                };
                begin(allowed, &place).await
            };
            let begun = tokio::select! {
                biased;
                () = cancel.cancelled() => Err(How::Done(recovery::not_started(&tool))),
                begun = begun => begun,
            };
            match begun {
                Ok(ready) => Stage::Begun(Box::new(Begun {
                    at,
                    call: id,
                    tool,
                    ready,
                    place,
                })),
                Err(how) => Stage::Ended(at, Ended { call: id, tool, how }),
            }
        }
        .boxed()
    }

    /// What was decided for the conversation counts as rules of its own.
    pub(crate) fn take_in_grants(&mut self) {
        let Some(policy) = self.policy.take() else {
            return;
        };
        let timeline = self.writer.journal.snapshot();
        let rules = self.writer.grants.rules(&timeline);
        self.policy = Some(match policy.conversation == rules {
            true => policy,
            false => Arc::new(Policy {
                conversation: rules.to_vec(),
                ..(*policy).clone()
            }),
        });
    }

    /// Whether nobody can be asked during this turn.
    pub(crate) fn is_unattended(&self) -> bool {
        let turn = &self.turn;
        self.writer
            .journal
            .read(|timeline| TurnTerms::of(timeline, turn).unattended)
    }

    /// Writes down that a person is asked, unless the person has answered for the whole conversation.
    async fn ask_person(
        &mut self,
        call: CallId,
        tool: &str,
        ask: Ask,
        digest: BlobDigest,
    ) -> Result<(), RunError> {
        let now = self.agent.world().now();
        let turn = self.turn.clone();
        let timeline = self.writer.journal.snapshot();
        let mut request = ask.request(&timeline, &turn, &call, tool, digest, now);
        let mut reachable = self.agent.tools.reachable();
        let asked_about = reachable.find(|known| known.spec().name().as_str() == tool);
        request.known_as = asked_about.and_then(|known| known.spec().known_as().map(str::to_owned));
        let is_granted = self.writer.grants.cover(&timeline, &request);
        drop(timeline);
        self.fresh.insert(call.clone(), None);
        if is_granted {
            self.granted.insert(call);
            return Ok(());
        }
        self.writer.journal.append(vec![request.block(&turn)]).await
    }

    /// Writes down what a call needs. It counts as not begun: it is run again with the answer.
    async fn ask_for_input(&mut self, call: CallId, tool: &str, ask: InputAsk) -> Result<(), RunError> {
        let (now, turn) = (self.agent.world().now(), self.turn.clone());
        let journal = &mut self.writer.journal;
        let request = journal.read(|timeline| input::request(timeline, &turn, &call, tool, ask, now));
        self.fresh.insert(call, None);
        journal.append(vec![request.block(&turn)]).await
    }

    async fn write(&mut self, call: &CallId, outcome: Outcome) -> Result<(), RunError> {
        let turn = &self.turn;
        let blocks = self
            .writer
            .journal
            .read(|timeline| round::outcome_blocks(timeline, turn, call, outcome));
        self.writer.journal.append(blocks).await
    }

    /// Gives every call that has none a result that says why.
    pub(crate) async fn close_open_calls(&mut self, end: TurnEnd) -> Result<(), RunError> {
        self.note_never_started();
        let (world, imported) = (self.agent.world(), &self.writer.grants.imported);
        let open: Vec<(CallId, String, Option<Outcome>)> = self.writer.journal.read(|timeline| {
            let refused = |call: &CallId| match approval::standing(timeline, call, imported, world) {
                Standing::Refused(outcome) => Some(outcome),
                Standing::Unasked | Standing::Allowed { .. } => None,
            };
            timeline
                .open_calls()
                .map(|call| (call.id.clone(), call.tool.to_string(), refused(&call.id)))
                .collect()
        });
        for (call, tool, refused) in open {
            self.abandon(&call, &tool);
            let outcome = match (refused, self.fresh.contains_key(&call), end) {
                (Some(refused), ..) => refused,
                (None, true, _) => recovery::not_started(&tool),
                (None, false, TurnEnd::Cancelled) => recovery::cancelled(&tool),
                (None, false, _) => recovery::interrupted(&tool),
            };
            self.write(&call, outcome).await?;
        }
        Ok(())
    }

    /// Tells whoever watches how far a call has come.
    fn reporter(&self, call: &CallId) -> Reporter {
        let journal = &self.writer.journal;
        let step = journal.read(|timeline| timeline.call_block(call).and_then(|block| block.meta().step));
        let (audience, redactor) = (journal.audience().clone(), self.agent.redactor.clone());
        let (conversation, turn) = (self.cx.conversation.clone(), self.turn.clone());
        let call = call.clone();
        Arc::new(move |said: ToolProgress| {
            audience.tell(Update::ToolProgress {
                conversation: conversation.clone(),
                turn: turn.clone(),
                step: step.unwrap_or_default(),
                call: call.clone(),
                progress: said.progress,
                total: said.total,
                message: said.message.map(|words| redactor.redact(&words).into_owned()),
            });
        })
    }

    /// Tells the tool of a call that asked and is not run again.
    fn abandon(&self, call: &CallId, tool: &str) {
        let journal = &self.writer.journal;
        let has_asked = journal.read(|timeline| timeline.requests_of(call).next().is_some());
        if let Some(tool) = self.agent.tools.get(tool).filter(|_| has_asked) {
            tool.abandoned(&self.call_cx(call));
        }
    }

    /// Calls that are written down as held have not begun. While a turn waits, neither has the call that waits nor any after
    /// it, whatever process wrote them down.
    pub(crate) fn note_never_started(&mut self) {
        let held: Vec<CallId> = self.writer.journal.read(|timeline| {
            let waits = |call: &CallId| timeline.waiting().any(|request| request.call == *call);
            let mut is_after = false;
            let held = |call: &&CallRecord| {
                is_after |= waits(&call.id);
                is_after || call.is_held()
            };
            timeline
                .open_calls()
                .filter(held)
                .map(|call| call.id.clone())
                .collect()
        });
        for call in held {
            self.fresh.entry(call).or_insert(None);
        }
    }
}

impl Begun {
    /// The tool's run, unless the turn was cancelled before it starts.
    fn perform(
        self: Box<Self>,
        audience: Audience,
        cancel: CancellationToken,
        (guard, reporter): (Guard, Reporter),
    ) -> BoxFuture<'static, Stage> {
        async move {
            let Begun {
                at,
                call,
                tool,
                ready,
                place,
            } = *self;
            if cancel.is_cancelled() {
                let how = How::Done(recovery::not_started(&tool));
                return Stage::Ended(at, Ended { call, tool, how });
            }
            audience.tell(Update::ToolStarted {
                call: call.clone(),
                tool: tool.clone(),
            });
            let cx = ready.cx.at(place).guarded(guard).reporting(reporter);
            let mut outcome = execute::perform(&ready.tool, &cx, ready.args).await;
            outcome.gate = ready.gate;
            let how = match cx.asks(&outcome) {
                Some(ask) => How::Needs(ask),
                None => {
                    outcome.notices.splice(0..0, ready.notices);
                    How::Done(outcome)
                }
            };
            Stage::Ended(at, Ended { call, tool, how })
        }
        .boxed()
    }
}

/// The result of a call that nobody can be asked about.
fn unattended(ask: &Ask) -> Outcome {
    let why = ask
        .why
        .as_deref()
        .map(|why| format!(": {why}"))
        .unwrap_or_default();
    let message = format!(
        "a person would have to allow this call, and nobody can be asked in this run{why}; it did not run"
    );
    recovery::failed(Code::DeniedByPolicy, message)
}

/// The result of a call whose question nobody can be asked.
fn unanswerable(ask: &InputAsk) -> Outcome {
    let message = format!(
        "the call needs an answer to `{}`, and nobody can be asked in this run: do without, or ask in the answer",
        ask.message
    );
    recovery::failed(Code::InputUnavailable, message)
}

/// Waits for the calls before this one: first for what is said of them, then for those it conflicts with.
async fn begin(allowed: Allowed, place: &CallPlace) -> Result<Ready, How> {
    let ready = match allowed {
        Allowed::Ask(ask, digest) => {
            place.hold_later();
            return Err(How::Asks(ask, digest));
        }
        Allowed::Refused(outcome) => {
            place.clear();
            return match place.is_cleared().await {
                true => Err(How::Done(outcome)),
                false => Err(How::Held),
            };
        }
        Allowed::Run(ready) => ready,
    };
    place.clear();
    if !place.is_cleared().await {
        return Err(How::Held);
    }
    match place.wait().await {
        true => Ok(ready),
        false => Err(How::Held),
    }
}
