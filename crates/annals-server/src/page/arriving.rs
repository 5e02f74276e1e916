//! What the model is saying right now, as trees that grow: each event names how many of the trees sent before it stay,
//! and those that follow them.

use std::time::Duration;

use annals_content::TreeRequest;
use annals_core::ids::TurnId;
use annals_runtime::{Delta, DeltaChannel};
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::app::App;

/// Often enough to look steady.
const PAUSE: Duration = Duration::from_millis(90);
/// Drawing takes at most this part of the time, however long the text has become.
const PAUSE_PER_WORK: u32 = 3;

/// The texts of one subscriber that are being drawn.
pub(crate) struct Arriving {
    app: App,
    texts: Vec<Text>,
    making: Option<BoxFuture<'static, Made>>,
    next_at: Instant,
}

/// Which text: of which model call, where it belongs.
#[derive(Clone, PartialEq, Eq)]
struct Name {
    turn: TurnId,
    step: u32,
    channel: DeltaChannel,
    path: Option<String>,
}

struct Text {
    name: Name,
    text: String,
    drawn: Vec<Value>,
    is_stale: bool,
}

struct Made {
    name: Name,
    trees: Vec<Value>,
    took: Duration,
}

/// Trees of a text, from the first that changed.
#[derive(Serialize)]
pub(crate) struct TreeEvent {
    turn_id: TurnId,
    step: u32,
    channel: DeltaChannel,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// How many of the trees that were sent stay as they are.
    keep: usize,
    trees: Vec<Value>,
}

impl Arriving {
    pub(crate) fn new(app: App) -> Self {
        Arriving {
            app,
            texts: Vec::new(),
            making: None,
            next_at: Instant::now(),
        }
    }

    /// A piece came. Only prose is drawn.
    pub(crate) fn hear(&mut self, delta: &Delta) {
        if !is_prose(delta) {
            return;
        }
        let name = Name {
            turn: delta.turn.clone(),
            step: delta.step,
            channel: delta.channel,
            path: delta.path.clone(),
        };
        let at = self.texts.iter().position(|text| text.name == name);
        let at = at.unwrap_or_else(|| {
            self.texts.push(Text {
                name,
                text: String::new(),
                drawn: Vec::new(),
                is_stale: false,
            });
            self.texts.len() - 1
        });
        let known = &mut self.texts[at];
        if delta.from == 0 {
            known.text.clear();
        }
        known.text.push_str(&delta.text);
        known.is_stale = true;
    }

    /// What was arriving is durable or void.
    pub(crate) fn clear(&mut self) {
        self.texts.clear();
    }

    /// The next change; waits for it, and may be given up at any time without losing one.
    pub(crate) async fn next(&mut self) -> TreeEvent {
        loop {
            if self.making.is_none() {
                tokio::time::sleep_until(self.next_at).await;
                self.making = self.begin();
            }
            let Some(making) = self.making.as_mut() else {
                return std::future::pending().await;
            };
            let made = making.await;
            self.making = None;
            self.next_at = Instant::now() + PAUSE.max(made.took * PAUSE_PER_WORK);
            if let Some(event) = self.take(made) {
                return event;
            }
        }
    }

    fn begin(&mut self) -> Option<BoxFuture<'static, Made>> {
        let text = self.texts.iter_mut().find(|text| text.is_stale)?;
        text.is_stale = false;
        let (app, name) = (self.app.clone(), text.name.clone());
        let request = TreeRequest::Arriving {
            text: text.text.clone(),
        };
        Some(Box::pin(async move {
            let began = Instant::now();
            let made = app.trees.passing(request).await;
            let trees = match made {
                Ok(Value::Array(trees)) => trees,
                // The reader has the plain text.
                _ => Vec::new(),
            };
            Made {
                name,
                trees,
                took: began.elapsed(),
            }
        }))
    }

    fn take(&mut self, made: Made) -> Option<TreeEvent> {
        let text = self.texts.iter_mut().find(|text| text.name == made.name)?;
        let same = text.drawn.iter().zip(&made.trees);
        let keep = same.take_while(|(old, new)| old == new).count();
        if keep == made.trees.len() {
            return None;
        }
        let trees = made.trees[keep..].to_vec();
        text.drawn = made.trees;
        Some(TreeEvent {
            turn_id: made.name.turn,
            step: made.name.step,
            channel: made.name.channel,
            path: made.name.path,
            keep,
            trees,
        })
    }
}

fn is_prose(delta: &Delta) -> bool {
    let is_markdown = |path: &str| path.ends_with(".md") || path.ends_with(".markdown");
    match delta.channel {
        DeltaChannel::Answer | DeltaChannel::TimelineText => true,
        DeltaChannel::Canvas => delta.path.as_deref().is_some_and(is_markdown),
        _ => false,
    }
}
