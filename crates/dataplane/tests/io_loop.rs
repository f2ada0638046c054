//! An I/O loop alone: when an iteration has moved something, what crosses the channels to the
//! switching core, and when the loop may sleep. The test is the switching core.

mod lab;
#[path = "lab/loopback_port.rs"]
mod loopback_port;

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Wake, Waker};

use dataplane::guard::heartbeat::STALL_NS;
use dataplane::{Doorbell, Heartbeat, IoLoop, LoopState, Port, PortFault, RemotePort, Sleeper, remote};
use lab::io_loops::Shared;
use lab::traffic_scenarios::{FRAMES, numbered};
use lab::{PORTS, mac, settings};
use loopback_port::{LoopbackPort, Wire};
use switch::{FrameId, FrameMemory, Instant, Nanos, Switch, TxDesc};

/// Frames of memory of [`Ends`].
const ENDS_FRAMES: usize = 8192;
/// Free frames at which an I/O loop neither takes nor returns any.
const ENOUGH: usize = 1024;
const BATCH: usize = 64;

/// The end of a channel at the switching core.
type Remote = Box<RemotePort<Shared>>;

/// Both ends of the channels of one I/O loop's ports. The test is the switching core.
struct Ends {
    ports: Vec<Remote>,
    line: IoLoop<LoopbackPort<Shared>>,
    wires: Vec<Wire>,
    memory: Shared,
    heartbeat: Arc<Heartbeat>,
    now: Instant,
}

impl Ends {
    /// Creates an I/O loop with that many ports and free frames.
    fn new(ports: usize, free: usize) -> Self {
        let (core, bell, heartbeat) = (Arc::default(), Arc::default(), Arc::default());
        let macs: Vec<_> = (100..100 + PORTS).map(mac).collect();
        let switch = Switch::new(&settings(), &macs, FRAMES);
        let (mut remotes, mut of_line, mut wires) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..ports {
            let (port, wire) = LoopbackPort::new();
            let (mut remote, end) = remote(port, &core, &bell, &heartbeat);
            remote.set_parser(switch.parser(number), true);
            remotes.push(remote);
            of_line.push(end);
            wires.push(wire);
        }
        let mut memory = Shared::new(ENDS_FRAMES, 1024, 1);
        memory.hand_over(free, 1);
        let line = IoLoop::new(of_line, bell, Arc::clone(&heartbeat));
        let mut ends = Self { ports: remotes, line, wires, memory, heartbeat, now: Instant(1_000_000) };
        ends.turn(); // it takes the parsers
        ends
    }

    /// Runs an iteration of the I/O loop. True if anything moved.
    fn turn(&mut self) -> bool {
        self.memory.turn_of = 1;
        let moved = self.line.iterate(&mut self.memory, self.now);
        self.memory.turn_of = 0;
        moved
    }

    /// Lets the switching core exchange free frames and look at the I/O loop.
    fn look(&mut self) {
        for port in &mut self.ports {
            port.receive(&mut self.memory, self.now, 0, &mut Vec::new());
        }
    }

    /// Gives the first port a batch of that many frames to transmit.
    fn transmit(&mut self, frames: usize) {
        let mut batch: Vec<_> = (0..frames).map(|_| TxDesc::new(self.memory.alloc().unwrap(), 60)).collect();
        self.ports[0].transmit(&mut self.memory, &mut batch);
    }

    fn free_of_line(&mut self) -> usize {
        self.memory.turn_of = 1;
        let free = self.memory.free_frames();
        self.memory.turn_of = 0;
        free
    }

    /// Takes free frames from the I/O loop, or from the switching core.
    fn take(&mut self, loop_number: usize, frames: usize) -> Vec<FrameId> {
        self.memory.turn_of = loop_number;
        let taken = (0..frames).map(|_| self.memory.alloc().expect("a free frame")).collect();
        self.memory.turn_of = 0;
        taken
    }

    /// Checks that each frame is free, with the first port, or among `taken` ones.
    fn account(&mut self, taken: usize) {
        while !self.ports[0].report() {
            self.turn();
        }
        let port = &self.ports[0];
        let known = self.memory.free_frames() + port.free_frames() + port.frames_held() + taken;
        assert_eq!(known, ENDS_FRAMES);
    }

    fn close(&mut self, unsent: &mut Vec<FrameId>) -> bool {
        self.ports[0].close(&mut self.memory, unsent)
    }
}

type Act = fn(&mut Ends);

/// An iteration moves something if it has done anything of this, alone or with something else.
#[test]
fn an_iteration_that_does_anything_has_moved() {
    let acts: [(&str, Act); 5] = [
        ("frames received", |it| it.wires[0].inject(numbered(1, 0, 0, 0))),
        ("frames to transmit", |it| it.transmit(1)),
        ("a setting", |it| it.ports[0].set_min_posted(7)),
        ("drops of the kernel", |it| it.wires[0].drop_for_lack_of_chunks(1)),
        ("free frames", |it| it.memory.hand_over(2048, 1)),
    ];
    for (name, act) in acts {
        for (other, also) in acts {
            let mut ends = Ends::new(1, ENOUGH);
            assert!(!ends.turn() && !ends.turn(), "nothing has happened");
            act(&mut ends);
            if name != other {
                also(&mut ends);
            }
            assert!(ends.turn(), "{name}, {other}");
        }
    }
}

#[test]
fn frames_that_complete_have_moved_alone_or_with_others() {
    let mut ends = Ends::new(1, ENOUGH);
    ends.transmit(1);
    ends.turn(); // the port completes the frame in the next iteration
    assert!(ends.turn(), "only a completion");
    assert!(!ends.turn());
    ends.transmit(1);
    ends.turn();
    ends.transmit(1);
    assert!(ends.turn(), "a completion and a transmission");
}

#[test]
fn two_ports_that_move_do_not_hide_each_other() {
    let mut ends = Ends::new(2, ENOUGH);
    ends.wires.iter().for_each(|wire| wire.inject(numbered(1, 0, 0, 0)));
    assert!(ends.turn());
    assert!(!ends.turn());
}

#[test]
fn a_fault_and_a_link_that_goes_down_are_news_once() {
    let mut ends = Ends::new(1, ENOUGH);
    ends.wires[0].go_down();
    assert!(ends.turn());
    assert!(!ends.turn() && !ends.turn());
    assert_eq!(ends.ports[0].pop_fault(), Some(PortFault::Down(Wire::ENODEV)));
    assert!(ends.ports[0].has_pending(), "the switching core has yet to close the port");
}

/// Limits of the free frames that an I/O loop keeps: 512 to 2048.
#[test]
fn an_io_loop_keeps_enough_free_frames_and_returns_the_rest() {
    for (free, later) in [(511, 575), (512, 512), (2048, 2048), (2049, 1985)] {
        let mut ends = Ends::new(1, ENOUGH);
        ends.look(); // the channel holds free frames for the I/O loop
        let spare = ends.take(1, ENOUGH);
        ends.memory.turn_of = 1;
        spare.into_iter().for_each(|frame| ends.memory.free(frame));
        ends.memory.turn_of = 0;
        if free < ENOUGH {
            ends.take(1, ENOUGH - free);
        } else {
            ends.memory.hand_over(free - ENOUGH, 1);
        }
        assert_eq!((ends.turn(), ends.free_of_line()), (free != later, later));
    }
}

/// The switching core keeps 1024 free frames, and looks again only once it could give a batch.
#[test]
fn the_switching_core_gives_free_frames_that_it_can_spare() {
    for (free, later) in [(1024 + BATCH - 1, 1024 + BATCH - 1), (1024 + BATCH, 1024), (1100, 1036)] {
        let mut ends = Ends::new(1, ENOUGH);
        let rest = ends.memory.free_frames() - free;
        ends.take(0, rest);
        ends.look();
        assert_eq!(ends.memory.free_frames(), later);
        assert!(!ends.ports[0].has_pending(), "there is room, but nothing to give");
    }
}

#[test]
fn what_a_remote_port_leaves_keeps_the_switching_core_awake() {
    let acts: [(&str, Act); 4] = [
        ("room for free frames", |it| {
            it.take(1, ENOUGH);
            it.turn();
        }),
        ("returned free frames", |it| {
            it.memory.hand_over(2048, 1);
            it.turn();
        }),
        ("frames of a batch taken in part", |it| {
            (0..3).for_each(|n| it.wires[0].inject(numbered(1, 0, 0, n)));
            it.turn();
            it.ports[0].take_arrivals(&it.memory, 1, &mut Vec::new());
        }),
        ("a reply", |it| {
            it.ports[0].report();
            it.turn();
        }),
    ];
    for (name, act) in acts {
        let mut ends = Ends::new(1, ENOUGH);
        ends.look(); // the channel is full of free frames
        assert!(!ends.ports[0].has_pending());
        act(&mut ends);
        assert!(ends.ports[0].has_pending(), "{name}");
    }
}

/// Frames are in the TX ring, before it, on their way back, in a batch taken in part, and on the
/// channel in both directions.
#[test]
fn every_frame_of_a_remote_port_is_accounted_for() {
    let mut ends = Ends::new(1, ENOUGH);
    ends.wires[0].set_transmit_room(2);
    ends.wires[0].block(true);
    ends.transmit(3); // two in the ring, one before it
    ends.turn();
    ends.account(0);
    ends.transmit(4); // on the channel
    (0..3).for_each(|n| ends.wires[0].inject(numbered(1, 0, 0, n)));
    ends.turn();
    ends.account(0);
    let mut arrivals = Vec::new();
    ends.ports[0].take_arrivals(&ends.memory, 1, &mut arrivals);
    ends.account(1);
    assert_eq!(ends.ports[0].frames_held(), 3 + 4 + 2);
    ends.memory.hand_over(2048, 1);
    ends.account(1); // free frames are on the channel
    ends.ports[0].take_arrivals(&ends.memory, 2, &mut arrivals);
    assert_eq!(arrivals.len(), 2, "no more than asked for, in all");
}

/// The switching core takes no completions. The channel has room for 16 batches of them.
fn with_completed_frames(frames: usize) -> Ends {
    let mut ends = Ends::new(1, ENOUGH);
    for _ in 0..frames {
        ends.transmit(1);
        ends.turn();
    }
    (0..2).for_each(|_| _ = ends.turn());
    ends
}

/// The same, and then the kernel loses three frames.
fn with_completed_and_lost_frames(completed: usize) -> Ends {
    let mut ends = with_completed_frames(completed);
    ends.wires[0].lose(3);
    ends.transmit(3);
    (0..3).for_each(|_| _ = ends.turn());
    ends
}

#[test]
fn completions_that_find_no_room_are_accounted_for() {
    let mut ends = with_completed_and_lost_frames(20);
    ends.account(0);
    let mut completed = Vec::new();
    for _ in 0..2 {
        ends.ports[0].complete(&mut completed);
        ends.ports[0].take_lost(&mut completed);
        ends.turn();
    }
    ends.ports[0].complete(&mut completed);
    ends.ports[0].take_lost(&mut completed);
    assert_eq!((completed.len(), ends.ports[0].outstanding()), (23, 0));
    assert!(!ends.ports[0].needs_kick());
}

/// The channel holds more batches than the one that the I/O loop has taken.
#[test]
fn a_closed_remote_port_returns_all_that_it_never_sent() {
    let mut ends = Ends::new(1, ENOUGH);
    ends.wires[0].set_transmit_room(0);
    (0..3).for_each(|_| ends.transmit(1));
    assert!(ends.ports[0].transmit_room() > 0 && ends.ports[0].outstanding() == 3);
    let mut unsent = Vec::new();
    assert!(!ends.close(&mut unsent), "the I/O loop has not replied");
    assert_eq!(ends.ports[0].transmit_room(), 0);
    ends.turn();
    assert!(ends.close(&mut unsent));
    assert_eq!((unsent.len(), ends.ports[0].outstanding()), (3, 0));
}

#[test]
fn what_was_given_before_a_close_is_sent() {
    let mut ends = Ends::new(1, ENOUGH);
    ends.transmit(1);
    ends.close(&mut Vec::new());
    ends.turn();
    assert_eq!(ends.wires[0].take_sent().len(), 1);
    ends.wires[0].inject(numbered(1, 0, 0, 0));
    ends.turn();
    assert_eq!(ends.wires[0].waiting(), 1, "and nothing is received any more");
}

#[test]
fn a_port_that_nobody_else_closes_is_closed_when_it_is_detached() {
    let mut ends = Ends::new(1, ENOUGH);
    ends.wires[0].block(true);
    ends.transmit(2);
    assert!(ends.ports[0].detach());
    ends.turn();
    assert!(!ends.wires[0].is_up());
    ends.account(0); // the two are no longer in the ring
    let mut unsent = Vec::new();
    ends.ports[0].reclaim(&mut ends.memory, &mut unsent);
    ends.turn();
    assert!(ends.ports[0].reclaim(&mut ends.memory, &mut unsent) && unsent.len() == 2);
}

/// A report waits until no free frames are exchanged, so that each is counted once, but at most
/// eight iterations.
#[test]
fn a_report_waits_for_free_frames_to_settle() {
    let mut ends = Ends::new(1, 512);
    let reported_in = |drains: usize| {
        assert!(!ends.ports[0].report());
        (1..).find(|&iteration| {
            ends.look();
            if iteration <= drains {
                ends.take(1, BATCH);
            }
            ends.turn();
            ends.ports[0].report()
        })
    };
    assert_eq!([0, 1, 5, 20].map(reported_in), [1, 2, 6, 8].map(Some));

    let mut ends = Ends::new(2, 2048);
    ends.memory.hand_over(10 * BATCH, 1);
    ends.ports[0].report();
    ends.turn();
    assert!(!ends.ports[0].report(), "both ports have returned free frames");
    ends.turn();
    assert!(ends.ports[0].report());
}

#[test]
fn a_report_that_is_no_longer_waited_for_answers_no_other_request() {
    let mut ends = Ends::new(1, ENOUGH);
    assert!(!ends.ports[0].report());
    ends.ports[0].forget_report();
    ends.turn();
    assert!(!ends.ports[0].report(), "it is late");
    assert!(!ends.ports[0].report(), "another request");
    ends.turn();
    assert!(ends.ports[0].report());
}

#[test]
fn a_slot_that_another_port_takes_counts_from_zero() {
    let mut ends = Ends::new(1, ENOUGH);
    ends.wires[0].drop_for_lack_of_chunks(5);
    ends.account(0);
    assert_eq!(ends.ports[0].reset_counters().rx_fill_ring_empty_frames, 5);
    assert_eq!(ends.ports[0].kernel_counters(), Default::default());
}

/// Settings that follow each other faster than the I/O loop takes them: it gets the last one.
#[test]
fn the_last_of_many_settings_reaches_an_io_loop_that_stalls() {
    let mut ends = Ends::new(1, ENOUGH);
    (1..=40).for_each(|frames| ends.ports[0].set_min_posted(frames));
    ends.turn();
    ends.look();
    ends.turn();
    assert_eq!(ends.wires[0].min_posted(), 40);
}

#[test]
fn frames_on_a_channel_count_as_rx_backlog() {
    let mut ends = Ends::new(1, ENOUGH);
    (0..3).for_each(|n| ends.wires[0].inject(numbered(1, 0, 0, n)));
    ends.turn();
    ends.look();
    assert_eq!(ends.ports[0].rx_waiting(), 3);
    ends.now = ends.now + STALL_NS;
    ends.look();
    assert_eq!(ends.ports[0].rx_waiting(), 4, "one more may have arrived since");
}

/// The port's peer takes nothing, and the I/O loop leaves frames on the channel.
#[test]
fn an_io_loop_that_iterates_is_not_stalled() {
    let mut ends = Ends::new(1, ENOUGH);
    ends.wires[0].set_transmit_room(0);
    (0..2).for_each(|_| ends.transmit(1));
    ends.look();
    ends.now = ends.now + 2 * STALL_NS;
    ends.turn();
    ends.look();
    assert!(!ends.ports[0].is_stalled());
    ends.now = ends.now + STALL_NS;
    ends.look();
    assert!(ends.ports[0].is_stalled());
    ends.turn();
    ends.look();
    assert!(!ends.ports[0].is_stalled(), "it iterates, though it takes no batch");
}

/// The switching core sees late that the I/O loop has taken a batch.
#[test]
fn a_stall_counts_from_when_the_last_batch_was_seen_to_be_taken() {
    let mut ends = Ends::new(1, ENOUGH);
    ends.wires[0].set_transmit_room(0);
    (0..3).for_each(|_| ends.transmit(1));
    let mut stalled = Vec::new();
    for (nanos, turns) in [(0, false), (500_000, true), (400_000, false), (700_000, false), (300_000, false)]
    {
        ends.now = ends.now + nanos;
        if turns {
            ends.turn();
        } else {
            ends.look();
            stalled.push(ends.ports[0].is_stalled());
        }
    }
    assert_eq!(stalled, [false, false, false, true]);
}

/// A sleeper that does something right before each sleep: it is asked for the time of others, once
/// in ten milliseconds.
struct EventfulSleeper<'a, F> {
    before_sleep: F,
    sleeps: usize,
    watched: usize,
    ends: &'a AtomicBool,
}

impl<F: FnMut()> Sleeper for EventfulSleeper<'_, F> {
    fn watch<'a, P: Port + 'a>(&mut self, ports: impl IntoIterator<Item = &'a P>) {
        self.watched = ports.into_iter().count();
    }

    fn core_wait_ns(&mut self) -> Nanos {
        (self.before_sleep)();
        0
    }

    fn wait(&mut self, _timeout_ns: Nanos) -> io::Result<bool> {
        self.sleeps += 1;
        self.ends.store(true, Relaxed);
        Ok(false)
    }
}

/// Runs the I/O loop, iterations being `step_ns` apart, until it sleeps, or for `iterations`.
/// Something may happen in each of them, when nothing moves any more. Returns the iteration in
/// which it sleeps.
fn sleeps_in(
    ends: &mut Ends,
    step_ns: Nanos,
    iterations: u64,
    mut act: impl FnMut(&mut [Remote], &AtomicBool),
) -> Option<u64> {
    let (stop, count, began) = (AtomicBool::new(false), Cell::new(0), ends.now);
    let clock = || {
        count.set(count.get() + 1);
        if count.get() > iterations {
            stop.store(true, Relaxed);
        }
        began + count.get() * step_ns
    };
    let ports = &mut ends.ports;
    let before_sleep = || act(ports, &stop);
    let mut sleeper = EventfulSleeper { before_sleep, sleeps: 0, watched: 0, ends: &stop };
    ends.memory.turn_of = 1;
    ends.line.run(&mut ends.memory, clock, &mut sleeper, &stop).expect("it can sleep");
    ends.memory.turn_of = 0;
    let (sleeps, watched) = (sleeper.sleeps, sleeper.watched);
    assert_eq!(watched, usize::from(ends.ports[0].is_up()), "an open port ends the sleep");
    assert_eq!(ends.heartbeat.state(), LoopState::Ended);
    // The clock is read at the start of the loop, in each iteration, and after a sleep.
    (sleeps > 0).then(|| count.get() - 2)
}

#[test]
fn an_io_loop_polls_before_it_sleeps() {
    let mut ends = Ends::new(1, ENOUGH);
    assert_eq!(sleeps_in(&mut ends, 1_000, 100, |_, _| {}), Some(20), "after 20 µs");
}

/// The I/O loop has something that no descriptor indicates.
#[test]
fn an_io_loop_does_not_sleep_while_it_has_something_left_to_do() {
    type Case = (&'static str, fn() -> Ends, bool);
    let cases: [Case; 7] = [
        ("nothing", || Ends::new(1, ENOUGH), true),
        (
            "frames that find no room in the TX ring",
            || {
                let mut ends = Ends::new(1, ENOUGH);
                ends.wires[0].set_transmit_room(0);
                ends.transmit(1);
                ends
            },
            false,
        ),
        (
            "frames in the TX ring",
            || {
                let mut ends = Ends::new(1, ENOUGH);
                ends.wires[0].block(true);
                ends.transmit(1);
                ends
            },
            false,
        ),
        ("completed frames that fill the channel", || with_completed_frames(16), true),
        ("completed frames that find no room", || with_completed_frames(17), false),
        ("lost frames that find no room", || with_completed_and_lost_frames(16), false),
        (
            "a closed port whose frames have yet to go back",
            || {
                let mut ends = Ends::new(1, 4096);
                ends.close(&mut Vec::new());
                ends
            },
            false,
        ),
    ];
    for (name, ends, sleeps) in cases {
        assert_eq!(sleeps_in(&mut ends(), 10_000_000, 10, |_, _| {}).is_some(), sleeps, "{name}");
    }
}

/// Something arrives after the iteration, right before the sleep.
#[test]
fn an_io_loop_looks_once_more_before_it_sleeps() {
    type Arrival = fn(&mut [Remote], &AtomicBool, &mut Shared);
    let nothing: Arrival = |_, _, _| {};
    let command: Arrival = |ports, _, _| ports[0].set_min_posted(1);
    let end: Arrival = |_, ends, _| ends.store(true, Relaxed);
    let free: Arrival = |ports, _, memory| ports[0].receive(memory, Instant(0), 0, &mut Vec::new());
    for (name, free_frames, arrival, sleeps) in [
        ("nothing", ENOUGH, nothing, true),
        ("nothing, and few free frames", 100, nothing, true),
        ("a command", ENOUGH, command, false),
        ("the end", ENOUGH, end, false),
        ("free frames that it needs", 100, free, false),
        ("free frames that it does not need", 512, free, true),
    ] {
        let mut ends = Ends::new(1, free_frames);
        // The switching core's free frames; the I/O loop has the other memory.
        let mut memory = Shared::new(ENDS_FRAMES, 64, 0);
        let slept = sleeps_in(&mut ends, 10_000_000, 2, |ports, stop| arrival(ports, stop, &mut memory));
        assert_eq!(slept.is_some(), sleeps, "{name}");
    }
}

/// Counts how often a loop is woken.
#[derive(Default)]
struct Wakeups(AtomicUsize);

impl Wake for Wakeups {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_doorbell_wakes_a_loop_once_and_only_while_it_sleeps() {
    let wakeups = Arc::new(Wakeups::default());
    let bell = Doorbell::new(Waker::from(Arc::clone(&wakeups)));
    let woken = || wakeups.0.swap(0, Relaxed);
    bell.ring();
    assert_eq!(woken(), 0, "it is awake");
    bell.prepare_sleep();
    bell.ring();
    bell.ring();
    assert_eq!(woken(), 1);
    bell.prepare_sleep();
    bell.cancel_sleep();
    bell.ring();
    assert_eq!(woken(), 0, "it is awake again");
}
