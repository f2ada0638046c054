//! `sluice nic`: hosts whose kernel honors PFC. Needs a kernel with BPF qdiscs, which few machines
//! have yet, so these tests are ignored by `cargo test` and run by `cargo xtask vm`, in a machine
//! that QEMU emulates. No test depends on its speed: assertions are about counts, and about times
//! only where an instruction takes a nanosecond (`--shift 0`).

mod attach_detach;
mod cable;
mod command_line;
mod lab;
mod latency;
mod rdma;
mod storm;
mod traffic;
