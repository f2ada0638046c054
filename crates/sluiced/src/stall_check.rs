//! Compares headroom with stalls, at the start and while the switch runs: how long the headroom of
//! each port lasts, and how long loops stalled on this machine.
//!
//! Rule: before any port is opened, a thread on each loop's core, scheduled as the loop will be,
//! reads the clock for [`TRIAL`]. The longest time between two readings is the loop's stall. The
//! stalls of the running loops are checked every [`PACE`]. A warning is given of headroom that
//! lasts for less than the stall, and again when a loop stalled for twice as long; not because an
//! agreement with a peer or a reload has brought the same headroom again. Headroom that lasts until
//! the guard pauses the peer is not warned of, only reported. Either is one line, whatever the
//! number of ports. Source: docs/behavior.md, "Headroom needed".

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use config::{Headroom, Scheduling, headrooms, spell_time};
use control::v1;
use dataplane::Heartbeat;
use dataplane::guard::stall_detector::COVERED_AFTER_NS;
use switch::settings::GroupSettings;
use switch::{Nanos, SwitchSettings};
use tracing::{info, warn};

use crate::loop_threads::longest_stall;

/// Duration of the trial.
const TRIAL: Duration = Duration::from_millis(100);
/// Interval of the checks of the running loops.
const PACE: Duration = Duration::from_secs(10);

/// The loops, and the stalls reported so far.
#[derive(Debug)]
pub struct Stalls {
    /// The cores of the loops, and their heartbeats.
    loops: Vec<(usize, Arc<Heartbeat>)>,
    /// The longest stall that was compared with headroom.
    seen_ns: Nanos,
    /// Headroom that a warning was given of, and the stall that it named.
    warned: Vec<(Headroom, Nanos)>,
    next_check: Instant,
    /// A guard pauses the peers of a stalled loop.
    has_guard: bool,
}

/// The most warnings that are remembered; of more, the oldest may be given again.
const MAX_WARNED: usize = 1024;

impl Stalls {
    /// Measures stalls on the cores of the loops, if there is headroom to compare with, and reports
    /// the result.
    ///
    /// # Errors
    /// No thread may run on one of the cores.
    pub fn measure_cores(
        settings: &SwitchSettings,
        loops: Vec<(usize, Arc<Heartbeat>)>,
        scheduling: Scheduling,
        has_guard: bool,
    ) -> Result<Self> {
        let cores: Vec<usize> = loops.iter().map(|(core, _)| *core).collect();
        let mut stalls =
            Self { loops, seen_ns: 0, warned: Vec::new(), next_check: Instant::now() + PACE, has_guard };
        let headrooms = headrooms(settings);
        if headrooms.is_empty() {
            return Ok(stalls);
        }
        headrooms.iter().for_each(|headroom| info!("{headroom}"));
        for core in cores {
            let stall_ns = longest_stall(core, scheduling, TRIAL)?.as_nanos() as Nanos;
            info!(
                "in a trial of {} ms, a loop on core {core} stalled for {}",
                TRIAL.as_millis(),
                spell_time(stall_ns)
            );
            stalls.record(core, stall_ns, || settings.clone());
        }
        Ok(stalls)
    }

    /// The loops, as reported to clients.
    pub fn loops(&self) -> Vec<v1::Loop> {
        let reported = |(core, heartbeat): &(usize, Arc<Heartbeat>)| {
            let times = heartbeat.times();
            v1::Loop {
                core: *core as u32,
                turns: times.turns,
                worst_stall_ns: times.worst_stall_ns,
                awake_ns: times.awake_ns,
            }
        };
        self.loops.iter().map(reported).collect()
    }

    /// Checks the loop with the longest stall.
    pub fn check(&mut self, settings: impl FnOnce() -> SwitchSettings) {
        let times = self.loops.iter().map(|(core, heartbeat)| (heartbeat.times().worst_stall_ns, *core));
        if let Some((stall_ns, core)) = times.max() {
            self.record(core, stall_ns, settings);
        }
    }

    /// True if the running loops are to be checked now.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next_check;
        if is_due {
            self.next_check = now + PACE;
        }
        is_due
    }

    /// Starts the comparison again after a change of settings, since headroom may last for another
    /// time. No warning of the same headroom is repeated, as where a peer agrees each second.
    pub fn reset(&mut self) {
        self.seen_ns = 0;
    }

    /// Records that the longest stall of the loop on this core was `stall_ns`.
    fn record(&mut self, core: usize, stall_ns: Nanos, settings: impl FnOnce() -> SwitchSettings) {
        let short = self.insufficient_headroom(stall_ns, settings);
        let [covered, short] = by_guard(&short, self.has_guard);
        let stalled = format!("shorter than the loop on core {core} stalled, {}", spell_time(stall_ns));
        if let Some(list) = covered {
            info!("{list}, {stalled}; the guard pauses the peers before it is full");
        }
        if let Some(list) = short {
            warn!("{list}, {stalled}: `sluice headroom --fix FILE` writes a sufficient value");
        }
    }

    /// Returns the headroom to warn of.
    fn insufficient_headroom(
        &mut self,
        stall_ns: Nanos,
        settings: impl FnOnce() -> SwitchSettings,
    ) -> Vec<Headroom> {
        if stall_ns <= self.seen_ns {
            return Vec::new();
        }
        self.seen_ns = stall_ns;
        let mut short = headrooms(&settings());
        short.retain(|headroom| headroom.duration_ns < stall_ns && !self.is_warned(headroom, stall_ns));
        for headroom in &short {
            self.warned.retain(|(warned, _)| warned != headroom);
            self.warned.push((headroom.clone(), stall_ns));
        }
        self.warned.drain(..self.warned.len().saturating_sub(MAX_WARNED));
        short
    }

    /// True if a warning was given of this headroom, and the stall is not twice as long by now.
    fn is_warned(&self, headroom: &Headroom, stall_ns: Nanos) -> bool {
        self.warned.iter().any(|(warned, of_ns)| warned == headroom && stall_ns < 2 * of_ns)
    }
}

/// Lists the headroom that lasts until the guard acts, and the headroom that does not.
fn by_guard(headrooms: &[Headroom], has_guard: bool) -> [Option<String>; 2] {
    // Beyond the time until the guard pauses the peer, the headroom that a link itself needs.
    let for_link_ns = |headroom: &Headroom| {
        let cells = GroupSettings::default_for(headroom.speed_bps).headroom_cells;
        headroom.duration_ns * Nanos::from(cells) / Nanos::from(headroom.cells.max(1))
    };
    let is_covered =
        |headroom: &&Headroom| has_guard && headroom.duration_ns >= COVERED_AFTER_NS + for_link_ns(headroom);
    let (covered, short): (Vec<_>, Vec<_>) = headrooms.iter().partition(is_covered);
    [covered, short].map(|list| {
        let list: Vec<String> = list.into_iter().map(Headroom::to_string).collect();
        (!list.is_empty()).then(|| list.join("; "))
    })
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
        let mut stalls = stalls(Instant::now(), false);
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
            let short = stalls.insufficient_headroom(stall_ns, || settings.clone());
            let ports: Vec<&str> = short.iter().map(|headroom| headroom.port.as_str()).collect();
            assert_eq!(ports, expected, "{stall_ns}");
        }
        stalls.reset();
        let short = |stalls: &mut Stalls, settings: &SwitchSettings| {
            stalls.insufficient_headroom(600_000, || settings.clone()).len()
        };
        assert_eq!(short(&mut stalls, &settings), 0, "of the same headroom it was given");
        let mut others = settings.clone();
        others.ports[0].pfc.no_drop = 0;
        others.ports[1].groups[3].headroom_cells = 900;
        stalls.reset();
        assert_eq!(short(&mut stalls, &others), 1, "other settings may have other headroom");
        stalls.reset();
        assert_eq!(short(&mut stalls, &settings), 0, "as where an agreement comes again and again");
    }

    fn stalls(next_check: Instant, has_guard: bool) -> Stalls {
        Stalls { loops: Vec::new(), seen_ns: 0, warned: Vec::new(), next_check, has_guard }
    }

    /// Two ports whose headroom lasts 51.2 µs, and one with 4.1 ms, longer than the guard takes.
    #[test]
    fn a_stall_is_a_line_and_no_warning_where_the_guard_covers_it() {
        let file = FILE.replace("priority.3.headroom_cells = 1000", "priority.3.headroom_cells = 8000")
            + "[port.c]\ninterface = \"c\"\n";
        let settings = config::parse("test.toml", &file).unwrap().switch;
        let short = stalls(Instant::now(), true).insufficient_headroom(9_000_000, || settings.clone());
        let [a, b, c] = [
            "a: 100 headroom cells last 51.2 µs",
            "b: 8000 headroom cells last 4.1 ms",
            "c: 100 headroom cells last 51.2 µs",
        ]
        .map(|of| format!("port {}, priority 3{} at 1G", &of[..1], &of[1..]));
        assert_eq!(by_guard(&short, true), [Some(b.clone()), Some(format!("{a}; {c}"))]);
        assert_eq!(by_guard(&short, false), [None, Some(format!("{a}; {b}; {c}"))]);
    }

    #[test]
    fn looked_at_every_ten_seconds() {
        let start = Instant::now();
        let mut stalls = stalls(start + PACE, false);
        let after = |seconds| start + Duration::from_secs(seconds);
        let looks = [0, 9, 10, 11, 19, 20, 45, 46, 55].map(|seconds| stalls.is_due(after(seconds)));
        assert_eq!(looks, [false, false, true, false, false, true, true, false, true]);
    }
}
