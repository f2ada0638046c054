//! The exchange of rings between a port's control thread and its loop, in every interleaving that
//! memory models allow: the same file that the port uses, with atomics of `loom`. Source:
//! docs/reliability.md, "Concurrency".

use std::sync::Arc;

#[path = "../src/port/exchange.rs"]
#[allow(dead_code, reason = "a part of it is enough here")]
mod exchange;
#[path = "../../dataplane/tests/interleavings/shared.rs"]
#[allow(dead_code, unused_imports, reason = "a part of it is enough here")]
mod shared;

use exchange::Exchange;
use shared::{check, thread};

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
