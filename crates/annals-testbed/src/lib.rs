//! Real servers for tests, started and stopped by the test that uses them, and a proxy that breaks connections to them.
//!
//! Everything is private to its owner: a temporary folder, unix sockets or loopback ports, and processes that end with the
//! test. Where a program is not installed, starting gives nothing and says so, as `annals-requirements` does.

#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    reason = "a name that needs no comment is better than a comment"
)]

mod account;
mod patroni;
mod pgbouncer;
mod postgres;
mod proxy;
mod s3;
mod script;

pub use patroni::{PatroniSet, Replication};
pub use pgbouncer::PgBouncer;
pub use postgres::{Durability, Edition, PostgresServer};
pub use proxy::{FaultProxy, Upstream};
pub use s3::{S3_KEY_ID, S3_SECRET, S3Server};
pub use script::ScriptServer;
