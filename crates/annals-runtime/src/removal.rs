//! Conversations removed for good: the working tree first, then the blocks, so that what fails can be tried again.

use std::path::PathBuf;
use std::sync::Arc;

use annals_core::ids::ConversationId;
use annals_store::{LogError, workspace_folder};

use crate::agent::Agent;
use crate::conversation::Conversation;
use crate::error::RunError;

impl Agent {
    /// Removes a conversation for good, with its working tree; forks keep what they share. Refused while a turn of it runs,
    /// in this process as in any other; one that waits for a person ends. Sessions that have it open find it gone.
    pub async fn delete_conversation(&self, id: &ConversationId) -> Result<(), RunError> {
        let (runtime, key) = (&self.parts.runtime, self.key(id));
        let tree = workspace_folder(&runtime.parts.workspaces, &key);
        let remove = async |open: Option<Arc<Conversation>>| {
            if let Some(conversation) = open {
                return self.delete_open(&conversation, tree).await;
            }
            let ttl = runtime.parts.lease_ttl;
            let lease = self.log().acquire(&key, &self.owner(), ttl).await?;
            let deleted = match remove_tree(tree).await {
                Ok(()) => self.log().delete(&lease).await.map_err(RunError::from),
                failed => failed,
            };
            if deleted.is_err() {
                let _ = self.log().release(&lease).await;
            }
            deleted
        };
        runtime.remove(&key, remove).await
    }

    /// Removes a conversation that is open in this process, by the lease that it has.
    async fn delete_open(&self, conversation: &Arc<Conversation>, tree: PathBuf) -> Result<(), RunError> {
        if conversation.runs_turn() {
            return Err(RunError::Log(LogError::Held {
                id: conversation.key.id.clone(),
                by: self.owner(),
                until: self.world().now(),
            }));
        }
        let mut writer = conversation.writer().await;
        writer.ready().await?;
        if let Some(sandbox) = &conversation.cx.sandbox {
            sandbox.close().await;
        }
        remove_tree(tree).await?;
        writer.journal.delete().await?;
        drop(writer);
        conversation.was_deleted();
        Ok(())
    }
}

/// Removes a working tree, which may be large, beside everything else that runs.
async fn remove_tree(tree: PathBuf) -> Result<(), RunError> {
    let shown = tree.display().to_string();
    let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(tree)).await;
    match removed {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(Err(error)) => Err(RunError::Removal {
            tree: shown,
            why: error.to_string(),
        }),
        Err(_) => Err(RunError::Stopped),
    }
}
