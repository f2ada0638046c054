//! `sluice nic`: hosts whose kernel honors PFC. Needs a kernel with BPF qdiscs, which few machines
//! have yet, so these tests are ignored by `cargo test` and run by `cargo xtask vm`, in a machine
//! that QEMU emulates. No test depends on its speed: assertions are about counts, and about times
//! only where an instruction takes a nanosecond (`--shift 0`).

#[path = "nic/command.rs"]
mod command;
#[path = "nic/lab.rs"]
mod lab;
#[path = "nic/latency.rs"]
mod latency;
#[path = "nic/life.rs"]
mod life;
#[path = "nic/rdma.rs"]
mod rdma;
#[path = "nic/storm.rs"]
mod storm;
#[path = "nic/traffic.rs"]
mod traffic;
