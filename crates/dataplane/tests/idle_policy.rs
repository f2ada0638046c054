//! A loop's idle policy on a core of its own, and on a contended one, with the test's clock.

#[path = "lab/loopback_port.rs"]
mod loopback_port;

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Waker;

use dataplane::{Heartbeat, IoLoop, LoopCommand, PollLoop, PollLoopSettings, Port, Sleeper, mailbox};
use loopback_port::LoopbackPort;
use switch::settings::{BridgeSettings, BufferSettings, PortSettings, SwitchSettings};
use switch::{HeapMemory, Instant, Nanos, Switch};
use wire::mac::MacAddr;

const FRAMES: usize = 64;
const TURN_NS: Nanos = 4_000;

/// A sleeper that sleeps no longer than an iteration takes, and records each change of the loop's
/// weight and its time.
struct TestSleeper<'a> {
    now: &'a Cell<u64>,
    weights: Vec<(u64, bool)>,
}

impl Sleeper for TestSleeper<'_> {
    fn watch<'a, P: Port + 'a>(&mut self, _ports: impl IntoIterator<Item = &'a P>) {}

    fn set_weight(&mut self, highest: bool) {
        self.weights.push((self.now.get(), highest));
    }

    fn wait(&mut self, _timeout_ns: Nanos) -> io::Result<bool> {
        Ok(false)
    }
}

/// Settings of a switch with these ports.
fn settings(ports: Vec<PortSettings>) -> SwitchSettings {
    SwitchSettings {
        buffer: BufferSettings { total_cells: 64, ..BufferSettings::default() },
        usage_percent: 100,
        alarms: Default::default(),
        seed: 0,
        bridge: BridgeSettings::default(),
        ports,
    }
}

#[test]
fn a_loop_takes_more_weight_while_others_want_its_core() {
    const DELAYED_AT: u64 = 2_500_000_000;
    let settings = settings(vec![PortSettings::new("p0".to_owned(), None)]);
    let switch = Switch::new(&settings, &[MacAddr([2; 6])], FRAMES);
    let (port, wire) = LoopbackPort::new();
    let (handle, core_mailbox) = mailbox(Waker::noop().clone());
    let of_core = PollLoopSettings { complete_checksums: vec![false], ..PollLoopSettings::default() };
    let memory = HeapMemory::new(FRAMES, 2048);
    let mut core = PollLoop::new(switch, vec![port], memory, FRAMES, core_mailbox, of_core);

    let (now, handle, has_injected) = (Cell::new(0), RefCell::new(handle), Cell::new(false));
    let clock = || {
        if has_injected.replace(false) {
            return Instant(now.get()); // read for the batch, in the same iteration
        }
        let delayed = now.get() == DELAYED_AT;
        now.set(now.get() + if delayed { 6_000_000 } else { TURN_NS });
        if now.get() % (5 * TURN_NS) == 0 {
            has_injected.set(true);
            wire.inject([0; 60]); // something moves, so the loop stays awake
        }
        if now.get() == 4_000_000_000 {
            handle.borrow_mut().send(LoopCommand::Stop(Box::default())).expect("room for a command");
        }
        Instant(now.get())
    };
    let mut sleeper = TestSleeper { now: &now, weights: Vec::new() };
    core.run(clock, &mut sleeper).expect("it can sleep");
    let of_a_turn = |nanos: u64| nanos / 1_000_000;
    let reported: Vec<_> = sleeper.weights.iter().map(|&(at, highest)| (of_a_turn(at), highest)).collect();
    assert_eq!(reported, [(210, false), (2_506, true), (2_716, false)], "in milliseconds");
}

/// A sleeper whose second sleep lasts for a given time, and whose third ends the loop.
struct LateSleeper<'a> {
    now: &'a Cell<u64>,
    ends: &'a AtomicBool,
    sleeps: usize,
    second_ns: Nanos,
    /// How long the process was stopped during the second sleep.
    stopped_ns: Nanos,
}

impl Sleeper for LateSleeper<'_> {
    fn watch<'a, P: Port + 'a>(&mut self, _ports: impl IntoIterator<Item = &'a P>) {}

    fn set_weight(&mut self, _highest: bool) {}

    fn stopped_ns(&self) -> Nanos {
        if self.sleeps == 2 { self.stopped_ns } else { 0 }
    }

    fn wait(&mut self, timeout_ns: Nanos) -> io::Result<bool> {
        self.sleeps += 1;
        let slept_ns = if self.sleeps == 2 { self.second_ns } else { timeout_ns };
        self.now.set(self.now.get() + slept_ns);
        self.ends.store(self.sleeps == 3, Relaxed);
        Ok(false)
    }
}

/// Runs an I/O loop whose second sleep lasts this long, with a stop of this length in it. Returns
/// its longest stall.
fn stall_of_io_loop(second_ns: Nanos, stopped_ns: Nanos) -> Nanos {
    let (now, ends) = (Cell::new(0), AtomicBool::new(false));
    let clock = || {
        now.set(now.get() + TURN_NS);
        Instant(now.get())
    };
    let heartbeat = Arc::new(Heartbeat::default());
    let mut of_line = IoLoop::<LoopbackPort>::new(Vec::new(), Arc::default(), Arc::clone(&heartbeat));
    let mut sleeper = LateSleeper { now: &now, ends: &ends, sleeps: 0, second_ns, stopped_ns };
    of_line.run(&mut HeapMemory::new(1, 2048), clock, &mut sleeper, &ends).expect("it can sleep");
    heartbeat.times().worst_stall_ns
}

/// Runs a switching loop without ports in the same way.
fn stall_of_poll_loop(second_ns: Nanos, stopped_ns: Nanos) -> Nanos {
    let (now, ends) = (Cell::new(0), AtomicBool::new(false));
    let (handle, core_mailbox) = mailbox(Waker::noop().clone());
    let handle = RefCell::new(handle);
    let clock = || {
        now.set(now.get() + TURN_NS);
        if ends.swap(false, Relaxed) {
            handle.borrow_mut().send(LoopCommand::Stop(Box::default())).expect("room for a command");
        }
        Instant(now.get())
    };
    let heartbeat = Arc::new(Heartbeat::default());
    let of_core = PollLoopSettings { heartbeat: Arc::clone(&heartbeat), ..PollLoopSettings::default() };
    let switch = Switch::new(&settings(Vec::new()), &[], FRAMES);
    let memory = HeapMemory::new(FRAMES, 2048);
    let mut core = PollLoop::<LoopbackPort>::new(switch, Vec::new(), memory, FRAMES, core_mailbox, of_core);
    let mut sleeper = LateSleeper { now: &now, ends: &ends, sleeps: 0, second_ns, stopped_ns };
    core.run(clock, &mut sleeper).expect("it can sleep");
    heartbeat.times().worst_stall_ns
}

/// A loop's thread is stopped while it sleeps: it wakes late, or in time since a frame ends the
/// sleep, which only the sleeper can tell from a sleep without a stop.
#[test]
fn what_a_loop_oversleeps_is_its_longest_stall_and_so_is_a_stop_while_it_sleeps() {
    const MS: Nanos = 1_000_000;
    for stall_of in [stall_of_io_loop, stall_of_poll_loop] {
        for (second_ns, stopped_ns, expected) in [
            (600 * MS, 0, 500 * MS),        // 500 ms after the longest sleep should have ended
            (90 * MS, 0, 0),                // a frame ended the sleep
            (90 * MS, 80 * MS, 80 * MS),    // the same, after a stop
            (600 * MS, 550 * MS, 550 * MS), // stopped 50 ms after it went to sleep
            (600 * MS, 100 * MS, 500 * MS), // stopped, and late in addition
        ] {
            let stall_ns = stall_of(second_ns, stopped_ns);
            assert!((expected..expected + MS).contains(&stall_ns), "{stall_ns} ns, not {expected}");
        }
    }
}
