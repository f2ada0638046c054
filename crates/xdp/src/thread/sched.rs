//! Scheduling classes that a poll loop, and the guard beside it, can request from the kernel.
//!
//! Source: sched(7), sched_setattr(2); a custom slice for ordinary threads: kernel 6.12 (EEVDF).

use std::io;
use std::mem::size_of;
use std::time::{Duration, Instant};

use switch::Nanos;

/// The scheduling of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// The default of an ordinary thread.
    Normal,
    /// An ordinary thread with short slices: it runs soon after a wakeup.
    ShortSlice,
    /// An ordinary thread of a tenth of a loop's weight with short slices: it runs soon after a
    /// wakeup, beside a loop on its core as well. Threads that it starts are ordinary again.
    LowLatency,
    /// An ordinary thread of the highest weight with short slices: it is seldom off its core for
    /// long, and does not starve others.
    ShortSlices,
    /// Real time (SCHED_FIFO) with this priority from 1 to 99: only higher priorities preempt it.
    /// The kernel throttles a thread that spins for 50 ms of each second, and the thread keeps
    /// other necessary work off its core.
    Fifo(u32),
}

/// The slice of a loop: the shortest that the kernel grants.
const SLICE_NS: Nanos = 100_000;
/// The highest weight of an ordinary thread.
const NICE: i32 = -20;
/// A tenth of that weight: each step is a factor of 1.25.
const LOW_LATENCY_NICE: i32 = -10;

/// `struct sched_attr` (linux/sched/types.h), its first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Sets the scheduling of the calling thread.
///
/// # Errors
/// The process lacks the permission (CAP_SYS_NICE), or the kernel does not support the scheduling.
pub fn set_scheduling(scheduling: Scheduling) -> io::Result<()> {
    let mut attr = SchedAttr { size: size_of::<SchedAttr>() as u32, ..SchedAttr::default() };
    match scheduling {
        Scheduling::Normal => {}
        Scheduling::ShortSlice => attr.runtime = SLICE_NS,
        Scheduling::LowLatency => {
            (attr.nice, attr.runtime) = (LOW_LATENCY_NICE, SLICE_NS);
            attr.flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
        }
        Scheduling::ShortSlices => (attr.nice, attr.runtime) = (NICE, SLICE_NS),
        Scheduling::Fifo(priority) => (attr.policy, attr.priority) = (libc::SCHED_FIFO as u32, priority),
    }
    // SAFETY: the structure has the stated size and outlives the call; 0 is the calling thread.
    let failed = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the longest delay of the calling thread, which reads the clock in a busy loop for
/// `duration`.
pub fn longest_gap(duration: Duration) -> Duration {
    let start = Instant::now();
    let (mut last, mut longest) = (start, Duration::ZERO);
    while last - start < duration {
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    longest
}

/// Prevents swapping of this process's memory, from the first access on.
///
/// # Errors
/// The process may not lock that much memory (CAP_IPC_LOCK, `ulimit -l`).
pub fn lock_memory() -> io::Result<()> {
    // SAFETY: plain system call.
    let failed = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) } != 0;
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "a busy loop of 20 ms")]
    fn the_longest_gap_is_not_longer_than_the_time_looked() {
        let start = Instant::now();
        let gap = longest_gap(Duration::from_millis(20));
        assert!(gap > Duration::ZERO && gap <= start.elapsed());
    }

    /// Returns the kernel's view of the thread: policy, real-time priority, nice value.
    fn policy() -> (i32, i32, i32) {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        (fields[38].parse().unwrap(), fields[37].parse().unwrap(), fields[16].parse().unwrap())
    }

    #[test]
    #[cfg_attr(miri, ignore = "system calls of the scheduler")]
    fn the_kernel_takes_each() {
        let seen = std::thread::spawn(|| {
            let all = [
                Scheduling::ShortSlices,
                Scheduling::LowLatency,
                Scheduling::ShortSlice,
                Scheduling::Fifo(5),
                Scheduling::Normal,
            ];
            all.map(|scheduling| {
                set_scheduling(scheduling).unwrap();
                policy()
            })
        });
        let nice = |nice| (0, 0, nice);
        let expected = [nice(-20), nice(-10), nice(0), (libc::SCHED_FIFO, 5, 0), nice(0)];
        assert_eq!(seen.join().unwrap(), expected);
    }

    #[test]
    #[cfg_attr(miri, ignore = "system calls of the scheduler")]
    fn a_thread_that_a_prompt_one_starts_is_ordinary() {
        let seen = std::thread::spawn(|| {
            set_scheduling(Scheduling::LowLatency).unwrap();
            std::thread::spawn(policy).join().unwrap()
        });
        assert_eq!(seen.join().unwrap(), (0, 0, 0));
    }
}
