//! Where statements come from: the pool of sources, and the citations that point into it.
//!
//! The pool is a fold over the rows that blocks carry; it decides which row gets which SID and nothing else
//! does. It never fetches, and it never forgets or renumbers a row.

pub mod citation;
mod code;
mod pool;
mod row;
mod url;

pub use pool::{Assigned, SourcesPool};
pub use row::{SourceRow, SourceType};
pub use url::normalised as normalised_url;
