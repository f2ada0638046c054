//! The exchange of a value between a control thread and a loop: a guest's rings.
//!
//! Rule: at any time either the thread or the loop owns the value. The thread wants it back; the
//! loop answers in its next iteration. A loop that stops serving puts the value back before it says
//! so, and the thread finds it there. A loop that serves again answers what is wanted first. So a
//! want is either withdrawn by the thread or answered by the loop, exactly once.
//! `tests/interleavings.rs` tries all interleavings of both with `loom`. Source:
//! docs/vhost-user.md, "Hostile guests".

use crate::shared::{ArrayQueue, AtomicBool, Ordering::SeqCst};

/// What the thread and the loop share.
#[derive(Debug)]
pub(crate) struct Exchange<T> {
    to_loop: ArrayQueue<T>,
    to_control: ArrayQueue<Option<T>>,
    /// The thread wants the value back, or has given one.
    has_news: AtomicBool,
    wants_back: AtomicBool,
    /// The loop serves the port, and so answers.
    is_served: AtomicBool,
}

impl<T> Exchange<T> {
    /// Creates an exchange without a value, which no loop serves.
    pub(crate) fn new() -> Self {
        Self {
            to_loop: ArrayQueue::new(1),
            to_control: ArrayQueue::new(1),
            has_news: AtomicBool::new(false),
            wants_back: AtomicBool::new(false),
            is_served: AtomicBool::new(false),
        }
    }

    /// True if the loop has to call [`Exchange::exchange`].
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.has_news.load(crate::shared::Ordering::Relaxed)
    }

    /// Announces news to the loop.
    pub(crate) fn announce(&self) {
        self.has_news.store(true, SeqCst);
    }

    /// The thread's side: gives a value to the loop, which has none.
    pub(crate) fn give(&self, value: T) {
        let taken = self.to_loop.push(value);
        debug_assert!(taken.is_ok(), "the loop has none");
        self.announce();
    }

    /// The thread's side: takes the value back; `None` if there is none. Calls `wake` once if the
    /// loop is needed for that, and `wait` until it has answered.
    pub(crate) fn take_back(&self, wake: impl FnOnce(), wait: impl Fn()) -> Option<T> {
        if let Some(value) = self.to_loop.pop() {
            return Some(value); // the loop never saw it
        }
        self.wants_back.swap(true, SeqCst); // after what the loop last read of it
        self.announce();
        wake();
        let mut left = None;
        loop {
            if let Some(answer) = self.to_control.pop() {
                return left.or(answer);
            }
            // A loop that stopped serving has put back what it had before it said so. If the want
            // cannot be withdrawn, the loop serves again and has seen it: its answer follows.
            if !self.is_served.load(SeqCst) {
                left = left.or_else(|| self.to_loop.pop());
                if self.wants_back.swap(false, SeqCst) {
                    return left;
                }
            }
            wait();
        }
    }

    /// The loop's side: gives back `value` if that is wanted, or takes a new one.
    #[cold]
    pub(crate) fn exchange(&self, value: &mut Option<T>) {
        self.has_news.store(false, SeqCst);
        if self.wants_back.swap(false, SeqCst) {
            let left = value.take().or_else(|| self.to_loop.pop());
            let _ = self.to_control.push(left); // the thread takes the answer to each of its wants
        } else if value.is_none() {
            *value = self.to_loop.pop();
        }
    }

    /// The loop's side: it serves the port from now on.
    pub(crate) fn begin_serving(&self) {
        self.is_served.store(true, SeqCst);
        self.announce();
    }

    /// The loop's side: it no longer serves the port, and puts its value where the thread, or the
    /// loop when it serves the port again, finds it. False if it did not serve the port.
    pub(crate) fn end_serving(&self, value: Option<T>) -> bool {
        if let Some(value) = value {
            let _ = self.to_loop.push(value);
        }
        self.is_served.swap(false, SeqCst)
    }
}
