//! The parts of a network on threads, one core each.
//!
//! Rule: all threads run the same window, then wait for each other, and then take in what the
//! others have sent. Mail and times are kept twice, for even and odd windows, so that one wait a
//! window is enough: what is read after it is written again only after the next. Captured frames
//! are kept until the first thread has taken those of all, window by window.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use sim::parts::{Mail, Part, Partition};
use sim::{Captured, Simulation};

/// Turns of a loop that waits for the other threads, until it leaves the core to them.
const SPINS: u32 = 10_000;
/// Windows between two reports of progress.
const REPORTED_WINDOWS: u64 = 256;

/// What the first thread calls meanwhile.
pub struct Observer<'r> {
    /// Shows how far the run is: virtual time in nanoseconds, and frame-hops.
    pub report: &'r mut (dyn FnMut(u64, u64) + Send),
    /// Gets the frames of captured links, each link's in order. False ends the run.
    pub tap: &'r mut (dyn FnMut(&Captured) -> bool + Send),
}

/// Runs the parts of a network until its end, or until a switch has no memory left. The frames of
/// `links` are captured.
pub fn run<'s>(partition: &Partition<'s>, links: &[usize], observer: Observer) -> Simulation<'s> {
    let shared = &Shared::new(partition.count());
    let mut observer = Some(observer);
    let parts = std::thread::scope(|scope| {
        let _guard = BreakOnPanic(shared); // a thread that cannot be started panics
        let threads: Vec<_> = (0..partition.count())
            .map(|number| {
                let observer = observer.take();
                scope.spawn(move || {
                    let _guard = BreakOnPanic(shared);
                    let mut part = partition.part(number);
                    links.iter().for_each(|link| part.capture(*link));
                    let mut worker = Worker { shared, partition, number, part, is_over: false };
                    worker.run(observer);
                    worker.part
                })
            })
            .collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect()
    });
    partition.join(parts)
}

/// What the threads share.
struct Shared {
    count: usize,
    /// Of even windows, and of odd ones.
    windows: [Exchange; 2],
    /// Threads that wait for the others.
    waiting: AtomicUsize,
    /// Number of times that all have waited.
    rounds: AtomicUsize,
    /// True if a thread has ended by a panic.
    is_broken: AtomicBool,
}

/// What the threads leave for each other in one window.
struct Exchange {
    /// By sender and receiver.
    mail: Vec<Mutex<Mail>>,
    /// By part: the frames that it has captured.
    captured: Vec<Mutex<Vec<Captured>>>,
    /// By part: the time of its next event, or of the first that it has sent.
    next_at: Vec<AtomicU64>,
    /// By part: frame-hops at the last report.
    hops: Vec<AtomicU64>,
    /// True if the run is to end.
    is_over: AtomicBool,
}

impl Exchange {
    fn new(count: usize) -> Self {
        Self {
            mail: (0..count * count).map(|_| Mutex::default()).collect(),
            captured: (0..count).map(|_| Mutex::default()).collect(),
            next_at: (0..count).map(|_| AtomicU64::new(0)).collect(),
            hops: (0..count).map(|_| AtomicU64::new(0)).collect(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Returns the time of the earliest event of all parts.
    fn earliest(&self) -> u64 {
        self.next_at.iter().map(|at| at.load(Ordering::Relaxed)).min().unwrap_or(u64::MAX)
    }
}

impl Shared {
    fn new(count: usize) -> Self {
        let windows = [Exchange::new(count), Exchange::new(count)];
        let [waiting, rounds] = [0, 0].map(AtomicUsize::new);
        Self { count, windows, waiting, rounds, is_broken: AtomicBool::new(false) }
    }

    /// Waits until all threads have called this. False if one never will.
    fn wait(&self) -> bool {
        let round = self.rounds.load(Ordering::Relaxed);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            self.waiting.store(0, Ordering::Relaxed);
            self.rounds.store(round.wrapping_add(1), Ordering::Release);
            return true;
        }
        let mut turns = 0;
        while self.rounds.load(Ordering::Acquire) == round {
            if self.is_broken.load(Ordering::Relaxed) {
                return false;
            }
            if turns < SPINS {
                turns += 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        true
    }
}

/// Releases the other threads if this one panics.
struct BreakOnPanic<'t>(&'t Shared);

impl Drop for BreakOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_broken.store(true, Ordering::Relaxed);
        }
    }
}

/// A thread with its part.
struct Worker<'t, 's> {
    shared: &'t Shared,
    partition: &'t Partition<'s>,
    number: usize,
    part: Part<'s>,
    /// True if the run is to end after this window.
    is_over: bool,
}

impl Worker<'_, '_> {
    /// Runs window after window. The first thread has the observer.
    fn run(&mut self, mut observer: Option<Observer>) {
        let (mut earliest, mut number) = (0, 0u64);
        while let Some(end) = self.partition.window(earliest) {
            let window = &self.shared.windows[(number % 2) as usize];
            self.advance(end, window);
            self.send(window);
            if number.is_multiple_of(REPORTED_WINDOWS) {
                self.report(window, observer.as_mut());
            }
            if self.is_over {
                window.is_over.store(true, Ordering::Relaxed);
            }
            if !self.shared.wait() {
                return;
            }
            self.receive(window);
            if let Some(observer) = &mut observer {
                self.is_over |= !self.pass_captured(window, observer);
            }
            if window.is_over.load(Ordering::Relaxed) {
                return;
            }
            earliest = window.earliest();
            number += 1;
        }
    }

    /// Runs a window, and leaves the frames that are captured in it.
    fn advance(&mut self, end: u64, window: &Exchange) {
        let mut captured = lock(&window.captured[self.number]);
        self.part.advance(end, &mut |frame| captured.push(*frame));
    }

    /// Passes on the frames that all parts have captured in a window. False if no more are wanted.
    fn pass_captured(&self, window: &Exchange, observer: &mut Observer) -> bool {
        let mut frames = Vec::new();
        window.captured.iter().for_each(|captured| frames.append(&mut lock(captured)));
        frames.sort_by_key(|frame| frame.arrival);
        frames.iter().all(|frame| (observer.tap)(frame))
    }

    /// Leaves what the other parts are to take in, and the time of the next event.
    fn send(&mut self, window: &Exchange) {
        let mut next_at = self.part.next_at();
        for to in (0..self.shared.count).filter(|to| *to != self.number) {
            let mut mail = lock(&window.mail[self.number * self.shared.count + to]);
            next_at = next_at.min(self.part.send(to, &mut mail));
        }
        window.next_at[self.number].store(next_at, Ordering::Relaxed);
    }

    /// Takes in what the other parts have left.
    fn receive(&mut self, window: &Exchange) {
        for from in (0..self.shared.count).filter(|from| *from != self.number) {
            self.part.receive(&mut lock(&window.mail[from * self.shared.count + self.number]));
        }
    }

    /// Notes the frame-hops, and ends the run of all threads after this window if that is needed.
    fn report(&mut self, window: &Exchange, observer: Option<&mut Observer>) {
        window.hops[self.number].store(self.part.frame_hops(), Ordering::Relaxed);
        let hops = || window.hops.iter().map(|hops| hops.load(Ordering::Relaxed)).sum();
        if let Some(observer) = observer {
            (observer.report)(self.part.now_ns(), hops());
        }
        self.is_over |= self.part.is_without_memory();
    }
}

/// Locks a list that no other thread uses at the time.
fn lock<T>(list: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Two switches, each with a host that sends to the other's.
    fn scenario() -> sim::Scenario {
        let device = "[port.p0]\ninterface = \"p0\"\nspeed = \"10G\"\n[port.p1]\ninterface = \"p1\"\nspeed = \"10G\"\n";
        let text = "duration = \"1ms\"\n[switch.\"s[1-2]\"]\nconfig = \"device.toml\"\n[host.\"h[1-2]\"]\n\
            [[link]]\nends = [\"h[1-2]\", \"s[1-2].p0\"]\n[[link]]\nends = [\"s1.p1\", \"s2.p1\"]\n\
            [[traffic]]\nname = \"t\"\nfrom = \"h[1-2]\"\nto = \"h[1-2]\"\nrate = \"1G\"\n";
        sim::scenario::parse("test.toml", text, &mut |_| Ok(device.to_owned())).unwrap()
    }

    #[test]
    fn a_thread_that_panics_ends_all() {
        let scenario = scenario();
        let partition = Partition::new(&scenario, 2);
        assert_eq!(partition.count(), 2);
        let mut reports = 0;
        let report = &mut |_: u64, _: u64| {
            reports += 1;
            assert!(reports < 3, "as a defect would");
        };
        let observer = Observer { report, tap: &mut |_| true };
        assert!(catch_unwind(AssertUnwindSafe(|| drop(run(&partition, &[], observer)))).is_err());
    }

    #[test]
    fn progress_is_of_all_parts() {
        let scenario = scenario();
        let partition = Partition::new(&scenario, 2);
        let mut seen = Vec::new();
        let report = &mut |now_ns: u64, hops: u64| seen.push((now_ns, hops));
        let whole = run(&partition, &[], Observer { report, tap: &mut |_| true });
        assert!(seen.len() > 1 && seen.is_sorted(), "{seen:?}");
        let (now_ns, hops) = *seen.last().unwrap();
        assert!(now_ns <= 1_000_000 && hops <= whole.frame_hops() && 2 * hops > whole.frame_hops());
    }

    /// The cable between the parts: its directions arrive in one each.
    #[test]
    fn captured_frames_come_as_on_one_core() {
        let scenario = scenario();
        let link = scenario.links.len() - 1;
        let what = |frame: &Captured| (frame.arrival, frame.from_end, frame.len, frame.bytes().to_vec());
        let mut simulation = Simulation::new(&scenario);
        simulation.capture(link);
        let mut expected = Vec::new();
        simulation.run_until(scenario.duration_ns, &mut |frame| expected.push(what(frame)));
        assert!([0, 1].iter().all(|end| expected.iter().filter(|frame| frame.1 == *end).count() > 50));
        let partition = Partition::new(&scenario, 2);
        let mut seen = Vec::new();
        let tap = &mut |frame: &Captured| {
            seen.push(what(frame));
            true
        };
        run(&partition, &[link], Observer { report: &mut |_, _| {}, tap });
        assert!(seen == expected, "{} frames, {} expected", seen.len(), expected.len());
    }

    /// A capture that cannot be written ends the run, as on one core.
    #[test]
    fn a_capture_that_fails_ends_the_run() {
        let scenario = scenario();
        let partition = Partition::new(&scenario, 2);
        let mut count = 0;
        let tap = &mut |_: &Captured| {
            count += 1;
            false
        };
        let whole = run(&partition, &[0], Observer { report: &mut |_, _| {}, tap });
        let all = run(&partition, &[], Observer { report: &mut |_, _| {}, tap: &mut |_| true });
        assert!(10 * whole.frame_hops() < all.frame_hops(), "{}", whole.frame_hops());
        assert!((1..=2).contains(&count), "{count}");
    }
}
