//! Doubles of servers of sandboxes: OpenSandbox's lifecycle server with an execd in each sandbox, and E2B's control plane
//! with an envd, as close to the real ones as their published behaviour and recordings allow, quirks included.
//!
//! A sandbox is the local sandbox of Annals, in which this very program runs as the service; so commands are real, processes
//! that detach stay, files persist between commands, and deleting a sandbox kills all of it. [`Double`] is the server,
//! [`faults`] the switchboard by which a test disturbs single requests of either service.

#![allow(
    missing_docs,
    reason = "a name that needs no comment is better than a comment"
)]

pub mod faults;

mod body;
mod container;
mod e2b;
mod execd;
mod front;
mod lifecycle;
mod line;
mod roles;
mod server;
mod table;

pub use roles::play_in_tests;
pub use server::{Double, DoubleOptions, Gap, Wire};
