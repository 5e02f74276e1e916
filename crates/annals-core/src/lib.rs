//! What is true of a conversation: blocks, the timeline folded from them, the model's view, the turn machine.
//!
//! Nothing here does IO, reads a clock, spawns, or draws a random number: time and ids come in from outside, so
//! that any run can be replayed from its inputs. Read in this order:
//!
//! 1. [`ids`], [`time`], [`path`]: words, parsed once;
//! 2. [`block`]: the immutable facts; [`code`]: what notices and errors are called; [`content`]: what bytes are;
//! 3. [`timeline`]: the fold over them, with its indexes;
//! 4. [`sources`], [`plan`], [`skill`]: what some blocks mean;
//! 5. [`view`]: what the model gets, and how it stays stable and small;
//! 6. [`turn`]: what happens next;
//! 7. [`trace`]: what happened, for people who watch many turns;
//! 8. [`limits`], [`settings`], [`tokens`]: numbers; [`address`]: which addresses are public.

#![forbid(unsafe_code)]

pub mod address;
pub mod block;
pub mod code;
pub mod content;
pub mod ids;
pub mod limits;
pub mod path;
pub mod plan;
pub mod redact;
pub mod settings;
pub mod skill;
pub mod sources;
pub mod time;
pub mod timeline;
pub mod tokens;
pub mod trace;
pub mod turn;
pub mod view;
