//! What loops and threads share without a lock, in every interleaving that memory models allow: the
//! same files that the loops use, with atomics of `loom`.
//!
//! Bounded queues are crossbeam's, which has its own tests; `shared` has what takes their place.
//! Source: docs/reliability.md, "Concurrency".
#![allow(dead_code, reason = "a part of each file is enough here")]

mod batches;
mod doorbells;
mod guard;
#[allow(unused_imports, reason = "virtio's models use more of it")]
mod shared;
#[path = "../../src/poll_loop/stats.rs"]
mod stats;

/// Where `dataplane` has it.
mod poll_loop {
    pub(crate) use crate::stats;
}

use shared::check;
