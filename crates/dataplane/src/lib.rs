//! The poll loop of one core: rings in, switch, rings out. It owns its ports, its switch and its memory, never blocks
//! but where it sleeps, never allocates after the start, and never locks; the rest of the daemon talks to it through a
//! [`Handle`].
#![forbid(unsafe_code)]

pub mod core;
pub mod mailbox;

pub use crate::core::{Core, CoreSettings};
pub use mailbox::{Command, Handle, Mailbox, Reply, Settings, mailbox};
