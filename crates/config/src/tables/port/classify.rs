//! Classification and rewriting of a port: the trusted field, the maps, the policy.
//!
//! A list of eight numbers and the policy are one setting each. A map by DSCP is a table, so each
//! DSCP is a separate setting.

use std::ops::RangeInclusive;

use switch::PortSettings;
use switch::settings::{DEFAULT_DOT1P_TO_QUEUE, DSCPS, DropLevel, HUAWEI_DOT1P_TO_QUEUE, PRIORITIES, Trust};

use crate::read::diagnostics::{Diagnostics, SettingSpan};
use crate::read::overrides::Overrides;
use crate::read::parse;
use crate::read::suggest::quoted;
use crate::read::table_reader::{Setting, TableReader};
use crate::spec::{TableSpec, ValueSpec, eight};
use crate::tables::port::policy::{Policies, Policy};

/// Named maps, one setting in place of several: the defaults of a vendor's switches.
pub(crate) const MAPS: [(&str, [u8; PRIORITIES]); 2] =
    [("h3c", DEFAULT_DOT1P_TO_QUEUE), ("huawei", HUAWEI_DOT1P_TO_QUEUE)];

pub(crate) const TRUSTS: [(&str, Trust); 4] = [
    ("dot1p", Trust::Dot1p),
    ("dscp", Trust::Dscp),
    ("tunnel-dot1p", Trust::TunnelDot1p),
    ("none", Trust::None),
];

pub(crate) const REWRITE: TableSpec = &[
    eight("dot1p", 7, "local precedence").about("Priority of sent tags, by queue."),
    eight("dscp", 63, "local precedence").about("DSCP of sent packets, by queue."),
];

/// A map by DSCP. The file need not write all DSCPs.
pub(crate) type DscpMap = Setting<[Option<u8>; DSCPS]>;

/// Classification and rewriting in the table of a port, or of the defaults. Drop levels are numbers
/// from 0 to 2.
#[derive(Debug, Default, Clone)]
pub(crate) struct ClassifyTable {
    pub(crate) trust: Option<Setting<Trust>>,
    pub(crate) port_priority: Option<Setting<u8>>,
    /// `maps`: the dot1p → queue map of that name. A `dot1p_to_queue` of the same table wins over
    /// it.
    pub(crate) maps: Option<Setting<[u8; PRIORITIES]>>,
    pub(crate) dot1p_to_queue: Option<Setting<[u8; PRIORITIES]>>,
    pub(crate) dot1p_to_drop_level: Option<Setting<[u8; PRIORITIES]>>,
    pub(crate) dscp_to_dot1p: Option<DscpMap>,
    pub(crate) dscp_to_queue: Option<DscpMap>,
    pub(crate) dscp_to_drop_level: Option<DscpMap>,
    pub(crate) dei_drop_level: Option<Setting<u8>>,
    pub(crate) policy: Option<Setting<Policy>>,
    pub(crate) rewrite_dot1p: Option<Setting<[u8; PRIORITIES]>>,
    pub(crate) rewrite_dscp: Option<Setting<[u8; PRIORITIES]>>,
}

impl ClassifyTable {
    /// Reads a port's settings of these names.
    pub(crate) fn read(port: &mut TableReader, policies: &Policies, report: &mut Diagnostics) -> Self {
        let mut table = Self {
            trust: port.choice("trust", &TRUSTS, report),
            port_priority: port.number("port_priority", report),
            maps: port.choice("maps", &MAPS, report),
            dot1p_to_queue: port.eight_numbers("dot1p_to_queue", report),
            dot1p_to_drop_level: port.eight_numbers("dot1p_to_drop_level", report),
            dscp_to_dot1p: read_dscp_map(port, "dscp_to_dot1p", report),
            dscp_to_queue: read_dscp_map(port, "dscp_to_queue", report),
            dscp_to_drop_level: read_dscp_map(port, "dscp_to_drop_level", report),
            dei_drop_level: port.number("dei_drop_level", report),
            policy: policies.of_port(port, report),
            ..Self::default()
        };
        if let Some(mut rewrite) = port.section("rewrite", report) {
            table.rewrite_dot1p = rewrite.eight_numbers("dot1p", report);
            table.rewrite_dscp = rewrite.eight_numbers("dscp", report);
            rewrite.finish(report);
        }
        table
    }
}

impl<'t> Overrides<'t, ClassifyTable> {
    /// Returns the trusted field.
    pub(crate) fn trust(self) -> Trust {
        self.value(|table| &table.trust, Trust::Dot1p)
    }

    /// Returns what the port has of the rules of `policy`.
    pub(crate) fn policy(self) -> Option<&'t Setting<Policy>> {
        self.setting(|table| &table.policy)
    }

    /// Applies the tables to `port`, which has the defaults.
    pub(crate) fn fill(self, port: &mut PortSettings) {
        let classify = &mut port.classify;
        classify.trust = self.trust();
        classify.port_priority = self.value(|table| &table.port_priority, classify.port_priority);
        if let Some(map) = self.look_up(|table| table.dot1p_to_queue.as_ref().or(table.maps.as_ref())) {
            classify.dot1p_to_queue = map.value;
        }
        if let Some(map) = self.optional(|table| &table.dot1p_to_drop_level) {
            classify.dot1p_to_drop_level = map.map(drop_level);
        }
        for dscp in 0..DSCPS {
            if let Some(dot1p) = self.by_dscp(dscp, |table| &table.dscp_to_dot1p) {
                classify.dscp_to_dot1p[dscp] = dot1p;
            }
            if let Some(queue) = self.by_dscp(dscp, |table| &table.dscp_to_queue) {
                classify.dscp_to_queue[dscp] = Some(queue);
            }
            if let Some(level) = self.by_dscp(dscp, |table| &table.dscp_to_drop_level) {
                classify.dscp_to_drop_level[dscp] = drop_level(level);
            }
        }
        if let Some(level) = self.optional(|table| &table.dei_drop_level) {
            classify.dei_drop_level = drop_level(level);
        }
        if let Some(policy) = self.policy() {
            classify.policy = policy.value.local_precedence;
        }
        port.rewrite.dot1p = self.optional(|table| &table.rewrite_dot1p);
        port.rewrite.dscp = self.optional(|table| &table.rewrite_dscp);
    }

    /// Returns the value that a map has for a DSCP, which is a separate setting.
    fn by_dscp(self, dscp: usize, map: impl Fn(&ClassifyTable) -> &Option<DscpMap>) -> Option<u8> {
        self.look_up(|table| map(table).as_ref()?.value[dscp])
    }
}

fn drop_level(number: u8) -> DropLevel {
    DropLevel::from_number(number).expect("a number from 0 to 2, as it was read")
}

/// Reads a table whose keys are DSCPs or ranges of them.
fn read_dscp_map(port: &mut TableReader, name: &str, report: &mut Diagnostics) -> Option<DscpMap> {
    let ValueSpec::Map(_, ValueSpec::Number(_, last)) = port.spec_of(name) else {
        panic!("{name} is no map")
    };
    let item = port.item(name)?;
    let cure = format!("write a table, as in {{ \"46\" = {last}, \"8-15\" = 1 }}");
    let mut table = item.section(port.location_of(name)?, &cure, report)?;
    let mut map = [None; DSCPS];
    let mut keys: [Option<&str>; DSCPS] = [None; DSCPS];
    for (key, location, item) in table.entries() {
        let value = item.number(report).map(|number| number.value);
        let Some(dscps) = read_dscps(key, &location, report) else { continue };
        if let Some(dscp) = dscps.clone().find(|&dscp| keys[dscp].is_some()) {
            let other = quoted(keys[dscp].unwrap_or_default());
            report.add(&location, format!("DSCP {dscp} is in {other} already"), "list each DSCP once");
        }
        for dscp in dscps {
            (map[dscp], keys[dscp]) = (value, Some(key));
        }
    }
    Some(Setting { value: map, location: table.location })
}

/// Returns the DSCPs of a key: "46", or "8-15".
fn read_dscps(key: &str, location: &SettingSpan, report: &mut Diagnostics) -> Option<RangeInclusive<usize>> {
    let (first, last) = key.split_once('-').unwrap_or((key, key));
    let (Some(first), Some(last)) = (parse::digits(first), parse::digits(last)) else {
        let cure = "write a number from 0 to 63 or a range, as in \"46\" or \"8-15\"";
        report.add(location, format!("{} is no DSCP", quoted(key)), cure);
        return None;
    };
    if let Some(over) = [first, last].into_iter().find(|&dscp| dscp >= DSCPS as u64) {
        report.add(location, format!("there is no DSCP {over}"), "write numbers from 0 to 63");
        return None;
    }
    if first > last {
        report.add(location, "the range is reversed", format!("write \"{last}-{first}\""));
        return None;
    }
    Some(first as usize..=last as usize)
}
