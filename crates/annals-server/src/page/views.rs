//! Conversations as the page looks at them: folded once, and on from there.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use annals_core::ids::{ConversationKey, Seq};
use annals_core::view::View;
use annals_core::view::outline::Outline;
use annals_runtime::Agent;
use annals_store::BlockLogExt as _;
use serde::Deserialize;

use crate::app::App;
use crate::conversations::seq;
use crate::door::Caller;
use crate::problem::{Code, Problem};
use crate::request::Place;

/// Conversations that are kept folded. A person looks at one or two.
const KEPT: usize = 4;
const PAGE_BLOCKS: usize = 1_000;

/// Folded conversations, the last used first. Who asks for one that is being folded waits for it.
#[derive(Default)]
pub(crate) struct Views(Mutex<VecDeque<(ConversationKey, Folded)>>);

type Folded = Arc<tokio::sync::Mutex<Arc<View>>>;

impl Views {
    fn of(&self, key: &ConversationKey, new: impl FnOnce() -> View) -> Folded {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(known, _)| known == key);
        let entry = at.and_then(|at| kept.remove(at));
        let entry =
            entry.unwrap_or_else(|| (key.clone(), Arc::new(tokio::sync::Mutex::new(Arc::new(new())))));
        let folded = entry.1.clone();
        kept.push_front(entry);
        kept.truncate(KEPT);
        folded
    }
}

/// A moment that is asked for: a block, or now.
#[derive(Deserialize)]
pub(crate) struct At {
    pub(super) at: Option<u64>,
}

/// A conversation that is looked at.
pub(super) struct Looked {
    pub(super) agent: Agent,
    pub(super) whole: Arc<View>,
}

impl Looked {
    /// The caller's conversation, with every block it has now.
    pub(super) async fn of(app: &App, caller: &Caller, place: &Place) -> Result<Self, Problem> {
        let agent = app.agent(&caller.scope);
        let key = agent.key(&place.conversation()?);
        let tail = app.store().get(&key).await?.tail;
        let new = || View::new(agent.model().media_rule());
        let folded = app.views.of(&key, new);
        let mut view = folded.lock().await;
        // Deleted and made again under the same id.
        if view.tail() > tail {
            *view = Arc::new(new());
        }
        while view.tail() < tail {
            let blocks = app.store().read_after(&key, view.tail(), PAGE_BLOCKS).await?;
            if blocks.is_empty() {
                break;
            }
            let grown = Arc::make_mut(&mut view);
            for block in blocks {
                grown.push(Arc::new(block)).map_err(Problem::internal)?;
            }
        }
        let whole = view.clone();
        Ok(Looked { agent, whole })
    }

    /// The block that is looked at; the last one, if none is named.
    pub(super) fn moment(&self, at: Option<u64>) -> Result<Seq, Problem> {
        let last = self.whole.tail();
        let asked = at.map(seq).transpose()?.or(last);
        let found = asked.filter(|asked| Some(*asked) <= last);
        found.ok_or_else(|| {
            let (asked, last) = (at.unwrap_or_default(), last.map_or(0, Seq::get));
            Problem::new(
                Code::BeyondEnd,
                format!("there is no block {asked}: the last one is {last}"),
            )
        })
    }

    /// What the model sees of the view at this place.
    pub(super) fn outline(&self, view: &View, at: Seq) -> Outline {
        let next = self.whole.block(at.next()).map(|next| &**next);
        self.agent.outline(view, next)
    }

    /// The conversation as it was when this block was the last one.
    pub(super) fn at(&self, seq: Seq) -> Arc<View> {
        match self.whole.tail() == Some(seq) {
            true => self.whole.clone(),
            false => Arc::new(self.whole.at(seq)),
        }
    }
}
