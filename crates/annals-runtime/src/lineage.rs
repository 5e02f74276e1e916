//! Forks, detached copies and merges: conversations made from conversations, with their ancestry kept.

use std::collections::HashSet;

use annals_core::ids::{ConversationId, IdError, Seq};
use annals_store::{Ancestor, BlockLogExt as _, ConversationInfo, NewConversation, Operator, StoredAnswer};
use serde::Serialize;

use crate::agent::Agent;
use crate::approval::Imported;
use crate::error::RunError;

/// One line of an exported lineage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineageRow {
    /// The conversation.
    pub conversation: ConversationId,
    /// Where it came from.
    #[serde(flatten)]
    pub ancestor: Ancestor,
}

/// How much of its parent's history a fork shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkPoint {
    /// Nothing: another beginning of the same conversation.
    Start,
    /// Everything up to and including this block.
    Block(Seq),
    /// Everything.
    End,
}

impl From<Option<Seq>> for ForkPoint {
    fn from(at: Option<Seq>) -> Self {
        at.map_or(Self::End, Self::Block)
    }
}

/// The number of blocks that are shared, as people and clients give it.
impl TryFrom<u64> for ForkPoint {
    type Error = IdError;

    fn try_from(blocks: u64) -> Result<Self, IdError> {
        match blocks {
            0 => Ok(Self::Start),
            _ => Seq::try_new(blocks).map(Self::Block),
        }
    }
}

impl Agent {
    /// A new conversation that shares this one's history up to a point. The parent keeps everything, its sandbox too.
    pub async fn fork(
        &self,
        parent: &ConversationId,
        at: impl Into<ForkPoint>,
    ) -> Result<ConversationId, RunError> {
        let id = self.parts.world().conversation_id();
        self.fork_as(parent, at, &id, None).await
    }

    /// The same under an id of the caller's choice; `answer` is kept in the same commit.
    pub async fn fork_as(
        &self,
        parent: &ConversationId,
        at: impl Into<ForkPoint>,
        id: &ConversationId,
        answer: Option<StoredAnswer>,
    ) -> Result<ConversationId, RunError> {
        self.derive(parent, at.into(), Operator::Fork, id, answer).await
    }

    /// A copy that goes on by itself: like a fork of everything, recorded as detached.
    pub async fn detach(&self, parent: &ConversationId) -> Result<ConversationId, RunError> {
        let id = self.parts.world().conversation_id();
        self.derive(parent, ForkPoint::End, Operator::Detach, &id, None)
            .await
    }

    async fn derive(
        &self,
        parent: &ConversationId,
        at: ForkPoint,
        operator: Operator,
        id: &ConversationId,
        answer: Option<StoredAnswer>,
    ) -> Result<ConversationId, RunError> {
        let info = self.parts.log().get(&self.key(parent)).await?;
        let at = match at {
            ForkPoint::Start => None,
            ForkPoint::Block(seq) => Some(seq),
            ForkPoint::End => info.tail,
        };
        let new = self
            .offspring(&info, id)
            .from_parent(parent.clone(), at, operator)
            .answering(answer);
        self.begin(parent, at, new).await
    }

    /// A new conversation with the parent's title, without ancestry yet.
    fn offspring(&self, parent: &ConversationInfo, id: &ConversationId) -> NewConversation {
        let mut new = NewConversation::new(self.key(id), self.parts.world().now());
        new.title.clone_from(&parent.title);
        new
    }

    /// Makes the conversation, with the parent's blocks up to `at`.
    async fn begin(
        &self,
        parent: &ConversationId,
        at: Option<Seq>,
        new: NewConversation,
    ) -> Result<ConversationId, RunError> {
        let id = new.key.id.clone();
        match at {
            Some(at) => self.parts.log().fork(&self.key(parent), at, new).await?,
            None => self.parts.log().create(new).await?,
        }
        Ok(id)
    }

    /// A new conversation with the first one's blocks and then the second one's, renumbered; both are its parents, and
    /// both must be of this agent's scope. What both spent adds up, because usage is kept in the blocks.
    pub async fn merge(
        &self,
        first: &ConversationId,
        second: &ConversationId,
    ) -> Result<ConversationId, RunError> {
        let log = self.parts.log();
        let before = log.get(&self.key(first)).await?;
        let blocks = log.read_all(&self.key(second)).await?;
        let tail = blocks.last().map(|block| block.seq);
        let new = self
            .offspring(&before, &self.parts.world().conversation_id())
            .from_parent(first.clone(), before.tail, Operator::Merge)
            .from_parent(second.clone(), tail, Operator::Merge);
        let id = self.begin(first, before.tail, new).await?;
        let session = self.open(&id).await?;
        let appended = session
            .conversation
            .writer()
            .await
            .journal
            .append_copies(blocks)
            .await;
        session.close().await?;
        appended.map(|()| id)
    }

    /// Which of a conversation's blocks a stranger's file brought, to it or to one that it was made from.
    pub(crate) async fn imported(&self, info: ConversationInfo) -> Result<Imported, RunError> {
        let (mut imported, mut seen) = (Vec::new(), HashSet::new());
        let blocks = info.tail.map_or(0, Seq::get);
        let mut waiting = vec![Copied {
            info,
            before: 0,
            blocks,
        }];
        while let Some(Copied { info, before, blocks }) = waiting.pop() {
            // The parents' blocks stand one behind the other.
            let mut at = 0;
            for ancestor in info.lineage {
                let copied = ancestor.at.map_or(0, Seq::get).min(blocks - at);
                let (before, places) = (before + at, before + at + 1..=before + at + copied);
                at += copied;
                if places.is_empty() {
                    continue;
                }
                let parent = match ancestor.operator {
                    Operator::Import => None,
                    _ => self.parts.log().get(&self.key(&ancestor.parent)).await.ok(),
                };
                // A parent that is gone, or another conversation under its name, vouches for nothing.
                match parent.filter(|parent| parent.created <= info.created) {
                    Some(_) if !seen.insert((ancestor.parent, places.clone())) => {}
                    Some(info) => waiting.push(Copied {
                        info,
                        before,
                        blocks: copied,
                    }),
                    None => imported.push(places),
                }
            }
        }
        Ok(Imported(imported.into()))
    }

    /// The ancestry of a conversation, itself first, as rows for JSON Lines.
    pub async fn lineage(&self, id: &ConversationId) -> Result<Vec<LineageRow>, RunError> {
        let (mut rows, mut seen) = (Vec::new(), HashSet::new());
        let mut waiting = vec![id.clone()];
        while let Some(conversation) = waiting.pop() {
            // Two parents may have one in common, and an imported conversation may bear its parent's name.
            if !seen.insert(conversation.clone()) {
                continue;
            }
            let Ok(info) = self.parts.log().get(&self.key(&conversation)).await else {
                continue;
            };
            for ancestor in info.lineage {
                waiting.push(ancestor.parent.clone());
                rows.push(LineageRow {
                    conversation: conversation.clone(),
                    ancestor,
                });
            }
        }
        Ok(rows)
    }
}

/// A conversation whose first blocks stand in another one, behind others.
struct Copied {
    info: ConversationInfo,
    before: u64,
    blocks: u64,
}
