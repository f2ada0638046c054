//! Scheduling and sleep of a loop's thread; threads in other network namespaces.

pub(crate) mod netns;
pub(crate) mod sched;
pub(crate) mod sleep;
