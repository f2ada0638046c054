//! `[[traffic]]`: senders, receivers, and times.
//!
//! The tables are read in two steps: first the settings of the file ([`read`]), and, once the
//! network is known to be valid, the resulting traffic ([`TrafficTable::traffic`]), since defaults
//! depend on the links of the paths.

mod acks;
pub(crate) mod collective;
pub(crate) mod sizes;
pub(crate) mod trace;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use config::read::toml_document::{
    Diagnostics, NAME_CURE, Setting, SettingSpan, TableReader, is_name, quoted, speed,
};
use endpoint::dcqcn::DcqcnSettings;
use endpoint::transport::TransportSettings;
use switch::Nanos;

use super::dcqcn::{DcqcnTable, FAST_RECOVERIES};
use super::name_ranges::Names;
use super::nodes::{Nodes, meant};
use super::parse::{Load, MAX_TIME_NS, before_the_end, bytes, decimal, spell_time, text, time};
use super::tables::{entries, required};
use super::types::{AckSettings, Collective, Pattern, Start, Traffic};
use acks::AckTable;
use sizes::SizeTable;
use trace::{FrameTrace, MAX_FRAMES};
use wire::random::Random;

/// The most traffics of a file.
const MAX_TRAFFICS: usize = 1024;
/// The most flows of all traffics.
const MAX_FLOWS: usize = 1 << 20;
/// The most messages of a traffic, since the time of each arrival is kept.
const MAX_MESSAGES: u128 = 1 << 24;
/// An untagged frame with a payload of 1500 bytes, without FCS.
const FRAME_BYTES: u16 = 1514;

/// The paths of all flows of a traffic together.
#[derive(Clone, Copy)]
pub(super) struct PathLimits {
    /// The least MTU.
    pub(super) mtu_bytes: u16,
    /// The speed of the fastest sender's link.
    pub(super) line_bps: u64,
}

/// The settings of one `[[traffic]]`.
pub(super) struct TrafficTable {
    location: SettingSpan,
    /// Empty if there is no valid name.
    pub(super) name: String,
    pub(super) flows: Vec<(usize, usize)>,
    ranks: Vec<usize>,
    pub(super) priority: u8,
    dscp: Option<u8>,
    pub(super) frame_bytes: Option<Setting<u16>>,
    rate_bps: Option<u64>,
    /// Share of the sender's link that its flows have together.
    load: Option<f64>,
    pattern: PatternTable,
    start_ns: Nanos,
    after: Vec<Setting<String>>,
    stop_ns: Nanos,
    ecn: bool,
    dcqcn: Option<DcqcnTable>,
    /// Of senders whose hosts have parameters: the node, and these.
    host_dcqcn: Vec<(usize, DcqcnTable)>,
    acks: Option<AckTable>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PatternKind {
    Constant,
    OnOff,
    Finite,
    Poisson,
    Incast,
    AllReduce,
    AllToAll,
    Trace,
}

impl PatternKind {
    /// True if the senders are the ranks of a collective.
    fn is_collective(self) -> bool {
        matches!(self, Self::AllReduce | Self::AllToAll)
    }
}

const ALGORITHMS: [(&str, Collective); 3] = [
    ("ring", Collective::Ring),
    ("tree", Collective::Tree),
    ("halving-doubling", Collective::HalvingDoubling),
];

const KINDS: [(&str, PatternKind); 8] = [
    ("constant", PatternKind::Constant),
    ("on-off", PatternKind::OnOff),
    ("finite", PatternKind::Finite),
    ("poisson", PatternKind::Poisson),
    ("incast", PatternKind::Incast),
    ("all-reduce", PatternKind::AllReduce),
    ("all-to-all", PatternKind::AllToAll),
    ("trace", PatternKind::Trace),
];

/// Which senders and receivers are pairs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pairs {
    All,
    Permutation,
}

/// `pattern` and its settings. Required settings are present unless a mistake was reported.
struct PatternTable {
    kind: PatternKind,
    on_ns: Option<Nanos>,
    off_ns: Option<Nanos>,
    bytes: Option<u64>,
    sizes: Option<SizeTable>,
    trace: Option<FrameTrace>,
    algorithm: Collective,
    every_ns: Option<Nanos>,
}

/// Reads all traffic.
pub(super) fn read(
    file: &mut TableReader,
    (duration_ns, seed): (Nanos, u64),
    nodes: &Nodes,
    load: Load,
    report: &mut Diagnostics,
) -> Vec<TrafficTable> {
    let mut traffics: Vec<TrafficTable> = Vec::new();
    let mut names: HashSet<String> = HashSet::new();
    let mut flows = 0;
    if !file.has("traffic") {
        report.add(&file.location, "no traffic", "write a [[traffic]] with name, from and to");
    }
    for section in entries(file, "traffic", MAX_TRAFFICS, report) {
        let location = section.location.clone();
        // Each permutation is another.
        let mut random = Random::new(seed ^ (traffics.len() as u64) << 32);
        let most = (MAX_FLOWS.saturating_sub(flows), &mut random);
        let traffic = TrafficTable::read(section, duration_ns, nodes, most, load, report);
        flows += traffic.flows.len();
        if !traffic.name.is_empty() && !names.insert(traffic.name.clone()) {
            let what = format!("there is a traffic {} already", quoted(&traffic.name));
            report.add(&location, what, "give each traffic a name of its own");
        }
        traffics.push(traffic);
    }
    resolve_after(&traffics, duration_ns, report);
    nodes.reject_unused_dcqcn(
        |node| traffics.iter().any(|traffic| traffic.host_dcqcn.iter().any(|(from, _)| *from == node)),
        report,
    );
    limit_traced_frames(&traffics, report);
    traffics
}

impl TrafficTable {
    fn read(
        mut section: TableReader,
        duration_ns: Nanos,
        nodes: &Nodes,
        (most_flows, random): (usize, &mut Random),
        load: Load,
        report: &mut Diagnostics,
    ) -> Self {
        let name = section.string_like("name", "rdma", report);
        let name = required(name, &section, "name", "name = \"rdma\"", report);
        if let Some(name) = &name
            && !is_name(name.value)
        {
            report.add(&name.location, format!("{} is no name", quoted(name.value)), NAME_CURE);
        }
        let name = name.map(|name| name.value).filter(|name| is_name(name)).unwrap_or_default();
        section.at_most_one(&["rate", "load"], report);
        let rate = section.item("rate").and_then(|item| speed(item, report));
        let share = section.item("load").and_then(|item| decimal(item, 0.0001..=1.0, report));
        let pattern = PatternTable::read(&mut section, load, report);
        pattern.rejects_settings(&section, report);
        let (flows, ranks) = match pattern.kind.is_collective() {
            true => read_ranks(&mut section, &pattern, nodes, most_flows, report),
            false => (read_flows(&mut section, nodes, most_flows, random, report), Vec::new()),
        };
        let (start_ns, stop_ns) = read_times(&mut section, duration_ns, report);
        let after = read_after(&mut section, report);
        if !section.has("stop") && !section.has("after") {
            pattern.rejects_late_frames(&section, (start_ns, duration_ns), report);
        }
        let acks = AckTable::read(&mut section, report);
        let (ecn, dcqcn) = read_congestion(&mut section, acks.as_ref(), report);
        let host_dcqcn = if dcqcn.is_some() { host_parameters(&flows, nodes) } else { Vec::new() };
        let table = Self {
            location: section.location.clone(),
            name: name.to_owned(),
            flows,
            ranks,
            priority: section.number_in("priority", 0..=7, report).map_or(0, |priority| priority.value),
            dscp: section.number_in("dscp", 0..=63, report).map(|dscp| dscp.value),
            frame_bytes: section.number_in("frame_bytes", 64..=9216, report),
            rate_bps: rate.map(|rate| rate.value),
            load: share.map(|share| share.value),
            pattern,
            start_ns,
            after,
            stop_ns,
            ecn,
            dcqcn,
            host_dcqcn,
            acks,
        };
        section.finish(report);
        table
    }

    /// True if the traffic consists of messages that have a last byte.
    pub(super) fn has_messages(&self) -> bool {
        !matches!(self.pattern.kind, PatternKind::Constant | PatternKind::OnOff | PatternKind::Trace)
    }

    /// Rejects HPCC where switches flood: each copy would add its records to those of the frame.
    pub(super) fn rejects_flooding(&self, report: &mut Diagnostics) {
        if let Some(TransportSettings::Hpcc(_)) = self.acks.as_ref().and_then(|acks| acks.transport) {
            let what = "hpcc needs one path for each frame, and forwarding = \"learn\" floods";
            report.add(&self.location, what, "write forwarding = \"shortest-path\", or leave hpcc out");
        }
    }

    /// Rejects what is shorter than the longest round-trip time of the flows.
    pub(super) fn rejects_rtt_below(&self, path_ns: Nanos, report: &mut Diagnostics) {
        if let Some(acks) = &self.acks {
            acks.rejects_base_rtt_below(path_ns, report);
        }
    }

    /// Returns the length of its frames on paths with this MTU.
    pub(super) fn longest_frame(&self, mtu_bytes: u16) -> u16 {
        let of_trace = self.pattern.trace.as_ref().map(FrameTrace::longest_frame);
        let set = of_trace.or(self.frame_bytes.as_ref().map(|bytes| bytes.value));
        set.unwrap_or(FRAME_BYTES.min(mtu_bytes))
    }

    /// Returns the length of its frames, if it is set, with its span.
    pub(super) fn set_frame_bytes(&self) -> Option<(u16, &SettingSpan)> {
        let of_trace = self.pattern.trace.as_ref().map(|trace| (trace.longest_frame(), &self.location));
        of_trace.or(self.frame_bytes.as_ref().map(|bytes| (bytes.value, &bytes.location)))
    }

    /// Checks that all of the traffic has arrived at some time, and that the number of its messages
    /// is known from the start.
    ///
    /// # Errors
    /// Why that is not so, and the remedy.
    fn ends(&self, duration_ns: Nanos) -> Result<(), (String, &'static str)> {
        let name = &self.name;
        match self.pattern.kind {
            PatternKind::Finite | PatternKind::AllReduce | PatternKind::AllToAll => Ok(()),
            PatternKind::Poisson | PatternKind::Incast if self.stop_ns >= duration_ns => {
                let what = format!("{name} never arrives whole: it has messages until the end");
                Err((what, "give it a stop before the end, or write a start"))
            }
            PatternKind::Poisson | PatternKind::Incast if !self.after.is_empty() => {
                let what = format!("{name} waits for traffic itself, so it may have any number of messages");
                Err((what, "give it a start instead of after, or write a start here"))
            }
            PatternKind::Poisson | PatternKind::Incast => Ok(()),
            PatternKind::Constant | PatternKind::OnOff | PatternKind::Trace => {
                let what = format!("{name} never arrives whole");
                Err((what, "give it the pattern \"finite\", or write a start"))
            }
        }
    }

    /// Builds the traffic.
    pub(super) fn traffic(
        self,
        way: PathLimits,
        numbers: &HashMap<String, usize>,
        report: &mut Diagnostics,
    ) -> Traffic {
        let rate_bps = match self.load {
            Some(load) => (load * way.line_bps as f64 / self.flows_of_sender() as f64).max(1.0) as u64,
            None => self.rate_bps.unwrap_or(way.line_bps),
        };
        let frame_bytes = self.longest_frame(way.mtu_bytes);
        let pattern = self.pattern.pattern(frame_bytes);
        let messages = messages(pattern, rate_bps, self.stop_ns - self.start_ns);
        if messages * self.flows.len() as u128 > MAX_MESSAGES {
            let what = format!("about {} messages are too many", messages * self.flows.len() as u128);
            let cure = format!("{MAX_MESSAGES} are the most; send longer or fewer ones");
            report.add(&self.location, what, cure);
        }
        let dscp = self.dscp.unwrap_or(self.priority * 8);
        let after: Vec<usize> =
            self.after.iter().filter_map(|after| numbers.get(&after.value).copied()).collect();
        Traffic {
            name: self.name,
            flows: self.flows,
            ranks: self.ranks,
            priority: self.priority,
            dscp,
            frame_bytes,
            rate_bps,
            pattern,
            sizes: self.pattern.sizes.map(Arc::new),
            trace: self.pattern.trace.map(Arc::new),
            start: if after.is_empty() { Start::At(self.start_ns) } else { Start::After(after) },
            stop_ns: self.stop_ns,
            ecn: self.ecn,
            dcqcn: self.dcqcn.map(|own| own.over(DcqcnSettings::PAPER)),
            host_dcqcn: self.dcqcn.map_or(Vec::new(), |own| {
                let of_host =
                    |(node, host): &(usize, DcqcnTable)| (*node, own.over(host.over(DcqcnSettings::PAPER)));
                self.host_dcqcn.iter().map(of_host).collect()
            }),
            acks: self.acks.map(|acks| AckSettings {
                priority: acks.priority.unwrap_or(self.priority),
                dscp: acks.priority.map_or(dscp, |priority| priority * 8),
                retransmission: acks.retransmission,
                timeout_ns: acks.timeout_ns,
                transport: acks.transport,
            }),
        }
    }

    /// The most flows of one sender.
    fn flows_of_sender(&self) -> usize {
        let mut counts: HashMap<usize, usize> = HashMap::new();
        self.flows.iter().for_each(|(from, _)| *counts.entry(*from).or_default() += 1);
        counts.into_values().max().unwrap_or(1)
    }

    /// The span of the table.
    pub(super) fn location(&self) -> &SettingSpan {
        &self.location
    }
}

impl PatternTable {
    fn read(section: &mut TableReader, load: Load, report: &mut Diagnostics) -> Self {
        let pattern = section.choice("pattern", &KINDS, report);
        let duration = |section: &mut TableReader, name, report: &mut Diagnostics| {
            time(section.item(name)?, 1..=MAX_TIME_NS, report)
        };
        let on = duration(section, "on", report);
        let off = duration(section, "off", report);
        section.at_most_one(&["bytes", "sizes"], report);
        let size = section.item("bytes").and_then(|item| bytes(item, report));
        const SIZES: &str = "write \"web-search\", or the path of a file";
        let sizes = section.item("sizes").and_then(|item| text(item, SIZES, report));
        let sizes = sizes.and_then(|path| sizes::read(&path, load, report));
        const FRAMES: &str = "write the path of a file";
        let frames = section.item("frames").and_then(|item| text(item, FRAMES, report));
        let trace = frames.and_then(|path| trace::read(&path, load, report));
        let algorithm = section.choice("algorithm", &ALGORITHMS, report).map(|choice| choice.value);
        let every = duration(section, "every", report);
        let kind = match &pattern {
            Some(pattern) => pattern.value,
            None if section.has("bytes") => PatternKind::Finite,
            None if section.has("frames") => PatternKind::Trace,
            None => PatternKind::Constant,
        };
        // If the pattern could not be read, its required settings are unknown.
        if pattern.is_some() || !section.has("pattern") {
            check_settings(kind, section, report);
        }
        Self {
            kind,
            on_ns: on.map(|on| on.value),
            off_ns: off.map(|off| off.value),
            bytes: size.map(|size| size.value).or(sizes.as_ref().map(SizeTable::mean_bytes)),
            algorithm: match kind {
                PatternKind::AllToAll => Collective::AllToAll,
                _ => algorithm.unwrap_or(Collective::Ring),
            },
            sizes,
            trace,
            every_ns: every.map(|every| every.value),
        }
    }

    /// Rejects settings whose values the file of a trace has.
    fn rejects_settings(&self, section: &TableReader, report: &mut Diagnostics) {
        for setting in ["rate", "load", "frame_bytes"] {
            if let (PatternKind::Trace, Some(location)) = (self.kind, section.location_of(setting)) {
                let what = "has no effect with the pattern \"trace\": its file has all times and lengths";
                report.add(&location, what, "leave it out");
            }
        }
    }

    /// Rejects frames that are due at or after the end, and would never be sent.
    fn rejects_late_frames(
        &self,
        section: &TableReader,
        (start_ns, end_ns): (Nanos, Nanos),
        report: &mut Diagnostics,
    ) {
        let (Some(trace), Some(location)) = (&self.trace, section.location_of("frames")) else { return };
        let late = trace.frames_from(end_ns.saturating_sub(start_ns));
        if late > 0 && start_ns < end_ns {
            let (all, end) = (trace.frames(), spell_time(end_ns));
            let what = format!("{late} of {all} frames are due at or after the end, {end}");
            report.add(&location, what, "choose a longer duration, or write stop");
        }
    }

    fn pattern(&self, frame_bytes: u16) -> Pattern {
        let bytes = self.bytes.unwrap_or(u64::from(frame_bytes));
        match self.kind {
            PatternKind::Constant => Pattern::Constant,
            PatternKind::OnOff => {
                Pattern::OnOff { on_ns: self.on_ns.unwrap_or(1), off_ns: self.off_ns.unwrap_or(1) }
            }
            PatternKind::Finite => Pattern::Finite { bytes },
            PatternKind::Poisson => Pattern::Poisson { bytes },
            PatternKind::Incast => Pattern::Incast { bytes, every_ns: self.every_ns.unwrap_or(MAX_TIME_NS) },
            PatternKind::AllReduce | PatternKind::AllToAll => {
                Pattern::Collective { bytes, collective: self.algorithm }
            }
            PatternKind::Trace => Pattern::Trace,
        }
    }
}

/// Checks that the settings which the pattern requires are present, and no others.
fn check_settings(kind: PatternKind, section: &TableReader, report: &mut Diagnostics) {
    use PatternKind::{AllReduce, AllToAll, Finite, Incast, OnOff, Poisson, Trace};
    const SETTINGS: [(&str, &str, &[PatternKind]); 7] = [
        ("on", "\"10us\"", &[OnOff]),
        ("off", "\"30us\"", &[OnOff]),
        ("bytes", "\"1M\"", &[Finite, Incast, Poisson, AllReduce, AllToAll]),
        ("every", "\"1ms\"", &[Incast]),
        ("sizes", "\"web-search\"", &[Poisson]),
        ("algorithm", "\"ring\"", &[AllReduce]),
        ("frames", "\"frames.csv\"", &[Trace]),
    ];
    // A Poisson message is a frame by default, and an all-reduce a ring.
    const OPTIONAL: [(&str, PatternKind); 3] =
        [("bytes", Poisson), ("sizes", Poisson), ("algorithm", AllReduce)];
    let name_of =
        |kind: PatternKind| KINDS.iter().find(|(_, other)| *other == kind).map_or("", |(name, _)| name);
    let name = name_of(kind);
    let pattern = section.location_of("pattern").unwrap_or(section.location.clone());
    for (setting, example, users) in SETTINGS {
        match section.location_of(setting) {
            Some(location) if !users.contains(&kind) => {
                let user = name_of(users[0]);
                let cure = format!("write pattern = \"{user}\", or leave it out");
                report.add(&location, format!("has no effect with the pattern \"{name}\""), cure);
            }
            None if users.contains(&kind) && !OPTIONAL.contains(&(setting, kind)) => {
                let what = format!("the pattern \"{name}\" needs {setting}");
                report.add(&pattern, what, format!("write {setting} = {example}"));
            }
            _ => (),
        }
    }
    if kind == PatternKind::Poisson && !section.has("rate") && !section.has("load") {
        report.add(
            &pattern,
            "the pattern \"poisson\" needs rate",
            "write rate = \"10G\", the mean of each flow",
        );
    }
}

/// Reads `after`: the name of other traffic, or a list of names.
fn read_after(section: &mut TableReader, report: &mut Diagnostics) -> Vec<Setting<String>> {
    const CURE: &str = "write the name of other traffic, or a list of names, as in [\"a\", \"b\"]";
    let Some(item) = section.item("after") else { return Vec::new() };
    let items = item.list().unwrap_or_else(|| vec![item]);
    let names = items.into_iter().filter_map(|item| text(item, CURE, report));
    names.map(|name| Setting { value: name.value.to_owned(), location: name.location }).collect()
}

/// Builds the flows of a collective, whose ranks are the senders in their order. Returns both.
fn read_ranks(
    section: &mut TableReader,
    pattern: &PatternTable,
    nodes: &Nodes,
    most: usize,
    report: &mut Diagnostics,
) -> (Vec<(usize, usize)>, Vec<usize>) {
    let none = (Vec::new(), Vec::new());
    for setting in ["to", "pairs"] {
        if let Some(item) = section.item(setting) {
            let what = "has no effect: the senders are the ranks of the collective";
            report.add(&item.location, what, "leave it out");
        }
    }
    let location = section.location_of("from").unwrap_or(section.location.clone());
    let Some(ranks) = read_hosts(section, "from", nodes, report) else { return none };
    let needs_power = pattern.algorithm == Collective::HalvingDoubling;
    if ranks.len() < 2 || needs_power && !ranks.len().is_power_of_two() {
        let what = format!("a collective of {} ranks", ranks.len());
        let cure = if needs_power { "name 2, 4, 8, 16 … hosts" } else { "name two hosts or more" };
        report.add(&location, what, cure);
        return none;
    }
    // Of n ranks, no collective has more than 2 n (n − 1) steps.
    if 2 * ranks.len() * ranks.len() > most {
        report.add(&location, format!("{} ranks are too many", ranks.len()), "name fewer hosts");
        return none;
    }
    let steps = collective::steps(pattern.algorithm, ranks.len(), pattern.bytes.unwrap_or(1));
    let mut known = HashSet::new();
    let pairs = steps.iter().map(|step| (ranks[step.from], ranks[step.to]));
    (pairs.filter(|pair| known.insert(*pair)).collect(), ranks)
}

/// Pairs each sender with one receiver, at random and never with itself.
fn permutation(senders: &[usize], receivers: &[usize], random: &mut Random) -> Vec<(usize, usize)> {
    let mut receivers = receivers.to_vec();
    let mut below = |most: usize| ((random.fraction() * most as f64) as usize).min(most - 1);
    for last in (1..receivers.len()).rev() {
        receivers.swap(last, below(last + 1));
    }
    // A host that has itself changes with the next. No host is here twice, so neither has itself.
    for index in 0..senders.len() {
        if senders[index] == receivers[index] {
            receivers.swap(index, (index + 1) % senders.len());
        }
    }
    senders.iter().copied().zip(receivers).collect()
}

/// Builds a flow for each sender and receiver, or for each pair of a permutation.
fn read_flows(
    section: &mut TableReader,
    nodes: &Nodes,
    most: usize,
    random: &mut Random,
    report: &mut Diagnostics,
) -> Vec<(usize, usize)> {
    let senders = read_hosts(section, "from", nodes, report);
    let receivers = read_hosts(section, "to", nodes, report);
    let kinds = [("all", Pairs::All), ("permutation", Pairs::Permutation)];
    let pairs = section.choice("pairs", &kinds, report);
    let Some((senders, receivers)) = senders.zip(receivers) else { return Vec::new() };
    if let Some(Setting { value: Pairs::Permutation, location }) = &pairs
        && (senders.len() != receivers.len() || senders.len() < 2)
    {
        let what = format!("{} senders and {} receivers", senders.len(), receivers.len());
        report.add(location, what, "name as many in `to` as in `from`, two or more");
        return Vec::new();
    }
    let is_permutation = pairs.is_some_and(|pairs| pairs.value == Pairs::Permutation);
    let count = if is_permutation { senders.len() } else { senders.len() * receivers.len() };
    if count > most {
        let what = format!("{count} more flows are too many");
        report.add(&section.location, what, format!("a scenario has at most {MAX_FLOWS}"));
        return Vec::new();
    }
    if is_permutation {
        return permutation(&senders, &receivers, random);
    }
    let pairs = senders.iter().flat_map(|from| receivers.iter().map(move |to| (*from, *to)));
    let flows: Vec<(usize, usize)> = pairs.filter(|(from, to)| from != to).collect();
    if flows.is_empty() {
        let cure = "name another host in from or to";
        report.add(&section.location, "there is no receiver except the sender itself", cure);
    }
    flows
}

/// Reads a host name or a list of them; `None` if some are invalid.
fn read_hosts(
    section: &mut TableReader,
    setting: &'static str,
    nodes: &Nodes,
    report: &mut Diagnostics,
) -> Option<Vec<usize>> {
    const CURE: &str = "write a host or a list of hosts, as in \"h1\" or [\"h1\", \"h[3-8]\"]";
    let item = section.item(setting);
    let item = required(item, section, setting, &format!("{setting} = \"h1\""), report)?;
    let location = item.location.clone();
    let items = item.list().unwrap_or_else(|| vec![item]);
    let mut hosts = Vec::new();
    let mut known = HashSet::new();
    for item in items {
        let name = text(item, CURE, report)?;
        let names = match Names::parse(name.value) {
            Ok(names) => names,
            Err((what, cure)) => {
                report.add(&name.location, what, cure);
                return None;
            }
        };
        for host in names.iter() {
            let host = nodes.host(&host, &name.location, report)?;
            if !known.insert(host) {
                report.add(&name.location, format!("{} is here twice", nodes.name(host)), "name it once");
                return None;
            }
            hosts.push(host);
        }
    }
    if hosts.is_empty() {
        report.add(&location, "no host", CURE);
        return None;
    }
    Some(hosts)
}

/// Rejects files that have too many frames together.
fn limit_traced_frames(traffics: &[TrafficTable], report: &mut Diagnostics) {
    let mut all = 0;
    for traffic in traffics {
        let frames = traffic.pattern.trace.as_ref().map_or(0, FrameTrace::frames);
        all += frames;
        if frames > 0 && all > MAX_FRAMES {
            let what = format!("with those before, the files of traces have {all} frames");
            report.add(&traffic.location, what, format!("{MAX_FRAMES} are the most; send fewer"));
            return;
        }
    }
}

/// Returns the senders whose hosts have parameters of DCQCN, in ascending order, with these.
fn host_parameters(flows: &[(usize, usize)], nodes: &Nodes) -> Vec<(usize, DcqcnTable)> {
    let senders: BTreeSet<usize> = flows.iter().map(|(from, _)| *from).collect();
    senders.into_iter().filter_map(|node| Some((node, nodes.dcqcn(node)?))).collect()
}

/// Reads start and stop.
fn read_times(section: &mut TableReader, duration_ns: Nanos, report: &mut Diagnostics) -> (Nanos, Nanos) {
    section.at_most_one(&["start", "after"], report);
    let start = section.item("start").and_then(|item| time(item, 0..=MAX_TIME_NS, report));
    let stop = section.item("stop").and_then(|item| time(item, 1..=MAX_TIME_NS, report));
    if let Some(start) = &start {
        before_the_end(start, duration_ns, report);
    }
    let start_ns = start.map_or(0, |start| start.value);
    let Some(stop) = stop else { return (start_ns.min(duration_ns), duration_ns) };
    if stop.value > duration_ns {
        let what = format!("{} is after the end, {}", spell_time(stop.value), spell_time(duration_ns));
        report.add(&stop.location, what, "leave it out, or choose a longer duration");
    } else if stop.value <= start_ns {
        let what = format!("{} is not after the start, {}", spell_time(stop.value), spell_time(start_ns));
        report.add(&stop.location, what, "choose a later time");
    }
    (start_ns.min(stop.value), stop.value)
}

/// Reads ECN, and DCQCN. It and DCTCP require ECN.
fn read_congestion(
    section: &mut TableReader,
    acks: Option<&AckTable>,
    report: &mut Diagnostics,
) -> (bool, Option<DcqcnTable>) {
    let ecn = section.boolean("ecn", report);
    let dcqcn = DcqcnTable::of_traffic(section, report);
    let is_dctcp = matches!(acks.and_then(|acks| acks.transport), Some(TransportSettings::Dctcp(_)));
    let by_marks = if is_dctcp { Some("dctcp") } else { dcqcn.map(|_| "dcqcn") };
    if let (Some(Setting { value: false, location }), Some(rule)) = (&ecn, by_marks) {
        let what = format!("false, but {rule} slows down by marks");
        report.add(location, what, format!("leave it out, or write {rule} = false"));
    }
    let choice = section.choice("dcqcn_fast_recovery", &FAST_RECOVERIES, report);
    if let Some(Setting { location, .. }) = &choice
        && dcqcn.is_none()
    {
        report.add(location, "has no effect without dcqcn", "write dcqcn = true, or leave it out");
    }
    let dcqcn = dcqcn.map(|mut dcqcn| {
        dcqcn.fast_recovery = choice.map(|choice| choice.value).or(dcqcn.fast_recovery);
        dcqcn
    });
    (ecn.is_some_and(|ecn| ecn.value) || by_marks.is_some(), dcqcn)
}

/// Checks that the traffic which another waits for exists and is finite, and that no traffic waits
/// for itself.
fn resolve_after(traffics: &[TrafficTable], duration_ns: Nanos, report: &mut Diagnostics) {
    let numbers: HashMap<&str, usize> =
        traffics.iter().enumerate().map(|(number, traffic)| (traffic.name.as_str(), number)).collect();
    let names: Vec<&str> = traffics.iter().map(|traffic| traffic.name.as_str()).collect();
    let mut next = vec![Vec::new(); traffics.len()];
    for (number, after) in traffics
        .iter()
        .enumerate()
        .flat_map(|(number, traffic)| traffic.after.iter().map(move |after| (number, after)))
    {
        match numbers.get(after.value.as_str()).filter(|_| !after.value.is_empty()) {
            Some(other) => match traffics[*other].ends(duration_ns) {
                Ok(()) => next[number].push(*other),
                Err((what, cure)) => report.add(&after.location, what, cure),
            },
            None => {
                let what = format!("there is no traffic {}", quoted(&after.value));
                report.add(
                    &after.location,
                    what,
                    meant(&after.value, &names, &names, "name another traffic"),
                );
            }
        }
    }
    find_cycles(traffics, &next, report);
}

/// Reports a circle of `next` for each traffic that waits for itself and is the first of its
/// circle.
fn find_cycles(traffics: &[TrafficTable], next: &[Vec<usize>], report: &mut Diagnostics) {
    let mut is_reported = vec![false; next.len()];
    for start in 0..next.len() {
        let Some(circle) = circle_from(start, next).filter(|_| !is_reported[start]) else { continue };
        circle.iter().for_each(|&number| is_reported[number] = true);
        let names: Vec<&str> = circle.iter().map(|number| traffics[*number].name.as_str()).collect();
        let (list, last) = (names[..names.len().min(8)].join(" after "), names[0]);
        let dots = if names.len() > 8 { " after …" } else { "" };
        let waits_for = circle.get(1).unwrap_or(&start);
        let is_it = |after: &&Setting<String>| after.value == traffics[*waits_for].name;
        let Some(after) = traffics[start].after.iter().find(is_it) else { continue };
        let what = format!("a circle: {list}{dots} after {last}");
        report.add(&after.location, what, "give one of them a start");
    }
}

/// Returns a shortest circle from a traffic back to itself.
fn circle_from(start: usize, next: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut from = vec![None; next.len()];
    let mut reached = std::collections::VecDeque::from([start]);
    while let Some(at) = reached.pop_front() {
        for &other in &next[at] {
            if other == start {
                let mut circle = vec![at];
                while let Some(before) =
                    from[circle[circle.len() - 1]].filter(|_| circle[circle.len() - 1] != start)
                {
                    circle.push(before);
                }
                circle.reverse();
                return Some(circle);
            }
            if from[other].is_none() {
                from[other] = Some(at);
                reached.push_back(other);
            }
        }
    }
    None
}

/// Returns the approximate number of messages of a flow in `time_ns`.
fn messages(pattern: Pattern, rate_bps: u64, time_ns: Nanos) -> u128 {
    match pattern {
        // The steps of a collective are limited with its ranks.
        Pattern::Constant | Pattern::OnOff { .. } | Pattern::Collective { .. } | Pattern::Trace => 0,
        Pattern::Finite { .. } => 1,
        Pattern::Poisson { bytes } => {
            u128::from(rate_bps) * u128::from(time_ns) / (8_000_000_000 * u128::from(bytes))
        }
        Pattern::Incast { every_ns, .. } => u128::from(time_ns.div_ceil(every_ns)),
    }
}
