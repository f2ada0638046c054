//! `[port-defaults]` and `[port.NAME]`: what the file says of a port, and the settings that come of it.
//!
//! Both tables have the same settings and are read the same way, into a [`Written`]; a port's own settings are then laid
//! over the defaults setting by setting ([`Written::over`]), and [`Written::settings`] fills in what nobody wrote.

use switch::PortSettings;
use switch::settings::{
    Alpha, DEFAULT_WEIGHTS, GroupSettings, Guaranteed, PRIORITIES, Schedule, Threshold, Trust,
};

use crate::mistakes::Found;
use crate::section::{Placed, Section};
use crate::{MAX_CELLS, values};

/// Bytes that may be with the kernel: at least a full frame with its tag, or the port could send none.
const IN_FLIGHT_BYTES: std::ops::RangeInclusive<u32> = 1518..=16 << 20;

/// What the file says of a port; nothing is filled in.
#[derive(Debug, Default, Clone)]
pub(crate) struct Written {
    pub(crate) interface: Option<Placed<String>>,
    pub(crate) speed_bps: Option<Placed<u64>>,
    pub(crate) trust: Option<Placed<Trust>>,
    pub(crate) port_priority: Option<Placed<u8>>,
    pub(crate) dot1p_to_queue: Option<Placed<[u8; PRIORITIES]>>,
    pub(crate) in_flight_bytes: Option<Placed<u32>>,
    pub(crate) pfc: WrittenPfc,
    pub(crate) queues: [WrittenQueue; PRIORITIES],
}

/// `pfc` of a port.
#[derive(Debug, Default, Clone)]
pub(crate) struct WrittenPfc {
    /// `mode`: on or off.
    pub(crate) on: Option<Placed<bool>>,
    pub(crate) rx: Option<Placed<bool>>,
    pub(crate) tx: Option<Placed<bool>>,
    /// Bit i: priority i.
    pub(crate) no_drop: Option<Placed<u8>>,
    pub(crate) pause_quanta: Option<Placed<u16>>,
    pub(crate) groups: [WrittenGroup; PRIORITIES],
}

/// `pfc.priority.N` of a port.
#[derive(Debug, Default, Clone)]
pub(crate) struct WrittenGroup {
    pub(crate) headroom_cells: Option<Placed<u32>>,
    pub(crate) xoff: Option<Placed<Threshold>>,
    pub(crate) xon_offset_cells: Option<Placed<u32>>,
    pub(crate) resume_cells: Option<Placed<u32>>,
    pub(crate) reserved_cells: Option<Placed<u32>>,
}

/// `schedule.queue.N` and `buffer.egress.queue.N` of a port.
#[derive(Debug, Default, Clone)]
pub(crate) struct WrittenQueue {
    /// `group`: strict priority, or weighted.
    pub(crate) strict: Option<Placed<bool>>,
    pub(crate) weight: Option<Placed<u8>>,
    pub(crate) guaranteed_percent: Option<Placed<u8>>,
    pub(crate) shared: Option<Placed<Threshold>>,
}

impl Written {
    /// Reads the settings of a port, or the defaults of all.
    pub(crate) fn read(mut section: Section, found: &mut Found) -> Self {
        let written = Self {
            interface: section
                .string("interface", "veth0", found)
                .and_then(|name| values::interface(name, found)),
            speed_bps: section.item("speed").and_then(|item| values::speed(item, found)),
            trust: section.choice(
                "trust",
                &[("dot1p", Trust::Dot1p), ("none", Trust::None)],
                &["dscp"],
                found,
            ),
            port_priority: section.number("port_priority", 0..=7, found),
            dot1p_to_queue: read_map(&mut section, found),
            in_flight_bytes: section.number("in_flight_bytes", IN_FLIGHT_BYTES, found),
            pfc: section.section("pfc", found).map(|pfc| read_pfc(pfc, found)).unwrap_or_default(),
            queues: read_queues(&mut section, found),
        };
        section.finish(&["cable_m", "dcbx", "wred"], found);
        written
    }

    /// These settings where they are written, those of `defaults` elsewhere.
    pub(crate) fn over(&self, defaults: &Written) -> Written {
        let own = self.clone();
        let defaults = defaults.clone();
        Written {
            interface: own.interface,
            speed_bps: own.speed_bps.or(defaults.speed_bps),
            trust: own.trust.or(defaults.trust),
            port_priority: own.port_priority.or(defaults.port_priority),
            dot1p_to_queue: own.dot1p_to_queue.or(defaults.dot1p_to_queue),
            in_flight_bytes: own.in_flight_bytes.or(defaults.in_flight_bytes),
            pfc: self.pfc.over(&defaults.pfc),
            queues: std::array::from_fn(|queue| self.queues[queue].over(&defaults.queues[queue])),
        }
    }

    /// Bit i: PFC protects priority i. **With PFC off no priority is no-drop**: `no_drop` and all that PFC would need have
    /// no effect, and the groups are lossy ones.
    pub(crate) fn protected(&self) -> u8 {
        if self.pfc.is_on() { value_or(&self.pfc.no_drop, 0) } else { 0 }
    }

    /// The settings of a port called `name`, with defaults for what is not written.
    pub(crate) fn settings(&self, name: &str) -> PortSettings {
        let mut port = PortSettings::new(name, self.speed_bps.as_ref().map(|speed| speed.value));
        port.classify.trust = value_or(&self.trust, port.classify.trust);
        port.classify.port_priority = value_or(&self.port_priority, port.classify.port_priority);
        port.classify.dot1p_to_queue = value_or(&self.dot1p_to_queue, port.classify.dot1p_to_queue);
        port.in_flight_bytes = value_or(&self.in_flight_bytes, port.in_flight_bytes);
        port.pfc.rx = self.pfc.is_on() && value_or(&self.pfc.rx, true);
        port.pfc.tx = self.pfc.is_on() && value_or(&self.pfc.tx, true);
        port.pfc.no_drop = self.protected();
        port.pfc.pause_quanta = value_or(&self.pfc.pause_quanta, port.pfc.pause_quanta);
        for (priority, written) in self.pfc.groups.iter().enumerate() {
            let no_drop = self.protected() & 1 << priority != 0;
            port.groups[priority] = written.settings(no_drop, port.groups[priority]);
        }
        for (number, written) in self.queues.iter().enumerate() {
            let queue = &mut port.queues[number];
            queue.schedule = written.schedule(number);
            if let Some(percent) = &written.guaranteed_percent {
                queue.guaranteed = Guaranteed::Percent(percent.value);
            }
            queue.shared = written.shared.as_ref().map(|shared| shared.value);
        }
        port
    }
}

impl WrittenPfc {
    pub(crate) fn is_on(&self) -> bool {
        value_or(&self.on, false)
    }

    fn over(&self, defaults: &WrittenPfc) -> WrittenPfc {
        let own = self.clone();
        let defaults = defaults.clone();
        WrittenPfc {
            on: own.on.or(defaults.on),
            rx: own.rx.or(defaults.rx),
            tx: own.tx.or(defaults.tx),
            no_drop: own.no_drop.or(defaults.no_drop),
            pause_quanta: own.pause_quanta.or(defaults.pause_quanta),
            groups: std::array::from_fn(|priority| self.groups[priority].over(&defaults.groups[priority])),
        }
    }
}

impl WrittenGroup {
    fn over(&self, defaults: &WrittenGroup) -> WrittenGroup {
        let own = self.clone();
        let defaults = defaults.clone();
        WrittenGroup {
            headroom_cells: own.headroom_cells.or(defaults.headroom_cells),
            xoff: own.xoff.or(defaults.xoff),
            xon_offset_cells: own.xon_offset_cells.or(defaults.xon_offset_cells),
            resume_cells: own.resume_cells.or(defaults.resume_cells),
            reserved_cells: own.reserved_cells.or(defaults.reserved_cells),
        }
    }

    /// A no-drop group starts from the defaults for the port's speed; a lossy one has nothing reserved, no headroom, and
    /// takes all that the shared area has left.
    fn settings(&self, no_drop: bool, defaults: GroupSettings) -> GroupSettings {
        let defaults = if no_drop {
            defaults
        } else {
            GroupSettings { xon_offset_cells: defaults.xon_offset_cells, ..GroupSettings::lossy() }
        };
        GroupSettings {
            pool: 0,
            reserved_cells: value_or(&self.reserved_cells, defaults.reserved_cells),
            xoff: value_or(&self.xoff, defaults.xoff),
            xon_offset_cells: value_or(&self.xon_offset_cells, defaults.xon_offset_cells),
            resume_cells: value_or(&self.resume_cells, defaults.resume_cells),
            headroom_cells: if no_drop { value_or(&self.headroom_cells, defaults.headroom_cells) } else { 0 },
        }
    }
}

impl WrittenQueue {
    fn over(&self, defaults: &WrittenQueue) -> WrittenQueue {
        let own = self.clone();
        let defaults = defaults.clone();
        // A queue that the port itself makes strict leaves the defaults' weight behind.
        let default_weight = if value_or(&own.strict, false) { None } else { defaults.weight };
        WrittenQueue {
            strict: own.strict.or(defaults.strict),
            weight: own.weight.or(default_weight),
            guaranteed_percent: own.guaranteed_percent.or(defaults.guaranteed_percent),
            shared: own.shared.or(defaults.shared),
        }
    }

    fn schedule(&self, queue: usize) -> Schedule {
        if value_or(&self.strict, false) {
            Schedule::Sp
        } else {
            Schedule::Wrr { weight: value_or(&self.weight, DEFAULT_WEIGHTS[queue]) }
        }
    }
}

fn value_or<T: Copy>(written: &Option<Placed<T>>, default: T) -> T {
    written.as_ref().map_or(default, |written| written.value)
}

fn read_map(section: &mut Section, found: &mut Found) -> Option<Placed<[u8; PRIORITIES]>> {
    let list = section.numbers("dot1p_to_queue", 0..=7, found)?;
    match <[u8; PRIORITIES]>::try_from(list.value.as_slice()) {
        Ok(value) => Some(Placed { value, place: list.place }),
        Err(_) => {
            let what = format!("found {} queues", list.value.len());
            found.add(&list.place, what, "write 8, one for each priority from 0 to 7");
            None
        }
    }
}

fn read_pfc(mut section: Section, found: &mut Found) -> WrittenPfc {
    let mut pfc = WrittenPfc {
        on: section.choice("mode", &[("on", true), ("off", false)], &["auto"], found),
        rx: section.boolean("rx", found),
        tx: section.boolean("tx", found),
        no_drop: section.numbers("no_drop", 0..=7, found).map(|list| Placed {
            value: list.value.iter().fold(0, |bits, priority: &u8| bits | 1 << priority),
            place: list.place,
        }),
        pause_quanta: section.number("pause_time", 1..=u16::MAX, found),
        groups: Default::default(),
    };
    for (priority, group) in section.numbered("priority", found) {
        pfc.groups[priority] = read_group(group, found);
    }
    section.finish(&["watchdog"], found);
    pfc
}

fn read_group(mut section: Section, found: &mut Found) -> WrittenGroup {
    let group = WrittenGroup {
        headroom_cells: section.number("headroom_cells", 0..=MAX_CELLS, found),
        xoff: read_xoff(&mut section, found),
        xon_offset_cells: section.number("xon_offset_cells", 0..=MAX_CELLS, found),
        resume_cells: section.number("resume_cells", 0..=MAX_CELLS, found),
        reserved_cells: section.number("reserved_cells", 0..=MAX_CELLS, found),
    };
    section.finish(&[], found);
    group
}

fn read_xoff(group: &mut Section, found: &mut Found) -> Option<Placed<Threshold>> {
    const CURE: &str = "write { static_cells = … } or { dynamic_percent = … }";
    let item = group.item("xoff")?;
    let mut section = item.section(group.place_of("xoff")?, CURE, found)?;
    let xoff = either_threshold(&mut section, "static_cells", "dynamic_percent", found);
    if section.is_empty() {
        found.add(&section.place, "no threshold", CURE);
    }
    section.finish(&[], found);
    xoff
}

/// A threshold in cells or in percent, not both. 0 cells would stop everything for good.
fn either_threshold(
    section: &mut Section,
    cells: &'static str,
    percent: &'static str,
    found: &mut Found,
) -> Option<Placed<Threshold>> {
    let cells_value = section.number(cells, 1..=MAX_CELLS, found);
    let percent_value = section.number(percent, 0..=100, found);
    if let (Some(place), true) = (section.place_of(cells), section.has(percent)) {
        found.add(&place, format!("{cells} and {percent} contradict each other"), "leave one of them out");
    }
    let cells = cells_value.map(|cells| Placed { value: Threshold::Static(cells.value), place: cells.place });
    let percent = percent_value.map(|percent| Placed {
        value: Threshold::Dynamic(Alpha::from_percent(percent.value)),
        place: percent.place,
    });
    cells.or(percent)
}

fn read_queues(port: &mut Section, found: &mut Found) -> [WrittenQueue; PRIORITIES] {
    let mut queues: [WrittenQueue; PRIORITIES] = Default::default();
    if let Some(mut schedule) = port.section("schedule", found) {
        for (number, mut section) in schedule.numbered("queue", found) {
            let queue = &mut queues[number];
            queue.strict = section.choice("group", &[("sp", true), ("wrr", false)], &[], found);
            queue.weight = section.number("weight", 1..=255, found);
            section.finish(&[], found);
        }
        schedule.finish(&[], found);
    }
    if let Some(mut buffer) = port.section("buffer", found) {
        if let Some(mut egress) = buffer.section("egress", found) {
            for (number, mut section) in egress.numbered("queue", found) {
                let queue = &mut queues[number];
                queue.guaranteed_percent = section.number("guaranteed_percent", 0..=100, found);
                queue.shared = either_threshold(&mut section, "shared_cells", "shared_percent", found);
                section.finish(&["pool"], found);
            }
            egress.finish(&["pool"], found);
        }
        buffer.finish(&["ingress"], found);
    }
    queues
}
