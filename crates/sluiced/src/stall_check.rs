//! Headroom against stalls, said at the start and while the switch runs: for how long the headroom
//! of each port lasts, and for how long a loop was held up on this machine.
//!
//! Rule: before any port is opened, a thread on each loop's core, scheduled as the loop will be,
//! looks at the clock for [`TRIAL`]; the longest time between two looks is what a loop is held up
//! for. What the running loops find is looked at every [`PACE`]. Headroom that lasts shorter is
//! warned of, and again when a loop was held up for twice as long. Source: docs/behavior.md,
//! "Headroom needed".

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use config::{Headroom, Scheduling, headrooms, spell_time};
use control::v1;
use dataplane::Heartbeat;
use switch::{Nanos, SwitchSettings};
use tracing::{info, warn};

use crate::loop_threads::longest_stall;

/// How long the trial takes.
const TRIAL: Duration = Duration::from_millis(100);
/// How often to look at the running loop.
const PACE: Duration = Duration::from_secs(10);

/// The loops, and what was said of them so far.
#[derive(Debug)]
pub struct Stalls {
    /// Their cores, and where they say how they turn.
    loops: Vec<(usize, Arc<Heartbeat>)>,
    /// The longest that was compared with headroom …
    seen_ns: Nanos,
    /// … and the longest that was warned of.
    warned_ns: Nanos,
    next_look: Instant,
}

impl Stalls {
    /// Tries the cores of the loops, if there is headroom to compare with, and says what comes of
    /// it.
    ///
    /// # Errors
    /// No thread may run there.
    pub fn try_cores(
        settings: &SwitchSettings,
        loops: Vec<(usize, Arc<Heartbeat>)>,
        scheduling: Scheduling,
    ) -> Result<Self> {
        let cores: Vec<usize> = loops.iter().map(|(core, _)| *core).collect();
        let mut stalls = Self { loops, seen_ns: 0, warned_ns: 0, next_look: Instant::now() + PACE };
        let headrooms = headrooms(settings);
        if headrooms.is_empty() {
            return Ok(stalls);
        }
        headrooms.iter().for_each(|headroom| info!("{headroom}"));
        for core in cores {
            let stall_ns = longest_stall(core, scheduling, TRIAL)?.as_nanos() as Nanos;
            info!(
                "in a trial of {} ms, a loop on core {core} was held up for {}",
                TRIAL.as_millis(),
                spell_time(stall_ns)
            );
            stalls.see(core, stall_ns, || settings.clone());
        }
        Ok(stalls)
    }

    /// The loops, for clients.
    pub fn loops(&self) -> Vec<v1::Loop> {
        let told = |(core, heartbeat): &(usize, Arc<Heartbeat>)| {
            let times = heartbeat.times();
            v1::Loop {
                core: *core as u32,
                turns: times.turns,
                worst_stall_ns: times.worst_stall_ns,
                awake_ns: times.awake_ns,
            }
        };
        self.loops.iter().map(told).collect()
    }

    /// Looks at the one that was held up for longest.
    pub fn look(&mut self, settings: impl FnOnce() -> SwitchSettings) {
        let times = self.loops.iter().map(|(core, heartbeat)| (heartbeat.times().worst_stall_ns, *core));
        if let Some((stall_ns, core)) = times.max() {
            self.see(core, stall_ns, settings);
        }
    }

    /// Whether to look at the running loops now.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next_look;
        if is_due {
            self.next_look = now + PACE;
        }
        is_due
    }

    /// Settings have changed, so headroom may last for another time.
    pub fn forget(&mut self) {
        (self.seen_ns, self.warned_ns) = (0, 0);
    }

    /// The loop on this core was held up for `stall_ns` at the longest.
    fn see(&mut self, core: usize, stall_ns: Nanos, settings: impl FnOnce() -> SwitchSettings) {
        for headroom in self.short(stall_ns, settings) {
            warn!(
                "{headroom}, shorter than the loop on core {core} was held up for, {}: `sluice headroom --fix FILE` writes what \
                 holds",
                spell_time(stall_ns)
            );
        }
    }

    /// Headroom to warn of.
    fn short(&mut self, stall_ns: Nanos, settings: impl FnOnce() -> SwitchSettings) -> Vec<Headroom> {
        if stall_ns <= self.seen_ns || stall_ns < 2 * self.warned_ns {
            return Vec::new();
        }
        self.seen_ns = stall_ns;
        let mut short = headrooms(&settings());
        short.retain(|headroom| headroom.duration_ns < stall_ns);
        if !short.is_empty() {
            self.warned_ns = stall_ns;
        }
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 cells at 1G last 51.2 µs, 1000 cells 512 µs.
    const FILE: &str = "[port-defaults]\nspeed = \"1G\"\npfc = { mode = \"on\", no_drop = [3] }\n\
        [port.a]\ninterface = \"a\"\n[port.b]\ninterface = \"b\"\npfc.priority.3.headroom_cells = 1000\n";

    #[test]
    fn warned_once_and_again_when_it_has_doubled() {
        let settings = config::parse("test.toml", FILE).unwrap().switch;
        let mut stalls = Stalls { loops: Vec::new(), seen_ns: 0, warned_ns: 0, next_look: Instant::now() };
        for (stall_ns, expected) in [
            (0, &[][..]),
            (51_200, &[]),
            (51_201, &["a"]),
            (102_401, &[]),
            (102_402, &["a"]),
            (102_402, &[]),
            (512_001, &["a", "b"]),
            (1_000_000, &[]),
            (2_000_000, &["a", "b"]),
        ] {
            let short = stalls.short(stall_ns, || settings.clone());
            let ports: Vec<&str> = short.iter().map(|headroom| headroom.port.as_str()).collect();
            assert_eq!(ports, expected, "{stall_ns}");
        }
        stalls.forget();
        assert_eq!(
            stalls.short(51_201, || settings.clone()).len(),
            1,
            "other settings may have other headroom"
        );
    }

    #[test]
    fn looked_at_every_ten_seconds() {
        let start = Instant::now();
        let mut stalls = Stalls { loops: Vec::new(), seen_ns: 0, warned_ns: 0, next_look: start + PACE };
        let after = |seconds| start + Duration::from_secs(seconds);
        let looks = [0, 9, 10, 11, 19, 20, 45, 46, 55].map(|seconds| stalls.is_due(after(seconds)));
        assert_eq!(looks, [false, false, true, false, false, true, true, false, true]);
    }
}
