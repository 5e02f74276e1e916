//! What both wire forms share: keys, HTTP with its timeouts, server-sent events and their decoding, faults, names,
//! media.
//!
//! Knows no vendor's messages. [`http`] is the only place that talks to the network.

pub(crate) mod decode;
pub(crate) mod fault;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod http;
mod key;
pub(crate) mod media;
pub(crate) mod names;
pub(crate) mod pairs;
pub mod sse;

pub use http::{EndpointError, Timeouts};
pub use key::ApiKey;
