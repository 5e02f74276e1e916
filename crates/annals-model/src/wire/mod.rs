//! What both wire forms share: keys, HTTP with its timeouts, server-sent events and their decoding, faults, names,
//! media.
//!
//! Knows no vendor's messages. [`http`] is the only place that talks to the network.

#[cfg(feature = "http")]
pub(crate) mod answer_schema;
#[cfg(feature = "http")]
pub(crate) mod decode;
#[cfg(feature = "http")]
pub(crate) mod fault;
#[cfg(all(test, feature = "http"))]
pub(crate) mod fixture;
#[cfg(feature = "http")]
pub(crate) mod http;
mod key;
#[cfg(feature = "http")]
pub(crate) mod media;
#[cfg(feature = "http")]
pub(crate) mod names;
#[cfg(feature = "http")]
pub(crate) mod pairs;
#[cfg(feature = "http")]
pub mod sse;
#[cfg(feature = "http")]
pub(crate) mod text;
mod timeouts;

#[cfg(feature = "http")]
pub use http::EndpointError;
pub use key::ApiKey;
pub use timeouts::Timeouts;
