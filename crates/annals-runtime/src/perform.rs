//! One request performed: the turn opened, driven to its end, and what it came to.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use annals_core::block::{Blob, BlockKind, NewBlock};
use annals_core::ids::TurnId;
use annals_core::limits;
use annals_core::path::LogicalPath;
use annals_core::settings::BudgetSettings;
use annals_core::timeline::Timeline;
use annals_core::turn::TurnEnd;
use annals_core::turn::opening::{AttachedFile, Opening};
use annals_core::turn::round::{NewAnswer, NewCall, answer_blocks};
use annals_policy::Policy;
use annals_store::{ArtifactError, InboxId, LogError, Work as Remaining};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::agent::AgentParts;
use crate::attach::{self, Attachment};
use crate::bounds::Bounds;
use crate::caller::Caller;
use crate::conversation::Conversation;
use crate::driver::Drive;
use crate::error::RunError;
use crate::hooks::guarded;
use crate::joining::UnfinishedTurn;
use crate::journal::Journal;
use crate::listen::Update;
use crate::mail::StoredAttachment;
use crate::request::{TurnRequest, Work};
use crate::structured;
use crate::terms::TurnTerms;
use crate::turn::Ended;
use crate::writer::Writer;

/// A turn has begun: if this process dies, another takes it up.
const UNFINISHED: Remaining = Remaining::DueIn(Duration::ZERO);

/// Does what the request asks for, to the end of its turn; none when the turn waits for a person. `row` is the row of the
/// inbox that the request came from.
pub(crate) async fn turn(
    agent: &Arc<AgentParts>,
    conversation: &Arc<Conversation>,
    writer: &mut Writer,
    request: TurnRequest,
    row: Option<InboxId>,
) -> Result<Option<Ended>, RunError> {
    writer.journal.set_listener(request.listener);
    writer.ready().await?;
    let kept = match &request.work {
        Work::Resume => writer.journal.read(|timeline| {
            let open = timeline.current_turn().filter(|turn| turn.end.is_none());
            open.map(|turn| TurnTerms::of(timeline, &turn.id))
        }),
        _ => None,
    };
    if let (Work::Resume, Some(found)) = (&request.work, &request.found)
        && let Some(ended) = ended_meanwhile(&writer.journal, found)
    {
        return Ok(Some(ended));
    }
    let agent = &agent.on_terms(kept.as_ref().unwrap_or(&request.terms))?;
    let (policy, budget) = futures::try_join!(agent.read_policy(), agent.read_budget())?;
    let mut opened = Opened {
        agent,
        conversation,
        writer,
        row,
        instructions: request.instructions,
        terms: request.terms,
        policy,
        budget,
        cancel: request.cancel,
    };
    let (turn, end) = match request.work {
        Work::Prompt { prompt, attachments } => opened.prompt(prompt, attachments, request.turn).await?,
        Work::Posted { prompt, attachments } => {
            let attachments = opened.load(attachments).await?;
            opened.prompt(prompt, attachments, request.turn).await?
        }
        Work::Resume => opened.resume().await?,
        Work::Call { tool, params, caller } => opened.call(caller, &tool, params, request.turn).await?,
    };
    if end.is_none() {
        return Ok(None);
    }
    let ended = opened.writer.journal.read(|timeline| Ended::of(timeline, &turn));
    ended.map(Some).ok_or(RunError::Stopped)
}

/// What a turn came to that the owner has ended since it was found; the caller hears what it missed.
fn ended_meanwhile(journal: &Journal, found: &UnfinishedTurn) -> Option<Ended> {
    let (ended, missed) = journal.read(|timeline| {
        let ended = found
            .has_ended(timeline)
            .then(|| Ended::of(timeline, &found.turn));
        ended.flatten().map(|ended| (ended, found.missed(timeline)))
    })?;
    let listener = &journal.audience().listener;
    missed
        .into_iter()
        .for_each(|block| listener.on(Update::Block(block)));
    listener.on(Update::TurnEnded {
        turn: found.turn.clone(),
        end: ended.end(),
    });
    Some(ended)
}

/// Ends the turn that is open, or else the one that the request would begin, without trying it once more.
pub(crate) async fn give_up(
    agent: &Arc<AgentParts>,
    conversation: &Arc<Conversation>,
    writer: &mut Writer,
    next: Option<TurnRequest>,
    row: Option<InboxId>,
) -> Result<(), RunError> {
    writer.ready().await?;
    let open = writer.journal.read(|timeline| {
        let open = timeline.current_turn().filter(|turn| turn.end.is_none());
        open.map(|turn| turn.id.clone())
    });
    let mut opened = Opened {
        agent,
        conversation,
        writer,
        row,
        instructions: None,
        terms: TurnTerms::default(),
        policy: None,
        budget: BudgetSettings::default(),
        cancel: CancellationToken::new(),
    };
    let turn = match (open, next) {
        (Some(turn), _) => turn,
        (None, Some(next)) => {
            let turn = opened.new_turn(next.turn)?;
            match next.work {
                // Its files may be what no process survived.
                Work::Posted { prompt, .. } => opened.open_turn(&turn, &prompt, &[]).await?,
                Work::Call { caller, .. } => {
                    let blocks = call_opening(caller, &turn, Vec::new());
                    let row = opened.row.into_iter().collect();
                    let journal = &mut opened.writer.journal;
                    journal.append_consuming(blocks, row, UNFINISHED).await?;
                }
                Work::Prompt { .. } | Work::Resume => return Ok(()),
            }
            turn
        }
        (None, None) => return Ok(()),
    };
    let why = format!(
        "this turn was taken up {} times and never got on: its process ended each time, or could not begin it and said \
         why in its log; it is not tried again",
        limits::TURN_MAX_ATTEMPTS
    );
    opened.drive(turn).finish(TurnEnd::Failed, Some(why)).await?;
    Ok(())
}

/// A turn, and how it ended if it has.
type Driven = (TurnId, Option<TurnEnd>);

/// A conversation ready for one turn.
struct Opened<'a> {
    agent: &'a Arc<AgentParts>,
    conversation: &'a Arc<Conversation>,
    writer: &'a mut Writer,
    row: Option<InboxId>,
    /// A client's own system text for the turn.
    instructions: Option<String>,
    terms: TurnTerms,
    /// The rules in force, read once for the turn.
    policy: Option<Arc<Policy>>,
    /// What the turn may use up, read with them.
    budget: BudgetSettings,
    cancel: CancellationToken,
}

impl Opened<'_> {
    async fn prompt(
        &mut self,
        prompt: String,
        attachments: Vec<Attachment>,
        turn: Option<TurnId>,
    ) -> Result<Driven, RunError> {
        check_prompt(&prompt, self.instructions.as_deref(), &attachments)?;
        if let Some(defect) = self.terms.schema.as_ref().and_then(structured::defect) {
            return Err(RunError::Schema(defect));
        }
        let turn = self.new_turn(turn)?;
        let attachments =
            attach::take_in(&self.agent.content, &self.conversation.cx, &turn, attachments).await?;
        let opened = self.open_turn(&turn, &prompt, &attachments).await;
        // Another process may have written since this one last did. Then what it wrote is folded in, once.
        if let Err(RunError::Log(LogError::Conflict { .. })) = opened {
            self.writer.ready().await?;
            self.new_turn(Some(turn.clone()))?;
            self.open_turn(&turn, &prompt, &attachments).await?;
        } else {
            opened?;
        }
        let mut drive = self.drive(turn.clone());
        drive.prune().await?;
        let timeline = drive.writer.journal.snapshot();
        let hook = drive.agent.hooks.clone();
        let contributed = guarded("turn_started", hook.turn_started(&drive.hook_cx(None), &timeline)).await;
        drop(timeline);
        drive.contribute(contributed.unwrap_or_default()).await?;
        let end = drive.run().await?;
        Ok((turn, end))
    }

    /// The files of a posted prompt.
    async fn load(&self, stored: Vec<StoredAttachment>) -> Result<Vec<Attachment>, RunError> {
        let mut attachments = Vec::with_capacity(stored.len());
        for file in stored {
            let digest = file.digest;
            let size_bytes = self.agent.artifacts().size_bytes(&digest).await;
            let size_bytes = size_bytes.and_then(|size| size.ok_or(ArtifactError::Missing { digest }));
            let size_bytes = size_bytes.map_err(|error| RunError::Artifact(error.to_string()))?;
            attachments.push(Attachment::stored(file.name, Blob { digest, size_bytes }));
        }
        Ok(attachments)
    }

    async fn open_turn(
        &mut self,
        turn: &TurnId,
        prompt: &str,
        attachments: &[AttachedFile],
    ) -> Result<(), RunError> {
        self.close_unfinished().await?;
        let last = self.writer.journal.read(|timeline| timeline.tools().cloned());
        let tools = self.agent.new_table(last.as_ref()).await;
        let opening = Opening {
            turn: turn.clone(),
            prompt: prompt.to_owned(),
            attachments: attachments.to_vec(),
            instructions: match &self.terms.schema {
                Some(schema) => Some(structured::instructions(self.instructions.as_deref(), schema)),
                None => self.instructions.clone(),
            },
            agent: format!("{} | model: {}", self.agent.name, self.agent.model.name()),
            tools,
        };
        let mut blocks: Vec<NewBlock> = self.writer.journal.read(|timeline| {
            let resolved = clarification_resolved(timeline, turn);
            opening.blocks(timeline).into_iter().chain(resolved).collect()
        });
        if let Some(header) = blocks.first_mut() {
            self.terms.write(header);
        }
        let row = self.row.into_iter().collect();
        let journal = &mut self.writer.journal;
        journal.append_consuming(blocks, row, UNFINISHED).await
    }

    async fn resume(&mut self) -> Result<Driven, RunError> {
        let open = self.writer.journal.read(|timeline| {
            timeline
                .current_turn()
                .filter(|turn| turn.end.is_none())
                .map(|turn| {
                    let goes_on = turn.prompt.is_some() || Caller::of(timeline, &turn.id) == Caller::Program;
                    (turn.id.clone(), goes_on)
                })
        });
        let Some((turn, goes_on)) = open else {
            return Err(RunError::NothingToResume(self.conversation.key.id.clone()));
        };
        let mut drive = self.drive(turn.clone());
        let end = match goes_on {
            true => drive.run().await?,
            false => Some(drive.finish(TurnEnd::Interrupted, None).await?),
        };
        Ok((turn, end))
    }

    async fn call(
        &mut self,
        caller: Caller,
        tool: &str,
        params: Map<String, Value>,
        turn: Option<TurnId>,
    ) -> Result<Driven, RunError> {
        let known = self.agent.tools.get_wire(tool);
        if known.is_none() && caller == Caller::Person {
            return Err(RunError::NoSuchTool(tool.to_owned()));
        }
        let turn = self.new_turn(turn)?;
        self.close_unfinished().await?;
        let call = self.agent.world().call_id();
        let args = Value::Object(params);
        let cut = match known {
            Some(tool) => self.agent.kept_cut(&**tool, &turn, &call, &args).await,
            None => None,
        };
        let params = match args {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        let new = NewCall {
            id: call.clone(),
            tool: known.map_or_else(|| tool.to_owned(), |tool| tool.spec().name().to_string()),
            params,
            unreadable: None,
            cut,
        };
        let mut answer = NewAnswer {
            calls: vec![new],
            ..NewAnswer::default()
        };
        let calls = answer_blocks(&turn, 0, self.agent.world().now(), &answer);
        let mut blocks = call_opening(caller, &turn, calls);
        let row = self.row.into_iter().collect();
        let mut drive = self.drive(turn.clone());
        drive.is_person = caller == Caller::Person;
        drive.mark_started(&mut answer.calls, &mut blocks);
        let journal = &mut drive.writer.journal;
        journal.append_consuming(blocks, row, UNFINISHED).await?;
        let params = answer.calls.pop().map(|call| call.params);
        drive.fresh.insert(call.clone(), params);
        let end = match caller {
            Caller::Person => {
                drive.run_calls(vec![call]).await?;
                Some(drive.finish(TurnEnd::Complete, None).await?)
            }
            Caller::Program => drive.run().await?,
        };
        Ok((turn, end))
    }

    fn new_turn(&self, turn: Option<TurnId>) -> Result<TurnId, RunError> {
        let turn = turn.unwrap_or_else(|| self.agent.world().turn_id());
        match self
            .writer
            .journal
            .read(|timeline| timeline.turn(&turn).is_some())
        {
            true => Err(RunError::TurnExists(turn)),
            false => Ok(turn),
        }
    }

    /// Closes a turn that nobody goes on with.
    async fn close_unfinished(&mut self) -> Result<(), RunError> {
        let unfinished = self.writer.journal.read(|timeline| {
            timeline
                .current_turn()
                .filter(|turn| turn.end.is_none())
                .map(|turn| turn.id.clone())
        });
        if let Some(unfinished) = unfinished {
            let why = "a new prompt came before the turn had ended".to_owned();
            self.drive(unfinished)
                .finish(TurnEnd::Interrupted, Some(why))
                .await?;
        }
        Ok(())
    }

    fn drive(&mut self, turn: TurnId) -> Drive<'_> {
        let cancel = self.cancel.child_token();
        Drive {
            agent: self.agent,
            conversation: self.conversation,
            cx: &self.conversation.cx,
            _alive: self.writer.journal.keep_alive(cancel.clone()),
            writer: self.writer,
            turn,
            cancel,
            fresh: HashMap::new(),
            granted: HashSet::new(),
            is_person: false,
            policy: self.policy.clone(),
            budget: self.budget.clone(),
            bounds: Bounds::default(),
            reached: None,
            letters: Vec::new(),
            taken: Vec::new(),
        }
    }
}

/// The beginning of a turn that is one call: its header and the call's blocks.
fn call_opening(caller: Caller, turn: &TurnId, calls: Vec<NewBlock>) -> Vec<NewBlock> {
    let mut header = NewBlock::new(BlockKind::TurnHeader, turn, LogicalPath::turn_header(turn));
    caller.write(&mut header);
    let calls = calls.into_iter().map(|block| NewBlock {
        author: caller.author().into(),
        ..block
    });
    [header].into_iter().chain(calls).collect()
}

pub(crate) fn check_prompt(
    prompt: &str,
    instructions: Option<&str>,
    attachments: &[Attachment],
) -> Result<(), RunError> {
    let given = prompt.len().max(instructions.map_or(0, str::len));
    if given > limits::PROMPT_MAX_BYTES {
        return Err(RunError::PromptTooLong {
            given,
            most: limits::PROMPT_MAX_BYTES,
        });
    }
    if prompt.trim().is_empty() && attachments.is_empty() {
        return Err(RunError::PromptEmpty);
    }
    Ok(())
}

/// When the last turn asked the person something, the new prompt is the answer.
fn clarification_resolved(timeline: &Timeline, turn: &TurnId) -> Option<NewBlock> {
    let asked = timeline.current_turn().filter(|turn| turn.clarified)?;
    let path = LogicalPath::stage(turn, "clarification.resolved").expect("a plain name");
    let text = serde_json::json!({ "asked_in": asked.id, "answered_in": turn });
    Some(NewBlock::new(BlockKind::StageClarificationResolved, turn, path).json(&text))
}
