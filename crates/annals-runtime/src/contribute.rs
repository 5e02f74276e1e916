//! Blocks that a host adds between turns, such as a person's feedback.

use std::sync::Arc;

use annals_core::block::NewBlock;

use crate::agent::Agent;
use crate::error::RunError;
use crate::hooks::may_contribute;
use crate::listen::{Listen, Nobody};
use crate::session::Session;

impl Agent {
    /// Appends blocks of the host's own: `stage.*`, `system.message` and `x.*`. All of them or none.
    pub async fn contribute(
        &self,
        session: &mut Session,
        blocks: Vec<NewBlock>,
        listener: Arc<dyn Listen>,
    ) -> Result<(), RunError> {
        if let Some(refused) = blocks.iter().find(|block| !may_contribute(block)) {
            return Err(RunError::MayNotContribute(refused.kind.to_string()));
        }
        session.journal.set_listener(listener);
        let appended = session.journal.append(blocks).await;
        session.journal.set_listener(Arc::new(Nobody));
        appended
    }
}
