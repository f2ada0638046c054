//! `[port-defaults]` and `[port.NAME]`: what the file says of a port, and the settings that come of it.
//!
//! Both tables have the same settings and are read the same way, into a [`Written`]; a port's own settings are then laid
//! over the defaults setting by setting ([`Written::over`]), and [`Written::settings`] fills in what nobody wrote.

use std::ops::RangeInclusive;

use switch::PortSettings;
use switch::settings::{PRIORITIES, WIRE_OVERHEAD_BYTES};

use crate::Link;
use crate::buffer::Buffer;
use crate::classify::WrittenClassify;
use crate::congestion::{Congestion, WrittenCongestion};
use crate::mistakes::Found;
use crate::schedule::{WrittenSchedule, burst};
use crate::section::{Placed, Section, value_or};
use crate::thresholds::{WrittenGroup, WrittenQueue};
use crate::values;

/// Bytes that may be with the kernel: at least a full frame with its tag, or the port could send none.
const IN_FLIGHT_BYTES: RangeInclusive<u32> = 1518..=16 << 20;
/// Metres of a cable: optics for more do not go with PFC.
pub const CABLE_M: RangeInclusive<u32> = 0..=100_000;
/// Bytes of the longest frame without FCS: from the shortest Ethernet frame to a jumbo frame.
pub const MTU_BYTES: RangeInclusive<u32> = 64..=9216;

/// What the file says of a port; nothing is filled in.
#[derive(Debug, Default, Clone)]
pub(crate) struct Written {
    pub(crate) interface: Option<Placed<String>>,
    pub(crate) speed_bps: Option<Placed<u64>>,
    pub(crate) burst_bytes: Option<Placed<u64>>,
    pub(crate) wire_overhead: Option<Placed<bool>>,
    pub(crate) cable_m: Option<Placed<u32>>,
    pub(crate) mtu_bytes: Option<Placed<u32>>,
    pub(crate) in_flight_bytes: Option<Placed<u32>>,
    pub(crate) classify: WrittenClassify,
    pub(crate) pfc: WrittenPfc,
    /// `pfc.priority` and `buffer.ingress.priority`.
    pub(crate) groups: [WrittenGroup; PRIORITIES],
    /// `buffer.egress.queue`.
    pub(crate) queues: [WrittenQueue; PRIORITIES],
    pub(crate) schedule: WrittenSchedule,
    /// `wred` and `queue_profile`.
    pub(crate) congestion: WrittenCongestion,
}

/// `pfc` of a port, but for its priorities.
#[derive(Debug, Default, Clone)]
pub(crate) struct WrittenPfc {
    /// `mode`: on or off.
    pub(crate) on: Option<Placed<bool>>,
    pub(crate) rx: Option<Placed<bool>>,
    pub(crate) tx: Option<Placed<bool>>,
    /// Bit i: priority i.
    pub(crate) no_drop: Option<Placed<u8>>,
    pub(crate) pause_quanta: Option<Placed<u16>>,
}

impl Written {
    /// Reads the settings of a port, or the defaults of all.
    pub(crate) fn read(
        mut section: Section,
        buffer: &Buffer,
        congestion: &Congestion,
        found: &mut Found,
    ) -> Self {
        let mut written = Self {
            interface: section
                .string("interface", "veth0", found)
                .and_then(|name| values::interface(name, found)),
            speed_bps: section.item("speed").and_then(|item| values::speed(item, found)),
            burst_bytes: burst(&mut section, found),
            wire_overhead: section.boolean("wire_overhead", found),
            cable_m: section.number("cable_m", CABLE_M, found),
            mtu_bytes: section.number("mtu", MTU_BYTES, found),
            in_flight_bytes: section.number("in_flight_bytes", IN_FLIGHT_BYTES, found),
            classify: WrittenClassify::read(&mut section, found),
            congestion: WrittenCongestion::read(&mut section, congestion, found),
            ..Self::default()
        };
        if let Some(pfc) = section.section("pfc", found) {
            written.read_pfc(pfc, buffer.settings.cell_bytes, found);
        }
        if let Some(schedule) = section.section("schedule", found) {
            written.schedule = WrittenSchedule::read(schedule, found);
        }
        if let Some(of_port) = section.section("buffer", found) {
            written.read_buffer(of_port, buffer, found);
        }
        section.finish(&["dcbx"], found);
        written
    }

    fn read_pfc(&mut self, mut section: Section, cell_bytes: u32, found: &mut Found) {
        self.pfc = WrittenPfc {
            on: section.choice("mode", &[("on", true), ("off", false)], &["auto"], found),
            rx: section.boolean("rx", found),
            tx: section.boolean("tx", found),
            no_drop: section.numbers("no_drop", 0..=7, found).map(|list| Placed {
                value: list.value.iter().fold(0, |bits, priority: &u8| bits | 1 << priority),
                place: list.place,
            }),
            pause_quanta: section.number("pause_time", 1..=u16::MAX, found),
        };
        for (priority, group) in section.numbered("priority", PRIORITIES - 1, found) {
            self.groups[priority] = WrittenGroup::read(group, cell_bytes, found);
        }
        section.finish(&["watchdog"], found);
    }

    /// Comes after `read_pfc`, whose thresholds a profile contradicts.
    fn read_buffer(&mut self, mut section: Section, buffer: &Buffer, found: &mut Found) {
        if let Some(mut ingress) = section.section("ingress", found) {
            for (priority, group) in ingress.numbered("priority", PRIORITIES - 1, found) {
                self.groups[priority].read_buffer(group, buffer, found);
            }
            ingress.misplaced("pool", "write it in [buffer.ingress.pool.N]", found);
            ingress.misplaced("profile", "write it in [buffer.ingress.profile.NAME]", found);
            ingress.finish(&[], found);
        }
        if let Some(mut egress) = section.section("egress", found) {
            for (number, queue) in egress.numbered("queue", PRIORITIES - 1, found) {
                self.queues[number].read_buffer(queue, buffer, found);
            }
            egress.misplaced("pool", "write it in [buffer.egress.pool.N]", found);
            egress.misplaced("profile", "write it in [buffer.egress.profile.NAME]", found);
            egress.finish(&[], found);
        }
        section.finish(&[], found);
    }

    /// These settings where they are written, those of `defaults` elsewhere.
    pub(crate) fn over(&self, defaults: &Written) -> Written {
        let own = self.clone();
        let defaults = defaults.clone();
        Written {
            interface: own.interface,
            speed_bps: own.speed_bps.or(defaults.speed_bps),
            burst_bytes: own.burst_bytes.or(defaults.burst_bytes),
            wire_overhead: own.wire_overhead.or(defaults.wire_overhead),
            cable_m: own.cable_m.or(defaults.cable_m),
            mtu_bytes: own.mtu_bytes.or(defaults.mtu_bytes),
            in_flight_bytes: own.in_flight_bytes.or(defaults.in_flight_bytes),
            classify: self.classify.over(&defaults.classify),
            pfc: self.pfc.over(&defaults.pfc),
            groups: std::array::from_fn(|priority| self.groups[priority].over(&defaults.groups[priority])),
            queues: std::array::from_fn(|queue| self.queues[queue].over(&defaults.queues[queue])),
            schedule: self.schedule.over(&defaults.schedule),
            congestion: self.congestion.over(&defaults.congestion),
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
        self.classify.fill(&mut port);
        port.burst_bytes = self.burst_bytes.as_ref().map(|bytes| bytes.value);
        if let Some(wire) = &self.wire_overhead {
            port.overhead_bytes = if wire.value { WIRE_OVERHEAD_BYTES } else { 0 };
        }
        port.in_flight_bytes = value_or(&self.in_flight_bytes, port.in_flight_bytes);
        port.pfc.rx = self.pfc.is_on() && value_or(&self.pfc.rx, true);
        port.pfc.tx = self.pfc.is_on() && value_or(&self.pfc.tx, true);
        port.pfc.no_drop = self.protected();
        port.pfc.pause_quanta = value_or(&self.pfc.pause_quanta, port.pfc.pause_quanta);
        for (priority, written) in self.groups.iter().enumerate() {
            let no_drop = self.protected() & 1 << priority != 0;
            port.groups[priority] = written.settings(no_drop, port.groups[priority]);
        }
        for (number, written) in self.queues.iter().enumerate() {
            port.queues[number] = written.settings(port.queues[number]);
        }
        self.congestion.fill(&mut port.queues);
        self.schedule.fill_rates(&mut port.queues);
        port.schedule = self.schedule.settings();
        port
    }

    /// The cable and what it carries.
    pub(crate) fn link(&self) -> Link {
        Link {
            cable_m: self.cable_m.as_ref().map(|metres| metres.value),
            mtu_bytes: self.mtu_bytes.as_ref().map(|bytes| bytes.value),
        }
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
        }
    }
}
