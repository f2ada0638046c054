//! Test of headroom: the formula's value loses nothing in the worst case, and a fifth less loses
//! frames.
//!
//! The worst case: the sender sends frames of 64 bytes, one cell each, at line rate. At the moment
//! when its group reaches XOFF, the switch has begun a frame of 9216 bytes toward it, and PFC
//! waits. At the moment when the sender must stop, it has begun a frame of 1536 bytes. The receiver
//! is paused all the time, so that nothing leaves. Source: docs/behavior.md, "Headroom needed".

mod lab;

use std::fmt::Write;

use lab::{GBPS, cable, constant, host, one_frame, run, scenario, switch};
use sim::scenario::{Fault, FaultKind, Link, Scenario};
use switch::buffer::cell::CellSize;
use switch::buffer::headroom::{self, worst_case_cells};

const PRIORITY: u8 = 5;
const MTU: u16 = 1536;
const LARGEST: u16 = 9216;
const SWITCH: usize = 0;
const SENDER: usize = 1;
const RECEIVER: usize = 2;
const OTHER: usize = 3;

/// A link whose sender stops as late as permitted.
#[derive(Debug, Clone, Copy)]
struct Case {
    gbps: u64,
    cable_m: u32,
    /// Bytes on the wire in addition to the frame.
    overhead_bytes: u16,
}

/// Times of the events, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Phases {
    /// The frame of 9216 bytes leaves its host.
    largest_at: u64,
    /// The sender's frame of 1536 bytes is ready to be sent.
    mtu_at: u64,
}

const NEVER: u64 = u64::MAX >> 20;

impl Case {
    fn link(&self, a: (usize, usize), b: (usize, usize), cable_m: u32) -> Link {
        Link { overhead_bytes: self.overhead_bytes, ..cable(a, b, self.gbps * GBPS, cable_m) }
    }

    /// Returns a duration that suffices for all frames to arrive.
    fn duration_ns(&self) -> u64 {
        20 * u64::from(self.cable_m) + 400_000 / self.gbps + 10_000
    }

    fn scenario(&self, headroom_cells: u64, phases: Phases) -> Scenario {
        let config = format!(
            "[buffer]\ncell_bytes = 256\ntotal_cells = 1048576\nheadroom_cells = 524288\n\
             [port-defaults]\ntrust = \"dot1p\"\n\
             [port-defaults.pfc]\nmode = \"on\"\nno_drop = [{PRIORITY}]\n\
             [port-defaults.pfc.priority.{PRIORITY}]\nheadroom_cells = {headroom_cells}\n\
             xoff = {{ static_cells = 100 }}\nreserved_cells = 8\n\
             [port.sender]\ninterface = \"a\"\n[port.receiver]\ninterface = \"b\"\n[port.other]\ninterface = \"c\"\n"
        );
        let nodes = vec![switch("switch", &config), host("sender"), host("receiver"), host("other")];
        let links = vec![
            self.link((SENDER, 0), (SWITCH, 0), self.cable_m),
            self.link((RECEIVER, 0), (SWITCH, 1), 0),
            self.link((OTHER, 0), (SWITCH, 2), 0),
        ];
        let traffic = vec![
            constant("small", SENDER, RECEIVER, PRIORITY, 64),
            one_frame("largest", OTHER, SENDER, 0, LARGEST, phases.largest_at),
            one_frame("mtu", SENDER, RECEIVER, PRIORITY, MTU, phases.mtu_at),
        ];
        let mut scenario = scenario(nodes, links, traffic, self.duration_ns());
        let storm =
            FaultKind::Storm { host: RECEIVER, priorities: 1 << PRIORITY, duration_ns: scenario.duration_ns };
        scenario.faults.push(Fault { at_ns: 0, kind: storm });
        scenario
    }

    /// Returns the peak headroom use in cells, the lost frames, and when the sender stopped.
    fn measure(&self, headroom_cells: u64, phases: Phases) -> (u64, u64, u64) {
        let outcome = run(&self.scenario(headroom_cells, phases));
        let group = &outcome.switches[0].ports[0].groups[0];
        let honored = outcome.series.pauses.iter().find(|span| span.port == "sender").expect("a pause");
        let lost_frames = outcome.traffic.iter().map(|traffic| traffic.lost_frames).sum();
        (u64::from(group.counts.headroom.peak_cells), lost_frames, honored.from_ns)
    }

    /// Returns the time of a frame on the wire, in nanoseconds, rounded up.
    fn time_ns(&self, bytes: u16) -> u64 {
        (u64::from(bytes + self.overhead_bytes) * 8).div_ceil(self.gbps)
    }

    /// Returns the moments that need the most headroom, and that headroom.
    fn worst(&self) -> (Phases, u64) {
        let ample = 400_000;
        let quiet = Phases { largest_at: NEVER, mtu_at: NEVER };
        let (_, _, honored_at) = self.measure(ample, quiet);
        let link = self.link((0, 0), (0, 0), self.cable_m);
        // XOFF began when the PFC frame began: a frame, the cable and the response before it took
        // effect.
        let xoff_at = honored_at - link.propagation_ns - link.response_ns - self.time_ns(60);
        let step = |range: u64| (0..=range).step_by(range.div_ceil(8).max(1) as usize);
        let slack = self.time_ns(64);
        let largest = step(2 * slack + 2).map(|back| {
            let largest_at = (xoff_at + slack).saturating_sub(self.time_ns(LARGEST) + back);
            let (cells, _, honored_at) = self.measure(ample, Phases { largest_at, mtu_at: NEVER });
            (cells, largest_at, honored_at)
        });
        let (_, largest_at, honored_at) = largest.max().expect("some moments");
        let mtu = step(2 * slack + 2).map(|back| {
            let mtu_at = honored_at + 1 - back;
            (self.measure(ample, Phases { largest_at, mtu_at }).0, mtu_at)
        });
        let (cells, mtu_at) = mtu.max().expect("some moments");
        (Phases { largest_at, mtu_at }, cells)
    }
}

#[test]
fn the_formula_loses_nothing_and_a_fifth_less_does() {
    let mut table = String::from(
        "headroom in cells of 256; frames lost with them\n\
         \x20 speed     cable  formula  exact need  with preamble, gap   lost: formula  need  need-1  formula*4/5\n",
    );
    let cables = [5, 100, 300, 10_000, 40_000];
    let rows = [10, 25, 40, 100, 400].into_iter().flat_map(|gbps| cables.map(|cable_m| (gbps, cable_m)));
    for (gbps, cable_m) in rows.chain([(25, 10), (100, 100)]) {
        let case = Case { gbps, cable_m, overhead_bytes: 0 };
        let link = headroom::LinkParams {
            speed_bps: gbps * GBPS,
            cable_m: u64::from(cable_m),
            mtu_bytes: u64::from(MTU),
        };
        let formula = worst_case_cells(link.in_transit().total_bytes(), CellSize::new(256));
        let (phases, need) = case.worst();
        let (_, on_wire) = Case { overhead_bytes: 24, ..case }.worst();
        let lost = [formula, need, need - 1, formula * 4 / 5].map(|cells| case.measure(cells, phases).1);
        let _ = writeln!(
            table,
            "{gbps:>6}G {cable_m:>7} m {formula:>8} {need:>11} {on_wire:>19} {:>15} {:>5} {:>7} {:>12}",
            lost[0], lost[1], lost[2], lost[3]
        );
        println!("{table}");
        assert_eq!((lost[0], lost[1]), (0, 0), "{case:?}");
        assert!(lost[2] > 0 && lost[3] > 0, "{case:?}: {lost:?}");
        assert!(need <= formula && on_wire <= need, "{case:?}");
    }
    insta::assert_snapshot!(table);
}
