//! The text of a recording's scenario: the switch, a host on each port, the frames that each was
//! offered, each with its time, and the pauses of its peers.
//!
//! Rule: a host sends each frame so that its last bit arrives when the frame was recorded, or as
//! much earlier as the frames behind it on the same link require. All times are later than the
//! recorded ones by one lead, so that the first frame can begin at 0.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use config::Config;
use dataplane::flight_recorder::offered::{Offered, OfferedFrame};
use sim::scenario::{DELAY_NS_PER_M, FrameTrace};
use switch::frame::meta::QosClass;
use switch::settings::{PRIORITIES, WIRE_OVERHEAD_BYTES};
use switch::{FrameId, Nanos, PortSettings, RxDesc, Switch, SwitchSettings};
use wire::bitset::Set8;
use wire::ethernet::{IPV4, Tag, write_header};
use wire::ipv4::{UDP_HEADERS_BYTES, write_udp};
use wire::mac::MacAddr;
use wire::pause::{Control, FRAME_BYTES};

use super::recording::{Incident, number};
use crate::output::counted;

/// The most pauses, which are faults of a scenario.
const MAX_PAUSES: usize = 4096;
/// Bytes of time until a host or a switch honors a PFC frame: the default of a link.
const RESPONSE_BYTES: u64 = 3840;
const PS_OF_SECOND: u128 = 1_000_000_000_000;

/// A scenario with the files that it names.
#[derive(Debug)]
pub struct Text {
    pub scenario: String,
    /// Name and text of each file of frames.
    pub files: Vec<(String, String)>,
    pub ports: usize,
    pub frames: usize,
    pub duration_ns: Nanos,
    /// How much earlier than recorded a frame arrives, at most.
    pub earliest_ns: Nanos,
    /// What the scenario does not have, one line each.
    pub notes: Vec<String>,
}

/// Frames with the same headers: ports, class, DSCP, and whether they are ECT.
type FlowKey = (u8, u8, [u8; 3], Option<u8>, bool);

/// The frames of a flow: their class, their lines in its file, and their number.
struct FlowFrames {
    class: QosClass,
    lines: String,
    frames: usize,
}

/// The link of a port.
#[derive(Debug, Clone, Copy)]
struct PortLink {
    bps: u64,
    propagation_ns: Nanos,
}

impl PortLink {
    /// Returns the time of a frame on the wire in picoseconds.
    fn wire_ps(self, len: u16) -> i64 {
        let bits = (u128::from(len) + u128::from(WIRE_OVERHEAD_BYTES)) * 8;
        i64::try_from(bits * PS_OF_SECOND / u128::from(self.bps)).unwrap_or(i64::MAX / 4)
    }

    fn propagation_ps(self) -> i64 {
        self.propagation_ns as i64 * 1000
    }
}

/// Builds the scenario.
///
/// # Errors
/// The speed of a port is not known, or nothing can be simulated.
pub fn text(incident: &Incident, config: &Config, title: &str) -> Result<Text, String> {
    let mut notes = incident.notes.clone();
    let lines = lines(incident, config)?;
    let starts = starts(incident, &lines);
    // The first frame begins at 0.
    let lead_ps = starts.iter().flatten().min().map_or(0, |first| first.min(&0).unsigned_abs());
    let lead_ns = lead_ps.div_ceil(1000);
    let earliest_ns = earliest_ns(incident, &starts, &lines);
    let duration_ns = incident.duration_ns() + lead_ns;
    let mut text = head(incident, title, duration_ns);
    let ports = hosts(&mut text, incident, config, &lines);
    let (mut files, mut frames) = (Vec::new(), 0);
    let classifier = Classifier::new(&incident.settings);
    for (key, flow) in flows(incident, &starts, lead_ns, &mut notes) {
        let Some(headers) = classifier.headers(usize::from(key.0), flow.class, key.3) else {
            notes.push(format!(
                "not in the scenario: {} of port {}, which no tag and DSCP classifies to priority {}, queue {}",
                counted(flow.frames as u64, "frame", "frames"),
                incident.settings.ports[usize::from(key.0)].name,
                flow.class.priority,
                flow.class.queue
            ));
            continue;
        };
        let file = format!("flow-{}.csv", files.len() + 1);
        text += &traffic(&incident.settings, &key, headers, (&file, flow.frames));
        files.push((file, format!("# ns, bytes\n{}", flow.lines)));
        frames += flow.frames;
    }
    if frames == 0 {
        return Err("no frame was received for another port: there is nothing to simulate".to_owned());
    }
    pauses(&mut text, incident, &lines, lead_ns, &mut notes);
    text += "\n[[expect]]\nno_drop_lost = 0\n";
    Ok(Text { scenario: text, files, ports, frames, duration_ns, earliest_ns, notes })
}

/// Returns the length with which a frame is simulated: veth devices carry shorter and longer ones
/// than a link.
fn simulated_len(frame: &OfferedFrame) -> u16 {
    frame.len.clamp(*FrameTrace::FRAME_BYTES.start(), *FrameTrace::FRAME_BYTES.end())
}

/// Collects the frames of each flow. Notes those that have no receiver, or another length.
fn flows(
    incident: &Incident,
    starts: &[Option<i64>],
    lead_ns: Nanos,
    notes: &mut Vec<String>,
) -> BTreeMap<FlowKey, FlowFrames> {
    let mut flows: BTreeMap<FlowKey, FlowFrames> = BTreeMap::new();
    let (mut flooded, mut back, mut longer, mut shorter) = (0, 0, 0, 0);
    for (frame, start) in incident.offered.frames.iter().zip(starts) {
        let &OfferedFrame { from, to, class, dscp, is_ect, .. } = frame;
        flooded += u64::from(to.is_none());
        back += u64::from(to == Some(from));
        let (Some(start), Some(to)) = (start, to.filter(|to| *to != from)) else { continue };
        let key = (from, to, [class.priority, class.queue, class.drop_level as u8], dscp, is_ect);
        let none = || FlowFrames { class, lines: String::new(), frames: 0 };
        let flow = flows.entry(key).or_insert_with(none);
        let (at_ns, len) = ((start + lead_ns as i64 * 1000) / 1000, simulated_len(frame));
        longer += u64::from(len > frame.len);
        shorter += u64::from(len < frame.len);
        let _ = writeln!(flow.lines, "{at_ns},{len}");
        flow.frames += 1;
    }
    if flooded > 0 {
        let frames = counted(flooded, "flooded frame", "flooded frames");
        let which = "broadcast, multicast, or to an address that was not known";
        notes.push(format!("not in the scenario: {frames}: {which}"));
    }
    if back > 0 {
        let frames = counted(
            back,
            "frame to an address on the port that it came from, which is dropped",
            "frames to an address on the port that they came from, which are dropped",
        );
        notes.push(format!("not in the scenario: {frames}"));
    }
    let (least, most) = (FrameTrace::FRAME_BYTES.start(), FrameTrace::FRAME_BYTES.end());
    for (count, bytes, than) in [(longer, least, "fewer"), (shorter, most, "more")] {
        if count > 0 {
            let have = counted(count, "frame has", "frames have");
            notes.push(format!("{have} {bytes} bytes instead of {than}"));
        }
    }
    flows
}

fn head(incident: &Incident, title: &str, duration_ns: Nanos) -> String {
    let mut text = format!(
        "# What a switch was offered, frame by frame, by a recording: `sluice twin` wrote this.\n\n\
         title    = {}\nduration = \"{duration_ns}ns\"\n\n[switch.switch]\nconfig = \"switch.toml\"\n",
        serde_json::Value::from(title)
    );
    if let Some(turn_ns) = turn_ns(&incident.offered.busy_intervals_ns) {
        let _ =
            writeln!(text, "turn = \"{turn_ns}ns\" # the median of the recorded loop, weighted by frames");
    }
    text
}

/// Returns the interval of the loop for the median frame: a loop that sleeps while few frames come
/// has many long intervals, but few frames in them. `None` without frames.
fn turn_ns(intervals: &[(Nanos, u32)]) -> Option<Nanos> {
    let mut sorted = intervals.to_vec();
    sorted.sort_unstable();
    let all: u64 = sorted.iter().map(|(_, frames)| u64::from(*frames)).sum();
    let mut seen = 0;
    let mut is_median = |frames: u32| {
        seen += u64::from(frames);
        seen * 2 >= all
    };
    sorted.into_iter().find(|(_, frames)| is_median(*frames)).map(|(interval_ns, _)| interval_ns)
}

/// Writes a host on each port that is not vacant and has a speed. Returns their number.
fn hosts(text: &mut String, incident: &Incident, config: &Config, lines: &[Option<PortLink>]) -> usize {
    let mut ports = 0;
    for (slot, port) in incident.settings.ports.iter().enumerate() {
        let (Some(PortLink { bps, .. }), Some(of_file)) = (lines[slot], number(&config.switch, &port.name))
        else {
            continue;
        };
        let ([received, transmitted, dropped], xoff) = incident.counts(slot);
        let xoff = match &xoff[..] {
            [] => "none".to_owned(),
            xoff => xoff
                .iter()
                .map(|(p, episodes)| format!("{episodes} of priority {p}"))
                .collect::<Vec<_>>()
                .join(", "),
        };
        let name = &port.name;
        let _ = write!(
            text,
            "\n# On port {name}. Recorded frames: {received} received, {transmitted} transmitted, {dropped} \
             dropped. XOFF episodes: {xoff}.\n[host.host{slot}]\n\n[[link]]\nends = [\"host{slot}\", \"switch.{name}\"]\n"
        );
        if config.switch.ports[of_file].speed_bps.is_none() {
            let _ = writeln!(text, "speed = {bps}");
        }
        let longest = |frame: &&OfferedFrame| usize::from(frame.from) == slot || frame.to == Some(slot as u8);
        let longest = incident.offered.frames.iter().filter(longest).map(simulated_len).max();
        if let (Some(longest), Some(mtu)) = (longest, config.links[of_file].mtu_bytes)
            && u32::from(longest) > mtu
        {
            let _ = writeln!(text, "mtu = {longest}");
        }
        ports += 1;
    }
    ports
}

/// Returns the link of each port. Its speed is that of the configuration, or else of the recorded
/// link. `None` for a port without traffic whose speed is not known.
fn lines(incident: &Incident, config: &Config) -> Result<Vec<Option<PortLink>>, String> {
    let Offered { frames, pauses, .. } = &incident.offered;
    let has_traffic = |slot: usize| {
        frames.iter().any(|frame| usize::from(frame.from) == slot || frame.to == Some(slot as u8))
            || pauses.iter().any(|pause| usize::from(pause.port) == slot)
    };
    let of_port = |(slot, port): (usize, &PortSettings)| {
        let number = number(&config.switch, &port.name);
        let of_file = number.and_then(|at| config.switch.ports[at].speed_bps);
        let speed = of_file.or(port.speed_bps).or(port.link_speed_bps).filter(|bps| *bps > 0);
        match speed {
            None if has_traffic(slot) => Err(format!(
                "neither the configuration nor the recording says how fast port {} is: write its speed into the \
                 configuration",
                port.name
            )),
            speed => Ok(speed.map(|bps| PortLink { bps, propagation_ns: propagation_ns(config, number) })),
        }
    };
    incident.settings.ports.iter().enumerate().map(of_port).collect()
}

/// Returns the delay of a port's cable, which the simulator has from the configuration too.
fn propagation_ns(config: &Config, port: Option<usize>) -> Nanos {
    let cable_m = port.and_then(|port| config.links[port].cable_m).unwrap_or(0);
    (f64::from(cable_m) * DELAY_NS_PER_M).round() as Nanos
}

/// Returns when each frame begins on its link, in picoseconds since the beginning: as late as
/// possible. `None` without a speed.
fn starts(incident: &Incident, lines: &[Option<PortLink>]) -> Vec<Option<i64>> {
    // When the frame behind begins.
    let mut next = vec![i64::MAX; lines.len()];
    let mut starts = vec![None; incident.offered.frames.len()];
    for (frame, start) in incident.offered.frames.iter().zip(&mut starts).rev() {
        let port = usize::from(frame.from);
        let Some(line) = lines[port] else { continue };
        let end = (arrival_ps(incident, frame) - line.propagation_ps()).min(next[port]);
        next[port] = end - line.wire_ps(simulated_len(frame));
        *start = Some(next[port]);
    }
    starts
}

/// Returns when a frame was recorded, in picoseconds since the beginning.
fn arrival_ps(incident: &Incident, frame: &OfferedFrame) -> i64 {
    frame.at.since(incident.from) as i64 * 1000
}

fn earliest_ns(incident: &Incident, starts: &[Option<i64>], lines: &[Option<PortLink>]) -> Nanos {
    let early = |(frame, start): (&OfferedFrame, &Option<i64>)| {
        let line = lines[usize::from(frame.from)]?;
        let arrives_ps = (*start)? + line.wire_ps(simulated_len(frame)) + line.propagation_ps();
        Some(arrival_ps(incident, frame) - arrives_ps)
    };
    let most = incident.offered.frames.iter().zip(starts).filter_map(early).max();
    most.unwrap_or(0).max(0) as u64 / 1000
}

/// Returns the lines of a traffic.
fn traffic(
    settings: &SwitchSettings,
    &(from, to, _, _, is_ect): &FlowKey,
    (priority, dscp): (u8, u8),
    (file, frames): (&str, usize),
) -> String {
    let name = |slot: u8| &settings.ports[usize::from(slot)].name;
    let flow = file.trim_end_matches(".csv");
    let ecn = if is_ect { "ecn      = true\n" } else { "" };
    format!(
        "\n# From {} to {}: {}.\n[[traffic]]\nname     = \"{flow}\"\nfrom     = \"host{from}\"\n\
         to       = \"host{to}\"\npriority = {priority}\ndscp     = {dscp}\n{ecn}frames   = \"{file}\"\n",
        name(from),
        name(to),
        counted(frames as u64, "frame", "frames")
    )
}

/// Finds the headers with which a simulated frame has a recorded class.
struct Classifier {
    switch: Switch,
}

impl Classifier {
    fn new(settings: &SwitchSettings) -> Self {
        let macs = vec![MacAddr([2, 1, 0, 0, 0, 1]); settings.ports.len()];
        Self { switch: Switch::new(settings, &macs, 1) }
    }

    /// Returns 802.1p priority and DSCP; `None` if no frame with a tag has that class on the port.
    fn headers(&self, port: usize, class: QosClass, dscp: Option<u8>) -> Option<(u8, u8)> {
        let dscps = dscp.into_iter().chain([class.priority * 8]).chain(0..64);
        let priorities = || std::iter::once(class.priority).chain(0..8);
        let mut pairs = dscps.flat_map(|dscp| priorities().map(move |priority| (priority, dscp)));
        pairs.find(|&(priority, dscp)| self.class_of(port, priority, dscp) == class)
    }

    fn class_of(&self, port: usize, priority: u8, dscp: u8) -> QosClass {
        let mut bytes = [0; 64];
        let (dst, src) = (MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 1]));
        let at = write_header(&mut bytes, dst, src, Some(Tag::priority(priority)), IPV4);
        if let Some(headers) = bytes[at..].first_chunk_mut::<UDP_HEADERS_BYTES>() {
            write_udp(headers, 46, dscp << 2, [[10, 0, 0, 1], [10, 0, 0, 2]], [4791, 4791]);
        }
        self.switch.parse(port, RxDesc::new(FrameId::new(0), 64), &bytes).class()
    }
}

/// Pauses of a priority: when it began, and when it ends.
type Interval = (Nanos, Nanos);

/// Writes the pauses that peers requested as storms of their hosts.
fn pauses(
    text: &mut String,
    incident: &Incident,
    lines: &[Option<PortLink>],
    lead_ns: Nanos,
    notes: &mut Vec<String>,
) {
    let mut faults: BTreeMap<(Interval, usize), Set8> = BTreeMap::new();
    let mut whole_link = 0;
    for (slot, line) in lines.iter().enumerate() {
        let Some(line) = line else { continue };
        for priority in 0..PRIORITIES {
            let intervals =
                intervals(incident, (slot, priority), incident.settings.ports[slot].pause_speed_bps());
            // A frame of PFC takes effect some time after it was sent.
            let early_ns = (FRAME_BYTES as u64 + u64::from(WIRE_OVERHEAD_BYTES) + RESPONSE_BYTES) * 8;
            let early_ns = early_ns * 1_000_000_000 / line.bps + line.propagation_ns;
            for (start, end) in intervals {
                let start = (start + lead_ns).saturating_sub(early_ns);
                let end = (end + lead_ns).saturating_sub(early_ns);
                if start < end {
                    faults.entry(((start, end), slot)).or_insert(Set8::EMPTY).set(priority, true);
                }
            }
        }
    }
    for pause in &incident.offered.pauses {
        whole_link += u64::from(matches!(pause.control, Control::Pause { .. }));
    }
    if whole_link > 0 {
        let frames = counted(
            whole_link,
            "PAUSE frame of 802.3x, which pauses a whole link",
            "PAUSE frames of 802.3x, which pause a whole link",
        );
        notes.push(format!("not in the scenario: {frames}"));
    }
    if let Some(more) = faults.len().checked_sub(MAX_PAUSES).filter(|more| *more > 0) {
        let pauses = counted(more as u64, "pause by a peer, the last one", "pauses by peers, the last ones");
        notes.push(format!(
            "not in the scenario: {pauses}, as a scenario has {MAX_PAUSES}: take a shorter part with --from and --to"
        ));
    }
    for (((start, end), slot), priorities) in faults.into_iter().take(MAX_PAUSES) {
        let list: Vec<String> = priorities.into_iter().map(|priority| priority.to_string()).collect();
        let _ = write!(
            text,
            "\n[[fault]]\nat         = \"{start}ns\"\nstorm      = \"host{slot}\"\npriorities = [{}]\nfor        = \"{}ns\"\n",
            list.join(", "),
            end - start
        );
    }
}

/// Returns when a priority of a port was paused by its peer, since the beginning.
fn intervals(incident: &Incident, (slot, priority): (usize, usize), pause_bps: u64) -> Vec<Interval> {
    let (mut intervals, mut open): (Vec<Interval>, Option<Interval>) = (Vec::new(), None);
    let of_port = incident.offered.pauses.iter().filter(|pause| usize::from(pause.port) == slot);
    for pause in of_port {
        let Control::Pfc(pfc) = pause.control else { continue };
        if pfc.enable & 1 << priority == 0 {
            continue;
        }
        let at = pause.at.0;
        let paused_ns = u64::from(pfc.quanta[priority]) * 512 * 1_000_000_000 / pause_bps.max(1);
        let (start, end) = open.unwrap_or((at, at));
        open = if end < at || open.is_none() {
            intervals.extend(open);
            (paused_ns > 0).then_some((at, at + paused_ns))
        } else if paused_ns > 0 {
            Some((start, at + paused_ns))
        } else {
            intervals.push((start, at));
            None
        };
    }
    intervals.extend(open);
    // A pause may have begun before.
    let (from, to) = (incident.from.0, incident.to.0);
    let clipped = intervals.iter().map(|&(start, end)| (start.max(from), end.min(to)));
    clipped.filter(|(start, end)| start < end).map(|(start, end)| (start - from, end - from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::flight_recorder::offered::ReceivedPause;
    use switch::{Instant, Snapshot};
    use wire::pause::Pfc;

    const CONFIG: &str = "[port-defaults]\nspeed = \"1G\"\ntrust = \"dscp\"\n[port.a]\ninterface = \"a\"\n\
                          [port.b]\ninterface = \"b\"\n";

    fn incident() -> (Incident, Config) {
        let config = config::parse("x.toml", CONFIG).unwrap();
        let incident = Incident {
            settings: config.switch.clone(),
            from: Instant(1_000_000),
            to: Instant(1_100_000),
            offered: Offered::default(),
            before: Snapshot::default(),
            after: Snapshot::default(),
            notes: Vec::new(),
        };
        (incident, config)
    }

    /// A frame for `b`, some time after the beginning.
    fn frame(settings: &SwitchSettings, at_ns: Nanos, len: u16, dscp: Option<u8>) -> OfferedFrame {
        let class = Classifier::new(settings).class_of(0, 0, dscp.unwrap_or(0));
        OfferedFrame { at: Instant(1_000_000 + at_ns), from: 0, to: Some(1), len, class, dscp, is_ect: true }
    }

    /// 1000 bytes take 8192 ns: the last arrives when it was recorded, the first two before, and
    /// all by a lead of 4576 ns later, with which the first begins at 0.
    #[test]
    fn frames_of_one_iteration_come_one_by_one() {
        let (mut incident, config) = incident();
        let settings = &incident.settings;
        incident.offered.frames = vec![
            frame(settings, 20_000, 1000, Some(40)),
            frame(settings, 20_000, 1000, Some(40)),
            frame(settings, 20_000, 1000, Some(40)),
            frame(settings, 90_000, 60, Some(0)),
        ];
        let text = text(&incident, &config, "x").unwrap();
        let files: Vec<&str> = text.files.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(files, ["# ns, bytes\n93904,60\n", "# ns, bytes\n0,1000\n8192,1000\n16384,1000\n"]);
        assert_eq!((text.earliest_ns, text.duration_ns, text.frames), (16_384, 104_576, 4));
        let flow = "priority = 5\ndscp     = 40\necn      = true\nframes   = \"flow-2.csv\"\n";
        assert!(text.scenario.contains(flow), "{}", text.scenario);
    }

    /// 5 m of cable take 25 ns, by which the host sends earlier: 42 bytes on veth are 60 on a link,
    /// which take 672 ns.
    #[test]
    fn short_frames_are_lengthened_and_cables_take_time() {
        let (mut incident, config) = incident();
        let with_cable = CONFIG.replace("interface = \"a\"", "interface = \"a\"\ncable_m = 5");
        let with_cable = config::parse("x.toml", &with_cable).unwrap();
        incident.offered.frames = [42, 60, 9217]
            .into_iter()
            .zip([20_000, 40_000, 99_900])
            .map(|(len, at_ns)| frame(&incident.settings, at_ns, len, Some(40)))
            .collect();
        for (config, file) in [
            (config, "# ns, bytes\n19328,60\n25308,60\n25980,9216\n"),
            (with_cable, "# ns, bytes\n19303,60\n25283,60\n25955,9216\n"),
        ] {
            let text = text(&incident, &config, "x").unwrap();
            assert_eq!(text.files[0].1, file);
            let notes = ["1 frame has 60 bytes instead of fewer", "1 frame has 9216 bytes instead of more"];
            assert_eq!(text.notes, notes);
        }
    }

    /// 10 s of a frame each ms, and 10 ms of 1000 each ms in a loop of 4 us: most iterations slept,
    /// but half of the frames came while none did.
    #[test]
    fn the_turn_is_that_of_the_median_frame() {
        let sleeps = std::iter::repeat_n((1_000_000, 1), 10_000);
        let incast = std::iter::repeat_n((4_000, 4), 2_501);
        assert_eq!(turn_ns(&sleeps.chain(incast).collect::<Vec<_>>()), Some(4_000));
        assert_eq!(turn_ns(&[(7, 1), (9, 3)]), Some(9));
        assert_eq!(turn_ns(&[]), None);
    }

    #[test]
    fn what_has_no_receiver_is_listed() {
        let (mut incident, config) = incident();
        let to = |to| OfferedFrame { to, ..frame(&incident.settings, 50_000, 100, None) };
        incident.offered.frames = vec![to(None), to(Some(0))];
        let refused = text(&incident, &config, "x").unwrap_err();
        assert!(refused.starts_with("no frame was received for another port"), "{refused}");
        let to = |to| OfferedFrame { to, ..frame(&incident.settings, 50_000, 100, None) };
        incident.offered.frames = vec![to(None), to(Some(0)), to(Some(1))];
        let notes = text(&incident, &config, "x").unwrap().notes;
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].starts_with("not in the scenario: 1 flooded frame:"), "{notes:?}");
        assert!(notes[1].ends_with("1 frame to an address on the port that it came from, which is dropped"));
    }

    /// A quantum is 512 ns: pauses of 10 quanta are refreshed, expire, and end by XON.
    #[test]
    fn pauses_are_intervals() {
        let (mut incident, _) = incident();
        let pause = |(at_ns, quanta): (Nanos, u16)| ReceivedPause {
            at: Instant(1_000_000 + at_ns),
            port: 0,
            control: Control::Pfc(Pfc { enable: 8, quanta: [quanta; 8] }),
        };
        let received = [(1_000, 10), (4_000, 10), (20_000, 10), (22_000, 0), (23_000, 0), (98_000, 10)];
        incident.offered.pauses = received.map(pause).into();
        let found = intervals(&incident, (0, 3), 1_000_000_000);
        assert_eq!(found, [(1_000, 9_120), (20_000, 22_000), (98_000, 100_000)]);
        assert_eq!(intervals(&incident, (0, 4), 1_000_000_000), []);
        // Of 33 ms, which began 2 us before the beginning; and one that ended before.
        let early = |(before_ns, quanta): (Nanos, u16)| ReceivedPause {
            at: Instant(1_000_000 - before_ns),
            ..pause((0, quanta))
        };
        incident.offered.pauses = vec![early((90_000, 10)), early((2_000, 65_535)), pause((3_000, 0))];
        assert_eq!(intervals(&incident, (0, 3), 1_000_000_000), [(0, 3_000)]);
    }

    #[test]
    fn an_unknown_speed_is_refused() {
        let (mut incident, _) = incident();
        let config = config::parse("x.toml", &CONFIG.replace("speed = \"1G\"\n", "")).unwrap();
        incident.settings = config.switch.clone();
        incident.offered.frames = vec![frame(&incident.settings, 50_000, 100, None)];
        let refused = text(&incident, &config, "x").unwrap_err();
        assert!(refused.contains("how fast port a is: write its speed"), "{refused}");
    }
}
