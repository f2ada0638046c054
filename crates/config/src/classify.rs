//! Classification and rewriting of a port: what is trusted, the maps, the policy.
//!
//! A list of eight numbers and the policy are one setting each. A map by DSCP is a table, so each DSCP is a setting of its
//! own: a port's entries are laid over those of the defaults.

use std::ops::RangeInclusive;

use switch::PortSettings;
use switch::settings::{DSCPS, DropLevel, PRIORITIES, Trust};

use crate::mistakes::{Found, Place};
use crate::section::{Placed, Section, quoted, value_or};
use crate::values;

const POLICY_CURE: &str = "write a list, as in [{ dot1p = 5, local_precedence = 3 }]";

/// What the file says of some DSCPs.
pub(crate) type DscpMap = Placed<[Option<u8>; DSCPS]>;

/// What the file says of a port's classification; nothing is filled in. Drop levels are numbers from 0 to 2.
#[derive(Debug, Default, Clone)]
pub(crate) struct WrittenClassify {
    pub(crate) trust: Option<Placed<Trust>>,
    pub(crate) port_priority: Option<Placed<u8>>,
    pub(crate) dot1p_to_queue: Option<Placed<[u8; PRIORITIES]>>,
    pub(crate) dot1p_to_drop_level: Option<Placed<[u8; PRIORITIES]>>,
    pub(crate) dscp_to_dot1p: Option<DscpMap>,
    pub(crate) dscp_to_queue: Option<DscpMap>,
    pub(crate) dscp_to_drop_level: Option<DscpMap>,
    pub(crate) dei_drop_level: Option<Placed<u8>>,
    pub(crate) policy: Option<Placed<[Option<u8>; PRIORITIES]>>,
    pub(crate) rewrite_dot1p: Option<Placed<[u8; PRIORITIES]>>,
    pub(crate) rewrite_dscp: Option<Placed<[u8; PRIORITIES]>>,
}

impl WrittenClassify {
    /// Reads a port's settings of these names.
    pub(crate) fn read(port: &mut Section, found: &mut Found) -> Self {
        let trust = [("dot1p", Trust::Dot1p), ("dscp", Trust::Dscp), ("none", Trust::None)];
        let mut written = Self {
            trust: port.choice("trust", &trust, &[], found),
            port_priority: port.number("port_priority", 0..=7, found),
            dot1p_to_queue: port.eight("dot1p_to_queue", 0..=7, "priority", found),
            dot1p_to_drop_level: port.eight("dot1p_to_drop_level", 0..=2, "priority", found),
            dscp_to_dot1p: read_dscp_map(port, "dscp_to_dot1p", 0..=7, found),
            dscp_to_queue: read_dscp_map(port, "dscp_to_queue", 0..=7, found),
            dscp_to_drop_level: read_dscp_map(port, "dscp_to_drop_level", 0..=2, found),
            dei_drop_level: port.number("dei_drop_level", 0..=2, found),
            policy: read_policy(port, found),
            ..Self::default()
        };
        if let Some(mut rewrite) = port.section("rewrite", found) {
            written.rewrite_dot1p = rewrite.eight("dot1p", 0..=7, "local precedence", found);
            written.rewrite_dscp = rewrite.eight("dscp", 0..=63, "local precedence", found);
            rewrite.finish(&[], found);
        }
        written
    }

    /// These settings where they are written, those of `defaults` elsewhere.
    pub(crate) fn over(&self, defaults: &WrittenClassify) -> WrittenClassify {
        let own = self.clone();
        let defaults = defaults.clone();
        WrittenClassify {
            trust: own.trust.or(defaults.trust),
            port_priority: own.port_priority.or(defaults.port_priority),
            dot1p_to_queue: own.dot1p_to_queue.or(defaults.dot1p_to_queue),
            dot1p_to_drop_level: own.dot1p_to_drop_level.or(defaults.dot1p_to_drop_level),
            dscp_to_dot1p: map_over(own.dscp_to_dot1p, defaults.dscp_to_dot1p),
            dscp_to_queue: map_over(own.dscp_to_queue, defaults.dscp_to_queue),
            dscp_to_drop_level: map_over(own.dscp_to_drop_level, defaults.dscp_to_drop_level),
            dei_drop_level: own.dei_drop_level.or(defaults.dei_drop_level),
            policy: own.policy.or(defaults.policy),
            rewrite_dot1p: own.rewrite_dot1p.or(defaults.rewrite_dot1p),
            rewrite_dscp: own.rewrite_dscp.or(defaults.rewrite_dscp),
        }
    }

    /// What is trusted, written or not.
    pub(crate) fn trust(&self) -> Trust {
        value_or(&self.trust, Trust::Dot1p)
    }

    /// Puts what is written into `port`, which has the defaults.
    pub(crate) fn fill(&self, port: &mut PortSettings) {
        let classify = &mut port.classify;
        classify.trust = self.trust();
        classify.port_priority = value_or(&self.port_priority, classify.port_priority);
        classify.dot1p_to_queue = value_or(&self.dot1p_to_queue, classify.dot1p_to_queue);
        if let Some(map) = &self.dot1p_to_drop_level {
            classify.dot1p_to_drop_level = map.value.map(drop_level);
        }
        for (dscp, value) in entries(&self.dscp_to_dot1p) {
            classify.dscp_to_dot1p[dscp] = value;
        }
        for (dscp, value) in entries(&self.dscp_to_queue) {
            classify.dscp_to_queue[dscp] = Some(value);
        }
        for (dscp, value) in entries(&self.dscp_to_drop_level) {
            classify.dscp_to_drop_level[dscp] = drop_level(value);
        }
        if let Some(level) = &self.dei_drop_level {
            classify.dei_drop_level = drop_level(level.value);
        }
        classify.policy = value_or(&self.policy, classify.policy);
        port.rewrite.dot1p = self.rewrite_dot1p.as_ref().map(|map| map.value);
        port.rewrite.dscp = self.rewrite_dscp.as_ref().map(|map| map.value);
    }
}

fn drop_level(number: u8) -> DropLevel {
    DropLevel::from_number(number).expect("a number from 0 to 2, as it was read")
}

/// The DSCPs that are written, and what for.
fn entries(map: &Option<DscpMap>) -> impl Iterator<Item = (usize, u8)> + '_ {
    let values = map.iter().flat_map(|map| map.value.iter().enumerate());
    values.filter_map(|(dscp, value)| Some((dscp, (*value)?)))
}

fn map_over(own: Option<DscpMap>, defaults: Option<DscpMap>) -> Option<DscpMap> {
    match (own, defaults) {
        (Some(own), Some(defaults)) => {
            let value = std::array::from_fn(|dscp| own.value[dscp].or(defaults.value[dscp]));
            Some(Placed { value, place: own.place })
        }
        (own, defaults) => own.or(defaults),
    }
}

/// Takes a table whose keys are DSCPs or ranges of them.
fn read_dscp_map(
    port: &mut Section,
    name: &'static str,
    range: RangeInclusive<u8>,
    found: &mut Found,
) -> Option<DscpMap> {
    let item = port.item(name)?;
    let cure = format!("write a table, as in {{ \"46\" = {}, \"8-15\" = 1 }}", range.end());
    let mut table = item.section(port.place_of(name)?, &cure, found)?;
    let mut map = [None; DSCPS];
    let mut keys: [Option<&str>; DSCPS] = [None; DSCPS];
    for (key, place, item) in table.entries() {
        let value = item.number(range.clone(), found).map(|number| number.value);
        let Some(dscps) = read_dscps(key, &place, found) else { continue };
        if let Some(dscp) = dscps.clone().find(|&dscp| keys[dscp].is_some()) {
            let other = quoted(keys[dscp].unwrap_or_default());
            found.add(&place, format!("DSCP {dscp} is in {other} already"), "list each DSCP once");
        }
        for dscp in dscps {
            (map[dscp], keys[dscp]) = (value, Some(key));
        }
    }
    Some(Placed { value: map, place: table.place })
}

/// The DSCPs that a key names: "46", or "8-15".
fn read_dscps(key: &str, place: &Place, found: &mut Found) -> Option<RangeInclusive<usize>> {
    let (first, last) = key.split_once('-').unwrap_or((key, key));
    let (Some(first), Some(last)) = (values::digits(first), values::digits(last)) else {
        let cure = "write a number from 0 to 63 or a range, as in \"46\" or \"8-15\"";
        found.add(place, format!("{} is no DSCP", quoted(key)), cure);
        return None;
    };
    if let Some(over) = [first, last].into_iter().find(|&dscp| dscp >= DSCPS as u64) {
        found.add(place, format!("there is no DSCP {over}"), "write numbers from 0 to 63");
        return None;
    }
    if first > last {
        found.add(place, "the range is reversed", format!("write \"{last}-{first}\""));
        return None;
    }
    Some(first as usize..=last as usize)
}

/// Takes the policy: a list of what it matches and what it sets.
fn read_policy(port: &mut Section, found: &mut Found) -> Option<Placed<[Option<u8>; PRIORITIES]>> {
    let list = port.list_of_sections("policy", POLICY_CURE, found)?;
    let mut policy = [None; PRIORITIES];
    for mut rule in list.value {
        let dot1p = rule.number("dot1p", 0..=7u8, found);
        let local_precedence = rule.number("local_precedence", 0..=7, found);
        for name in ["dot1p", "local_precedence"] {
            if !rule.has(name) {
                found.add(&rule.place, format!("no {name}"), POLICY_CURE);
            }
        }
        rule.finish(&[], found);
        let (Some(dot1p), Some(local_precedence)) = (dot1p, local_precedence) else { continue };
        if policy[usize::from(dot1p.value)].replace(local_precedence.value).is_some() {
            let what = format!("dot1p {} is matched twice", dot1p.value);
            found.add(&dot1p.place, what, "leave one of the two rules out");
        }
    }
    Some(Placed { value: policy, place: list.place })
}
