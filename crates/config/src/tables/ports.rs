//! `[port-defaults]` and `[port.NAME]`: the tables of the file, and the port settings that result.
//!
//! Both have the same settings and are read the same way, into a [`PortTable`]. A [`Port`] looks up
//! each setting in its own table, then in the defaults ([`Overrides`]).

use std::ops::RangeInclusive;

use dcbx::settings::{Ets, PfcMode};
use switch::buffer::cell::CellSize;
use switch::buffer::headroom::least_guest_cells;
use switch::settings::{
    BufferSettings, FlowControl, GUEST_BATCH_CELLS, PRIORITIES, StaticAddress, WIRE_OVERHEAD_BYTES,
};
use switch::{LONGEST_RECEIVED_BYTES, PortSettings};

use crate::read::diagnostics::{Diagnostics, SettingSpan};
use crate::read::overrides::Overrides;
use crate::read::parse;
use crate::read::table_reader::{Setting, TableReader};
use crate::spec::KeySpec::{Dscp, Name, Number};
use crate::spec::{
    TableSpec, ValueSpec, boolean, choice, eight, either, list, map, number, speed, table, text, words,
};
use crate::tables::alarm::{PORT_ALARM, PortAlarmTable};
use crate::tables::buffer::Buffer;
use crate::tables::congestion::{Congestion, CongestionBinding};
use crate::tables::daemon::LAST_CORE;
use crate::tables::lldp::{LldpMode, LldpTable, TLVS};
use crate::tables::port::classify::{self, ClassifyTable};
use crate::tables::port::dcbx::{DCBX, DcbxTable, PortDcbx, ets_of};
use crate::tables::port::policy::{self, Policies};
use crate::tables::port::schedule::{BURST, SCHEDULE, ScheduleTable};
use crate::tables::port::storm_control::{FloodLimitTable, limit};
use crate::tables::port::thresholds::{self, GroupTable, QueueTable};
use crate::tables::port::vhost::{VHOST, VhostTable};
use crate::tables::port::vlan::{VLAN, VlanTable};
use crate::tables::port::watchdog::{EARLY_WARNING, EarlyWarningTable, WATCHDOG, WatchdogTable};

/// Bytes that may be in flight in the kernel: at least a full frame with its tag, or the port could
/// send none.
const IN_FLIGHT_BYTES: (i64, i64) = (1518, 16 << 20);
/// Length of a cable in meters: optics for more are not used with PFC.
pub const CABLE_M: RangeInclusive<u32> = 0..=100_000;
/// Bytes of the longest frame without FCS: from the shortest Ethernet frame to a jumbo frame.
pub const MTU_BYTES: RangeInclusive<u32> = 64..=LONGEST_RECEIVED_BYTES as u32;

/// The admin states of a port, by their names: true for up.
pub(crate) const ADMIN_STATES: [(&str, bool); 2] = [("up", true), ("down", false)];

/// The modes of PFC, by their names.
pub(crate) const PFC_MODES: [(&str, PfcMode); 3] =
    [("on", PfcMode::On), ("off", PfcMode::Off), ("auto", PfcMode::Auto)];

/// `[port.NAME]`, and `[port-defaults]` except for what one port has.
pub(crate) const PORT: TableSpec = &[
    text("interface", "veth0")
        .required("The network interface that the port uses, unless it has `vhost_user`.")
        .restart()
        .of_one_port(),
    text("vhost_user", "/run/sluice/vm1.sock")
        .about("The vhost-user socket of the port, in place of an interface (docs/vhost-user.md).")
        .restart()
        .of_one_port(),
    table("vhost", VHOST).about("The queues and the memory of a port with `vhost_user`."),
    number("core", 0, LAST_CORE)
        .otherwise("the one with the fewest RX queues", "One of `dataplane.cores`.")
        .restart()
        .of_one_port(),
    choice("admin", || words(&ADMIN_STATES))
        .value("\"up\"", "Down: the port stays closed, whatever its interface; `sluice port up` opens it."),
    list(
        "static_addresses",
        &ValueSpec::Either(&[ValueSpec::Text("02:00:00:00:00:01"), ValueSpec::Table(parse::STATIC_MAC)]),
    )
    .value("[]", "MAC addresses that are always on this port, not learned or aged.")
    .of_one_port(),
    speed("speed").otherwise("unlimited", "The port's speed."),
    BURST,
    boolean("wire_overhead")
        .otherwise("true where `speed` is set", "Adds 24 bytes per frame: preamble, FCS, gap."),
    number("cable_m", *CABLE_M.start() as i64, *CABLE_M.end() as i64)
        .about("Length of the cable, for warnings about headroom only."),
    number("mtu", *MTU_BYTES.start() as i64, *MTU_BYTES.end() as i64)
        .unit("bytes")
        .about("The longest frame without FCS, for warnings about headroom only."),
    number("in_flight_bytes", IN_FLIGHT_BYTES.0, IN_FLIGHT_BYTES.1)
        .value("65536", "Bytes that may be in flight in the kernel."),
    choice("flow_control", || words(&FlowControl::ALL))
        .value("\"off\"", "802.3x PAUSE; not together with PFC."),
    limit("broadcast_limit_pps")
        .value("\"off\"", "Received broadcasts that are flooded; others are dropped."),
    limit("multicast_limit_pps").value("\"off\"", "The same of other group addresses."),
    limit("unknown_unicast_limit_pps").value("\"off\"", "The same of addresses that are not in the FDB."),
    choice("lldp", || words(&LldpMode::ALL))
        .value("\"both\"", "LLDP of the port; \"forward\": as a wire, on all ports or none."),
    list("lldp_tlvs", &ValueSpec::Choice(|| TLVS.to_vec())).otherwise("all", "Optional TLVs that are sent."),
    choice("trust", || words(&classify::TRUSTS))
        .value("\"dot1p\"", "The field that gives a frame its priority."),
    number("port_priority", 0, 7).value("0", "Priority of frames without that field."),
    choice("maps", || words(&classify::MAPS)).value("\"h3c\"", "A vendor's `dot1p_to_queue`."),
    eight("dot1p_to_queue", 7, "priority")
        .value("[2, 0, 1, 3, 4, 5, 6, 7]", "Queue, or local precedence, by priority."),
    eight("dot1p_to_drop_level", 2, "priority")
        .value("[0, 0, 0, 0, 0, 0, 0, 0]", "Drop level by priority: 0 green, 1 yellow, 2 red."),
    map("dscp_to_dot1p", Dscp, &ValueSpec::Number(0, 7)).otherwise("DSCP / 8", "Priority by DSCP."),
    map("dscp_to_queue", Dscp, &ValueSpec::Number(0, 7)).otherwise("by the priority", "Queue by DSCP."),
    map("dscp_to_drop_level", Dscp, &ValueSpec::Number(0, 2)).otherwise("0", "Drop level by DSCP."),
    number("dei_drop_level", 0, 2).value("0", "Drop level of tagged frames with DEI, if higher."),
    either("policy", &policy::OF_PORT).about("Queues by the tag; overrides the maps."),
    table("rewrite", classify::REWRITE).about("What is written into sent frames; unchanged by default."),
    text("wred", "table").about("Name of a WRED table, for all queues."),
    map("queue_profile", Name, &ValueSpec::List(&ValueSpec::Number(0, 7)))
        .about("Queues, by the name of the queue profile that they have."),
    table("pfc", PFC).about("PFC of the port."),
    table("schedule", SCHEDULE).about("The order in which queues send, and their rates."),
    table("buffer", BUFFER).about("Pools and profiles of its priorities and queues."),
    table("alarm", PORT_ALARM).about("Thresholds of events that differ from those of `[alarm]`."),
    table("vlan", VLAN).about("VLANs of the port."),
    table("dcbx", DCBX).about("What the port negotiates (docs/dcbx.md); without it, nothing."),
];

const PFC: TableSpec = &[
    choice("mode", || words(&PFC_MODES)).value("\"off\"", "PFC of the port; auto: as DCBX agrees."),
    boolean("rx").value("true", "Honor received PFC; off where the mode is off."),
    boolean("tx").value("true", "Send PFC; off where the mode is off."),
    list("no_drop", &ValueSpec::Number(0, 7)).value("[]", "Priorities that PFC protects."),
    number("pause_time", 1, 65_535).unit("quanta").value("65535", "Duration of a pause."),
    speed("pause_speed")
        .otherwise("`speed`, or the interface's", "Speed that defines the quantum, 512 bit times."),
    table("watchdog", WATCHDOG).about("PFC deadlock detection of the port (docs/watchdog.md)."),
    table("early-warning", EARLY_WARNING).about("PFC rates that raise events."),
    map("priority", Number(PRIORITIES - 1), &ValueSpec::Table(thresholds::GROUP))
        .about("Thresholds of the group of a priority."),
];

const BUFFER: TableSpec = &[
    table(
        "ingress",
        &[map("priority", Number(PRIORITIES - 1), &ValueSpec::Table(thresholds::INGRESS))
            .about("A priority.")],
    )
    .about("Received frames."),
    table(
        "egress",
        &[map("queue", Number(PRIORITIES - 1), &ValueSpec::Table(thresholds::EGRESS)).about("A queue.")],
    )
    .about("Frames to transmit."),
];

/// Properties of a port's cable, as configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Link {
    /// Length in meters.
    pub cable_m: Option<u32>,
    /// The longest frame on it in bytes, without FCS.
    pub mtu_bytes: Option<u32>,
}

/// A port of the file.
pub(crate) struct Port<'f> {
    /// Start of its table.
    pub(crate) location: SettingSpan,
    pub(crate) own: PortTable,
    /// `[port-defaults]`.
    pub(crate) defaults: &'f PortTable,
    /// The settings that result from both.
    pub(crate) settings: PortSettings,
    /// What the port negotiates; `None` if it does not.
    pub(crate) dcbx: Option<PortDcbx>,
}

/// The table of a port, or of the defaults.
#[derive(Debug, Default)]
pub(crate) struct PortTable {
    pub(crate) interface: Option<Setting<String>>,
    /// `vhost_user` and `vhost`.
    pub(crate) vhost: VhostTable,
    pub(crate) core: Option<Setting<usize>>,
    pub(crate) admin: Option<Setting<bool>>,
    pub(crate) static_addresses: Vec<Setting<parse::StaticMac>>,
    pub(crate) vlan: VlanTable,
    pub(crate) speed_bps: Option<Setting<u64>>,
    pub(crate) burst_bytes: Option<Setting<u64>>,
    pub(crate) wire_overhead: Option<Setting<bool>>,
    pub(crate) cable_m: Option<Setting<u32>>,
    pub(crate) mtu_bytes: Option<Setting<u32>>,
    pub(crate) in_flight_bytes: Option<Setting<u32>>,
    pub(crate) alarm: PortAlarmTable,
    pub(crate) flow_control: Option<Setting<FlowControl>>,
    pub(crate) flood_limits: FloodLimitTable,
    /// `lldp` and `lldp_tlvs`.
    pub(crate) lldp: LldpTable,
    pub(crate) dcbx: DcbxTable,
    pub(crate) classify: ClassifyTable,
    pub(crate) pfc: PfcTable,
    /// `pfc.priority` and `buffer.ingress.priority`.
    pub(crate) groups: [GroupTable; PRIORITIES],
    /// `buffer.egress.queue`.
    pub(crate) queues: [QueueTable; PRIORITIES],
    pub(crate) schedule: ScheduleTable,
    /// `wred` and `queue_profile`.
    pub(crate) congestion: CongestionBinding,
    /// True if an error was noted while the table was read.
    pub(crate) is_wrong: bool,
}

/// `pfc` of a port, except its priorities.
#[derive(Debug, Default)]
pub(crate) struct PfcTable {
    pub(crate) mode: Option<Setting<PfcMode>>,
    pub(crate) rx: Option<Setting<bool>>,
    pub(crate) tx: Option<Setting<bool>>,
    /// Bit i: priority i.
    pub(crate) no_drop: Option<Setting<u8>>,
    pub(crate) pause_quanta: Option<Setting<u16>>,
    pub(crate) pause_speed_bps: Option<Setting<u64>>,
    pub(crate) watchdog: WatchdogTable,
    pub(crate) early_warning: EarlyWarningTable,
}

impl PortTable {
    /// Reads the settings of a port, or the defaults of all ports.
    pub(crate) fn read(
        mut section: TableReader,
        buffer: &Buffer,
        congestion: &Congestion,
        policies: &Policies,
        report: &mut Diagnostics,
    ) -> Self {
        let mistakes = report.count();
        let mut table = Self {
            interface: section.string("interface", report).and_then(|name| parse::interface(name, report)),
            vhost: VhostTable::read(&mut section, report),
            core: section.number("core", report),
            admin: section.choice("admin", &ADMIN_STATES, report),
            static_addresses: section
                .item("static_addresses")
                .map_or_else(Vec::new, |item| parse::static_macs(item, report)),
            speed_bps: section.item("speed").and_then(|item| parse::speed(item, report)),
            burst_bytes: section.number("burst_bytes", report),
            wire_overhead: section.boolean("wire_overhead", report),
            cable_m: section.number("cable_m", report),
            mtu_bytes: section.number("mtu", report),
            in_flight_bytes: section.number("in_flight_bytes", report),
            flow_control: section.choice("flow_control", &FlowControl::ALL, report),
            flood_limits: FloodLimitTable::read(&mut section, report),
            lldp: LldpTable::read(&mut section, report),
            classify: ClassifyTable::read(&mut section, policies, report),
            congestion: CongestionBinding::read(&mut section, congestion, report),
            ..Self::default()
        };
        if let Some(pfc) = section.section("pfc", report) {
            table.read_pfc(pfc, buffer.settings.cell_bytes, report);
        }
        if let Some(schedule) = section.section("schedule", report) {
            table.schedule = ScheduleTable::read(schedule, report);
        }
        if let Some(of_port) = section.section("buffer", report) {
            table.read_buffer(of_port, buffer, report);
        }
        if let Some(alarm) = section.section("alarm", report) {
            table.alarm = PortAlarmTable::read(alarm, report);
        }
        if let Some(vlan) = section.section("vlan", report) {
            table.vlan = VlanTable::read(vlan, report);
        }
        if let Some(dcbx) = section.section("dcbx", report) {
            table.dcbx = DcbxTable::read(dcbx, report);
        }
        section.finish(report);
        table.is_wrong = report.count() > mistakes;
        table
    }

    fn read_pfc(&mut self, mut section: TableReader, cell_bytes: u32, report: &mut Diagnostics) {
        self.pfc = PfcTable {
            mode: section.choice("mode", &PFC_MODES, report),
            rx: section.boolean("rx", report),
            tx: section.boolean("tx", report),
            no_drop: section.numbers("no_drop", report).map(|list| Setting {
                value: list.value.iter().fold(0, |bits, priority: &u8| bits | 1 << priority),
                location: list.location,
            }),
            pause_quanta: section.number("pause_time", report),
            pause_speed_bps: section.item("pause_speed").and_then(|item| parse::speed(item, report)),
            watchdog: WatchdogTable::read(&mut section, report),
            early_warning: EarlyWarningTable::read(&mut section, report),
        };
        for (priority, group) in section.numbered("priority", report) {
            self.groups[priority] = GroupTable::read(group, cell_bytes, report);
        }
        section.finish(report);
    }

    /// Reads `buffer`. Must follow `read_pfc`, since a profile excludes the thresholds that it
    /// read.
    fn read_buffer(&mut self, mut section: TableReader, buffer: &Buffer, report: &mut Diagnostics) {
        if let Some(mut ingress) = section.section("ingress", report) {
            for (priority, group) in ingress.numbered("priority", report) {
                let group_table = &mut self.groups[priority];
                group_table.read_buffer(group, |name, report| buffer.ingress_profile(name, report), report);
            }
            ingress.misplaced("pool", "write it in [buffer.ingress.pool.N]", report);
            ingress.misplaced("profile", "write it in [buffer.ingress.profile.NAME]", report);
            ingress.finish(report);
        }
        if let Some(mut egress) = section.section("egress", report) {
            for (number, queue) in egress.numbered("queue", report) {
                let queue_table = &mut self.queues[number];
                queue_table.read_buffer(queue, |name, report| buffer.egress_profile(name, report), report);
            }
            egress.misplaced("pool", "write it in [buffer.egress.pool.N]", report);
            egress.misplaced("profile", "write it in [buffer.egress.profile.NAME]", report);
            egress.finish(report);
        }
        section.finish(report);
    }
}

impl<'f> Port<'f> {
    /// Returns a port with this table, whose errors have been noted.
    pub(crate) fn new(
        name: &str,
        location: SettingSpan,
        own: PortTable,
        defaults: &'f PortTable,
        buffer: &Buffer,
    ) -> Self {
        let tables = Overrides::new(&own, defaults);
        let mut settings = tables.settings(name, buffer, tables.pfc().no_drop());
        let dcbx = tables.port_dcbx(name, buffer);
        let pvid = settings.vlan.pvid().unwrap_or(0);
        let entry = |address: &Setting<parse::StaticMac>| StaticAddress {
            mac: address.value.mac,
            vid: address.value.vlan.unwrap_or(pvid),
        };
        settings.static_addresses = own.static_addresses.iter().map(entry).collect();
        settings.classify.queue_is_priority =
            own.vhost.settings().is_some_and(|vhost| vhost.queue_is_priority);
        Self { location, own, defaults, settings, dcbx }
    }

    /// Returns its own table, with the defaults as fallback.
    pub(crate) fn tables(&self) -> Overrides<'_, PortTable> {
        Overrides::new(&self.own, self.defaults)
    }
}

impl<'t> Overrides<'t, PortTable> {
    pub(crate) fn alarm(self) -> Overrides<'t, PortAlarmTable> {
        self.part(|table| &table.alarm)
    }

    pub(crate) fn lldp(self) -> Overrides<'t, LldpTable> {
        self.part(|table| &table.lldp)
    }

    pub(crate) fn dcbx(self) -> Overrides<'t, DcbxTable> {
        self.part(|table| &table.dcbx)
    }

    /// Returns the groups of the schedule by priority, if it is ETS.
    pub(crate) fn ets(self) -> Option<Ets> {
        let (numbers, schedule) = (self.schedule().ets_groups()?, self.schedule().settings());
        let groups: Vec<_> = numbers.into_iter().zip(&schedule.groups).collect();
        let mut port = PortSettings::new("", None);
        self.classify().fill(&mut port);
        Some(ets_of(&groups, &self.queues_of_priorities(&port)))
    }

    /// Returns the queue of each priority, as DCBX has it: that of a rule of the policy that is
    /// marked for DCBX, otherwise that of the map.
    fn queues_of_priorities(self, port: &PortSettings) -> [u8; PRIORITIES] {
        let mut queues = port.classify.dot1p_to_queue;
        let marked = self.classify().policy().map_or(0, |policy| policy.value.dcbx_dot1p);
        for (priority, queue) in queues.iter_mut().enumerate().filter(|(it, _)| marked >> it & 1 != 0) {
            *queue = port.classify.policy[priority].unwrap_or(*queue);
        }
        queues
    }

    pub(crate) fn classify(self) -> Overrides<'t, ClassifyTable> {
        self.part(|table| &table.classify)
    }

    pub(crate) fn pfc(self) -> Overrides<'t, PfcTable> {
        self.part(|table| &table.pfc)
    }

    pub(crate) fn vlan(self) -> Overrides<'t, VlanTable> {
        self.part(|table| &table.vlan)
    }

    pub(crate) fn watchdog(self) -> Overrides<'t, WatchdogTable> {
        self.part(|table| &table.pfc.watchdog)
    }

    pub(crate) fn group(self, priority: usize) -> Overrides<'t, GroupTable> {
        self.part(|table| &table.groups[priority])
    }

    pub(crate) fn queue(self, q: usize) -> Overrides<'t, QueueTable> {
        self.part(|table| &table.queues[q])
    }

    pub(crate) fn schedule(self) -> Overrides<'t, ScheduleTable> {
        self.part(|table| &table.schedule)
    }

    pub(crate) fn congestion(self) -> Overrides<'t, CongestionBinding> {
        self.part(|table| &table.congestion)
    }

    /// Returns DCBX of a port called `name`; `None` if it is off.
    fn port_dcbx(self, name: &str, buffer: &Buffer) -> Option<PortDcbx> {
        let pfc = self.pfc();
        let of_policy = self.classify().policy().map_or(&[][..], |policy| &policy.value.applications);
        let settings = self.dcbx().settings(pfc.mode(), pfc.no_drop(), self.ets(), of_policy)?;
        let with = |no_drop| Box::new(self.settings(name, buffer, no_drop));
        let protected = with(u8::MAX);
        let queues = self.queues_of_priorities(&protected);
        let numbers = self.schedule().ets_groups();
        let rates = self.schedule().settings().groups.into_iter().map(|group| group.rate);
        let own_groups = numbers.map(|numbers| numbers.into_iter().zip(rates).collect());
        Some(PortDcbx { settings, protected, lossy: with(0), queues, own_groups })
    }

    /// Returns the settings of a port called `name` whose priorities in `no_drop` are no-drop.
    fn settings(self, name: &str, buffer: &Buffer, no_drop: u8) -> PortSettings {
        let mut port = PortSettings::new(name, self.optional(|table| &table.speed_bps));
        port.groups.iter_mut().for_each(|group| group.reserved_cells = buffer.reserved_cells);
        if self.setting(|table| &table.vhost.path).is_some() {
            let needed = least_guest_cells(CellSize::new(buffer.settings.cell_bytes));
            port.groups.iter_mut().for_each(|group| group.headroom_cells = group.headroom_cells.max(needed));
        }
        self.classify().fill(&mut port);
        port.burst_bytes = self.optional(|table| &table.burst_bytes);
        if let Some(wire) = self.optional(|table| &table.wire_overhead) {
            port.overhead_bytes = if wire { WIRE_OVERHEAD_BYTES } else { 0 };
        }
        port.in_flight_bytes = self.value(|table| &table.in_flight_bytes, port.in_flight_bytes);
        let pfc = self.pfc();
        port.pfc.rx = pfc.is_on() && pfc.value(|table| &table.rx, true);
        port.pfc.tx = pfc.is_on() && pfc.value(|table| &table.tx, true);
        port.pfc.no_drop = no_drop;
        port.pfc.pause_quanta = pfc.value(|table| &table.pause_quanta, port.pfc.pause_quanta);
        port.pfc.pause_speed_bps = pfc.optional(|table| &table.pause_speed_bps);
        port.flow_control = self.flow_control();
        port.vlan = self.vlan().settings();
        port.lldp = self.lldp().mode().frames();
        port.flood_limits_pps = self.part(|table| &table.flood_limits).settings();
        let early_warning = pfc.part(|table| &table.early_warning);
        for priority in 0..PRIORITIES {
            let no_drop = port.pfc.no_drop & 1 << priority != 0;
            let protected = port.protected().contains(priority);
            port.groups[priority] = self.group(priority).settings(protected, port.groups[priority]);
            port.watchdog[priority] = self.watchdog().settings(priority).filter(|_| no_drop && port.pfc.rx);
            port.early_warning[priority] = early_warning.settings(priority);
        }
        for q in 0..PRIORITIES {
            port.queues[q] = self.queue(q).settings(port.queues[q]);
        }
        self.congestion().fill(&mut port.queues);
        self.schedule().fill_rates(&mut port.queues);
        port.schedule = self.schedule().settings();
        port
    }

    /// Returns true if the port may carry frames.
    pub(crate) fn is_admin_up(self) -> bool {
        self.value(|table| &table.admin, true)
    }

    /// Returns the mode of 802.3x PAUSE.
    pub(crate) fn flow_control(self) -> FlowControl {
        self.value(|table| &table.flow_control, FlowControl::Off)
    }

    /// Returns the cable and the longest frame on it.
    pub(crate) fn link(self) -> Link {
        Link {
            cable_m: self.optional(|table| &table.cable_m),
            mtu_bytes: self.optional(|table| &table.mtu_bytes),
        }
    }
}

/// Raises the default headroom of guests' protected groups, so that their queues are read in the
/// largest batches, as far as the headroom pool holds that of all protected groups at once. What
/// the file sets remains.
pub(crate) fn raise_guest_headroom(ports: &mut [Port], buffer: &BufferSettings) {
    let (mut others, mut guests) = (0_u64, Vec::new());
    for (number, port) in ports.iter().enumerate() {
        let is_guest = port.own.vhost.path.is_some();
        for priority in port.settings.protected() {
            if is_guest && port.tables().group(priority).setting(|table| &table.headroom_cells).is_none() {
                guests.push((number, priority));
            } else {
                others += u64::from(port.settings.groups[priority].headroom_cells);
            }
        }
    }
    let evenly = u64::from(buffer.headroom_cells).saturating_sub(others) / (guests.len() as u64).max(1);
    let cells = evenly.min(GUEST_BATCH_CELLS.into()) as u32;
    for (number, priority) in guests {
        let headroom = &mut ports[number].settings.groups[priority].headroom_cells;
        *headroom = cells.max(*headroom);
    }
}

impl Overrides<'_, PfcTable> {
    /// Returns `mode`, off by default.
    pub(crate) fn mode(self) -> PfcMode {
        self.value(|table| &table.mode, PfcMode::Off)
    }

    /// Returns true if PFC is on, or may be: memory is set aside for what may be agreed on.
    pub(crate) fn is_on(self) -> bool {
        self.mode() != PfcMode::Off
    }

    /// Returns the mask of the priorities that `no_drop` lists, whether or not PFC is on.
    pub(crate) fn list(self) -> u8 {
        self.value(|table| &table.no_drop, 0)
    }

    /// Returns the mask of the priorities that PFC protects. **With PFC off no priority is
    /// no-drop**: `no_drop` and all settings that depend on PFC have no effect, and the groups are
    /// lossy ones.
    fn no_drop(self) -> u8 {
        if self.is_on() { self.list() } else { 0 }
    }
}
