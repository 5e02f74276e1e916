//! Compaction performed: a model summarises what the plan covers; when it cannot, the plan's own digest stands in, so
//! that the next prompt always fits.

use std::sync::Arc;

use annals_core::timeline::HideReason;
use annals_core::turn::round;
use annals_core::view::compact::CompactionPlan;
use annals_core::view::prompt::{Message, Piece, Prompt};
use annals_model::{Purpose, Request};

use crate::driver::Drive;
use crate::error::RunError;
use crate::hooks::guarded;

/// What a summary may take of the window.
const SUMMARY_MAX_TOKENS: u32 = 4_000;

impl Drive<'_> {
    /// Summarises and writes the summary down.
    pub(crate) async fn compact(&mut self, plan: &CompactionPlan) -> Result<(), RunError> {
        let before = self.writer.journal.snapshot();
        let cx = self.hook_cx(None);
        let _ = guarded(
            "before_compaction",
            self.agent.hooks.before_compaction(&cx, &before),
        )
        .await;
        drop(before);
        let words = self.summary(plan).await;
        let turn = &self.turn;
        let blocks = self.writer.journal.read(|timeline| {
            let hide = round::hide_block(timeline, turn, HideReason::Compaction, plan.hides.clone());
            [plan.block(turn, words.as_deref())]
                .into_iter()
                .chain(hide)
                .collect()
        });
        self.writer.journal.append(blocks).await?;
        let after = self.writer.journal.snapshot();
        let _ = guarded("after_compaction", self.agent.hooks.after_compaction(&cx, &after)).await;
        Ok(())
    }

    async fn summary(&self, plan: &CompactionPlan) -> Option<String> {
        let window = self.agent.frame.window;
        let room =
            (window.context_tokens / 2).saturating_sub(SUMMARY_MAX_TOKENS.min(window.context_tokens / 8));
        let text = self.writer.journal.read(|timeline| plan.request(timeline, room));
        let prompt = Prompt {
            system: "You keep the memory of an agent.".into(),
            tools: [].into(),
            messages: vec![Message::User(vec![Piece::text(text)])].into(),
        };
        let request = Request {
            purpose: Purpose::Summary,
            ..Request::new(Arc::new(prompt), SUMMARY_MAX_TOKENS.min(window.max_output_tokens))
        };
        match self.stream_quietly(request).await {
            Ok(answer) => Some(answer.text),
            Err(error) => {
                tracing::warn!(%error, "the model gave no summary; the digest stands in");
                None
            }
        }
    }

    /// An answer that nobody watches.
    async fn stream_quietly(
        &self,
        request: Request,
    ) -> Result<annals_model::Answer, annals_model::ModelError> {
        let stream = self.agent.model.stream(request, &self.cancel).await?;
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(annals_model::ModelError::Cancelled),
            answer = annals_model::Answer::collect(stream) => answer,
        }
    }
}
