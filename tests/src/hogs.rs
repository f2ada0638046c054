//! Other work on the machine, as tests want it: bounded, and gone with the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use xdp::{Scheduling, set_affinity, set_scheduling};

/// Threads that take a core for a while, each so often, within bounds.
pub struct Hogs {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    /// On each of `cores` a thread that spins for `busy` of each `period`, in real time if that is
    /// to be above a loop. It ends after `longest`, or when this is dropped.
    pub fn new(
        cores: &[usize],
        scheduling: Scheduling,
        busy: Duration,
        period: Duration,
        longest: Duration,
    ) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let hog = |&core: &usize| {
            let ends = Arc::clone(&ends);
            spawn(move || {
                set_affinity(core).expect("the core is there");
                set_scheduling(scheduling).expect("tests run as root");
                let end = Instant::now() + longest;
                while !ends.load(Relaxed) && Instant::now() < end {
                    let start = Instant::now();
                    while start.elapsed() < busy {
                        std::hint::spin_loop();
                    }
                    sleep(period.saturating_sub(start.elapsed()));
                }
            })
        };
        Self { threads: cores.iter().map(hog).collect(), ends }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
