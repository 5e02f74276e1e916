//! The contract of [`BlockLog`](crate::BlockLog) as functions: a backend is right when every one of them returns.
//!
//! ```ignore
//! for case in annals_store::testing::CASES {
//!     (case.run)(Arc::new(MyLog::open_empty().await)).await;
//! }
//! ```

mod cases;
mod sample;

pub use cases::{CASES, Case};
pub use sample::{at, conversation, new_conversation, text_block, varied_blocks};
