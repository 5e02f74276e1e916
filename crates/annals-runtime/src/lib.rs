//! The only place that acts: it performs what the turn machine of `annals-core` says, and writes down what happened.
//!
//! The data goes one way: a prompt comes in, blocks are appended, deltas and blocks go out to whoever listens. The log
//! is the only truth; nothing here remembers what the log does not say. Read in this order:
//!
//! 1. [`world`]: time and chance, the only ways in for what cannot be replayed;
//! 2. [`agent`] and [`session`]: what a program holds;
//! 3. [`driver`]: the loop, one screen;
//! 4. [`step`], [`ask`], [`gate`], [`calls`]: one model request, its answer, its calls checked, its calls run;
//! 5. [`journal`]: append before act, append before show;
//! 6. [`compaction`], [`attach`]: context care, files that come with a prompt;
//! 7. [`listen`] and [`hooks`]: who watches and who may interfere.

pub mod agent;
pub mod attach;
pub mod hooks;
pub mod lineage;
pub mod listen;
pub mod session;
pub mod world;

mod ask;
mod calls;
mod compaction;
mod contribute;
mod driver;
mod error;
mod gate;
mod instructions;
mod journal;
mod partial;
mod step;

pub use agent::{Agent, AgentBuilder, TurnRequest};
pub use attach::{Attachment, AttachmentError};
pub use error::{BuildError, RunError};
pub use hooks::{Hooks, Verdict};
pub use listen::{Delta, DeltaChannel, Listen, Update};
pub use session::Session;
pub use world::{Clock, Entropy, SystemClock, World};
