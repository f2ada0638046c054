//! `schedule` of a port: the order in which queues send, and the rates of queues and groups.
//!
//! A queue's settings are looked up one by one. The groups of ETS divide the port together, so all
//! of them are one setting: a port that writes one replaces all groups of the defaults.
//! Source: docs/behavior.md, "Scheduling"; docs/references.md, "H3C reference" (ETS: the SP group,
//! WRR groups, byte-count, weights) and "Huawei DCB" (table 10-12); IEEE 802.1Q-2022 8.6.8 and
//! D.2.8.5 (shares make 100 %).

use switch::settings::{
    DEFAULT_WEIGHTS, GroupDiscipline, PRIORITIES, QueueSettings, Rate, ScheduleSettings, SchedulerGroup,
};

use crate::read::diagnostics::{Diagnostics, SettingSpan};
use crate::read::overrides::Overrides;
use crate::read::parse;
use crate::read::table_reader::{Setting, TableReader, value_or};
use crate::spec::KeySpec::Number;
use crate::spec::{SettingSpec, TableSpec, ValueSpec, choice, list, map, number, speed, words};

/// The ETS group that is served before all others.
const STRICT_GROUP: usize = 15;
/// Maximum burst in bytes: 10 ms at the fastest speed.
const MAX_BURST_BYTES: i64 = 1 << 30;

const MODES: [(&str, Mode); 2] = [("sp-wrr", Mode::SpWrr), ("ets", Mode::Ets)];
const WRR: [(&str, bool); 2] = [("byte-count", false), ("packet-count", true)];
const QUEUE_GROUPS: [(&str, QueueGroup); 4] = [
    ("sp", QueueGroup::Sp),
    ("wrr", QueueGroup::Wrr1),
    ("wrr1", QueueGroup::Wrr1),
    ("wrr2", QueueGroup::Wrr2),
];
const DISCIPLINES: [(&str, bool); 2] = [("wrr", false), ("sp", true)];

pub(crate) const BURST: SettingSpec = number("burst_bytes", 0, MAX_BURST_BYTES)
    .otherwise("4 ms at this rate", "Burst after idle time; needs a rate.");

pub(crate) const SCHEDULE: TableSpec = &[
    choice("mode", || words(&MODES)).value("\"sp-wrr\"", "Strict priority and WRR, or groups of ETS."),
    choice("wrr", || words(&WRR)).value("\"byte-count\"", "What weights are counted in."),
    map("queue", Number(PRIORITIES - 1), &ValueSpec::Table(QUEUE)).about("A queue."),
    map("group", Number(STRICT_GROUP), &ValueSpec::Table(GROUP)).otherwise(
        "0: queues 0, 1, 2, 4, 5 with 50 %; 1: queue 3 with 50 %; 15: queues 6, 7",
        "A group of ETS; 15 goes before all others, whose shares add up to 100 %.",
    ),
];

const QUEUE: TableSpec = &[
    choice("group", || words(&QUEUE_GROUPS))
        .value("\"wrr1\"", "Of mode \"sp-wrr\": sp goes before wrr1, or wrr, and that before wrr2."),
    number("weight", 1, 255)
        .otherwise("1, 2, 3, 4, 5, 9, 13, 15 by queue; 1 with ETS", "Its share of its group."),
    speed("rate").about("Its highest rate."),
    BURST,
];

const GROUP: TableSpec = &[
    list("queues", &ValueSpec::Number(0, 7)).required("Its queues; each queue is in one group."),
    number("bandwidth_percent", 1, 100).about("Its share; group 15 has none, all others have one."),
    choice("scheduling", || words(&DISCIPLINES))
        .otherwise("wrr; sp in group 15", "The order inside the group."),
    speed("rate").about("Its highest rate."),
    BURST,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    SpWrr,
    Ets,
}

/// The group of a queue in mode "sp-wrr".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueGroup {
    Sp,
    Wrr1,
    Wrr2,
}

/// `schedule` of a port, or of the defaults.
#[derive(Debug, Default, Clone)]
pub(crate) struct ScheduleTable {
    mode: Option<Setting<Mode>>,
    /// True if `wrr` counts packets instead of bytes.
    by_packets: Option<Setting<bool>>,
    queues: [ScheduleQueueTable; PRIORITIES],
    /// By number. They have been checked together.
    groups: Option<Setting<Vec<EtsGroup>>>,
}

/// `schedule.queue.N`.
#[derive(Debug, Default, Clone)]
struct ScheduleQueueTable {
    group: Option<Setting<QueueGroup>>,
    weight: Option<Setting<u8>>,
    rate: RateTable,
}

/// `schedule.group.N`.
#[derive(Debug, Clone)]
struct EtsGroup {
    number: usize,
    location: SettingSpan,
    queues: Option<Setting<Vec<u8>>>,
    bandwidth_percent: Option<Setting<u8>>,
    strict: Option<Setting<bool>>,
    rate: RateTable,
}

/// `rate` and `burst_bytes` of a queue or a group.
#[derive(Debug, Default, Clone)]
struct RateTable {
    bps: Option<Setting<u64>>,
    burst_bytes: Option<Setting<u64>>,
}

impl ScheduleTable {
    /// Reads `schedule`.
    pub(crate) fn read(mut section: TableReader, report: &mut Diagnostics) -> Self {
        let mut schedule = Self {
            mode: section.choice("mode", &MODES, report),
            by_packets: section.choice("wrr", &WRR, report),
            ..Self::default()
        };
        for (number, queue) in section.numbered("queue", report) {
            schedule.queues[number] = ScheduleQueueTable::read(queue, report);
        }
        let location = section.location_of("group");
        let groups = section.numbered("group", report).into_iter();
        let mut groups: Vec<_> =
            groups.map(|(number, group)| EtsGroup::read(number, group, report)).collect();
        groups.sort_by_key(|group| group.number);
        if let Some(location) = location
            && !groups.is_empty()
        {
            each_queue_is_in_one(&groups, &location, report);
            shares_are_complete(&groups, report);
            schedule.groups = Some(Setting { value: groups, location });
        }
        section.finish(report);
        schedule
    }
}

impl<'t> Overrides<'t, ScheduleTable> {
    fn mode(self) -> Mode {
        self.value(|table| &table.mode, Mode::SpWrr)
    }

    fn queue(self, q: usize) -> Overrides<'t, ScheduleQueueTable> {
        self.part(|table| &table.queues[q])
    }

    pub(crate) fn settings(self) -> ScheduleSettings {
        match (self.mode(), self.setting(|table| &table.groups)) {
            (Mode::SpWrr, _) => {
                let members = |group| {
                    let group_of = |q| self.queue(q).value(|table| &table.group, QueueGroup::Wrr1);
                    (0..PRIORITIES).filter(|q| group_of(*q) == group).fold(0, |mask, q| mask | 1 << q)
                };
                let [sp, wrr1, wrr2] = [QueueGroup::Sp, QueueGroup::Wrr1, QueueGroup::Wrr2].map(members);
                ScheduleSettings::sp_wrr(sp, wrr1, wrr2, self.weighted(DEFAULT_WEIGHTS))
            }
            (Mode::Ets, None) => {
                let mut schedule = ScheduleSettings::default_ets();
                for group in
                    schedule.groups.iter_mut().filter(|group| group.inside != GroupDiscipline::Strict)
                {
                    group.inside = self.weighted([1; PRIORITIES]);
                }
                schedule
            }
            (Mode::Ets, Some(groups)) => {
                let weighted = self.weighted([1; PRIORITIES]);
                ScheduleSettings {
                    groups: groups.value.iter().map(|group| group.settings(weighted)).collect(),
                }
            }
        }
    }

    /// Returns the numbers of the groups of [`Self::settings`], if the mode is ETS.
    pub(crate) fn ets_groups(self) -> Option<Vec<usize>> {
        let groups = self.setting(|table| &table.groups);
        let numbers = |groups: &Setting<Vec<EtsGroup>>| groups.value.iter().map(|it| it.number).collect();
        (self.mode() == Mode::Ets).then(|| groups.map_or_else(|| vec![0, 1, STRICT_GROUP], numbers))
    }

    /// Returns a discipline in proportion to the weights.
    fn weighted(self, defaults: [u8; PRIORITIES]) -> GroupDiscipline {
        let weights = std::array::from_fn(|q| self.queue(q).value(|table| &table.weight, defaults[q]));
        if self.value(|table| &table.by_packets, false) {
            GroupDiscipline::WeightedByFrames(weights)
        } else {
            GroupDiscipline::WeightedByBytes(weights)
        }
    }

    /// Sets the rates of the queues in `queues`.
    pub(crate) fn fill_rates(self, queues: &mut [QueueSettings; PRIORITIES]) {
        for (q, queue) in queues.iter_mut().enumerate() {
            queue.rate = self.rate(q).settings();
        }
    }

    fn rate(self, q: usize) -> Overrides<'t, RateTable> {
        self.queue(q).part(|table| &table.rate)
    }

    /// Returns the mask of the queues that share their group's bandwidth without a weight.
    fn strict_queues(self) -> u8 {
        let groups = self.settings().groups;
        groups
            .iter()
            .filter(|group| group.inside == GroupDiscipline::Strict)
            .fold(0, |mask, group| mask | group.queues)
    }

    /// Returns true if bytes on the link are counted for anything: a rate, or the shares of groups.
    pub(crate) fn uses_wire_bytes(self) -> bool {
        let groups = self.settings().groups;
        let shared = groups.iter().any(|group| groups.iter().any(|it| it != group && it.rank == group.rank));
        shared
            || groups.iter().any(|group| group.rate.is_some())
            || (0..PRIORITIES).any(|q| self.rate(q).settings().is_some())
    }
}

impl ScheduleQueueTable {
    fn read(mut section: TableReader, report: &mut Diagnostics) -> Self {
        let queue = Self {
            group: section.choice("group", &QUEUE_GROUPS, report),
            weight: section.number("weight", report),
            rate: RateTable::read(&mut section, report),
        };
        section.finish(report);
        queue
    }
}

impl EtsGroup {
    fn read(number: usize, mut section: TableReader, report: &mut Diagnostics) -> Self {
        let group = Self {
            number,
            location: section.location.clone(),
            queues: section.numbers("queues", report),
            bandwidth_percent: section.number("bandwidth_percent", report),
            strict: section.choice("scheduling", &DISCIPLINES, report),
            rate: RateTable::read(&mut section, report),
        };
        let no_queues = group.queues.as_ref().is_some_and(|queues| queues.value.is_empty());
        if no_queues || !section.has("queues") {
            report.add(&group.location, "no queues", "write queues = [0, 1], or leave the group out");
        }
        match &group.bandwidth_percent {
            Some(percent) if number == STRICT_GROUP => {
                let what = "group 15 goes before all others and has no share";
                report.add(&percent.location, what, "leave this out; its rate can limit it");
            }
            None if number != STRICT_GROUP && !section.has("bandwidth_percent") => {
                let cure = "write bandwidth_percent, which makes 100 with that of the other groups";
                report.add(&group.location, "no share of the bandwidth", cure);
            }
            _ => {}
        }
        group.rate.burst_needs_rate(&[Overrides::alone(&group.rate)], report);
        section.finish(report);
        group
    }

    fn settings(&self, weighted: GroupDiscipline) -> SchedulerGroup {
        let (rank, weight) = match self.number {
            STRICT_GROUP => (0, 1),
            _ => (1, u32::from(value_or(&self.bandwidth_percent, 1))),
        };
        let strict = value_or(&self.strict, self.number == STRICT_GROUP);
        let inside = if strict { GroupDiscipline::Strict } else { weighted };
        let queues = self.queues.iter().flat_map(|queues| &queues.value).fold(0, |mask, q| mask | 1 << q);
        SchedulerGroup {
            rate: Overrides::alone(&self.rate).settings(),
            ..SchedulerGroup::new(format!("pg{}", self.number), rank, weight, inside).of(queues)
        }
    }
}

/// Checks that every queue is in exactly one group. So there are at most eight groups, since each
/// has a queue.
fn each_queue_is_in_one(groups: &[EtsGroup], location: &SettingSpan, report: &mut Diagnostics) {
    let mut group_of_queue = [None; PRIORITIES];
    for group in groups {
        // Without one of the lists it is unknown which queue is missing.
        let Some(queues) = &group.queues else { return };
        for &q in &queues.value {
            if let Some(other) = group_of_queue[usize::from(q)].replace(group.number) {
                let what = if other == group.number {
                    format!("queue {q} is here twice")
                } else {
                    format!("queue {q} is in group {other} already")
                };
                report.add(&queues.location, what, "list each queue once");
            }
        }
    }
    let missing: Vec<String> =
        (0..PRIORITIES).filter(|&q| group_of_queue[q].is_none()).map(|q| q.to_string()).collect();
    match &missing[..] {
        [] => {}
        [q] => report.add(location, format!("queue {q} is in no group"), "add it to the queues of a group"),
        several => {
            let what = format!("queues {} are in no group", several.join(", "));
            report.add(location, what, "add each to the queues of a group");
        }
    }
}

/// Checks that the shares of the groups add up to 100 %; group 15 has none.
fn shares_are_complete(groups: &[EtsGroup], report: &mut Diagnostics) {
    let sharing = groups.iter().filter(|group| group.number != STRICT_GROUP);
    let Some(shares) = sharing.map(|group| group.bandwidth_percent.as_ref()).collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let sum: u32 = shares.iter().map(|share| u32::from(share.value)).sum();
    if sum != 100
        && let Some(last) = shares.iter().max_by_key(|share| share.location.span.start)
    {
        let terms: Vec<String> = shares.iter().map(|share| share.value.to_string()).collect();
        let terms = if terms.len() > 1 { format!("{} = ", terms.join(" + ")) } else { String::new() };
        let what = format!("the groups have {terms}{sum} % of the bandwidth");
        report.add(&last.location, what, "write shares that make 100 % together; group 15 has none");
    }
}

impl RateTable {
    fn read(section: &mut TableReader, report: &mut Diagnostics) -> Self {
        Self {
            bps: section.item("rate").and_then(|item| parse::speed(item, report)),
            burst_bytes: section.number("burst_bytes", report),
        }
    }

    /// Checks that a burst has a rate in one of `effective`.
    fn burst_needs_rate(&self, effective: &[Overrides<RateTable>], report: &mut Diagnostics) {
        if let Some(burst) = &self.burst_bytes
            && effective.iter().all(|rate| rate.settings().is_none())
        {
            report.add(&burst.location, "has no effect without a rate", "write rate, or leave this out");
        }
    }
}

impl Overrides<'_, RateTable> {
    fn settings(self) -> Option<Rate> {
        let bps = self.optional(|table| &table.bps)?;
        Some(Rate { bps, burst_bytes: self.optional(|table| &table.burst_bytes) })
    }
}

/// Checks that the scheduling settings of a table have an effect on one of `effective`.
pub(crate) fn dependences(
    table: &ScheduleTable,
    effective: &[Overrides<ScheduleTable>],
    report: &mut Diagnostics,
) {
    let all = |holds: &dyn Fn(Overrides<ScheduleTable>) -> bool| effective.iter().all(|port| holds(*port));
    if let Some(groups) = &table.groups
        && all(&|port| port.mode() != Mode::Ets)
    {
        let cure = "write schedule.mode = \"ets\", or leave them out";
        report.add(&groups.location, "groups are for mode \"ets\" only", cure);
    }
    if let Some(by_packets) = &table.by_packets
        && all(&|port| port.strict_queues() == 0xff)
    {
        report.add(&by_packets.location, "no queue is weighted", "leave this out");
    }
    for (q, queue) in table.queues.iter().enumerate() {
        if let Some(group) = &queue.group
            && all(&|port| port.mode() == Mode::Ets)
        {
            let cure =
                "list the queue in schedule.group.N.queues instead, or write schedule.mode = \"sp-wrr\"";
            report.add(&group.location, "has no effect in mode \"ets\"", cure);
        }
        if let Some(weight) = &queue.weight
            && all(&|port| port.strict_queues() & 1 << q != 0)
        {
            let (what, cure) = if all(&|port| port.mode() == Mode::Ets) {
                ("its group is strict inside", "write scheduling = \"wrr\" for the group, or leave this out")
            } else {
                let cure = "write group = \"wrr\", or leave the weight out";
                ("a queue of group \"sp\" has no weight", cure)
            };
            report.add(&weight.location, what, cure);
        }
        let rates: Vec<_> = effective.iter().map(|port| port.rate(q)).collect();
        queue.rate.burst_needs_rate(&rates, report);
    }
}
