//! The allocator: what is freed goes back to the system. Calls bring megabytes with them, and what is kept for years lies
//! between; left to itself it held twice as much as was in use, after a million entries.

/// Allocations from this size on are mapped one by one, and unmapped when they are freed. By default the allocator takes the
/// largest that was freed for the size from which on it pays, and what is smaller then lies between what is kept.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES: libc::c_int = 256 << 10;

/// Heaps, of which each thread uses one. By default there are eight for each processor, and each keeps what its threads freed.
#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 2;

/// Sets the allocator up. To be called before there are threads.
pub fn begin() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets numbers of the allocator and touches no memory of ours; no other thread runs yet (mallopt(3): MT-Unsafe
    // only while the allocator is initialized).
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
    }
}

/// Gives pages that lie free between what is in use back to the system. Takes some milliseconds, in which nobody allocates.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointers, changes no memory that is in use, and locks what it looks at: any thread may call it at
    // any time (malloc_trim(3): MT-Safe).
    unsafe {
        libc::malloc_trim(0);
    }
}
