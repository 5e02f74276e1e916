//! Every bound of this crate, in one place.

use std::time::Duration;

/// Bounds of the helpers and of one task. Small ones make quick tests; the code path is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Memory of a helper.
    pub memory_bytes: u64,
    /// Memory of a helper that runs a browser.
    pub browser_memory_bytes: u64,
    /// From the asking to the answer: waiting for a helper, starting it, and all its work.
    pub deadline: Duration,
    /// Processor time of one task, of all its threads together.
    pub cpu: Duration,
    /// Stack of the thread that parses.
    pub stack_bytes: usize,
    /// What one task may give back.
    pub output_bytes: u64,
    /// Helpers alive at once; further tasks wait for one.
    pub helpers: usize,
    /// A helper that nobody asked for this long is ended.
    pub idle: Duration,
    /// Tasks after which a helper is replaced, healthy or not.
    pub tasks_per_helper: u32,
    /// A helper that holds more than this after a task is replaced.
    pub resident_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            memory_bytes: 1024 * MIB,
            browser_memory_bytes: 3072 * MIB,
            deadline: Duration::from_secs(30),
            cpu: Duration::from_secs(40),
            stack_bytes: 64 << 20,
            output_bytes: 256 * MIB,
            helpers: 4,
            idle: Duration::from_secs(60),
            tasks_per_helper: 500,
            resident_bytes: 384 * MIB,
        }
    }
}

/// An attachment of a plain format up to this is looked at where it is; a larger one is not held in this process.
pub(crate) const HERE_MAX_BYTES: u64 = 1 << 20;

#[cfg(feature = "local")]
pub(crate) use helpers::*;

/// Bounds of the wire and of helper processes.
#[cfg(feature = "local")]
mod helpers {
    /// The header of one message: names, numbers, warnings; bytes travel behind it.
    pub(crate) const HEADER_MAX_BYTES: usize = 4 << 20;

    /// Parts behind one header.
    pub(crate) const PARTS_MAX_COUNT: usize = 8;

    /// Pictures that one document may ask for, and the bytes of each.
    pub(crate) const ASSETS_MAX_COUNT: usize = 512;
    pub(crate) const ASSET_MAX_BYTES: usize = 64 << 20;

    /// What a task may be handed: the largest attachment and some.
    pub(crate) const INPUT_MAX_BYTES: u64 = 256 << 20;

    /// Processes and threads of a helper.
    pub(crate) const PROCESSES: u64 = 64;

    /// Processes and threads of a helper that runs a browser.
    pub(crate) const BROWSER_PROCESSES: u64 = 512;

    /// Addresses of a helper beyond its memory bound: the mapped program, its fonts, and stacks that are reserved.
    pub(crate) const ADDRESS_SPACE_EXTRA_BYTES: u64 = 2 << 30;
}
