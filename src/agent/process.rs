//! What this process asks of the system for itself: processors first, and memory back.
#![allow(unsafe_code)]

use std::io;

/// Gives free memory back to the kernel. After the first reading of 10,000 Services the allocator
/// holds about as much free memory as used.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: glibc's malloc_trim takes its own locks and touches only free memory.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Keeps memory together, before any thread starts: one heap for all threads, since they seldom allocate
/// at the same time, and large blocks apart from it, so that they go back as soon as they are free.
/// Saves 2 MiB of 62 at 10,000 Services.
pub(crate) fn keep_together() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers. One that it does not know it refuses, and nothing changes.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 64 << 10);
    }
}

/// Who waits less for a processor than others.
#[derive(Clone, Copy)]
pub(crate) enum Urgency {
    /// The wire: a heartbeat that waits looks like death.
    First,
    /// Control: a lease that is renewed late withdraws everything.
    Soon,
}

/// This thread's place in the queue for a processor, where we may choose it.
pub(crate) fn prefer(urgency: Urgency) -> io::Result<()> {
    let nice = match urgency {
        Urgency::First => {
            let parameters = libc::sched_param { sched_priority: 10 };
            // SAFETY: 0 names the calling thread; the pointer is valid for the call.
            if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } == 0
            {
                return Ok(());
            }
            -20
        }
        Urgency::Soon => -15,
    };
    // SAFETY: no pointers; on Linux, PRIO_PROCESS with 0 names the calling thread.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
