//! The doorbell: nothing is left beside a sleeper.

use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::shared::sync::atomic::{AtomicUsize, Ordering};
use crate::shared::sync::{Condvar, Mutex};
use crate::shared::thread;

#[path = "../../src/io_core/doorbell.rs"]
mod doorbell;

use doorbell::Doorbell;

/// A sleep that a wakeup ends, now or later, like an eventfd.
#[derive(Default)]
struct Sleep {
    is_called: Mutex<bool>,
    condvar: Condvar,
}

impl Sleep {
    fn sleep(&self) {
        let mut is_called = self.is_called.lock().unwrap();
        while !*is_called {
            is_called = self.condvar.wait(is_called).unwrap();
        }
        *is_called = false;
    }
}

impl Wake for Sleep {
    fn wake(self: Arc<Self>) {
        *self.is_called.lock().unwrap() = true;
        self.condvar.notify_one();
    }
}

/// With at most `preemptions` preemptions, `threads` threads each publish one item and ring. The
/// loop takes them all, and sleeps whenever it finds none. If it ever slept while an item was
/// there, no thread would wake it, and `loom` would report that.
fn all_is_taken(threads: usize, preemptions: Option<usize>) {
    crate::check(preemptions, move || {
        let sleep = Arc::new(Sleep::default());
        let bell = Arc::new(Doorbell::new(Waker::from(Arc::clone(&sleep))));
        let left = Arc::new(AtomicUsize::new(0));
        let leaving: Vec<_> = (0..threads)
            .map(|_| {
                let (bell, left) = (Arc::clone(&bell), Arc::clone(&left));
                thread::spawn(move || {
                    left.fetch_add(1, Ordering::Release);
                    bell.ring();
                })
            })
            .collect();
        let mut taken = 0;
        while taken < threads {
            let now = left.load(Ordering::Acquire);
            if now > taken {
                taken = now;
                continue;
            }
            bell.prepare_sleep();
            if left.load(Ordering::Acquire) == taken {
                sleep.sleep();
            }
            bell.cancel_sleep();
        }
        leaving.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn nothing_is_left_beside_a_sleeper() {
    all_is_taken(1, None);
    all_is_taken(2, Some(2)); // all interleavings are too many
}
