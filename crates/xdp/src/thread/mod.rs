//! What a loop's thread asks of the kernel: when it runs, and how it sleeps.

pub(crate) mod sched;
pub(crate) mod sleep;
