//! The services of E2B: the control plane, and envd inside a sandbox.

pub(crate) mod control;
pub(crate) mod envd;

mod connect;
mod filesystem;
mod process;
