//! `schedule` of a port: which queue sends next, and the rates of queues and groups.
//!
//! A queue's settings are laid over the defaults' one by one. The groups of ETS divide the port together, so all of them
//! are one setting: a port that writes one leaves none of the defaults' behind.
//! Source: docs/law.md, "Scheduling"; docs/sources.md, "H3C reference" (ETS: the SP group, WRR groups, byte-count,
//! weights) and "Huawei DCB" (table 10-12); IEEE 802.1Q-2022 8.6.8 and D.2.8.5 (shares make 100 %).

use switch::settings::{
    DEFAULT_WEIGHTS, Inside, PRIORITIES, QueueSettings, Rate, ScheduleSettings, SchedulerGroup,
};

use crate::mistakes::{Found, Place};
use crate::ports::Written;
use crate::section::{Placed, Section, value_or};
use crate::values;

/// The group of ETS that goes before all others.
const STRICT_GROUP: usize = 15;
/// Most bytes of a burst: 10 ms at the fastest speed.
const MAX_BURST_BYTES: u64 = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    SpWrr,
    Ets,
}

/// Where a queue is in mode "sp-wrr".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueGroup {
    Sp,
    Wrr1,
    Wrr2,
}

/// What the file says of a port's scheduling; nothing is filled in.
#[derive(Debug, Default, Clone)]
pub(crate) struct WrittenSchedule {
    mode: Option<Placed<Mode>>,
    /// `wrr`: counted in packets, not in bytes.
    by_packets: Option<Placed<bool>>,
    queues: [ScheduledQueue; PRIORITIES],
    /// By number. They have been checked together.
    groups: Option<Placed<Vec<EtsGroup>>>,
}

/// `schedule.queue.N`.
#[derive(Debug, Default, Clone)]
struct ScheduledQueue {
    group: Option<Placed<QueueGroup>>,
    weight: Option<Placed<u8>>,
    rate: WrittenRate,
}

/// `schedule.group.N`.
#[derive(Debug, Clone)]
struct EtsGroup {
    number: usize,
    place: Place,
    queues: Option<Placed<Vec<u8>>>,
    bandwidth_percent: Option<Placed<u8>>,
    strict: Option<Placed<bool>>,
    rate: WrittenRate,
}

/// `rate` and `burst_bytes` of a queue or a group.
#[derive(Debug, Default, Clone)]
struct WrittenRate {
    bps: Option<Placed<u64>>,
    burst_bytes: Option<Placed<u64>>,
}

impl WrittenSchedule {
    /// Reads `schedule`.
    pub(crate) fn read(mut section: Section, found: &mut Found) -> Self {
        let mut schedule = Self {
            mode: section.choice("mode", &[("sp-wrr", Mode::SpWrr), ("ets", Mode::Ets)], &[], found),
            by_packets: section.choice("wrr", &[("byte-count", false), ("packet-count", true)], &[], found),
            ..Self::default()
        };
        for (number, queue) in section.numbered("queue", PRIORITIES - 1, found) {
            schedule.queues[number] = ScheduledQueue::read(queue, found);
        }
        let place = section.place_of("group");
        let groups = section.numbered("group", STRICT_GROUP, found).into_iter();
        let mut groups: Vec<_> = groups.map(|(number, group)| EtsGroup::read(number, group, found)).collect();
        groups.sort_by_key(|group| group.number);
        if let Some(place) = place
            && !groups.is_empty()
        {
            each_queue_is_in_one(&groups, &place, found);
            shares_are_complete(&groups, found);
            schedule.groups = Some(Placed { value: groups, place });
        }
        section.finish(&[], found);
        schedule
    }

    /// These settings where they are written, those of `defaults` elsewhere.
    pub(crate) fn over(&self, defaults: &WrittenSchedule) -> WrittenSchedule {
        let own = self.clone();
        let defaults = defaults.clone();
        WrittenSchedule {
            mode: own.mode.or(defaults.mode),
            by_packets: own.by_packets.or(defaults.by_packets),
            queues: std::array::from_fn(|queue| self.queues[queue].over(&defaults.queues[queue])),
            groups: own.groups.or(defaults.groups),
        }
    }

    fn mode(&self) -> Mode {
        value_or(&self.mode, Mode::SpWrr)
    }

    /// What the scheduler is set to.
    pub(crate) fn settings(&self) -> ScheduleSettings {
        match (self.mode(), &self.groups) {
            (Mode::SpWrr, _) => {
                let members = |group| {
                    let of = |q: &usize| value_or(&self.queues[*q].group, QueueGroup::Wrr1) == group;
                    (0..PRIORITIES).filter(of).fold(0, |mask, q| mask | 1 << q)
                };
                let [sp, wrr1, wrr2] = [QueueGroup::Sp, QueueGroup::Wrr1, QueueGroup::Wrr2].map(members);
                ScheduleSettings::sp_wrr(sp, wrr1, wrr2, self.weighted(DEFAULT_WEIGHTS))
            }
            (Mode::Ets, None) => {
                let mut schedule = ScheduleSettings::default_ets();
                for group in schedule.groups.iter_mut().filter(|group| group.inside != Inside::Strict) {
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

    /// In proportion to the weights, which are `defaults` where none is written.
    fn weighted(&self, defaults: [u8; PRIORITIES]) -> Inside {
        let weights = std::array::from_fn(|q| value_or(&self.queues[q].weight, defaults[q]));
        if value_or(&self.by_packets, false) {
            Inside::WeightedByFrames(weights)
        } else {
            Inside::WeightedByBytes(weights)
        }
    }

    /// Puts the rates of queues into `queues`.
    pub(crate) fn fill_rates(&self, queues: &mut [QueueSettings; PRIORITIES]) {
        for (queue, written) in queues.iter_mut().zip(&self.queues) {
            queue.rate = written.rate.settings();
        }
    }

    /// Bit q: queue q shares what its group gets by no weight.
    fn strict_queues(&self) -> u8 {
        let groups = self.settings().groups;
        groups
            .iter()
            .filter(|group| group.inside == Inside::Strict)
            .fold(0, |mask, group| mask | group.queues)
    }

    /// Bytes of the line are counted for something: a rate, or the shares of groups.
    pub(crate) fn counts_the_line(&self) -> bool {
        let groups = self.settings().groups;
        let shared = groups.iter().any(|group| groups.iter().any(|it| it != group && it.rank == group.rank));
        shared
            || groups.iter().any(|group| group.rate.is_some())
            || self.queues.iter().any(|queue| queue.rate.bps.is_some())
    }
}

impl ScheduledQueue {
    fn read(mut section: Section, found: &mut Found) -> Self {
        let groups = [
            ("sp", QueueGroup::Sp),
            ("wrr", QueueGroup::Wrr1),
            ("wrr1", QueueGroup::Wrr1),
            ("wrr2", QueueGroup::Wrr2),
        ];
        let queue = Self {
            group: section.choice("group", &groups, &[], found),
            weight: section.number("weight", 1..=255, found),
            rate: WrittenRate::read(&mut section, found),
        };
        section.finish(&[], found);
        queue
    }

    fn over(&self, defaults: &ScheduledQueue) -> ScheduledQueue {
        let own = self.clone();
        let defaults = defaults.clone();
        ScheduledQueue {
            group: own.group.or(defaults.group),
            weight: own.weight.or(defaults.weight),
            rate: WrittenRate {
                bps: own.rate.bps.or(defaults.rate.bps),
                burst_bytes: own.rate.burst_bytes.or(defaults.rate.burst_bytes),
            },
        }
    }
}

impl EtsGroup {
    fn read(number: usize, mut section: Section, found: &mut Found) -> Self {
        let group = Self {
            number,
            place: section.place.clone(),
            queues: section.numbers("queues", 0..=7, found),
            bandwidth_percent: section.number("bandwidth_percent", 1..=100, found),
            strict: section.choice("scheduling", &[("wrr", false), ("sp", true)], &[], found),
            rate: WrittenRate::read(&mut section, found),
        };
        let no_queues = group.queues.as_ref().is_some_and(|queues| queues.value.is_empty());
        if no_queues || !section.has("queues") {
            found.add(&group.place, "no queues", "write queues = [0, 1], or leave the group out");
        }
        match &group.bandwidth_percent {
            Some(percent) if number == STRICT_GROUP => {
                let what = "group 15 goes before all others and has no share";
                found.add(&percent.place, what, "leave this out; its rate can limit it");
            }
            None if number != STRICT_GROUP && !section.has("bandwidth_percent") => {
                let cure = "write bandwidth_percent, which makes 100 with that of the other groups";
                found.add(&group.place, "no share of the bandwidth", cure);
            }
            _ => {}
        }
        group.rate.burst_needs(&[&group.rate], found);
        section.finish(&[], found);
        group
    }

    fn settings(&self, weighted: Inside) -> SchedulerGroup {
        let (rank, weight) = match self.number {
            STRICT_GROUP => (0, 1),
            _ => (1, u32::from(value_or(&self.bandwidth_percent, 1))),
        };
        let strict = value_or(&self.strict, self.number == STRICT_GROUP);
        let inside = if strict { Inside::Strict } else { weighted };
        let queues = self.queues.iter().flat_map(|queues| &queues.value).fold(0, |mask, q| mask | 1 << q);
        SchedulerGroup {
            rate: self.rate.settings(),
            ..SchedulerGroup::new(format!("pg{}", self.number), rank, weight, inside).of(queues)
        }
    }
}

/// Every queue is in exactly one group. So there are at most eight groups, since each has a queue.
fn each_queue_is_in_one(groups: &[EtsGroup], place: &Place, found: &mut Found) {
    let mut group_of_queue = [None; PRIORITIES];
    for group in groups {
        // Without one of the lists nobody knows which queue is missing.
        let Some(queues) = &group.queues else { return };
        for &q in &queues.value {
            if let Some(other) = group_of_queue[usize::from(q)].replace(group.number) {
                let what = if other == group.number {
                    format!("queue {q} is here twice")
                } else {
                    format!("queue {q} is in group {other} already")
                };
                found.add(&queues.place, what, "list each queue once");
            }
        }
    }
    let missing: Vec<String> =
        (0..PRIORITIES).filter(|&q| group_of_queue[q].is_none()).map(|q| q.to_string()).collect();
    match &missing[..] {
        [] => {}
        [q] => found.add(place, format!("queue {q} is in no group"), "add it to the queues of a group"),
        several => {
            let what = format!("queues {} are in no group", several.join(", "));
            found.add(place, what, "add each to the queues of a group");
        }
    }
}

/// The shares of the groups make 100 %; group 15 has none.
fn shares_are_complete(groups: &[EtsGroup], found: &mut Found) {
    let sharing = groups.iter().filter(|group| group.number != STRICT_GROUP);
    let Some(shares) = sharing.map(|group| group.bandwidth_percent.as_ref()).collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let sum: u32 = shares.iter().map(|share| u32::from(share.value)).sum();
    if sum != 100
        && let Some(last) = shares.iter().max_by_key(|share| share.place.span.start)
    {
        let terms: Vec<String> = shares.iter().map(|share| share.value.to_string()).collect();
        let terms = if terms.len() > 1 { format!("{} = ", terms.join(" + ")) } else { String::new() };
        let what = format!("the groups have {terms}{sum} % of the bandwidth");
        found.add(&last.place, what, "write shares that make 100 % together; group 15 has none");
    }
}

impl WrittenRate {
    fn read(section: &mut Section, found: &mut Found) -> Self {
        Self {
            bps: section.item("rate").and_then(|item| values::speed(item, found)),
            burst_bytes: burst(section, found),
        }
    }

    fn settings(&self) -> Option<Rate> {
        let bps = self.bps.as_ref()?.value;
        Some(Rate { bps, burst_bytes: self.burst_bytes.as_ref().map(|bytes| bytes.value) })
    }

    /// A burst needs a rate in one of `effective`.
    fn burst_needs(&self, effective: &[&WrittenRate], found: &mut Found) {
        if let Some(burst) = &self.burst_bytes
            && effective.iter().all(|rate| rate.bps.is_none())
        {
            found.add(&burst.place, "of no effect without a rate", "write rate, or leave this out");
        }
    }
}

/// Takes `burst_bytes`.
pub(crate) fn burst(section: &mut Section, found: &mut Found) -> Option<Placed<u64>> {
    section.number("burst_bytes", 0..=MAX_BURST_BYTES, found)
}

/// What `written` says of scheduling has an effect on one of `effective`.
pub(crate) fn dependences(written: &Written, effective: &[&Written], found: &mut Found) {
    let schedule = &written.schedule;
    let all = |holds: &dyn Fn(&WrittenSchedule) -> bool| effective.iter().all(|port| holds(&port.schedule));
    if let Some(groups) = &schedule.groups
        && all(&|port| port.mode() != Mode::Ets)
    {
        let cure = "write schedule.mode = \"ets\", or leave them out";
        found.add(&groups.place, "groups are for mode \"ets\" only", cure);
    }
    if let Some(by_packets) = &schedule.by_packets
        && all(&|port| port.strict_queues() == 0xff)
    {
        found.add(&by_packets.place, "no queue is weighted", "leave this out");
    }
    for (q, queue) in schedule.queues.iter().enumerate() {
        if let Some(group) = &queue.group
            && all(&|port| port.mode() == Mode::Ets)
        {
            let cure =
                "list the queue in schedule.group.N.queues instead, or write schedule.mode = \"sp-wrr\"";
            found.add(&group.place, "of no effect in mode \"ets\"", cure);
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
            found.add(&weight.place, what, cure);
        }
        let rates: Vec<_> = effective.iter().map(|port| &port.schedule.queues[q].rate).collect();
        queue.rate.burst_needs(&rates, found);
    }
    line_dependences(written, effective, found);
}

/// The port's own burst and what a wire adds.
fn line_dependences(written: &Written, effective: &[&Written], found: &mut Found) {
    if let Some(burst) = &written.burst_bytes
        && effective.iter().all(|port| port.speed_bps.is_none())
    {
        found.add(&burst.place, "of no effect without a speed", "write speed, or leave this out");
    }
    if let Some(overhead) = &written.wire_overhead
        && !effective.iter().any(|port| port.speed_bps.is_some() || port.schedule.counts_the_line())
    {
        let cure = "write speed, or a rate in the schedule, or leave this out";
        found.add(&overhead.place, "of no effect without a rate", cure);
    }
}
