//! Every limit of Annals, with its unit at the end of its name. Nothing else in the workspace states one.

/// A safe relative path has at most so many bytes.
pub const PATH_MAX_BYTES: usize = 1_024;
/// One part of a safe relative path has at most so many bytes.
pub const PATH_PART_MAX_BYTES: usize = 255;
/// The dotted name of an `ar:` path has at most so many bytes.
pub const NAME_MAX_BYTES: usize = 512;
/// One selection of sources names at most so many rows.
pub const SID_SET_MAX_SIDS: usize = 10_000;
