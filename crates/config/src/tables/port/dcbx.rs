//! `dcbx` of a port: what it negotiates with its peer, and the settings that result from an
//! agreement (docs/dcbx.md, "What is agreed").
//!
//! Rule: the file has the last word about everything but PFC in mode `auto`, ETS that was taken
//! over, and priorities of DSCPs. An agreement can always be applied: no group reserves other cells
//! for it.

use dcbx::settings::{
    ApplicationSettings, DcbxSettings, Ets, EtsSettings, PfcMode, PfcSettings, Precedence, Version,
    VersionSetting,
};
use dcbx::{Operational, Status};
use switch::PortSettings;
use switch::settings::{
    DSCPS, GroupDiscipline, GroupSettings, PRIORITIES, Rate, ScheduleSettings, SchedulerGroup, Trust,
};
use wire::dcbx::cee::STRICT_GROUP;
use wire::dcbx::ieee::{Application, Selector};

use crate::read::diagnostics::Diagnostics;
use crate::read::overrides::Overrides;
use crate::read::table_reader::{Setting, TableReader};
use crate::spec::{TableSpec, ValueSpec, boolean, choice, list, number, words};

/// The most applications of a port: what a TLV holds.
pub(crate) const MAX_APPLICATIONS: usize = 64;

const VERSIONS: [(&str, VersionSetting); 7] = [
    ("auto", VersionSetting::Auto),
    ("ieee", VersionSetting::Pinned(Version::Ieee)),
    ("cee", VersionSetting::Pinned(Version::Cee)),
    ("cin", VersionSetting::Pinned(Version::Cin)),
    ("standard", VersionSetting::Pinned(Version::Ieee)),
    ("rev101", VersionSetting::Pinned(Version::Cee)),
    ("rev100", VersionSetting::Pinned(Version::Cin)),
];
const PRECEDENCES: [(&str, Precedence); 2] =
    [("lower-address", Precedence::LowerAddress), ("higher-address", Precedence::HigherAddress)];
/// What identifies an application: the key, and the selector.
pub(crate) const SELECTORS: [(&str, Selector); 5] = [
    ("ethertype", Selector::Ethertype),
    ("tcp", Selector::TcpPort),
    ("udp", Selector::UdpPort),
    ("port", Selector::Port),
    ("dscp", Selector::Dscp),
];

pub(crate) const DCBX: TableSpec = &[
    boolean("enabled").value("true", "False: not on this port, though the defaults have the table."),
    choice("version", || words(&VERSIONS)).value("\"auto\"", "Version of the protocol."),
    boolean("willing").value("false", "True: takes over the peer's configuration."),
    choice("precedence", || words(&PRECEDENCES))
        .value("\"lower-address\"", "Whose PFC wins between two willing ends; lldpad: the higher."),
    list("applications", &ValueSpec::Table(APPLICATION))
        .value("[]", "Priorities of applications, advertised while `pfc.mode` is \"auto\"."),
];

/// The numbers of each protocol by which an application is identified.
pub(crate) const ETHERTYPES: (i64, i64) = (0, 65_535);
pub(crate) const PORTS: (i64, i64) = (1, 65_535);
pub(crate) const DSCP_VALUES: (i64, i64) = (0, DSCPS as i64 - 1);

const APPLICATION: TableSpec = &[
    number("priority", 0, 7).required("Its priority."),
    number("ethertype", ETHERTYPES.0, ETHERTYPES.1).about("An Ethertype; or one of the following."),
    number("tcp", PORTS.0, PORTS.1).about("A TCP port, or one of SCTP."),
    number("udp", PORTS.0, PORTS.1).about("A UDP port, or one of DCCP."),
    number("port", PORTS.0, PORTS.1).about("A port of any of these."),
    number("dscp", DSCP_VALUES.0, DSCP_VALUES.1).about("A DSCP."),
];

/// `dcbx` of a port.
#[derive(Debug, Default)]
pub(crate) struct DcbxTable {
    /// False if DCBX is off although the defaults have it.
    pub(crate) enabled: Option<Setting<bool>>,
    version: Option<Setting<VersionSetting>>,
    willing: Option<Setting<bool>>,
    precedence: Option<Setting<Precedence>>,
    applications: Option<Setting<Vec<Application>>>,
}

/// DCBX of a port, and both sides of what can be agreed on.
#[derive(Debug, Clone, PartialEq)]
pub struct PortDcbx {
    /// What the port negotiates.
    pub settings: DcbxSettings,
    /// The port with all priorities no-drop.
    pub(crate) protected: Box<PortSettings>,
    /// The port without a no-drop priority.
    pub(crate) lossy: Box<PortSettings>,
    /// The queue of each priority, in whose group it is.
    pub(crate) queues: [u8; PRIORITIES],
    /// The port's own groups with their rates; `None` if its schedule is not ETS.
    pub(crate) own_groups: Option<Vec<(usize, Option<Rate>)>>,
}

/// What was agreed with the peer of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// Priorities that are no-drop, as a mask. Only of a port in mode `auto`.
    pub no_drop: u8,
    /// Groups that were taken over from the peer.
    pub ets: Option<Ets>,
    /// Priorities of DSCPs.
    pub dscp: Vec<(u8, u8)>,
}

impl Negotiated {
    /// Returns what a negotiation has come to.
    pub fn of(status: &Status) -> Self {
        let Operational { no_drop, applications, .. } = &status.operational;
        // Also if it is what the port advertises: without groups of its own that is a single one.
        let taken_over = |ets: &dcbx::status::Feature<Ets>| {
            let is_of_peer = match status.version {
                Version::Ieee => status.ets_recommendation == Some(ets.operational),
                Version::Cee | Version::Cin => {
                    ets.peer_willing == Some(false) && ets.peer == Some(ets.operational)
                }
            };
            (ets.state.is_agreed() && ets.local_willing && is_of_peer).then_some(ets.operational)
        };
        let is_dscp = |it: &&Application| it.selector == Selector::Dscp && usize::from(it.protocol) < DSCPS;
        let of_dscp = applications.iter().filter(is_dscp);
        Self {
            no_drop: *no_drop,
            ets: status.ets.as_ref().and_then(taken_over),
            dscp: of_dscp.map(|it| (it.protocol as u8, it.priority & 7)).collect(),
        }
    }
}

impl DcbxTable {
    pub(crate) fn read(mut section: TableReader, report: &mut Diagnostics) -> Self {
        let location = section.location.clone();
        let table = Self {
            enabled: section.boolean("enabled", report).or(Some(Setting { value: true, location })),
            version: section.choice("version", &VERSIONS, report),
            willing: section.boolean("willing", report),
            precedence: section.choice("precedence", &PRECEDENCES, report),
            applications: read_applications(&mut section, report),
        };
        section.finish(report);
        table
    }
}

fn read_applications(
    section: &mut TableReader,
    report: &mut Diagnostics,
) -> Option<Setting<Vec<Application>>> {
    let cure = "write a list, as in [{ udp = 4791, priority = 3 }]";
    let list = section.list_of_sections("applications", cure, report)?;
    let mut entries = Vec::new();
    for mut entry in list.value {
        let names = SELECTORS.map(|(name, _)| name);
        entry.at_most_one(&names, report);
        let priority = entry.number("priority", report);
        let found = SELECTORS
            .into_iter()
            .filter_map(|(name, selector)| Some((selector, entry.number(name, report)?.value)));
        let found: Vec<_> = found.collect();
        match (&found[..], priority) {
            ([(selector, protocol)], Some(priority)) => {
                let (selector, protocol) = (*selector, *protocol);
                entries.push(Application { selector, protocol, priority: priority.value });
            }
            ([_], None) if entry.has("priority") => {}
            ([], _) if names.iter().any(|name| entry.has(name)) => {}
            ([] | [_], _) => {
                let what = "an application has a protocol and a priority";
                report.add(&entry.location, what, "as in { udp = 4791, priority = 3 }");
            }
            _ => {} // at_most_one has reported it
        }
        entry.finish(report);
    }
    if entries.len() > MAX_APPLICATIONS {
        let what = format!("{} applications", entries.len());
        report.add(&list.location, what, format!("a frame holds at most {MAX_APPLICATIONS}"));
    }
    Some(Setting { value: entries, location: list.location })
}

impl Overrides<'_, DcbxTable> {
    /// Returns true if the port negotiates.
    pub(crate) fn is_on(self) -> bool {
        self.value(|table| &table.enabled, false)
    }

    /// Returns what the port negotiates: this mode of PFC, these no-drop priorities, and these
    /// groups if its schedule is ETS.
    /// Applications are the port's own, and those of its policy whose protocol it does not list.
    pub(crate) fn settings(
        self,
        mode: PfcMode,
        no_drop: u8,
        ets: Option<Ets>,
        of_policy: &[Application],
    ) -> Option<DcbxSettings> {
        if !self.is_on() {
            return None;
        }
        let willing = self.value(|table| &table.willing, false);
        let own = ets.or(willing.then_some(Ets::SINGLE_GROUP));
        let own_entries = self.setting(|table| &table.applications);
        let mut entries = own_entries.map(|list| list.value.clone()).unwrap_or_default();
        let is_own = |of_policy: &&Application| {
            let same =
                |own: &Application| (own.selector, own.protocol) == (of_policy.selector, of_policy.protocol);
            own_entries.is_some_and(|list| list.value.iter().any(same))
        };
        entries.extend(of_policy.iter().filter(|it| !is_own(it)));
        Some(DcbxSettings {
            version: self.value(|table| &table.version, VersionSetting::Auto),
            pfc: PfcSettings {
                mode,
                willing,
                no_drop,
                precedence: self.value(|table| &table.precedence, Precedence::LowerAddress),
                ..PfcSettings::default()
            },
            // What stands for groups that the port does not have is not recommended.
            ets: own.map(|own| EtsSettings { willing, ets: own, recommends: ets.is_some() }),
            applications: ApplicationSettings { willing, entries },
        })
    }
}

impl PortDcbx {
    /// Returns the settings of a port of the file with what was agreed; without an agreement no
    /// priority of a port in mode `auto` is no-drop.
    pub fn apply(&self, port: &PortSettings, negotiated: Option<&Negotiated>) -> PortSettings {
        let mut port = port.clone();
        if self.settings.pfc.mode == PfcMode::Auto {
            self.set_no_drop(&mut port, negotiated.map_or(0, |it| it.no_drop));
        }
        let Some(Negotiated { ets, dscp, .. }) = negotiated else { return port };
        let own = self.settings.ets.filter(|_| self.own_groups.is_some()).map(|own| own.ets);
        if let Some(ets) = ets.filter(|ets| Some(*ets) != own) {
            port.schedule = schedule_of(&ets, &self.queues, self.own_groups.as_deref().unwrap_or_default());
        }
        if port.classify.trust == Trust::Dscp {
            for (dscp, priority) in dscp {
                port.classify.dscp_to_dot1p[usize::from(*dscp)] = *priority;
            }
        }
        port
    }

    /// Returns the priorities of a port of the file that may be no-drop: all of them, if the port
    /// takes over the peer's.
    pub fn negotiable_no_drop(&self, port: &PortSettings) -> u8 {
        let PfcSettings { mode, willing, .. } = self.settings.pfc;
        if mode == PfcMode::Auto && willing { u8::MAX } else { port.pfc.no_drop }
    }

    fn set_no_drop(&self, port: &mut PortSettings, no_drop: u8) {
        port.pfc.no_drop = no_drop;
        for priority in 0..PRIORITIES {
            let of = if no_drop >> priority & 1 != 0 { &self.protected } else { &self.lossy };
            // The sum of all reservations was checked, and must stay as it is.
            let reserved_cells = port.groups[priority].reserved_cells;
            port.groups[priority] = GroupSettings { reserved_cells, ..of.groups[priority] };
            port.watchdog[priority] = of.watchdog[priority];
        }
    }
}

/// Returns the groups of a schedule of this kind, by the priorities of its queues.
pub(crate) fn ets_of(groups: &[(usize, &SchedulerGroup)], dot1p_to_queue: &[u8; PRIORITIES]) -> Ets {
    let mut ets = Ets { group_of_priority: [STRICT_GROUP; PRIORITIES], percent: [0; PRIORITIES] };
    for (number, group) in groups {
        for (priority, queue) in dot1p_to_queue.iter().enumerate() {
            if group.queues >> queue & 1 != 0 {
                ets.group_of_priority[priority] = *number as u8;
            }
        }
        if let Some(percent) = ets.percent.get_mut(*number) {
            *percent = u8::try_from(group.weight).unwrap_or(u8::MAX);
        }
    }
    ets
}

/// Returns the schedule of groups by the queues of their priorities. A queue of several priorities
/// is in the group of the highest; one of none is where that of priority 0 is. A group keeps the
/// rate that the file gives to its number.
fn schedule_of(
    ets: &Ets,
    dot1p_to_queue: &[u8; PRIORITIES],
    own_groups: &[(usize, Option<Rate>)],
) -> ScheduleSettings {
    let mut group_of_queue = [ets.group_of_priority[0]; PRIORITIES];
    for (priority, queue) in dot1p_to_queue.iter().enumerate() {
        group_of_queue[usize::from(*queue & 7)] = ets.group_of_priority[priority];
    }
    let queues = |group: u8| {
        let members = group_of_queue.iter().enumerate().filter(|(_, it)| **it == group);
        members.fold(0, |mask, (queue, _)| mask | 1 << queue)
    };
    let weighted = GroupDiscipline::WeightedByBytes([1; PRIORITIES]);
    let strict = SchedulerGroup::new(format!("pg{STRICT_GROUP}"), 0, 1, GroupDiscipline::Strict);
    let rate = |number: u8| own_groups.iter().find(|(it, _)| *it == usize::from(number))?.1;
    let with_rate = |group: SchedulerGroup, number: u8| SchedulerGroup { rate: rate(number), ..group };
    let mut groups = vec![with_rate(strict.of(queues(STRICT_GROUP)), STRICT_GROUP)];
    for (number, percent) in (0..).zip(ets.percent) {
        let group = SchedulerGroup::new(format!("pg{number}"), 1, u32::from(percent).max(1), weighted);
        groups.push(with_rate(group.of(queues(number)), number));
    }
    groups.retain(|group| group.queues != 0);
    ScheduleSettings { groups }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switch::settings::ClassifySettings;

    #[test]
    fn groups_there_and_back() {
        let map = ClassifySettings::default().dot1p_to_queue;
        let schedule = ScheduleSettings::default_ets();
        let groups: Vec<_> = [0, 1, 15].into_iter().zip(&schedule.groups).collect();
        let ets = ets_of(&groups, &map);
        assert_eq!(ets.to_string(), "0,1,2,4,5:50% 3:50% 6,7:strict");
        assert!(ets.check().is_ok());
        let mut back = schedule_of(&ets, &map, &[]).groups;
        back.rotate_left(1);
        assert_eq!(back, schedule.groups);
    }
}
