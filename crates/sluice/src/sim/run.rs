//! The run: virtual time in steps, with progress between them, and captures.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sim::parts::Partition;
use sim::scenario::LinkEnd;
use sim::{Results, Scenario, Simulation};

use super::capture::Capture;
use super::progress::Progress;
use super::threads;

/// Steps of a run, between which the progress is updated.
const STEPS: u64 = 1000;
/// The most ends of links that are listed if an unknown end was named.
const MOST_ENDS: usize = 8;

/// Results of a simulation, and what it took to get them.
pub struct CompletedRun {
    /// Results of the run.
    pub outcome: Results,
    /// Real duration of the run.
    pub wall: Duration,
    /// The captures that were written.
    pub captures: Vec<PathBuf>,
}

/// What a run shows and keeps beside its results.
#[derive(Clone, Copy, Default)]
pub struct RunOptions<'o> {
    /// Links that are captured, each identified by one of its ends, with the files.
    pub pcap: &'o [(String, PathBuf)],
    /// Show no progress.
    pub quiet: bool,
    /// Keep series of queues and lossy groups, too.
    pub occupancy: bool,
}

/// Runs a scenario and captures links that are identified by one of their ends.
///
/// # Errors
/// There is no such link, a capture cannot be written, or switches hold more than fits the memory.
pub fn run(scenario: &Scenario, options: RunOptions) -> Result<CompletedRun> {
    let mut captures = Captures::new(scenario, options.pcap)?;
    let mut simulation = Simulation::new(scenario);
    if options.occupancy {
        simulation.record_occupancy();
    }
    captures.open.iter().for_each(|open| simulation.capture(open.link));
    let mut progress = Progress::new(scenario.duration_ns, options.quiet);
    let step_ns = scenario.duration_ns.div_ceil(STEPS).max(1);
    while simulation.now_ns() < scenario.duration_ns {
        let until_ns = (simulation.now_ns() + step_ns).min(scenario.duration_ns);
        simulation.run_until(until_ns, &mut |frame| captures.add(frame));
        if captures.failed.is_some() {
            break;
        }
        if let Some(why) = without_memory(&simulation) {
            progress.end();
            bail!(why);
        }
        progress.at(simulation.now_ns(), simulation.frame_hops());
    }
    let wall = progress.end();
    let captures = captures.finish()?;
    Ok(CompletedRun { outcome: simulation.finish(), wall, captures })
}

/// Runs a scenario on several threads, or on one if its network cannot be divided.
///
/// # Errors
/// As [`run`] has them.
pub fn run_in_parts(scenario: &Scenario, threads: usize, options: RunOptions) -> Result<CompletedRun> {
    let mut partition = Partition::new(scenario, threads);
    if partition.count() == 1 {
        return run(scenario, options);
    }
    if options.occupancy {
        partition.record_occupancy();
    }
    let mut captures = Captures::new(scenario, options.pcap)?;
    let links: Vec<usize> = captures.open.iter().map(|open| open.link).collect();
    let mut progress = Progress::new(scenario.duration_ns, options.quiet);
    let observer = threads::Observer {
        report: &mut |now_ns, frame_hops| progress.at(now_ns, frame_hops),
        tap: &mut |frame| {
            captures.add(frame);
            captures.failed.is_none()
        },
    };
    let simulation = threads::run(&partition, &links, observer);
    let wall = progress.end();
    if let Some(why) = without_memory(&simulation) {
        bail!(why);
    }
    let captures = captures.finish()?;
    Ok(CompletedRun { outcome: simulation.finish(), wall, captures })
}

/// Returns why the results are invalid, if no memory was left for a frame.
pub fn without_memory(simulation: &Simulation) -> Option<String> {
    if !simulation.is_without_memory() {
        return None;
    }
    let (frames, cure) = match simulation.largest_holder() {
        Some(switch) => (format!("frames that {switch} holds"), "lower its total_cells, or "),
        None => ("frames of the network".to_owned(), ""),
    };
    let at_us = simulation.now_ns() / 1000;
    Some(format!(
        "no memory is left for the {frames} at {at_us} µs: {cure}run the scenario where there is more memory"
    ))
}

/// The capture files.
struct Captures {
    open: Vec<OpenCapture>,
    /// The first error of a capture.
    failed: Option<anyhow::Error>,
}

struct OpenCapture {
    link: usize,
    file: PathBuf,
    capture: Capture<BufWriter<File>>,
}

impl Captures {
    fn new(scenario: &Scenario, pcap: &[(String, PathBuf)]) -> Result<Self> {
        let mut open: Vec<OpenCapture> = Vec::new();
        for (end, file) in pcap {
            let link = link_of(scenario, end)?;
            open.push(OpenCapture { link, file: file.clone(), capture: create(scenario, link, file)? });
        }
        Ok(Self { open, failed: None })
    }

    fn add(&mut self, frame: &sim::Captured) {
        for open in self.open.iter_mut().filter(|open| open.link == frame.link) {
            if self.failed.is_none() {
                let added = open.capture.add(frame);
                self.failed = added.with_context(|| format!("cannot write {}", open.file.display())).err();
            }
        }
    }

    /// Writes the buffered data. Returns the files.
    fn finish(self) -> Result<Vec<PathBuf>> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let written = self.open.into_iter().map(|OpenCapture { file, capture, .. }| {
            let flushed = capture.into_inner().flush();
            flushed.with_context(|| format!("cannot write {}", file.display())).map(|()| file)
        });
        written.collect()
    }
}

fn create(scenario: &Scenario, link: usize, file: &Path) -> Result<Capture<BufWriter<File>>> {
    let out = File::create(file).with_context(|| format!("cannot create {}", file.display()))?;
    let ends = scenario.links[link].ends.map(|end| scenario.end_name(end));
    Capture::new(BufWriter::new(out), [&ends[0], &ends[1]], scenario.links[link].speed_bps)
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Returns the link that has an end of this name.
fn link_of(scenario: &Scenario, name: &str) -> Result<usize> {
    let named = |end: &LinkEnd| scenario.end_name(*end) == name;
    if let Some(link) = scenario.links.iter().position(|link| link.ends.iter().any(named)) {
        return Ok(link);
    }
    let ends = scenario.links.iter().flat_map(|link| link.ends).map(|end| scenario.end_name(end));
    let some: Vec<String> = ends.take(MOST_ENDS).collect();
    let more = (2 * scenario.links.len()).saturating_sub(MOST_ENDS);
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    bail!("--pcap: no link has an end `{name}`; there are {}{and_more}", some.join(", "))
}

#[cfg(test)]
mod tests {

    use pcap_file::pcapng::{Block, PcapNgReader};

    use super::*;
    use crate::sim::sample::SWITCH;

    const PFC: &str = "
[port-defaults.pfc]
mode = \"on\"
no_drop = [3]
[port-defaults.pfc.priority.3]
xoff = { static_cells = 64 }
";
    /// Two hosts send 20G to one that receives 10G and pauses both.
    const SCENARIO: &str = "
duration = \"1ms\"
[switch.s]
config = \"switch.toml\"
[host.\"h[1-3]\"]
[[link]]
ends = [\"h[1-3]\", \"s.p[1-3]\"]
[[traffic]]
name = \"rdma\"
from = \"h[2-3]\"
to = \"h1\"
priority = 3
frame_bytes = 1024
[[expect]]
lost = 0
";

    fn scenario() -> Scenario {
        sim::scenario::parse("test.toml", SCENARIO, &mut |_| Ok(format!("{PFC}{SWITCH}"))).unwrap()
    }

    fn quiet(pcap: &[(String, PathBuf)]) -> RunOptions<'_> {
        RunOptions { pcap, quiet: true, ..RunOptions::default() }
    }

    #[test]
    fn a_link_is_known_by_both_its_ends() {
        let scenario = scenario();
        for (name, link) in [("h1", 0), ("s.p1", 0), ("h3", 2), ("s.p3", 2)] {
            assert_eq!(link_of(&scenario, name).unwrap(), link, "{name}");
        }
        assert_eq!(
            link_of(&scenario, "h4").unwrap_err().to_string(),
            "--pcap: no link has an end `h4`; there are h1, s.p1, h2, s.p2, h3, s.p3"
        );
    }

    /// A capture matches the counters of the results, in both directions and in the order of time,
    /// PFC frames included.
    #[test]
    fn a_capture_has_all_frames_of_its_link() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("h2.pcapng");
        let CompletedRun { outcome, captures, .. } =
            run(&scenario(), quiet(&[("h2".to_owned(), file.clone())])).unwrap();
        assert_eq!(captures, [file.as_path()]);
        assert!(outcome.holds(), "{:?} {:?}", outcome.expectations, outcome.imbalances);

        let mut reader = PcapNgReader::new(File::open(&file).unwrap()).unwrap();
        let (mut data, mut pfc, mut last_ns) = (0, 0, 0);
        while let Some(block) = reader.next_block() {
            let Block::EnhancedPacket(packet) = block.unwrap() else { continue };
            let at_ns = packet.timestamp.as_nanos();
            assert!(at_ns >= last_ns && at_ns <= 1_000_000, "{at_ns} after {last_ns}");
            last_ns = at_ns;
            match (packet.interface_id, packet.original_len) {
                (0, 1024) => data += 1,
                (1, 60) => pfc += u64::from(wire::pause::decode(&packet.data).is_ok()),
                other => panic!("an unexpected frame: {other:?}"),
            }
        }
        let port = &outcome.switches[0].ports[1];
        assert_eq!((port.counts.name.as_str(), data), ("p2", port.counts.received.frames));
        // One frame may still be on the link.
        let sent = port.counts.pfc_sent.frames;
        assert!(pfc > 0 && (sent - 1..=sent).contains(&pfc), "{pfc} of {sent}");
    }

    #[test]
    fn captures_that_cannot_be_written_are_refused_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("none/b.pcapng");
        let refused = run(&scenario(), quiet(&[("h1".to_owned(), other.clone())])).err().unwrap();
        assert!(
            format!("{refused:#}").starts_with(&format!("cannot create {}: ", other.display())),
            "{refused:#}"
        );
    }
}
