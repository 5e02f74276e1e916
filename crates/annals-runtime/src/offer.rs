//! What the model is offered: kept by digest, written down when it changes, and what the calls of a step are dispatched
//! against.

use std::sync::Arc;

use annals_core::block::BlobDigest;
use annals_core::block::payload::ToolsTable;
use annals_core::code::Code;
use annals_core::time::Timestamp;
use annals_core::turn::outcome::Outcome;
use annals_core::turn::{Offering, recovery};
use annals_core::view::View;
use annals_store::ArtifactError;
use annals_tools::{Listing, Tool, execute};
use tokio::sync::Mutex;

use crate::agent::AgentParts;
use crate::driver::Drive;
use crate::error::RunError;

/// Bytes that were kept this short a time ago need not be kept again: garbage collection leaves what is younger than an
/// hour alone.
const KEPT_FOR_MICROS: u64 = 10 * 60 * 1_000_000;

/// Which texts were last kept, and when. Agents that differ in their tools may share it.
#[derive(Debug, Default)]
pub(crate) struct LastKept(Mutex<Option<([BlobDigest; 2], Timestamp)>>);

impl LastKept {
    /// Has the texts of a table kept, unless they were a short time ago. Who comes meanwhile waits: turns that begin together
    /// would otherwise each write and sync the same bytes.
    async fn ensure<E>(
        &self,
        table: &ToolsTable,
        now: impl Fn() -> Timestamp,
        keep: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        let mut last = self.0.lock().await;
        let now = now();
        let is_recent = |at: Timestamp| at <= now && now.micros_since(at) < KEPT_FOR_MICROS;
        if !last.is_some_and(|(texts, at)| texts == table.needs() && is_recent(at)) {
            keep.await?;
            *last = Some((table.needs(), now));
        }
        Ok(())
    }
}

impl AgentParts {
    /// The table to write down before the model is asked, if the conversation's last one is another. What it names is
    /// kept first. A store that cannot keep it costs a later look at the exact prompt, not the turn.
    pub(crate) async fn new_table(&self, last: Option<&ToolsTable>) -> Option<ToolsTable> {
        let own = self.frame.offering.table();
        if last == Some(own) {
            return None;
        }
        let keep = async {
            for text in self.frame.offering.texts() {
                self.artifacts().put(text.as_bytes().to_vec()).await?;
            }
            Ok::<(), ArtifactError>(())
        };
        if let Err(error) = self.offer_kept.ensure(own, || self.world().now(), keep).await {
            tracing::warn!(%error, "what the model is offered could not be kept, and is not written down");
            return None;
        }
        Some(own.clone())
    }

    /// What the model was offered at this moment: as it was kept, or as it is now in a log that does not say.
    pub(crate) async fn offering_at(&self, view: &View) -> Result<Arc<Offering>, RunError> {
        match view.tools() {
            Some(table) if table != self.frame.offering.table() => {
                self.kept_offering(table).await.map(Arc::new)
            }
            _ => Ok(self.frame.offering.clone()),
        }
    }

    async fn kept_offering(&self, table: &ToolsTable) -> Result<Offering, RunError> {
        let [definitions, system] = table.needs();
        let (definitions, system) =
            futures::try_join!(self.artifacts().get(&definitions), self.artifacts().get(&system))
                .map_err(|error| RunError::Offering(error.to_string()))?;
        Offering::read(table, &definitions, &system).map_err(|error| RunError::Offering(error.to_string()))
    }
}

impl Drive<'_> {
    /// Writes down what is offered from here on, where the turn was begun with another offer: by another program, or by
    /// one that wrote no tables yet.
    pub(crate) async fn write_offer(&mut self) -> Result<(), RunError> {
        let last = self.writer.journal.read(|timeline| timeline.tools().cloned());
        let Some(table) = self.agent.new_table(last.as_ref()).await else {
            return Ok(());
        };
        let turn = &self.turn;
        let written = self.writer.journal.read(|timeline| {
            let blocks = timeline.turn(turn).map(|turn| timeline.turn_blocks(turn));
            let of_table = |block: &&Arc<annals_core::block::Block>| {
                block.kind == annals_core::block::BlockKind::ToolsTable
            };
            blocks.unwrap_or_default().iter().filter(of_table).count() as u32
        });
        self.writer
            .journal
            .append(vec![table.block(turn, written + 1)])
            .await
    }

    /// The tool that a model's call named when its step was offered it, or the result of a call to one that is not there
    /// or not the same any more.
    pub(crate) async fn dispatched(&self, name: &str, is_of_model: bool) -> Result<Arc<dyn Tool>, Outcome> {
        let own = self.agent.tools.get(name);
        let table = self.writer.journal.read(|timeline| timeline.tools().cloned());
        let offered = match table.filter(|table| is_of_model && table != self.agent.frame.offering.table()) {
            // The step was offered what this agent has.
            None => {
                return own
                    .cloned()
                    .ok_or_else(|| execute::unknown_tool(&self.agent.tools, name));
            }
            Some(table) => table,
        };
        let listed = match own.map(|tool| tool.spec().listing()) {
            Some(Listing::AliasOf(listed)) => listed.as_str(),
            _ => name,
        };
        let Some(then) = offered.get(listed) else {
            return Err(execute::unknown_tool(&self.agent.tools, name));
        };
        let own = own.ok_or_else(|| changed(name, "is not there any more: do without it"))?;
        let now = self.agent.frame.offering.table().get(listed);
        if now == Some(then) || self.takes_the_same(&offered, listed).await {
            return Ok(own.clone());
        }
        Err(changed(
            name,
            "takes other parameters since this call was made: look at them and call it again",
        ))
    }

    /// Whether a tool takes now what it took when it was offered by this table. What it is said to do may differ.
    async fn takes_the_same(&self, offered: &ToolsTable, name: &str) -> bool {
        let Ok(then) = self.agent.kept_offering(offered).await else {
            return false;
        };
        let parameters = |offering: &Offering| {
            let tools = offering.tools().iter();
            let mut named = tools.filter(|tool| tool.name == name);
            named.next().map(|tool| tool.parameters.clone())
        };
        parameters(&then) == parameters(&self.agent.frame.offering)
    }
}

fn changed(name: &str, how: &str) -> Outcome {
    recovery::failed(
        Code::ToolChanged,
        format!("the tool `{name}` {how}; this call did not run"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::cell::Cell;

    use futures::future::join_all;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_unix_millis(minute * 60 * 1_000)
    }

    #[tokio::test]
    async fn an_offer_is_kept_once_in_a_while_whoever_begins_meanwhile() {
        let (one, other) = (
            Offering::new("a".into(), [].into()),
            Offering::new("b".into(), [].into()),
        );
        let (kept, times) = (LastKept::default(), Cell::new(0));
        let ensure = async |offering: &Offering, minute| {
            let keep = async {
                times.set(times.get() + 1);
                tokio::task::yield_now().await;
                Ok::<(), ()>(())
            };
            kept.ensure(offering.table(), || at(minute), keep).await.unwrap();
            times.get()
        };
        assert_eq!(join_all((0..9).map(|_| ensure(&one, 1))).await, [1; 9]);
        assert_eq!(ensure(&one, 10).await, 1);
        assert_eq!(ensure(&other, 10).await, 2, "it says nothing of another");
        assert_eq!(ensure(&other, 21).await, 3, "that is too long ago");
        let failed = kept.ensure(one.table(), || at(21), async { Err(()) }).await;
        assert_eq!(failed, Err(()));
        assert_eq!(ensure(&one, 21).await, 4, "what failed is not kept");
    }
}
