//! Prefetch of a frame's bytes into the cache.

/// Prefetches the first cache line of `bytes`, and returns without waiting for it. Does nothing on
/// architectures other than x86_64.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that the program can observe, and faults on no address; SSE
    // is part of x86_64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
