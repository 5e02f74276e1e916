//! Which conversation a prompt goes to: on with one, into a fork, into a new one, or into none that stays.

use annals_core::block::BlockKind;
use annals_core::ids::ConversationId;
use annals_core::sources::SourceRow;
use annals_runtime::{RunError, Update};
use annals_store::{BlockLogExt as _, LogError};

use super::ask::{Ask, Face, Names};
use super::error::ApiError;
use super::lineage::{ClientKey, Lineage, Place, is_one_client};
use super::part::Part;
use super::pieces::Pieces;
use super::transcript::{File, Said, Transcript};

/// Blocks after a turn that are looked at to see whether another turn follows.
const AFTER_TURN_BLOCKS: usize = 64;

/// Where a prompt goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PromptTarget {
    Continue(ConversationId),
    Fork(Place),
    /// A new conversation, of this id if one was named. What was said before, elsewhere, comes with the prompt.
    New(Option<ConversationId>),
    /// A conversation of nobody's, removed when it is answered.
    StandAlone,
}

impl Face {
    /// Where the prompt goes.
    pub(crate) async fn target(&self, ask: &Ask, key: &ClientKey) -> Result<PromptTarget, ApiError> {
        let (names, transcript) = (&ask.names, &ask.transcript);
        if let Some(id) = &names.conversation {
            self.agent.log().get(&self.agent.key(id)).await?;
            return Ok(PromptTarget::Continue(id.clone()));
        }
        if let Some(part) = &names.after {
            let place = self.end_of(part).await?;
            return self.at(place).await;
        }
        if transcript.is_side_request() {
            return Ok(PromptTarget::StandAlone);
        }
        if transcript.history.is_empty() {
            return self.first(names).await;
        }
        let mut found = self.index().find(transcript.lineage(key)).await?;
        if let (None, Some(named)) = (&found, &names.named) {
            found = self.seen_in(named, transcript).await?;
        }
        match found {
            Some(place) => self.at(place).await,
            None if self.is_known(names).await? => Ok(PromptTarget::StandAlone),
            None => Ok(PromptTarget::New(names.named.clone())),
        }
    }

    /// The first prompt of a chat. In a conversation that has turns, it is another beginning.
    async fn first(&self, names: &Names) -> Result<PromptTarget, ApiError> {
        let Some(named) = &names.named else {
            return Ok(PromptTarget::New(None));
        };
        match self.agent.log().get(&self.agent.key(named)).await {
            Ok(info) if info.tail.is_none() && self.waiting(named).await? == 0 => {
                Ok(PromptTarget::Continue(named.clone()))
            }
            Ok(_) => Ok(PromptTarget::New(None)),
            Err(LogError::NotFound { .. }) => Ok(PromptTarget::New(Some(named.clone()))),
            Err(error) => Err(error.into()),
        }
    }

    async fn is_known(&self, names: &Names) -> Result<bool, ApiError> {
        if let Some(named) = &names.named {
            return match self.agent.log().get(&self.agent.key(named)).await {
                Ok(_) => Ok(true),
                Err(LogError::NotFound { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
        match &names.hint {
            Some(hint) => Ok(self.index().named("k", hint).await?.is_some()),
            None => Ok(false),
        }
    }

    async fn waiting(&self, id: &ConversationId) -> Result<usize, ApiError> {
        Ok(self.agent.log().pending(&self.agent.key(id)).await?.len())
    }

    /// After a turn: on with its conversation if nothing followed it, else with a fork.
    async fn at(&self, place: Place) -> Result<PromptTarget, ApiError> {
        let key = self.agent.key(&place.conversation);
        let after = self
            .agent
            .log()
            .read_after(&key, Some(place.end), AFTER_TURN_BLOCKS)
            .await?;
        let is_head = !after.iter().any(|block| block.kind == BlockKind::TurnHeader);
        Ok(match is_head && self.waiting(&place.conversation).await? == 0 {
            true => PromptTarget::Continue(place.conversation),
            false => PromptTarget::Fork(place),
        })
    }

    async fn end_of(&self, part: &Part) -> Result<Place, ApiError> {
        let Part {
            conversation, turn, ..
        } = part;
        let timeline = self.agent.timeline(conversation).await?;
        let found = timeline.turn(turn).ok_or_else(|| ApiError::missing("response"))?;
        let blocks = timeline.turn_blocks(found);
        let last = blocks
            .iter()
            .find(|block| block.kind == BlockKind::ReactCompletion);
        let end = last.ok_or_else(|| {
            if timeline.waiting().next().is_some() {
                let message = "the previous response waits for results of its calls: give them, or cancel it";
                return ApiError::invalid("input", "missing_tool_output", message);
            }
            let message = "the previous response is still in progress: wait for it, or cancel it";
            ApiError::new(http::StatusCode::CONFLICT, "turn_running", message)
        })?;
        Ok(Place {
            conversation: conversation.clone(),
            end: end.seq,
        })
    }

    /// Where a conversation that was not made by this API shows what the client remembers.
    async fn seen_in(
        &self,
        conversation: &ConversationId,
        transcript: &Transcript,
    ) -> Result<Option<Place>, ApiError> {
        let timeline = match self.agent.timeline(conversation).await {
            Err(RunError::Log(LogError::NotFound { .. })) => return Ok(None),
            timeline => timeline?,
        };
        let sources: Vec<SourceRow> = timeline.pool().iter().cloned().collect();
        let wanted = Lineage::of(&ClientKey::default(), None, &transcript.history);
        let mut seen = Lineage::of(&ClientKey::default(), None, &[]);
        for turn in timeline.turns() {
            let link = self.link(conversation.clone(), String::new());
            let mut pieces = Pieces::new(turn.id.clone(), sources.iter().cloned(), link);
            let (mut end, mut user, mut instructions) = (None, Said::default(), None);
            for block in timeline.turn_blocks(turn) {
                pieces.push(&Update::Block(block.clone()));
                match block.kind {
                    BlockKind::UserPrompt => user.text = block.text().unwrap_or_default().to_owned(),
                    BlockKind::UserAttachment => user.files.extend(File::of(block)),
                    BlockKind::UserInstructions => instructions = block.text(),
                    BlockKind::ReactCompletion => end = Some(block.seq),
                    _ => {}
                }
            }
            let Some(end) = end else { continue };
            seen = seen.then(&user, &pieces.said());
            // A turn without a system text was not started by a chat client, and any may go on with it.
            let is_its =
                instructions.is_none_or(|text| is_one_client(text, transcript.instructions.as_deref()));
            if seen == wanted && is_its {
                return Ok(Some(Place {
                    conversation: conversation.clone(),
                    end,
                }));
            }
        }
        Ok(None)
    }
}
