//! Running the calls of one answer: together where that is safe, written down in the order the model gave them.

use std::collections::HashMap;
use std::sync::Arc;

use annals_core::ids::CallId;
use annals_core::turn::outcome::Outcome;
use annals_core::turn::{TurnEnd, recovery, round};
use annals_tools::{ResourceKey, execute};
use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::FuturesOrdered;
use tokio::sync::Mutex;

use crate::driver::Drive;
use crate::error::RunError;
use crate::gate::Gated;
use crate::listen::Update;

struct Ended {
    call: CallId,
    tool: String,
    outcome: Outcome,
}

impl Drive<'_> {
    /// Runs these calls. Calls that use the same thing wait for each other, in order; all others run together.
    pub(crate) async fn run_calls(&mut self, calls: Vec<CallId>) -> Result<(), RunError> {
        let mut locks: HashMap<ResourceKey, Arc<Mutex<()>>> = HashMap::new();
        let mut running: FuturesOrdered<BoxFuture<'static, Ended>> = FuturesOrdered::new();
        for call in calls {
            let (tool, gated) = self.gate(&call).await?;
            running.push_back(self.start(call, tool, gated, &mut locks));
        }
        while let Some(ended) = running.next().await {
            self.agent
                .hooks
                .after_call(&ended.call, &ended.tool, &ended.outcome)
                .await;
            self.write(ended).await?;
        }
        Ok(())
    }

    fn start(
        &self,
        call: CallId,
        name: String,
        gated: Gated,
        locks: &mut HashMap<ResourceKey, Arc<Mutex<()>>>,
    ) -> BoxFuture<'static, Ended> {
        let (tool, cx, args, notices) = match gated {
            Gated::Run {
                tool,
                cx,
                args,
                notices,
            } => (tool, cx, args, notices),
            Gated::Refused(outcome) => {
                return async {
                    Ended {
                        call,
                        tool: name,
                        outcome,
                    }
                }
                .boxed();
            }
        };
        let lock = tool
            .resource(&args)
            .map(|key| locks.entry(key).or_default().clone());
        let listener = self.session.journal.listener().clone();
        async move {
            // The lock is fair and the futures are first polled in call order, so that order is kept.
            let _mine = match &lock {
                Some(lock) => Some(lock.lock().await),
                None => None,
            };
            listener.on(Update::ToolStarted {
                call: call.clone(),
                tool: name.clone(),
            });
            let mut outcome = execute::perform(&tool, &cx, args).await;
            outcome.notices.splice(0..0, notices);
            Ended {
                call,
                tool: name,
                outcome,
            }
        }
        .boxed()
    }

    async fn write(&mut self, ended: Ended) -> Result<(), RunError> {
        let turn = &self.turn;
        let blocks = self
            .session
            .journal
            .read(|timeline| round::outcome_blocks(timeline, turn, &ended.call, ended.outcome));
        self.session.journal.append(blocks).await
    }

    /// Gives every call that has none a result that says why.
    pub(crate) async fn close_open_calls(&mut self, end: TurnEnd) -> Result<(), RunError> {
        let open: Vec<(CallId, String)> = self.session.journal.read(|timeline| {
            timeline
                .open_calls()
                .map(|call| (call.id.clone(), call.tool.to_string()))
                .collect()
        });
        for (call, tool) in open {
            let outcome = match end {
                TurnEnd::Cancelled => recovery::cancelled(&tool),
                _ => recovery::interrupted(&tool),
            };
            self.write(Ended { call, tool, outcome }).await?;
        }
        Ok(())
    }
}
