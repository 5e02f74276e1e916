//! Compaction performed: a model summarises what the plan covers; when it cannot, the plan's own digest stands in, so
//! that the next prompt always fits.

use std::sync::Arc;

use annals_core::timeline::HideReason;
use annals_core::turn::{SentSummary, round};
use annals_core::view::compact::CompactionPlan;
use annals_model::{Answer, ModelError, Purpose, Request};

use crate::ask::used;
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
        let summary = self.summary(plan).await;
        let turn = &self.turn;
        let words = summary.as_ref().map(|(answer, _)| answer.text.as_str());
        let mut block = plan.block(turn, words);
        if let Some((answer, sent)) = &summary {
            // Paid for like any other call, and counted like it.
            block.meta = block.meta.with_usage(&used(answer.usage)).with_prompt(sent);
        }
        let blocks = self.writer.journal.read(|timeline| {
            let hide = round::hide_block(timeline, turn, HideReason::Compaction, plan.hides.clone());
            [block].into_iter().chain(hide).collect()
        });
        self.writer.journal.append(blocks).await?;
        let after = self.writer.journal.snapshot();
        let _ = guarded("after_compaction", self.agent.hooks.after_compaction(&cx, &after)).await;
        Ok(())
    }

    async fn summary(&self, plan: &CompactionPlan) -> Option<(Answer, SentSummary)> {
        let window = self.agent.frame.window;
        let room =
            (window.context_tokens / 2).saturating_sub(SUMMARY_MAX_TOKENS.min(window.context_tokens / 8));
        let text = self.writer.journal.read(|timeline| plan.request(timeline, room));
        let prompt = SentSummary::prompt(text);
        let sent = SentSummary {
            digest: prompt.digest(),
            asked_at: self.agent.world().now(),
            room_tokens: room,
        };
        let request = Request {
            purpose: Purpose::Summary,
            ..Request::new(Arc::new(prompt), SUMMARY_MAX_TOKENS.min(window.max_output_tokens))
        };
        match self.stream_quietly(request).await {
            Ok(answer) => Some((answer, sent)),
            Err(error) => {
                tracing::warn!(%error, "the model gave no summary; the digest stands in");
                None
            }
        }
    }

    /// An answer that nobody watches.
    async fn stream_quietly(&self, request: Request) -> Result<Answer, ModelError> {
        let stream = self.agent.model.stream(request, &self.cancel).await?;
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(ModelError::Cancelled),
            answer = Answer::collect(stream) => answer,
        }
    }
}
