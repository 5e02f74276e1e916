//! The turn: what a tool hands back, which blocks that makes, and what happens next.
//!
//! - [`budget`]: what bounds it;
//! - [`next`](mod@next): the machine without IO, over the folded state;
//! - [`outcome`] and [`round`]: from data to blocks, in the one order that the format allows;
//! - [`opening`]: the blocks that begin and end a turn;
//! - [`offering`] and [`sent`]: what was offered, and a request as it was made;
//! - [`text_call`]: calls of models that cannot call tools;
//! - [`recovery`]: what to do with calls that a crash left open.

pub mod budget;
pub mod next;
pub mod offering;
pub mod opening;
pub mod outcome;
pub mod recovery;
pub mod round;
pub mod sent;
pub mod text_call;

pub use crate::block::payload::{TurnEnd, TurnReport, TurnUsage};
pub use budget::{Budget, WindowTooSmall};
pub use next::{CallModel, Next, Offer, ends_with_answer, next};
pub use offering::{Offering, OfferingError};
pub use sent::{SentPrompt, SentSummary};
