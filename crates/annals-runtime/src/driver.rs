//! The loop: ask the turn machine what is next, do it, write it down.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use annals_core::block::{BlockKind, MessageKind, NewBlock};
use annals_core::ids::{CallId, TurnId};
use annals_core::settings::{BudgetSettings, SpendingLimits};
use annals_core::timeline::HideReason;
use annals_core::turn::opening::{self, completion_block, steer_block};
use annals_core::turn::{
    CallModel, Next, Offer, TurnEnd, TurnReport, TurnUsage, ends_with_answer, next, round,
};
use annals_core::view::prune;
use annals_policy::Policy;
use annals_store::register::Hand;
use annals_store::{InboxId, Work};
use annals_tools::ConversationCx;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::agent::AgentParts;
use crate::approval::{self, Awaited};
use crate::ask::Asked;
use crate::bounds::{Bounds, Reached};
use crate::conversation::Conversation;
use crate::error::RunError;
use crate::hooks::{HookCx, guarded, may_contribute};
use crate::input;
use crate::journal::KeepAlive;
use crate::listen::Update;
use crate::mail::{CLIENT_KEY, Letter, Mail};
use crate::scope_budget::{Book, Entry};
use crate::structured;
use crate::terms::TurnTerms;
use crate::writer::Writer;

/// One turn being driven.
pub(crate) struct Drive<'a> {
    pub(crate) agent: &'a Arc<AgentParts>,
    pub(crate) conversation: &'a Arc<Conversation>,
    pub(crate) cx: &'a Arc<ConversationCx>,
    pub(crate) writer: &'a mut Writer,
    pub(crate) turn: TurnId,
    pub(crate) cancel: CancellationToken,
    /// Keeps the lease for as long as the turn is driven, and cancels it when the lease is lost.
    pub(crate) _alive: KeepAlive,
    /// Calls that nobody has started: with their whole arguments where this process has just written them down.
    pub(crate) fresh: HashMap<CallId, Option<Map<String, Value>>>,
    /// Calls that an earlier decision covers.
    pub(crate) granted: HashSet<CallId>,
    /// Whether a person makes the calls, who need not be asked.
    pub(crate) is_person: bool,
    /// The rules in force since the turn was taken up, with what was decided for the conversation.
    pub(crate) policy: Option<Arc<Policy>>,
    /// What it may use up.
    pub(crate) budget: BudgetSettings,
    /// What ends the turn before the model does.
    pub(crate) bounds: Bounds,
    pub(crate) reached: Option<Reached>,
    /// What came and cannot be taken in yet.
    pub(crate) letters: Vec<Letter>,
    /// Rows of the inbox that the end of the turn consumes.
    pub(crate) taken: Vec<InboxId>,
}

impl Drive<'_> {
    /// Goes on with the turn until it has ended; none when it has to wait for a person.
    pub(crate) async fn run(&mut self) -> Result<Option<TurnEnd>, RunError> {
        self.note_never_started();
        loop {
            self.writer.journal.check()?;
            self.read_letters().await?;
            if self.cancel.is_cancelled() {
                return self.finish(TurnEnd::Cancelled, None).await.map(Some);
            }
            let budget = self.agent.frame.budget();
            match self.writer.journal.read(|timeline| next(timeline, &budget)) {
                Next::CallModel(call) => match self.ask_within_bounds(call).await? {
                    Asked::Answered => {}
                    Asked::Ended(end) => return Ok(Some(end)),
                    Asked::Ends(Reached { end, reason, .. }) => {
                        return self.finish(end, Some(reason)).await.map(Some);
                    }
                    Asked::Failed(reason) => {
                        return self.finish(TurnEnd::ModelError, Some(reason)).await.map(Some);
                    }
                },
                Next::CallTools(calls) => self.run_calls(calls).await?,
                Next::Compact(plan) => self.compact(&plan).await?,
                Next::Done(end) => {
                    let (end, reason) = self.judged(end);
                    if let Some(end) = self.finish_unless_posted(end, reason).await? {
                        return Ok(Some(end));
                    }
                }
                Next::Wait => return self.wait().await,
            }
        }
    }

    /// Asks the model, for an answer without tools if a budget is used up or the turn goes in circles.
    async fn ask_within_bounds(&mut self, mut call: CallModel) -> Result<Asked, RunError> {
        let turn = self.turn.clone();
        self.follow_bounds();
        if let Some(book) = self.book() {
            // Others count what this turn has used before they use more.
            if self.bounds.spent(self.agent.world().now()).model_calls > 0 {
                self.say_spent(&book, IsOver::No).await?;
            }
            let others = self
                .agent
                .runtime
                .parts
                .scope_budgets
                .others(&book, &turn)
                .await?;
            self.bounds.others_used(others);
        }
        if let Some((about, notice)) = self.bounds.warning() {
            let told = round::notice_block(&turn, &about, &notice);
            self.writer.journal.append(vec![told]).await?;
        }
        self.reached = self.bounds.reached(&self.budget, self.agent.world().now());
        match self.reached.take_if(|reached| reached.is_final) {
            Some(reached) => return Ok(Asked::Ends(reached)),
            None if self.reached.is_some() => call.offer = Offer::AnswerOnly,
            None => {}
        }
        self.ask(call).await
    }

    fn follow_bounds(&mut self) {
        let (turn, budget) = (&self.turn, &self.budget);
        let (bounds, price) = (&mut self.bounds, self.agent.model.price());
        self.writer
            .journal
            .read(|timeline| bounds.follow(timeline, turn, budget, price));
    }

    /// Where the turn's spending is written down, if its scope's is bounded.
    fn book(&self) -> Option<Book> {
        let bounded = self.budget.scope;
        if bounded.limits() == SpendingLimits::default() {
            return None;
        }
        let turn = &self.turn;
        let began = self
            .writer
            .journal
            .read(|timeline| timeline.turn(turn).map(|turn| turn.started))?;
        Some(Book::of(self.agent.ruled_by(), bounded.period, began))
    }

    async fn say_spent(&self, book: &Book, is_over: IsOver) -> Result<(), RunError> {
        let world = self.agent.world();
        let entry = Entry {
            turn: self.turn.clone(),
            spent: self.bounds.spent(world.now()),
            is_over: matches!(is_over, IsOver::Yes),
        };
        let runtime = &self.agent.runtime.parts;
        let hand = Hand {
            owner: runtime.membership.life().owner,
            now: world.now(),
            random: world.random(),
        };
        Ok(runtime.scope_budgets.say(book, entry, &hand).await?)
    }

    /// The turn uses no more. It has ended, so what cannot be written down now must not fail it.
    async fn close_book(&mut self) {
        let Some(book) = self.book() else { return };
        self.follow_bounds();
        if let Err(error) = self.say_spent(&book, IsOver::Yes).await {
            tracing::warn!(%error, "what a turn used is not in its scope's budget");
        }
    }

    /// How a turn ends that has its answer: as its bounds say, if they are why it has one.
    fn judged(&mut self, end: TurnEnd) -> (TurnEnd, Option<String>) {
        if let Some(Reached { end, reason, .. }) = self.reached.take() {
            return (end, Some(reason));
        }
        let turn = &self.turn;
        let misfit = self.writer.journal.read(|timeline| {
            let schema = TurnTerms::of(timeline, turn).schema?;
            let answer = timeline.turn(turn)?.answer?;
            let block = timeline.blocks().get(answer.get() as usize - 1)?;
            structured::fit(&schema, block.text().unwrap_or_default()).err()
        });
        match misfit.filter(|_| end == TurnEnd::Complete) {
            Some(why) => (TurnEnd::ProtocolViolation, Some(why)),
            None => (end, None),
        }
    }

    /// Nothing goes on until somebody decides: the turn ends when that is too late, and rests otherwise.
    async fn wait(&mut self) -> Result<Option<TurnEnd>, RunError> {
        let now = self.agent.world().now();
        if self
            .writer
            .journal
            .read(|timeline| approval::any_lapsed(timeline, now))
        {
            let why = "nobody decided in time".to_owned();
            return self.finish(TurnEnd::ApprovalExpired, Some(why)).await.map(Some);
        }
        self.conversation.put_back(std::mem::take(&mut self.letters));
        // An answer is a post, and makes the conversation due again; so does the end of the time for one.
        let first = self
            .writer
            .journal
            .read(|timeline| timeline.waiting().filter_map(|request| request.expires).min());
        let work = match first {
            Some(first) => Work::DueIn(Duration::from_micros(first.micros_since(now))),
            None => Work::Done,
        };
        // What came too late is gone from the inbox, or it would make the conversation due for as long as it waits.
        let journal = &mut self.writer.journal;
        journal
            .append_consuming(Vec::new(), self.taken.clone(), work)
            .await?;
        self.taken.clear();
        Ok(None)
    }

    /// Takes in what was posted. Words for the turn come in between answers, once all calls have their results.
    async fn read_letters(&mut self) -> Result<(), RunError> {
        self.letters.extend(self.conversation.letters().await?);
        for letter in std::mem::take(&mut self.letters) {
            let row: Vec<InboxId> = letter.row.into_iter().collect();
            let is_ours = |turn: &Option<TurnId>| turn.as_ref().is_none_or(|turn| *turn == self.turn);
            let (steers, is_open) = self.writer.journal.read(|timeline| {
                let steers = timeline.turn(&self.turn).map_or(0, |turn| turn.steers);
                (steers, timeline.open_calls().next().is_some())
            });
            match &letter.mail {
                Some(Mail::Cancel { turn }) if is_ours(turn) => {
                    self.cancel.cancel();
                    self.taken.extend(row);
                }
                Some(Mail::Steer { turn, .. }) if is_ours(turn) && is_open => self.letters.push(letter),
                Some(Mail::Steer { turn, text }) if is_ours(turn) => {
                    let mut steer = steer_block(&self.turn, steers + 1, text);
                    if let Some(key) = &letter.client_key {
                        steer.meta = steer.meta.with(CLIENT_KEY, key.as_str());
                    }
                    self.writer
                        .journal
                        .append_consuming(vec![steer], row, Work::Keep)
                        .await?;
                }
                Some(Mail::Decision(decision)) => {
                    let turn = &self.turn;
                    let awaited = self
                        .writer
                        .journal
                        .read(|timeline| approval::awaited(timeline, turn, decision));
                    let blocks = match awaited {
                        Some(awaited) => self.decided(awaited).await,
                        None => Vec::new(),
                    };
                    self.writer.grants.forget();
                    self.writer
                        .journal
                        .append_consuming(blocks, row, Work::Keep)
                        .await?;
                }
                Some(Mail::Input(response)) => {
                    let turn = &self.turn;
                    let journal = &mut self.writer.journal;
                    let block = journal.read(|timeline| input::response_block(timeline, turn, response));
                    journal
                        .append_consuming(block.into_iter().collect(), row, Work::Keep)
                        .await?;
                }
                // For a turn that is over, or unreadable: gone with the end of this one.
                _ => self.taken.extend(row),
            }
        }
        Ok(())
    }

    /// What a decision writes down. What it keeps for other conversations is kept first, so that no crash forgets it.
    async fn decided(&self, awaited: Awaited) -> Vec<NewBlock> {
        let mut blocks = vec![awaited.block];
        if let (Some(rules), Some(source)) = (awaited.keeps, &self.agent.policy)
            && let Err(fault) = source.remember(self.agent.ruled_by(), &rules).await
        {
            let text =
                format!("the decision holds for this conversation and could not be kept for others: {fault}");
            blocks.push(system_message(&self.turn, &MessageKind::PolicyNotKept, &text));
        }
        blocks
    }

    /// Once the provider's cache has gone cold, gives up what is old.
    pub(crate) async fn prune(&mut self) -> Result<(), RunError> {
        let (settings, now) = (&self.agent.settings.session, self.agent.world().now());
        let turn = &self.turn;
        let blocks = self.writer.journal.read(|timeline| {
            let plan = prune::plan(timeline, settings, now)?;
            let count = plan.items.len();
            let hide = round::hide_block(timeline, turn, HideReason::Ttl, plan.items)?;
            let text = format!("{count} old blocks were shortened; read one whole with react.read(path)");
            Some(vec![
                hide,
                system_message(turn, &MessageKind::CacheTtlPruned, &text),
            ])
        });
        self.writer.journal.append(blocks.unwrap_or_default()).await
    }

    /// Appends what a hook contributed, as far as it may.
    pub(crate) async fn contribute(&mut self, blocks: Vec<NewBlock>) -> Result<(), RunError> {
        let (allowed, refused): (Vec<_>, Vec<_>) = blocks.into_iter().partition(may_contribute);
        for block in refused {
            tracing::warn!(kind = %block.kind, "a hook may contribute stage.*, system.message and x.* blocks only");
        }
        self.writer.journal.append(allowed).await
    }

    /// Writes down that the turn has come to its end, unless somebody has posted something meanwhile, words for this turn
    /// perhaps: then it goes on.
    async fn finish_unless_posted(
        &mut self,
        end: TurnEnd,
        reason: Option<String>,
    ) -> Result<Option<TurnEnd>, RunError> {
        let seen = self.conversation.seen();
        let (blocks, rows) = self.closing(end, reason).await?;
        if !self
            .writer
            .journal
            .append_unless_posted(blocks, rows.clone(), seen)
            .await?
        {
            self.taken = rows;
            self.conversation.look_again();
            return Ok(None);
        }
        self.close_book().await;
        Ok(Some(self.tell_end(end)))
    }

    /// How the turn ends with the answer to this step; none where something may come between the two: a hook, a bound that
    /// was reached, words that have come meanwhile.
    pub(crate) fn ends_with_answer(&self, step: u32) -> Option<TurnEnd> {
        let is_free = !self.agent.has_hooks && self.reached.is_none() && !self.cancel.is_cancelled();
        if !is_free || !self.letters.is_empty() || self.conversation.has_letters() {
            return None;
        }
        let budget = self.agent.frame.budget();
        let journal = &self.writer.journal;
        journal.read(|timeline| ends_with_answer(timeline, step, &budget))
    }

    /// Writes down these blocks, the answer to this step, and the end of the turn in one append, unless somebody has posted
    /// something meanwhile: then nothing is written, and the answer is no.
    pub(crate) async fn finish_answering(
        &mut self,
        blocks: &[NewBlock],
        step: u32,
        end: TurnEnd,
    ) -> Result<bool, RunError> {
        let report = self.report(end, None, (step, blocks));
        let completion = completion_block(&self.turn, &report);
        let last = blocks.iter().cloned().chain([completion]).collect();
        let (rows, seen) = (self.taken.clone(), self.conversation.seen());
        let journal = &mut self.writer.journal;
        if !journal.append_unless_posted(last, rows, seen).await? {
            self.conversation.look_again();
            return Ok(false);
        }
        self.taken.clear();
        self.close_book().await;
        self.tell_end(end);
        Ok(true)
    }

    /// Writes down how the turn ended, whatever was posted meanwhile.
    pub(crate) async fn finish(&mut self, end: TurnEnd, reason: Option<String>) -> Result<TurnEnd, RunError> {
        let (blocks, rows) = self.closing(end, reason).await?;
        self.writer
            .journal
            .append_consuming(blocks, rows, Work::Done)
            .await?;
        self.close_book().await;
        Ok(self.tell_end(end))
    }

    /// The block that ends the turn, and the rows of the inbox that it consumes. Calls still open get a result first, so that
    /// none is ever without.
    async fn closing(
        &mut self,
        end: TurnEnd,
        reason: Option<String>,
    ) -> Result<(Vec<NewBlock>, Vec<InboxId>), RunError> {
        self.close_open_calls(end).await?;
        if end.is_success() {
            let timeline = self.writer.journal.snapshot();
            let cx = self.hook_cx(None);
            let hook = self.agent.hooks.turn_ending(&cx, &timeline);
            let blocks = guarded("turn_ending", hook).await.unwrap_or_default();
            // An append beside a snapshot would copy the whole timeline.
            drop(timeline);
            self.contribute(blocks).await?;
        }
        let report = self.report(end, reason, (0, &[]));
        let late = self.letters.drain(..).filter_map(|letter| letter.row);
        let rows = self.taken.drain(..).chain(late).collect();
        Ok((vec![completion_block(&self.turn, &report)], rows))
    }

    fn tell_end(&self, end: TurnEnd) -> TurnEnd {
        self.writer.journal.tell(Update::TurnEnded {
            turn: self.turn.clone(),
            end,
        });
        end
    }

    /// Where a hook is asked.
    pub(crate) fn hook_cx(&self, call: Option<&CallId>) -> HookCx {
        let step = self
            .writer
            .journal
            .read(|timeline| timeline.turn(&self.turn).map_or(0, |turn| turn.steps));
        HookCx {
            scope: self.cx.scope.clone(),
            conversation: self.cx.conversation.clone(),
            turn: self.turn.clone(),
            step,
            call: call.cloned(),
        }
    }

    /// What the turn came to, with the blocks of this step that are about to be written.
    fn report(
        &self,
        outcome: TurnEnd,
        error: Option<String>,
        (step, unwritten): (u32, &[NewBlock]),
    ) -> TurnReport {
        let now = self.agent.world().now();
        self.writer.journal.read(|timeline| {
            let Some(turn) = timeline.turn(&self.turn) else {
                return TurnReport::empty(outcome, error);
            };
            let blocks = timeline.turn_blocks(turn);
            let written = blocks.iter().filter_map(|block| block.meta().usage());
            let unwritten = unwritten.iter().filter_map(|block| block.meta.usage());
            let usage_by_call: Vec<TurnUsage> = written.chain(unwritten).collect();
            let mut usage = TurnUsage::default();
            usage_by_call.iter().for_each(|call| usage.add(*call));
            let rounds = blocks
                .iter()
                .filter(|block| block.kind == BlockKind::ToolCall)
                .count() as u32;
            TurnReport {
                outcome,
                rounds,
                iterations: turn.steps.max(step),
                usage,
                usage_by_call,
                elapsed_ms: now.micros_since(turn.started) / 1_000,
                error,
            }
        })
    }
}

/// Whether a turn uses no more.
enum IsOver {
    Yes,
    No,
}

/// A `system.message` block of one of our own kinds, whose words fit into a path.
pub(crate) fn system_message(turn: &TurnId, kind: &MessageKind, text: &str) -> NewBlock {
    opening::system_message(turn, kind, text).expect("kinds are plain words")
}
