//! The targets: each is a function that takes any bytes and panics if a rule is broken.

mod collector;
mod config;
mod control;
mod frame;
mod lldp;
mod recording;
mod scenario;
mod switch;
mod switch_bench;
mod switch_settings;

/// A target, and what it begins with.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name, which is also that of its corpus.
    pub name: &'static str,
    /// Runs an input. Panics if a rule is broken.
    pub run: fn(&[u8]),
    /// Makes valid inputs, to begin with beside the corpus.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The longest input, in bytes.
    pub max_bytes: usize,
    /// Mutations in a run of `cargo test`, which take a second or less.
    pub mutations: usize,
}

/// What `cargo test` replays, and `cargo xtask fuzz` runs.
pub const TARGETS: [Target; 8] = [
    Target { name: "frame", run: frame::run, seeds: frame::seeds, max_bytes: 300, mutations: 100_000 },
    Target { name: "switch", run: switch::run, seeds: switch::seeds, max_bytes: 1500, mutations: 500 },
    Target { name: "lldp", run: lldp::run, seeds: lldp::seeds, max_bytes: 1514, mutations: 10_000 },
    Target { name: "config", run: config::run, seeds: config::seeds, max_bytes: 8 << 10, mutations: 500 },
    Target {
        name: "scenario",
        run: scenario::run,
        seeds: scenario::seeds,
        max_bytes: 8 << 10,
        mutations: 1000,
    },
    Target { name: "control", run: control::run, seeds: control::seeds, max_bytes: 1000, mutations: 10_000 },
    Target {
        name: "collector",
        run: collector::run,
        seeds: collector::seeds,
        max_bytes: 1000,
        mutations: 20_000,
    },
    Target {
        name: "recording",
        run: recording::run,
        seeds: recording::seeds,
        max_bytes: 64 << 10,
        mutations: 500,
    },
];
