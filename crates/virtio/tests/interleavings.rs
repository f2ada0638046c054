//! What the threads of a port share without a lock, in every interleaving that memory models allow:
//! the same files that the port uses, with atomics of `loom`. `exchange` passes rings between
//! control thread and loop; `calls` has the rings to signal. Source: docs/reliability.md,
//! "Concurrency".

use std::sync::Arc;

#[path = "../src/port/calls.rs"]
#[allow(dead_code, reason = "a part of it is enough here")]
mod calls;
#[path = "../src/port/exchange.rs"]
#[allow(dead_code, reason = "a part of it is enough here")]
mod exchange;
#[path = "../../dataplane/tests/interleavings/shared.rs"]
#[allow(dead_code, unused_imports, reason = "a part of it is enough here")]
mod shared;

/// Where `virtio` has it. Two are enough.
mod ring {
    pub const MAX_RINGS: usize = 2;
}

use calls::Calls;
use exchange::Exchange;
use shared::sync::Condvar;
use shared::{AtomicBool, Mutex, Ordering, check, thread};

/// What a loop does, in order.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Serves the port from now on.
    Begin,
    /// Runs an iteration.
    Iterate,
    /// No longer serves the port.
    End,
}

/// The thread gives a value and takes it back, as before a change, while the loop does its steps,
/// and then as long as it serves the port. Returns nothing: the thread must have the value.
fn is_taken_back(steps: &'static [Step], gives_before: bool) {
    check(Some(3), move || {
        let exchange = Arc::new(Exchange::new());
        if gives_before {
            exchange.give(7);
        }
        let of_loop = {
            let exchange = Arc::clone(&exchange);
            thread::spawn(move || {
                let mut value = None;
                for step in steps {
                    match step {
                        Step::Begin => exchange.begin_serving(),
                        Step::Iterate if exchange.has_news() => exchange.exchange(&mut value),
                        Step::Iterate => {}
                        Step::End => drop(exchange.end_serving(value.take())),
                    }
                }
                exchange.end_serving(value.take());
            })
        };
        if !gives_before {
            exchange.give(7);
        }
        let taken = exchange.take_back(|| (), thread::yield_now);
        assert_eq!(taken, Some(7), "the loop has none now");
        of_loop.join().unwrap();
        exchange.give(8); // there is room
        assert_eq!(exchange.take_back(|| (), thread::yield_now), Some(8));
    });
}

#[test]
fn the_loop_gives_back_what_it_has() {
    is_taken_back(&[Step::Begin, Step::Iterate, Step::Iterate, Step::Iterate], true);
    is_taken_back(&[Step::Begin, Step::Iterate, Step::Iterate], false);
}

/// The port goes down, and comes up again, at any time.
#[test]
fn a_loop_that_serves_again_keeps_nothing_that_is_wanted() {
    is_taken_back(&[Step::Begin, Step::Iterate, Step::End, Step::Begin, Step::Iterate], true);
}

/// The loop notes two rings, one after the other, while the thread sleeps whenever it was not woken
/// again. Both rings are signaled after their note; if the thread ever slept beside one, nothing
/// would wake it, and `loom` would report that.
#[test]
fn each_ring_that_is_noted_is_signaled() {
    check(Some(3), || {
        let calls = Arc::new(Calls::new());
        calls.set(0, Some(0), |_| {});
        calls.set(1, Some(1), |_| {});
        let wake = Arc::new((Mutex::new(false), Condvar::new())); // as an eventfd
        let of_loop = {
            let (calls, wake) = (Arc::clone(&calls), Arc::clone(&wake));
            thread::spawn(move || {
                for rings in [0b01, 0b10] {
                    if calls.want(rings) {
                        *wake.0.lock().unwrap() = true;
                        wake.1.notify_one();
                    }
                }
            })
        };
        let signaled = std::cell::Cell::new(0);
        while signaled.get() != 0b11 {
            let mut is_woken = wake.0.lock().unwrap();
            while !*is_woken {
                is_woken = wake.1.wait(is_woken).unwrap();
            }
            *is_woken = false;
            drop(is_woken);
            calls.signal_wanted(|ring: &u32| signaled.set(signaled.get() | 1 << ring));
        }
        of_loop.join().unwrap();
    });
}

/// A descriptor is replaced while the thread signals. Once it is, the thread does not write to it.
#[test]
fn a_replaced_descriptor_is_not_written_to() {
    check(Some(3), || {
        let (calls, is_gone) = (Arc::new(Calls::new()), Arc::new(AtomicBool::new(false)));
        calls.set(0, Some(1), |_| {});
        let of_thread = {
            let (calls, is_gone) = (Arc::clone(&calls), Arc::clone(&is_gone));
            thread::spawn(move || {
                for _ in 0..2 {
                    calls.want(1);
                    calls.signal_wanted(|&call: &i32| {
                        assert!(call == 2 || !is_gone.load(Ordering::Acquire));
                    });
                }
            })
        };
        calls.set(0, Some(2), |_| thread::yield_now());
        is_gone.store(true, Ordering::Release);
        of_thread.join().unwrap();
    });
}
