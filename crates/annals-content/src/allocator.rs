//! What the C library's allocator keeps of memory that was freed.

/// Pieces at least this large are mapped by themselves, and unmapped when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_MIN_BYTES: i32 = 256 << 10;
/// A thread's heap that ends with this much unused is made shorter.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const UNUSED_MAX_BYTES: i32 = 512 << 10;

/// Has freed memory go back to the machine, for a program that runs for days. Call it at the top of `main`.
///
/// glibc moves its bounds to what was freed last, up to 32 MiB: after one large body every thread may keep up to 64 MiB at
/// the end of its heap, which `malloc_trim` does not reach. Here the bounds stay where they are. With another C library
/// this does nothing.
pub fn give_back_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: both only set a number of the allocator's, and every value is permitted.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_MIN_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, UNUSED_MAX_BYTES);
    }
}
