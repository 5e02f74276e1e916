//! Artifacts on S3, and on everything that speaks its protocol.
//!
//! Start at [`Bucket`]: where the objects are, from a URL. [`Bucket::open`] gives the artifact store of `annals-store` over
//! it, with a bounded cache on this machine ([`Cache`]); [`Bucket::probe`] asks the server what it is worth. The order of
//! writes is the store's: bytes are uploaded before a block names them, under a key that is their digest, so that writing
//! them twice does no harm.

#![forbid(unsafe_code)]

mod bucket;
mod cache;
mod download;
mod probe;

pub use bucket::{Bucket, BucketError};
pub use cache::Cache;
pub use probe::{Probe, ProbeError};
