//! A double of OpenSandbox: a lifecycle server and, in each sandbox, an execd, as close to the real ones as their
//! published behaviour and recordings of a real execd allow, quirks included.
//!
//! A sandbox is the local sandbox of Annals, in which this very program runs as execd; so commands are real, processes
//! that detach stay, files persist between commands, and deleting a sandbox kills all of it. [`Double`] is the server,
//! [`faults`] the switchboard by which a test disturbs single requests of either service.

pub mod faults;

mod container;
mod execd;
mod front;
mod lifecycle;

pub use execd::play_in_tests;
pub use lifecycle::{Double, DoubleOptions};
