//! PFC for a Linux host: a BPF qdisc on the host's end of a veth holds back the priorities that the
//! switch has paused, so that any socket behind it is lossless. A program at tc ingress receives
//! the PFC frames.
//!
//! All operations act in the network namespace of the calling thread; [`netns::enter`] runs a
//! closure in another one. No process stays and nothing is pinned: the kernel keeps the qdisc and
//! the program as long as they are attached to the interface, and their counters are found through
//! the program ([`status`]).
//!
//! The rules are in `bpf/nic_rules.h`, the programs in `bpf/nic.bpf.c`, the full description in
//! `docs/nic.md`.
#![forbid(unsafe_code)]

mod abi;
mod attach;
mod bpf_object;
mod check;
mod clsact;
mod error;
#[cfg(test)]
mod ingress;
mod kernel_support;
mod negotiation;
mod netlink;
pub mod netns;
mod root_qdisc;
#[cfg(test)]
mod rules;
mod settings;
mod status;

pub use attach::{Attached, Detached, Replace, attach, detach, set_no_drop};
pub use check::{Check, check};
pub use error::Error;
pub use kernel_support::Finding;
pub use negotiation::follow;
pub use netlink::{Interface, RootQdisc, RtNetlink};
pub use settings::KIND;
pub use settings::{QdiscDiscipline, Settings, Trust};
pub use status::{PfcRxCounters, Priority, Status, attached, status};
