//! Memory given back after a peak.
#![allow(unsafe_code)]

/// Gives free memory back to the kernel. After the first reading of 10,000 Services the allocator
/// holds about as much free memory as used.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: glibc's malloc_trim takes its own locks and touches only free memory.
    unsafe {
        libc::malloc_trim(0);
    }
}
