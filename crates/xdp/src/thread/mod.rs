//! Scheduling and sleep of a loop's thread.

pub(crate) mod sched;
pub(crate) mod sleep;
