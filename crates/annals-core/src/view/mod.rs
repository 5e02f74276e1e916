//! The model's view of a timeline: which blocks it shows, as what text, in which messages, and where the prefix
//! is stable enough to be cached.
//!
//! Two laws hold here. *Prefix*: unless a hide, a prune or a compaction happened in between, what is rendered up
//! to the tail cache point is a prefix of what is rendered later. *Cost*: one more block costs the size of that
//! block. The view never writes; hides and summaries are blocks that somebody else appends.
//!
//! - [`View`]: the fold, beside the timeline's own;
//! - [`slots`]: which blocks are shown, in which order, at which cost in tokens;
//! - [`part`] and [`template`]: the text of each; `arguments`: a native call's parameters, whole again;
//! - [`render`]: parts filed into messages, incrementally, in two layouts;
//! - [`cache`]: the three cache points, and what may still be hidden;
//! - [`tail`]: the sources and the announcement, never cached;
//! - [`outline`]: the parts one by one, for people who look;
//! - [`why`]: where a prefix broke, and what that cost;
//! - [`cut`]: truncation that counts what it took away;
//! - [`prune`], [`compact`]: what to give up when the cache is cold, or the window full.

mod arguments;
pub mod cache;
pub mod compact;
pub mod cut;
mod digest;
mod fold;
pub mod messages;
pub mod outline;
pub mod part;
pub mod prompt;
pub mod prune;
pub mod render;
pub mod slots;
pub mod tail;
pub mod template;
pub mod why;

pub use cache::{CachePoints, HideCheck};
pub use fold::View;
pub use messages::Messages;
pub use outline::Outline;
pub use part::{Part, PartBody, Place};
pub use prompt::{CachePoint, Message, Piece, PieceBody, Prompt, ToolSchema};
pub use render::{Layout, ViewRenderer};
pub use tail::{Announce, Tail};
