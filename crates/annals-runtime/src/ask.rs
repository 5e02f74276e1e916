//! One model call: the request sent, the stream shown while it comes, the answer written down.

use annals_core::block::{MessageKind, Meta, NewBlock};
use annals_core::code::Code;
use annals_core::ids::CallId;
use annals_core::path::LogicalPath;
use annals_core::plan::acks;
use annals_core::sources::citation;
use annals_core::turn::opening::answer_block;
use annals_core::turn::outcome::Notice;
use annals_core::turn::round::{self, NewAnswer, NewCall};
use annals_core::turn::{CallModel, Offer, SentPrompt, TurnEnd, TurnUsage, text_call};
use annals_core::view::{Layout, cut};
use annals_core::{block::BlockKind, limits};
use annals_model::{Answer, Assembler, Event, ModelError, RawCall, Request, Usage};
use futures::StreamExt as _;
use serde_json::{Map, Value};

use crate::bounds::Reached;
use crate::driver::{Drive, system_message};
use crate::error::RunError;
use crate::hooks::guarded;
use crate::listen::{Delta, DeltaChannel, Update};
use crate::partial::{Seen, WriteWatch};
use crate::step;
use crate::structured;
use crate::terms::TurnTerms;

/// What came of asking.
pub(crate) enum Asked {
    /// The answer is on the timeline.
    Answered,
    /// So is the end of the turn.
    Ended(TurnEnd),
    /// The model failed for good; this is why.
    Failed(String),
    /// It was not asked: the turn ends, because of this.
    Ends(Reached),
}

impl Drive<'_> {
    /// Asks the model once and writes its answer down.
    pub(crate) async fn ask(&mut self, call: CallModel) -> Result<Asked, RunError> {
        let view_tokens = self.writer.journal.read(|view| view.view_tokens());
        if let Some(reason) = self.agent.frame.overflow(view_tokens) {
            return Ok(Asked::Failed(reason));
        }
        self.write_offer().await?;
        let (request, sent) = step::request(self.agent, self.writer, call).await?;
        let cx = self.hook_cx(None);
        let _ = guarded(
            "before_model",
            self.agent.hooks.before_model(&cx, &request.prompt),
        )
        .await;
        let answer = match self.stream(request, call.step).await {
            Ok(answer) => answer,
            Err(ModelError::Cancelled) => {
                self.cancel.cancel();
                return Ok(Asked::Answered);
            }
            Err(ModelError::ContextLimit { message }) if !self.was_refused_before() => {
                let text = format!("the prompt was too long: {message}");
                let note = system_message(&self.turn, &MessageKind::ContextLimit, &text);
                self.writer.journal.append(vec![note]).await?;
                return Ok(Asked::Answered);
            }
            Err(error) => return Ok(Asked::Failed(format!("{}: {error}", error.kind()))),
        };
        let answer = match self.agent.layout {
            Layout::Chat => answer,
            Layout::Timeline => with_text_calls(answer),
        };
        let _ = guarded("after_model", self.agent.hooks.after_model(&cx, &answer)).await;
        self.record(call, answer, &sent).await
    }

    fn was_refused_before(&self) -> bool {
        self.writer.journal.read(|timeline| {
            timeline
                .turn(&self.turn)
                .is_some_and(|turn| turn.context_limit.is_some())
        })
    }

    /// Streams one answer, telling listeners as it comes.
    async fn stream(&self, request: Request, step: u32) -> Result<Answer, ModelError> {
        let mut stream = self.agent.model.stream(request, &self.cancel).await?;
        let mut assembler = Assembler::new();
        let mut watch = WriteWatch::new(&self.agent.tools);
        let mut words = match self.agent.layout {
            Layout::Chat => None,
            Layout::Timeline => Some(text_call::Arriving::default()),
        };
        loop {
            let event = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(ModelError::Cancelled),
                event = stream.next() => event,
            };
            let Some(event) = event else {
                let rest = words.as_mut().map(text_call::Arriving::finish);
                self.tell_text(rest.unwrap_or_default(), step, &mut watch);
                return assembler.finish();
            };
            let event = event?;
            match (&event, &mut words) {
                (Event::Text(text), Some(words)) => self.tell_text(words.push(text), step, &mut watch),
                (event, words) => {
                    if matches!(event, Event::Restarted { .. }) {
                        *words = words.take().map(|_| text_call::Arriving::default());
                    }
                    self.tell_deltas(event, step, &mut watch);
                }
            }
            assembler.push(&event);
        }
    }

    /// Tells the words of a text in which calls are written, and the documents that those calls write.
    fn tell_text(&self, arrived: Vec<text_call::Arrived>, step: u32, watch: &mut WriteWatch<'_>) {
        for piece in arrived {
            let event = match piece {
                text_call::Arrived::Words(text) => Event::Text(text),
                text_call::Arrived::CallStarted { index, tool } => Event::CallStarted {
                    index,
                    id: None,
                    tool,
                },
                text_call::Arrived::Arguments { index, json } => Event::CallArguments { index, json },
            };
            self.tell_deltas(&event, step, watch);
        }
    }

    fn tell_deltas(&self, event: &Event, step: u32, watch: &mut WriteWatch<'_>) {
        let tell = |seen: Seen| {
            self.writer.journal.tell(Update::Delta(Delta {
                conversation: self.cx.conversation.clone(),
                turn: self.turn.clone(),
                step,
                channel: seen.channel,
                from: 0,
                text: seen.text,
                path: seen.path,
            }));
        };
        let said = |channel, text: &str| {
            tell(Seen {
                channel,
                text: text.to_owned(),
                path: None,
            });
        };
        match event {
            Event::Thinking(text) => said(DeltaChannel::Thinking, text),
            Event::Text(text) => said(DeltaChannel::Answer, text),
            Event::CallStarted { index, tool, .. } => watch.started(*index, tool),
            Event::CallArguments { index, json } => {
                watch.arrived(*index, json).into_iter().for_each(tell);
            }
            Event::Restarted { reason, .. } => {
                watch.restart();
                self.writer.journal.tell(Update::Restarted {
                    turn: self.turn.clone(),
                    reason: (*reason).to_owned(),
                });
            }
            // Signatures and the end of an answer are nothing that a person watches.
            _ => {}
        }
    }

    async fn record(
        &mut self,
        call: CallModel,
        mut answer: Answer,
        sent: &SentPrompt,
    ) -> Result<Asked, RunError> {
        if call.offer == Offer::AnswerOnly {
            answer.calls.clear();
        }
        if !answer.calls.is_empty() {
            self.record_calls(call.step, answer, sent).await?;
            return Ok(Asked::Answered);
        }
        let thinking = round::thinking_block(&self.turn, call.step, &thoughts(&answer));
        let text = match (answer.text.trim().is_empty(), call.offer) {
            (false, _) => answer.text.clone(),
            (true, Offer::AnswerOnly) => format!(
                "This turn ended after {} model calls without an answer. What was done so far is on the timeline; ask \
                 again to go on.",
                call.step - 1
            ),
            (true, Offer::Tools) => {
                let notice = empty_answer(&answer);
                return self
                    .record_refused(call.step, "(an empty answer)", &notice, &answer, thinking, sent)
                    .await;
            }
        };
        let schema = self.schema();
        let fitted = schema.as_ref().map(|schema| structured::fit(schema, &text));
        if let Some(Err(why)) = &fitted
            && self.bounds.misfits < structured::REPAIRS_MAX
            && call.offer == Offer::Tools
        {
            let notice = Notice::new(
                Code::ViolationAnswerSchema,
                format!("{why}; answer again, with the JSON alone"),
            );
            return self
                .record_refused(call.step, &text, &notice, &answer, thinking, sent)
                .await;
        }
        let is_json = matches!(fitted, Some(Ok(_)));
        let text = fitted.and_then(Result::ok).unwrap_or(text);
        let mut blocks: Vec<NewBlock> = thinking.into_iter().collect();
        let mut answered = answer_block(&self.turn, call.step, &text, citation::extract(&text));
        if is_json {
            answered = answered.mime("application/json");
        }
        blocks.push(answered);
        blocks.extend(self.plan_blocks(&text, None, call.step));
        with_request(&mut blocks, answer.usage, sent);
        // How well an answer fits a schema is judged once it is on the timeline.
        let end = self.ends_with_answer(call.step).filter(|_| schema.is_none());
        let is_end = match end {
            Some(end) => self.finish_answering(&blocks, call.step, end).await?,
            None => false,
        };
        match end.filter(|_| is_end) {
            Some(end) => Ok(Asked::Ended(end)),
            None => self.writer.journal.append(blocks).await.map(|()| Asked::Answered),
        }
    }

    /// The schema that the answer of this turn must fit.
    fn schema(&self) -> Option<Value> {
        let turn = &self.turn;
        self.writer
            .journal
            .read(|timeline| TurnTerms::of(timeline, turn).schema)
    }

    /// An answer that cannot be taken: the model is told why, and it costs a step.
    async fn record_refused(
        &mut self,
        step: u32,
        said: &str,
        notice: &Notice,
        answer: &Answer,
        thinking: Option<NewBlock>,
        sent: &SentPrompt,
    ) -> Result<Asked, RunError> {
        let id = self.unused_id(None, &[]).0;
        let meta = Meta {
            step: Some(step),
            ..Meta::EMPTY
        };
        let said = cut::cut(said, limits::DECISION_RAW_MAX_CHARS, None).into_owned();
        let path = LogicalPath::decision_raw(&self.turn, step);
        let raw = NewBlock::new(BlockKind::DecisionRaw, &self.turn, path)
            .text("text/plain", said)
            .meta(meta.clone());
        let mut notice = round::notice_block(&self.turn, &id, notice);
        notice.meta = meta;
        let mut blocks: Vec<NewBlock> = thinking.into_iter().chain([raw, notice]).collect();
        with_request(&mut blocks, answer.usage, sent);
        self.writer.journal.append(blocks).await?;
        Ok(Asked::Answered)
    }

    async fn record_calls(&mut self, step: u32, answer: Answer, sent: &SentPrompt) -> Result<(), RunError> {
        let mut new = thoughts(&answer);
        new.notes.clone_from(&answer.text);
        let mut notices = Vec::new();
        for raw in answer.calls.iter().take(limits::ANSWER_MAX_CALLS) {
            let call = self.new_call(raw, &new.calls, &mut notices).await;
            new.calls.push(call);
        }
        if let (Some(last), true) = (new.calls.last(), answer.calls.len() > limits::ANSWER_MAX_CALLS) {
            let message = format!(
                "{} calls came in one answer, the first {} were taken: make the others in the next",
                answer.calls.len(),
                limits::ANSWER_MAX_CALLS
            );
            let notice = Notice::new(Code::ViolationTooManyCalls, message);
            notices.push(round::notice_block(&self.turn, &last.id, &notice));
        }
        let mut blocks = round::answer_blocks(&self.turn, step, self.agent.world().now(), &new);
        blocks.extend(self.plan_blocks(&answer.text, new.calls.first().map(|call| &call.id), step));
        blocks.extend(notices);
        with_request(&mut blocks, answer.usage, sent);
        self.mark_started(&mut new.calls, &mut blocks);
        self.writer.journal.append(blocks).await?;
        self.fresh
            .extend(new.calls.into_iter().map(|call| (call.id, Some(call.params))));
        Ok(())
    }

    /// Reads one call. Its large parameter is kept before the call block that shows it cut.
    async fn new_call(&self, raw: &RawCall, earlier: &[NewCall], notices: &mut Vec<NewBlock>) -> NewCall {
        let (id, renamed_from) = self.unused_id(raw.id.as_deref(), earlier);
        if let Some(from) = renamed_from {
            let message = format!("the call id `{from}` was used before: this call is `{id}`");
            notices.push(round::notice_block(
                &self.turn,
                &id,
                &Notice::new(Code::ViolationDuplicateCallId, message)
                    .with("from", from)
                    .with("to", id.as_str()),
            ));
        }
        let tool = self.agent.tools.get_wire(&raw.tool);
        let name = tool
            .map_or(raw.tool.as_str(), |tool| tool.spec().name().as_str())
            .to_owned();
        let args = match raw.arguments.trim() {
            "" => Some(Value::Object(Map::new())),
            text => serde_json::from_str(text).ok().filter(Value::is_object),
        };
        let Some(args) = args else {
            let unreadable = Some(raw.arguments.clone());
            return NewCall {
                id,
                tool: name,
                params: Map::new(),
                unreadable,
                cut: None,
            };
        };
        let cut = match tool {
            Some(tool) => self.agent.kept_cut(&**tool, &self.turn, &id, &args).await,
            None => None,
        };
        let params = match args {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        NewCall {
            id,
            tool: name,
            params,
            unreadable: None,
            cut,
        }
    }

    /// The model's id for a call if it is usable and new, else one of our own and what it replaces.
    fn unused_id(&self, given: Option<&str>, earlier: &[NewCall]) -> (CallId, Option<String>) {
        let is_used = |id: &CallId| {
            earlier.iter().any(|call| call.id == *id)
                || self.writer.journal.read(|timeline| timeline.call(id).is_some())
        };
        let Some(Ok(id)) = given.map(CallId::parse) else {
            return (self.agent.world().call_id(), None);
        };
        if !is_used(&id) {
            return (id, None);
        }
        // Many servers count calls anew in each answer. That an earlier turn had the id is nobody's fault.
        let is_of_this_turn = earlier.iter().any(|call| call.id == id)
            || self
                .writer
                .journal
                .read(|view| view.call_block(&id).is_some_and(|block| block.turn == self.turn));
        let free = (2..).map(|n| id.numbered(n)).find(|id| !is_used(id));
        let free = free.unwrap_or_else(|| self.agent.world().call_id());
        (free, is_of_this_turn.then(|| id.to_string()))
    }

    /// Acknowledgements of plan steps that the model's words make.
    fn plan_blocks(&self, words: &str, call: Option<&CallId>, step: u32) -> Vec<NewBlock> {
        let acks = acks(words);
        let plan = self.writer.journal.read(|timeline| timeline.plan().cloned());
        let Some(mut plan) = plan.filter(|_| !acks.is_empty()) else {
            return Vec::new();
        };
        let changed = plan.apply(&acks, self.agent.world().now());
        if changed.is_empty() {
            return Vec::new();
        }
        let ack = NewBlock::new(
            BlockKind::PlanAck,
            &self.turn,
            LogicalPath::plan_ack(&self.turn, step),
        )
        .text("text/markdown", plan.ack_text(&changed))
        .meta(Meta {
            call: call.cloned(),
            ..Meta::EMPTY
        });
        let snapshot = NewBlock::new(
            BlockKind::Plan,
            &self.turn,
            LogicalPath::plan(&self.turn, &plan.plan_id),
        );
        vec![ack, snapshot.json(&plan)]
    }
}

/// What a model is told whose answer has neither text nor calls.
fn empty_answer(answer: &Answer) -> Notice {
    let message = format!(
        "your answer was empty (stop reason `{}`): answer, or call a tool",
        answer.stop.as_str()
    );
    Notice::new(Code::ViolationEmptyAnswer, message)
}

/// The calls that a model without tool calling wrote in its text, as calls.
fn with_text_calls(mut answer: Answer) -> Answer {
    let text_call::TextAnswer { text, calls } = text_call::parse(&answer.text);
    answer.text = text;
    answer.calls.extend(calls.into_iter().map(|call| RawCall {
        id: call.id,
        tool: call.tool,
        arguments: call.arguments,
    }));
    answer
}

fn thoughts(answer: &Answer) -> NewAnswer {
    let thinking = answer.thinking.as_ref();
    NewAnswer {
        thinking: thinking.map(|thinking| thinking.text.clone()),
        signature: thinking.and_then(|thinking| thinking.signature.clone()),
        ..NewAnswer::default()
    }
}

/// The tokens of a model call and what its prompt was made from, kept with the first block it wrote, so that they survive
/// a crash.
fn with_request(blocks: &mut [NewBlock], usage: Usage, sent: &SentPrompt) {
    let usage = used(usage);
    if let Some(first) = blocks.first_mut() {
        first.meta = std::mem::take(&mut first.meta)
            .with_usage(&usage)
            .with_prompt(sent);
    }
}

/// The tokens of a model call, as blocks keep them.
pub(crate) fn used(usage: Usage) -> TurnUsage {
    TurnUsage {
        input_tokens: usage.input_tokens,
        cache_read_tokens: usage.cache_read_tokens,
        cache_write_tokens: usage.cache_write_tokens,
        output_tokens: usage.output_tokens,
    }
}
