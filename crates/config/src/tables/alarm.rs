//! `[alarm]`, and `alarm` of a port: thresholds of buffer use, and which alarms are enabled.
//!
//! Rule: a threshold is looked up in the port's own table, then in `[port-defaults]`, then under
//! its queue or priority in `[alarm]`, then in the percentage of its kind; 100 % if none is set. A
//! kind is off unless it is enabled. Source: docs/behavior.md, "Alarms".

use switch::settings::{ALARM_INTERVAL_NS, AlarmKind, AlarmSettings, POOLS, PRIORITIES, PortAlarmSettings};

use crate::read::diagnostics::Diagnostics;
use crate::read::overrides::Overrides;
use crate::read::table_reader::{Setting, TableReader};
use crate::spec::KeySpec::Number;
use crate::spec::{SettingSpec, TableSpec, ValueSpec, boolean, map, number, table};

const SECOND_NS: u64 = 1_000_000_000;

pub(crate) const ALARM: TableSpec = &[
    number("usage_percent", 1, 100)
        .value("100", "Use of a limit above which a queue or group counts a violation."),
    table("ingress", &[ENABLED, INTERVAL, ALL, PRIORITY, POOL])
        .about("Events about priority groups above their threshold."),
    table("egress", &[ENABLED, INTERVAL, ALL, QUEUE, POOL])
        .about("Events about queues above their threshold."),
    table("headroom", &[ENABLED, INTERVAL, ALL, PRIORITY, HEADROOM_POOL]).about("Events about headroom."),
    table("drop", &[ENABLED, INTERVAL]).about("Events about drops."),
];

pub(crate) const PORT_ALARM: TableSpec = &[
    table("ingress", &[PRIORITY]).about("Thresholds of its priority groups."),
    table("egress", &[QUEUE]).about("Thresholds of its queues."),
    table("headroom", &[PRIORITY]).about("Thresholds of its headroom."),
];

const ENABLED: SettingSpec = boolean("enabled").value("false", "Raise these events.");
const INTERVAL: SettingSpec =
    number("interval_s", 1, 3600).value("5", "Time between two events of one queue, group or pool.");
const ALL: SettingSpec =
    number("percent", 1, 100).value("100", "Use of the limit above which an event comes.");
const PRIORITY: SettingSpec = map("priority", Number(PRIORITIES - 1), &EACH).about("By priority.");
const QUEUE: SettingSpec = map("queue", Number(PRIORITIES - 1), &EACH).about("By queue.");
const POOL: SettingSpec = map("pool", Number(POOLS - 1), &EACH).about("By service pool.");
const HEADROOM_POOL: SettingSpec = map("pool", Number(0), &EACH).about("The headroom pool has number 0.");
const EACH: ValueSpec =
    ValueSpec::Table(&[number("percent", 1, 100).otherwise("the common `percent`", "Its own threshold.")]);

/// Optional thresholds by priority or queue.
type Percents = [Option<Setting<u8>>; PRIORITIES];

/// The `[alarm]` table of the file.
#[derive(Debug, Default)]
pub(crate) struct AlarmTable {
    /// `usage_percent`: violations are counted above it, whether alarms are enabled or not.
    pub(crate) usage_percent: Option<Setting<u8>>,
    pub(crate) settings: AlarmSettings,
    /// By kind: true if the file enables or disables the alarms explicitly.
    is_explicit: [bool; 4],
    /// By kind: the common percentage, and one by queue or priority.
    ingress: KindTable,
    egress: KindTable,
    headroom: KindTable,
}

#[derive(Debug, Default)]
struct KindTable {
    all: Option<Setting<u8>>,
    each: Percents,
}

impl KindTable {
    fn percent(&self, number: usize) -> u8 {
        self.each[number].as_ref().or(self.all.as_ref()).map_or(100, |percent| percent.value)
    }
}

/// Alarm thresholds in the table of a port, or of the defaults.
#[derive(Debug, Default)]
pub(crate) struct PortAlarmTable {
    pub(crate) ingress: Percents,
    pub(crate) egress: Percents,
    pub(crate) headroom: Percents,
}

impl AlarmTable {
    /// Reads `[alarm]`, if the file has it.
    pub(crate) fn read(file: &mut TableReader, report: &mut Diagnostics) -> Self {
        let mut table = Self::default();
        let Some(mut section) = file.section("alarm", report) else { return table };
        table.usage_percent = section.number("usage_percent", report);
        for (kind, name) in KINDS {
            let Some(mut of_kind) = section.section(name, report) else { continue };
            let enabled = of_kind.boolean("enabled", report);
            table.is_explicit[kind as usize] = enabled.is_some();
            let enabled = enabled.is_some_and(|enabled| enabled.value);
            let interval_s = of_kind.number::<u64>("interval_s", report);
            let interval_ns = interval_s.map_or(ALARM_INTERVAL_NS, |seconds| seconds.value * SECOND_NS);
            table.settings.interval_ns[kind as usize] = enabled.then_some(interval_ns);
            table.read_thresholds(kind, &mut of_kind, report);
            of_kind.finish(report);
        }
        section.finish(report);
        table
    }

    fn read_thresholds(&mut self, kind: AlarmKind, section: &mut TableReader, report: &mut Diagnostics) {
        let (of_kind, pools): (_, &mut [u8]) = match kind {
            AlarmKind::Drop => return,
            AlarmKind::Ingress => (&mut self.ingress, &mut self.settings.ingress_pool_percent),
            AlarmKind::Egress => (&mut self.egress, &mut self.settings.egress_pool_percent),
            AlarmKind::Headroom => {
                (&mut self.headroom, std::slice::from_mut(&mut self.settings.headroom_pool_percent))
            }
        };
        of_kind.all = section.number("percent", report);
        let each = if kind == AlarmKind::Egress { "queue" } else { "priority" };
        of_kind.each = percents(section, each, report);
        for (number, mut pool) in section.numbered("pool", report) {
            if let Some(percent) = pool.number("percent", report) {
                pools[number] = percent.value;
            }
            pool.finish(report);
        }
    }

    /// Returns the thresholds of a port whose tables are `port`.
    pub(crate) fn of_port(&self, port: Overrides<'_, PortAlarmTable>) -> PortAlarmSettings {
        let percents = |of_kind: &KindTable, own: fn(&PortAlarmTable) -> &Percents| {
            std::array::from_fn(|n| {
                let percent = port.look_up(|table| own(table)[n].as_ref());
                percent.map_or_else(|| of_kind.percent(n), |percent| percent.value)
            })
        };
        PortAlarmSettings {
            ingress_percent: percents(&self.ingress, |table| &table.ingress),
            headroom_percent: percents(&self.headroom, |table| &table.headroom),
            egress_percent: percents(&self.egress, |table| &table.egress),
        }
    }

    /// Returns true if usage alarms are enabled.
    pub(crate) fn is_on(&self) -> bool {
        let kinds = [AlarmKind::Ingress, AlarmKind::Egress, AlarmKind::Headroom];
        kinds.iter().any(|&kind| self.settings.interval_ns(kind).is_some())
    }

    /// Returns true if drop alarms are enabled.
    pub(crate) fn reports_drops(&self) -> bool {
        self.settings.interval_ns(AlarmKind::Drop).is_some()
    }

    /// Warns of thresholds without effect, since alarms of their kind are off and the file does not
    /// disable them explicitly. Crossings of headroom thresholds are counted even with alarms off.
    pub(crate) fn warn_unused<'t>(
        &'t self,
        ports: impl Iterator<Item = &'t PortAlarmTable>,
        report: &mut Diagnostics,
    ) {
        let mut of_ports = [Vec::new(), Vec::new()];
        for table in ports {
            of_ports[0].extend(table.ingress.iter().flatten());
            of_ports[1].extend(table.egress.iter().flatten());
        }
        let kinds =
            [(AlarmKind::Ingress, "ingress", &self.ingress), (AlarmKind::Egress, "egress", &self.egress)];
        for ((kind, name, table), of_ports) in kinds.into_iter().zip(of_ports) {
            if self.settings.interval_ns(kind).is_some() || self.is_explicit[kind as usize] {
                continue;
            }
            for percent in table.all.iter().chain(table.each.iter().flatten()).chain(of_ports) {
                report.add(
                    &percent.location,
                    format!("alarms of {name} use are off, so this threshold does nothing"),
                    format!("write {name} = {{ enabled = true }} in [alarm], or false where that is meant"),
                );
            }
        }
    }
}

impl PortAlarmTable {
    /// Reads `alarm` of a port.
    pub(crate) fn read(mut section: TableReader, report: &mut Diagnostics) -> Self {
        let mut of_kind = |name, each| {
            let Some(mut section) = section.section(name, report) else { return Percents::default() };
            let percents = percents(&mut section, each, report);
            section.misplaced("enabled", "switch alarms on in [alarm], for all ports", report);
            section.misplaced("interval_s", "write it in [alarm], for all ports", report);
            section.finish(report);
            percents
        };
        let table = Self {
            ingress: of_kind("ingress", "priority"),
            egress: of_kind("egress", "queue"),
            headroom: of_kind("headroom", "priority"),
        };
        section.finish(report);
        table
    }
}

const KINDS: [(AlarmKind, &str); 4] = [
    (AlarmKind::Ingress, "ingress"),
    (AlarmKind::Egress, "egress"),
    (AlarmKind::Headroom, "headroom"),
    (AlarmKind::Drop, "drop"),
];

/// Reads `NAME.N.percent` for each N.
fn percents(section: &mut TableReader, name: &'static str, report: &mut Diagnostics) -> Percents {
    let mut percents = Percents::default();
    for (number, mut each) in section.numbered(name, report) {
        percents[number] = each.number("percent", report);
        each.finish(report);
    }
    percents
}
