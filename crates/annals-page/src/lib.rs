//! The web page: plain ES modules, a style sheet and one HTML file, embedded in the program.
//!
//! There is no build step and no third-party source. [`asset`] gives a file by its path on the server;
//! [`CONTENT_SECURITY_POLICY`] is what the page must be served with.

#![forbid(unsafe_code)]

mod asset;

pub use asset::{Asset, CONTENT_SECURITY_POLICY, asset, assets};
