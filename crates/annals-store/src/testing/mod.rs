//! The contract of [`BlockLog`](crate::BlockLog) as functions: a backend is right when every one of them returns.
//!
//! ```
//! use std::sync::Arc;
//! use annals_store::{MemoryLog, testing::CASES};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! for case in CASES {
//!     (case.run)(Arc::new(MemoryLog::default())).await;
//! }
//! # });
//! ```

mod cases;
mod sample;

pub use cases::{CASES, Case};
pub use sample::{at, conversation, new_conversation, text_block, varied_blocks};
