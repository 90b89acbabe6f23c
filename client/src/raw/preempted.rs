//! Whether this thread shares its processor.

use std::mem::MaybeUninit;

/// How often this thread had to leave its processor to another, as the kernel counts it; 0 where it does not tell.
pub(crate) fn preemptions() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes to the structure alone, which may be all zeros too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_nivcsw
}
