//! The turn: what a tool hands back, which blocks that makes, and what happens next.
//!
//! - [`next`](mod@next): the machine without IO, over the folded state;
//! - [`outcome`] and [`round`]: from data to blocks, in the one order that the format allows;
//! - [`opening`]: the blocks that begin and end a turn;
//! - [`recovery`]: what to do with calls that a crash left open.

pub mod next;
pub mod opening;
pub mod outcome;
pub mod recovery;
pub mod round;

pub use crate::block::payload::protocol;
pub use crate::block::payload::{TurnEnd, TurnReport, TurnUsage};
pub use next::{Budget, CallModel, Next, Offer, next};
