//! Forks, detached copies and merges: conversations made from conversations, with their ancestry kept.

use annals_core::ids::{ConversationId, Seq};
use annals_store::{Ancestor, Append, NewConversation, Operator};
use serde::Serialize;

use crate::agent::Agent;
use crate::error::RunError;
use crate::journal::LEASE_TTL;

/// One line of an exported lineage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineageRow {
    /// The conversation.
    pub conversation: ConversationId,
    /// Where it came from.
    #[serde(flatten)]
    pub ancestor: Ancestor,
}

impl Agent {
    /// A new conversation that shares this one's history up to a block (the last one, if none is given). The parent
    /// keeps everything, its sandbox too.
    pub async fn fork(&self, parent: &ConversationId, at: Option<Seq>) -> Result<ConversationId, RunError> {
        self.derive(parent, at, Operator::Fork).await
    }

    /// A copy that goes on by itself: like a fork of everything, recorded as detached.
    pub async fn detach(&self, parent: &ConversationId) -> Result<ConversationId, RunError> {
        self.derive(parent, None, Operator::Detach).await
    }

    async fn derive(
        &self,
        parent: &ConversationId,
        at: Option<Seq>,
        operator: Operator,
    ) -> Result<ConversationId, RunError> {
        let parent_key = self.key(parent);
        let info = self.parts.log.get(&parent_key).await?;
        let at = at.or(info.tail);
        let id = self.parts.world.conversation_id();
        let mut new = NewConversation::new(self.key(&id), self.parts.world.now()).from_parent(
            parent.clone(),
            at,
            operator,
        );
        new.title = info.title;
        match at {
            Some(at) => self.parts.log.fork(&parent_key, at, new).await?,
            None => self.parts.log.create(new).await?,
        }
        Ok(id)
    }

    /// A new conversation with the first one's blocks and then the second one's, renumbered. What both spent adds up,
    /// because usage is kept in the blocks.
    pub async fn merge(
        &self,
        first: &ConversationId,
        second: &ConversationId,
    ) -> Result<ConversationId, RunError> {
        let (before, after) = (self.timeline(first).await?, self.timeline(second).await?);
        let id = self.derive(first, None, Operator::Merge).await?;
        let parts = &self.parts;
        let mut seq = before.next_seq();
        let mut blocks = Vec::with_capacity(after.blocks().len());
        for block in after.blocks() {
            let mut block = (**block).clone();
            block.seq = seq;
            seq = seq.next();
            blocks.push(block);
        }
        if !blocks.is_empty() {
            let lease = parts.log.acquire(&self.key(&id), &parts.owner, LEASE_TTL).await?;
            let append = Append::new(parts.batch(), before.tail(), blocks);
            parts.log.append(&lease, append).await?;
            parts.log.release(&lease).await?;
        }
        Ok(id)
    }

    /// The ancestry of a conversation, itself first, as rows for JSON Lines.
    pub async fn lineage(&self, id: &ConversationId) -> Result<Vec<LineageRow>, RunError> {
        let mut rows = Vec::new();
        let mut waiting = vec![id.clone()];
        while let Some(conversation) = waiting.pop() {
            let Ok(info) = self.parts.log.get(&self.key(&conversation)).await else {
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
