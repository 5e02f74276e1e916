//! Helper processes: [`init`] is the first line of a program that runs agents.
//!
//! Sandboxes are built, and what strangers wrote is parsed, by processes of their own, which are this program started
//! again. See
//! [`annals_sandbox::launcher`] for programs that cannot be.

pub use annals_content::{give_back_freed_memory, raise_open_files};
pub use annals_sandbox::launcher::{HelperError, use_helper};

/// In a helper process: does its work and never returns. In every other process: next to nothing. Call it first thing in
/// `main`.
pub fn init() {
    #[cfg(feature = "local-sandbox")]
    annals_sandbox::launcher::init_with(&[annals_content::ROLE]);
}
