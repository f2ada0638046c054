//! Other work on the machine, for tests: limited in time, and ended with the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use xdp::{Scheduling, set_affinity, set_scheduling};

/// Threads that periodically occupy a core, within limits.
#[derive(Debug)]
pub struct CpuLoad {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl CpuLoad {
    /// Starts on each of `cores` a thread that spins for `busy` of each `period`, with real-time
    /// priority if it must preempt a loop. It ends after `longest`, or on drop.
    pub fn new(
        cores: &[usize],
        scheduling: Scheduling,
        busy: Duration,
        period: Duration,
        longest: Duration,
    ) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let spin = |&core: &usize| {
            let ends = Arc::clone(&ends);
            spawn(move || {
                set_affinity(core).expect("the core is there");
                set_scheduling(scheduling).expect("tests run as root");
                let began = Instant::now();
                while !ends.load(Relaxed) && began.elapsed() < longest {
                    let start = Instant::now();
                    while start.elapsed() < busy && began.elapsed() < longest && !ends.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                    sleep(period.saturating_sub(start.elapsed()));
                }
            })
        };
        Self { threads: cores.iter().map(spin).collect(), ends }
    }
}

impl Drop for CpuLoad {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
