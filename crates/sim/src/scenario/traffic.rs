//! `[[traffic]]`: senders, receivers, and times.
//!
//! The tables are read in two steps: first the settings of the file ([`read`]), and, once the
//! network is known to be valid, the resulting traffic ([`TrafficTable::traffic`]), since defaults
//! depend on the links of the paths.

use std::collections::{HashMap, HashSet};

use config::read::toml_document::{
    Diagnostics, NAME_CURE, Setting, SettingSpan, TableReader, is_name, quoted, speed,
};
use endpoint::dcqcn::{DcqcnSettings, FastRecovery};
use switch::Nanos;
use toml::de::DeValue;

use super::name_ranges::Names;
use super::nodes::{Nodes, meant};
use super::parse::{MAX_TIME_NS, before_the_end, bytes, decimal, spell_time, text, time};
use super::tables::{entries, required};
use super::types::{Pattern, Start, Traffic};

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
    pub(super) priority: u8,
    dscp: Option<u8>,
    pub(super) frame_bytes: Option<Setting<u16>>,
    rate_bps: Option<u64>,
    pattern: PatternTable,
    start_ns: Nanos,
    after: Option<Setting<String>>,
    stop_ns: Nanos,
    ecn: bool,
    dcqcn: Option<DcqcnSettings>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PatternKind {
    Constant,
    OnOff,
    Finite,
    Poisson,
    Incast,
}

const KINDS: [(&str, PatternKind); 5] = [
    ("constant", PatternKind::Constant),
    ("on-off", PatternKind::OnOff),
    ("finite", PatternKind::Finite),
    ("poisson", PatternKind::Poisson),
    ("incast", PatternKind::Incast),
];

/// `pattern` and its settings. Required settings are present unless a mistake was reported.
struct PatternTable {
    kind: PatternKind,
    on_ns: Option<Nanos>,
    off_ns: Option<Nanos>,
    bytes: Option<u64>,
    every_ns: Option<Nanos>,
}

/// Reads all traffic.
pub(super) fn read(
    file: &mut TableReader,
    duration_ns: Nanos,
    nodes: &Nodes,
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
        let traffic = TrafficTable::read(section, duration_ns, nodes, MAX_FLOWS - flows, report);
        flows += traffic.flows.len();
        if !traffic.name.is_empty() && !names.insert(traffic.name.clone()) {
            let what = format!("there is a traffic {} already", quoted(&traffic.name));
            report.add(&location, what, "give each traffic a name of its own");
        }
        traffics.push(traffic);
    }
    resolve_after(&traffics, report);
    traffics
}

impl TrafficTable {
    fn read(
        mut section: TableReader,
        duration_ns: Nanos,
        nodes: &Nodes,
        most_flows: usize,
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
        let flows = read_flows(&mut section, nodes, most_flows, report);
        let rate = section.item("rate").and_then(|item| speed(item, report));
        let pattern = PatternTable::read(&mut section, report);
        let (start_ns, stop_ns) = read_times(&mut section, duration_ns, report);
        let after = section.string_like("after", "other", report);
        let (ecn, dcqcn) = read_congestion(&mut section, report);
        let table = Self {
            location: section.location.clone(),
            name: name.to_owned(),
            flows,
            priority: section.number_in("priority", 0..=7, report).map_or(0, |priority| priority.value),
            dscp: section.number_in("dscp", 0..=63, report).map(|dscp| dscp.value),
            frame_bytes: section.number_in("frame_bytes", 64..=9216, report),
            rate_bps: rate.map(|rate| rate.value),
            pattern,
            start_ns,
            after: after.map(|after| Setting { value: after.value.to_owned(), location: after.location }),
            stop_ns,
            ecn,
            dcqcn,
        };
        section.finish(report);
        table
    }

    /// True if the traffic consists of messages that have a last byte.
    pub(super) fn has_messages(&self) -> bool {
        !matches!(self.pattern.kind, PatternKind::Constant | PatternKind::OnOff)
    }

    /// Builds the traffic.
    pub(super) fn traffic(
        self,
        way: PathLimits,
        numbers: &HashMap<String, usize>,
        report: &mut Diagnostics,
    ) -> Traffic {
        let frame_bytes = self.frame_bytes.map_or(FRAME_BYTES.min(way.mtu_bytes), |bytes| bytes.value);
        let rate_bps = self.rate_bps.unwrap_or(way.line_bps);
        let pattern = self.pattern.pattern(frame_bytes);
        let messages = messages(pattern, rate_bps, self.stop_ns - self.start_ns);
        if messages * self.flows.len() as u128 > MAX_MESSAGES {
            let what = format!("about {} messages are too many", messages * self.flows.len() as u128);
            let cure = format!("{MAX_MESSAGES} are the most; send longer or fewer ones");
            report.add(&self.location, what, cure);
        }
        let after = self.after.and_then(|after| numbers.get(&after.value));
        Traffic {
            name: self.name,
            flows: self.flows,
            priority: self.priority,
            dscp: self.dscp.unwrap_or(self.priority * 8),
            frame_bytes,
            rate_bps,
            pattern,
            start: after.map_or(Start::At(self.start_ns), |after| Start::After(*after)),
            stop_ns: self.stop_ns,
            ecn: self.ecn,
            dcqcn: self.dcqcn,
        }
    }

    /// The span of the table.
    pub(super) fn location(&self) -> &SettingSpan {
        &self.location
    }
}

impl PatternTable {
    fn read(section: &mut TableReader, report: &mut Diagnostics) -> Self {
        let pattern = section.choice("pattern", &KINDS, report);
        let duration = |section: &mut TableReader, name, report: &mut Diagnostics| {
            time(section.item(name)?, 1..=MAX_TIME_NS, report)
        };
        let on = duration(section, "on", report);
        let off = duration(section, "off", report);
        let size = section.item("bytes").and_then(|item| bytes(item, report));
        let every = duration(section, "every", report);
        let kind = match &pattern {
            Some(pattern) => pattern.value,
            None if section.has("bytes") => PatternKind::Finite,
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
            bytes: size.map(|size| size.value),
            every_ns: every.map(|every| every.value),
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
        }
    }
}

/// Checks that the settings which the pattern requires are present, and no others.
fn check_settings(kind: PatternKind, section: &TableReader, report: &mut Diagnostics) {
    const SETTINGS: [(&str, &str, &[PatternKind]); 4] = [
        ("on", "\"10us\"", &[PatternKind::OnOff]),
        ("off", "\"30us\"", &[PatternKind::OnOff]),
        ("bytes", "\"1M\"", &[PatternKind::Finite, PatternKind::Incast, PatternKind::Poisson]),
        ("every", "\"1ms\"", &[PatternKind::Incast]),
    ];
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
            // A Poisson message is a frame by default.
            None if users.contains(&kind) && (setting, kind) != ("bytes", PatternKind::Poisson) => {
                let what = format!("the pattern \"{name}\" needs {setting}");
                report.add(&pattern, what, format!("write {setting} = {example}"));
            }
            _ => (),
        }
    }
    if kind == PatternKind::Poisson && !section.has("rate") {
        report.add(
            &pattern,
            "the pattern \"poisson\" needs rate",
            "write rate = \"10G\", the mean of each flow",
        );
    }
}

/// Builds a flow for each sender and receiver.
fn read_flows(
    section: &mut TableReader,
    nodes: &Nodes,
    most: usize,
    report: &mut Diagnostics,
) -> Vec<(usize, usize)> {
    let senders = read_hosts(section, "from", nodes, report);
    let receivers = read_hosts(section, "to", nodes, report);
    let Some((senders, receivers)) = senders.zip(receivers) else { return Vec::new() };
    if senders.len() * receivers.len() > most {
        let what = format!("{} more flows are too many", senders.len() * receivers.len());
        report.add(&section.location, what, format!("a scenario has at most {MAX_FLOWS}"));
        return Vec::new();
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

/// Reads ECN, and DCQCN, which requires it.
fn read_congestion(section: &mut TableReader, report: &mut Diagnostics) -> (bool, Option<DcqcnSettings>) {
    let ecn = section.boolean("ecn", report);
    let dcqcn = read_dcqcn(section, report);
    if let Some(Setting { value: false, location }) = &ecn
        && dcqcn.is_some()
    {
        report.add(location, "false, but dcqcn slows down by marks", "leave it out, or write dcqcn = false");
    }
    let choice = section.choice("dcqcn_fast_recovery", &FAST_RECOVERIES, report);
    if let Some(Setting { location, .. }) = &choice
        && dcqcn.is_none()
    {
        report.add(location, "has no effect without dcqcn", "write dcqcn = true, or leave it out");
    }
    let dcqcn = dcqcn.map(|dcqcn| {
        let fast_recovery = choice.map_or(dcqcn.fast_recovery, |choice| choice.value);
        DcqcnSettings { fast_recovery, ..dcqcn }
    });
    (ecn.is_some_and(|ecn| ecn.value) || dcqcn.is_some(), dcqcn)
}

const FAST_RECOVERIES: [(&str, FastRecovery); 2] =
    [("below_f", FastRecovery::BelowF), ("up_to_f", FastRecovery::UpToF)];

/// Reads `dcqcn`: true for the paper's parameters, or a table of some others.
fn read_dcqcn(section: &mut TableReader, report: &mut Diagnostics) -> Option<DcqcnSettings> {
    let name = section.location_of("dcqcn")?;
    let item = section.item("dcqcn")?;
    if let DeValue::Boolean(is_on) = item.value() {
        return is_on.then_some(DcqcnSettings::PAPER);
    }
    let cure = "write true, false, or a table as in { additive = \"5M\" }";
    let mut table = item.section(name, cure, report)?;
    let mut settings = DcqcnSettings::PAPER;
    for (name, value) in [
        ("cnp_interval", &mut settings.cnp_interval_ns),
        ("alpha_interval", &mut settings.alpha_interval_ns),
        ("step_interval", &mut settings.step_interval_ns),
    ] {
        let read = table.item(name).and_then(|item| time(item, 1..=MAX_TIME_NS, report));
        *value = read.map_or(*value, |read| read.value);
    }
    for (name, value) in [
        ("additive", &mut settings.additive_bps),
        ("hyper", &mut settings.hyper_bps),
        ("least", &mut settings.min_bps),
    ] {
        let read = table.item(name).and_then(|item| speed(item, report));
        *value = read.map_or(*value, |read| read.value as f64);
    }
    let step_bytes = table.item("step_bytes").and_then(|item| bytes(item, report));
    settings.step_bytes = step_bytes.map_or(settings.step_bytes, |read| read.value);
    let gain = table.item("gain").and_then(|item| decimal(item, 1e-6..=1.0, report));
    settings.gain = gain.map_or(settings.gain, |read| read.value);
    let fast_recovery = table.choice("fast_recovery", &FAST_RECOVERIES, report);
    settings.fast_recovery = fast_recovery.map_or(settings.fast_recovery, |read| read.value);
    table.finish(report);
    Some(settings)
}

/// Checks that the traffic which another waits for exists and is finite, and that no traffic waits
/// for itself.
fn resolve_after(traffics: &[TrafficTable], report: &mut Diagnostics) {
    let numbers: HashMap<&str, usize> =
        traffics.iter().enumerate().map(|(number, traffic)| (traffic.name.as_str(), number)).collect();
    let names: Vec<&str> = traffics.iter().map(|traffic| traffic.name.as_str()).collect();
    let mut next = vec![None; traffics.len()];
    for (number, traffic) in traffics.iter().enumerate() {
        let Some(after) = &traffic.after else { continue };
        match numbers.get(after.value.as_str()).filter(|_| !after.value.is_empty()) {
            Some(other) if traffics[*other].pattern.kind == PatternKind::Finite => {
                next[number] = Some(*other)
            }
            Some(_) => {
                let what = format!("{} never arrives whole", after.value);
                report.add(&after.location, what, "give it the pattern \"finite\", or write a start");
            }
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

/// Reports each circle of `next`, at its first member.
fn find_cycles(traffics: &[TrafficTable], next: &[Option<usize>], report: &mut Diagnostics) {
    // By traffic: the traffic from which it was first reached.
    let mut reached_from = vec![None; next.len()];
    for start in 0..next.len() {
        let mut at = start;
        while reached_from[at].is_none() {
            reached_from[at] = Some(start);
            let Some(other) = next[at] else { break };
            at = other;
        }
        // If this start has reached the traffic before, it is in a circle, unless the chain just
        // ended.
        if reached_from[at] == Some(start) && next[at].is_some() {
            let mut circle = vec![at];
            while let Some(other) = next[circle[circle.len() - 1]].filter(|other| *other != at) {
                circle.push(other);
            }
            let names: Vec<&str> = circle.iter().map(|number| traffics[*number].name.as_str()).collect();
            let (list, last) = (names[..names.len().min(8)].join(" after "), names[0]);
            let dots = if names.len() > 8 { " after …" } else { "" };
            let Some(after) = &traffics[at].after else { continue };
            let what = format!("a circle: {list}{dots} after {last}");
            report.add(&after.location, what, "give one of them a start");
        }
    }
}

/// Returns the approximate number of messages of a flow in `time_ns`.
fn messages(pattern: Pattern, rate_bps: u64, time_ns: Nanos) -> u128 {
    match pattern {
        Pattern::Constant | Pattern::OnOff { .. } => 0,
        Pattern::Finite { .. } => 1,
        Pattern::Poisson { bytes } => {
            u128::from(rate_bps) * u128::from(time_ns) / (8_000_000_000 * u128::from(bytes))
        }
        Pattern::Incast { every_ns, .. } => u128::from(time_ns.div_ceil(every_ns)),
    }
}
