//! Tools that may change while the agent lives. They are taken in where a turn is taken up, and nowhere else.

use std::sync::{Arc, Mutex, PoisonError};

use annals_core::view::Layout;
use annals_tools::{ToolSource, ToolTable};

use crate::step::Frame;

/// The agent's own tools, and those of a source beside them.
pub(crate) struct Sourced {
    source: Arc<dyn ToolSource>,
    own: ToolTable,
    own_frame: Frame,
    layout: Layout,
    last: Mutex<Option<Last>>,
}

/// What the source offered last, and what came of it.
struct Last {
    offered: annals_tools::SharedTools,
    tools: ToolTable,
    frame: Frame,
}

impl Sourced {
    pub(crate) fn new(source: Arc<dyn ToolSource>, own: ToolTable, own_frame: Frame, layout: Layout) -> Self {
        Sourced {
            source,
            own,
            own_frame,
            layout,
            last: Mutex::default(),
        }
    }

    /// All tools as they are now. Where those of the source do not fit, the agent is as it would be without them: nobody who
    /// lists tools can keep a turn from being run.
    pub(crate) fn now(&self) -> (ToolTable, Frame) {
        let offered = self.source.tools();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| Arc::ptr_eq(&last.offered, &offered)) {
            return (last.tools.clone(), last.frame.clone());
        }
        let fitted = self.own.with(offered.iter().cloned());
        let fitted = fitted.map_err(|error| error.to_string()).and_then(|tools| {
            let frame = self.own_frame.with_tools(tools.schemas(), self.layout);
            frame
                .map(|frame| (tools, frame))
                .map_err(|error| error.to_string())
        });
        let (tools, frame) = fitted.unwrap_or_else(|error| {
            tracing::warn!(%error, "the tools of others are left out");
            (self.own.clone(), self.own_frame.clone())
        });
        *last = Some(Last {
            offered,
            tools: tools.clone(),
            frame: frame.clone(),
        });
        (tools, frame)
    }
}
