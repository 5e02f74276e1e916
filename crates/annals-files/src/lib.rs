//! Files beneath a directory handle that untrusted programs write to as well.
//!
//! Programs that share the directory may leave anything in it: symlinks to the outside, FIFOs that nobody feeds, files
//! swapped between two looks, folders without end. So no path is resolved in user space: the kernel does it, beneath
//! one handle and with magic links refused ([`Root`]). Only regular files are read, and never more of one than the
//! caller asked for ([`read_at_most`]). What is written appears whole or not at all ([`Draft`]). A walk is bounded and
//! steps over what it may not read ([`Walk`]).
//!
//! This crate knows relative paths and bytes: no blocks, no sandboxes. Its functions block as long as the disk does.

#![forbid(unsafe_code)]

mod draft;
mod read;
mod resolve;
mod walk;

pub use draft::{DRAFT_PREFIX, Draft};
pub use read::{ReadError, open_regular, read_at_most, read_text, read_text_from};
pub use resolve::{Links, OpenError, Root};
pub use rustix::io::Errno;
pub use walk::{Entry, Stamp, Walk};
