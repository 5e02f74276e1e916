//! What waits for a person in all conversations of a scope, without folding any of them.

use annals_core::block::payload::{ApprovalDecision, ApprovalRequest, InputRequest};
use annals_core::block::{Block, BlockKind};
use annals_core::ids::{ConversationId, ConversationKey, Scope};
use annals_core::time::Timestamp;
use annals_store::BlockLogExt as _;
use futures::TryStreamExt as _;

use crate::agent::Agent;
use crate::error::RunError;
use crate::runtime::Runtime;
use crate::terms::ClientFunction;

/// A call that waits for a person to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingApproval {
    /// Where it waits.
    pub conversation: ConversationId,
    /// When the person was asked.
    pub asked: Timestamp,
    /// What the person is asked.
    pub request: ApprovalRequest,
}

/// A call that waits for what a person tells it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PendingInput {
    /// Where it waits.
    pub conversation: ConversationId,
    /// What is wanted.
    pub request: InputRequest,
}

/// Conversations that ask are listed this many at a time.
const PAGE_CONVERSATIONS: usize = 200;

impl Runtime {
    /// What waits for a person in the conversations of a scope, in the order in which these were made.
    pub async fn pending_approvals(&self, scope: &Scope) -> Result<Vec<PendingApproval>, RunError> {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.log().asking(scope, cursor, PAGE_CONVERSATIONS).await?;
            for asking in page.items {
                found.extend(self.pending_in(&asking.key, asking.from).await?);
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    /// Reads the blocks from the first request of the last turn on.
    async fn pending_in(
        &self,
        key: &ConversationKey,
        from: annals_core::ids::Seq,
    ) -> Result<Vec<PendingApproval>, RunError> {
        let mut pending: Vec<PendingApproval> = Vec::new();
        let mut blocks = self.log().blocks(key, from);
        while let Some(block) = blocks.try_next().await? {
            follow(&mut pending, &key.id, &block);
        }
        let now = self.world().now();
        pending.retain(|waits| waits.request.expires.is_none_or(|expires| expires > now));
        Ok(pending)
    }
}

/// What waits once this block is the last one.
fn follow(pending: &mut Vec<PendingApproval>, conversation: &ConversationId, block: &Block) {
    match block.kind {
        BlockKind::ApprovalRequest => {
            if let Ok(request) = block.payload::<ApprovalRequest>() {
                pending.push(PendingApproval {
                    conversation: conversation.clone(),
                    asked: block.ts,
                    request,
                });
            }
        }
        BlockKind::ApprovalDecision => {
            if let Ok(decision) = block.payload::<ApprovalDecision>() {
                pending.retain(|waits| waits.request.approval_id != decision.approval_id);
            }
        }
        // A call that has its result waits for nobody, whatever settled it.
        BlockKind::ToolResult => {
            pending.retain(|waits| block.meta().call.as_ref() != Some(&waits.request.call_id));
        }
        BlockKind::TurnHeader | BlockKind::ReactCompletion => pending.clear(),
        _ => {}
    }
}

impl Agent {
    /// What calls wait to be told by a person, in all conversations of this agent's scope.
    pub async fn pending_inputs(&self) -> Result<Vec<PendingInput>, RunError> {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page = self
                .log()
                .asking(self.scope(), cursor, PAGE_CONVERSATIONS)
                .await?;
            for asking in page.items {
                let conversation = asking.key.id;
                let requests = self.conversation(&conversation).inputs().await?.into_iter();
                let of_person = requests.filter(|request| !ClientFunction::performs(&request.tool));
                found.extend(of_person.map(|request| PendingInput {
                    conversation: conversation.clone(),
                    request,
                }));
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    /// What waits for a person in the conversations of this agent's scope.
    pub async fn pending_approvals(&self) -> Result<Vec<PendingApproval>, RunError> {
        self.runtime().pending_approvals(self.scope()).await
    }
}
