//! Rules that allow, ask about or deny a call, by tool, path, command, host and effect.
//!
//! Pure: no files, no clock, no processes. Read in this order:
//!
//! 1. [`call`]: what the rules look at;
//! 2. [`shell`]: command lines, read by the shell's grammar;
//! 3. [`rule`] and [`glob`]: one rule, and when it matches;
//! 4. [`file`](mod@file): a file of rules, checked, with the rules' own tests run;
//! 5. [`policy`]: the layers together, and what they say of a call; `propose.rs`: the rule that "always" writes.

#![forbid(unsafe_code)]

pub mod call;
pub mod file;
pub mod glob;
pub mod policy;
pub mod rule;
pub mod shell;

mod error;
mod propose;

pub use call::{Call, Command, Reach};
pub use error::PolicyError;
pub use file::{KnownTool, Layer};
pub use policy::{COMPUTED_RULE, DEFAULT_RULE, Deciding, Judgement, Policy, Unlisted};
pub use rule::{Decide, Rule};
