//! The block log and its sister ports on PostgreSQL: what several nodes share.
//!
//! Read in this order: [`Address`] (where the database is), [`init`], [`migrate`] and [`status`] (its tables), [`PostgresLog`] (the
//! ports); inside, `statement` has the one statement of an append, `append` what it carries and why one is refused, `writer` how
//! many appends become one, `tails` how nodes hear of each other's appends, `archive` how idle conversations leave and come back,
//! `recall` memory search beside the log, `fault` what is tried again. Nothing here decides anything about turns.
//!
//! Safety never depends on a clock or on a connection: an append carries its fencing token, its expected tail and a batch
//! id, and one statement checks all three. Nothing needs a session of the server, so that a transaction pooler may stand
//! between: statements are unnamed, and what must happen together is one transaction.

#![forbid(unsafe_code)]

mod address;
mod answers;
mod append;
mod archive;
mod artifacts;
mod asking;
mod blocks;
mod conversations;
mod fault;
mod head;
mod inbox;
mod link;
mod log;
mod members;
mod pool;
mod pooler;
mod recall;
mod row;
mod schema;
mod seen;
mod sql;
mod statement;
mod status;
mod tails;
mod tokens;
mod writable;
mod writer;

pub use address::{Address, AddressError};
pub use log::{PostgresLog, PostgresOptions};
pub use recall::PostgresRecall;
#[doc(hidden)]
pub use schema::init_as;
pub use schema::{Migrated, Partitions, PartitionsError, init, migrate};
pub use status::{ArchiveStatus, IndexStatus, Status, status};
