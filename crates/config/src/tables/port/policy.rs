//! `[classifier.NAME]` and `[policy.NAME]`: what a policy matches and sets, with names and
//! descriptions, so that several ports share one. A port may also write its rules inline (`policy =
//! [{ dot1p = 5, local_precedence = 3 }]`).
//!
//! A classifier matches frames by the dot1p of their tag: any of the listed values (operator *or*).
//! No frame has several values at once (*and*), so that operator is refused. A policy sets the
//! local precedence of the frames of each of its classifiers; no dot1p may be matched twice. A
//! description is only for readers of the file. Source: docs/behavior.md, "Classification";
//! docs/references.md, "H3C reference" (Packet priority-to-queue mappings: traffic classifier,
//! traffic behavior, QoS policy).

use std::collections::BTreeMap;

use switch::settings::PRIORITIES;
use toml::de::DeValue;

use crate::read::diagnostics::Diagnostics;
use crate::read::parse::{named_tables, resolve_name};
use crate::read::table_reader::{Setting, TableReader};
use crate::spec::{SettingSpec, TableSpec, ValueSpec, choice, list, number, text, words};

const LIST_CURE: &str = "write a list, as in [{ dot1p = 5, local_precedence = 3 }], or the name of a policy";
const RULES_CURE: &str = "write a list, as in [{ classifier = \"roce\", local_precedence = 3 }]";
/// Longest description that the H3C switch accepts, in characters.
const DESCRIPTION_CHARS: usize = 127;

const OPERATORS: [(&str, bool); 2] = [("or", false), ("and", true)];

const DESCRIPTION: SettingSpec = text("description", "RoCE data").says("A note for readers of the file.");
const LOCAL_PRECEDENCE: SettingSpec = number("local_precedence", 0, 7).required("The queue of these frames.");

pub(crate) const CLASSIFIER: TableSpec = &[
    DESCRIPTION,
    choice("operator", || words(&OPERATORS))
        .value("\"or\"", "\"and\" would match no frame that \"or\" does not."),
    list("dot1p", &ValueSpec::Number(0, 7)).required("The priorities that it matches."),
];

pub(crate) const POLICY: TableSpec =
    &[DESCRIPTION, list("rules", &ValueSpec::Table(RULE)).required("What each classifier's frames get.")];

const RULE: TableSpec = &[text("classifier", "roce").required("Name of the classifier."), LOCAL_PRECEDENCE];

/// The `policy` of a port: a policy's name, or rules.
pub(crate) const OF_PORT: [ValueSpec; 2] =
    [ValueSpec::Text("rdma"), ValueSpec::List(&ValueSpec::Table(PORT_RULE))];

const PORT_RULE: TableSpec =
    &[number("dot1p", 0, 7).required("The priority that it matches."), LOCAL_PRECEDENCE];

/// The local precedence that a policy sets, by dot1p.
pub(crate) type Policy = [Option<u8>; PRIORITIES];

/// The policies of the file, by name.
#[derive(Debug, Default)]
pub(crate) struct Policies(BTreeMap<String, Policy>);

impl Policies {
    /// Reads all classifiers and policies.
    pub(crate) fn read(file: &mut TableReader, report: &mut Diagnostics) -> Self {
        let mut classifiers = BTreeMap::new();
        if let Some(mut section) = file.section("classifier", report) {
            for (name, section) in named_tables(&mut section, report) {
                classifiers.insert(name, read_classifier(section, report));
            }
        }
        let mut policies = BTreeMap::new();
        if let Some(mut section) = file.section("policy", report) {
            for (name, section) in named_tables(&mut section, report) {
                policies.insert(name, read_named(section, &classifiers, report));
            }
        }
        Self(policies)
    }

    /// Reads a port's policy: the name of a policy of the file, or a list of rules.
    pub(crate) fn of_port(
        &self,
        port: &mut TableReader,
        report: &mut Diagnostics,
    ) -> Option<Setting<Policy>> {
        let item = port.item("policy")?;
        if let DeValue::String(name) = item.value() {
            let binding = Setting { value: name.as_ref(), location: item.location };
            let policy = resolve_name(&self.0, &binding, "policy", ("[policy.NAME]", &[]), report)?;
            return Some(Setting { value: policy, location: binding.location });
        }
        let rules = item.sections(LIST_CURE, report)?;
        let mut policy = [None; PRIORITIES];
        for mut rule in rules.value {
            let dot1p = rule.number::<u8>("dot1p", report);
            let local_precedence = rule.number("local_precedence", report);
            needed(&rule, &["dot1p", "local_precedence"], LIST_CURE, report);
            rule.finish(report);
            let (Some(dot1p), Some(local_precedence)) = (dot1p, local_precedence) else { continue };
            if policy[usize::from(dot1p.value)].replace(local_precedence.value).is_some() {
                let what = format!("dot1p {} is matched twice", dot1p.value);
                report.add(&dot1p.location, what, "leave one of the two rules out");
            }
        }
        Some(Setting { value: policy, location: rules.location })
    }
}

/// Reads `[classifier.NAME]`: the dot1p values that it matches, as a mask.
fn read_classifier(mut section: TableReader, report: &mut Diagnostics) -> u8 {
    read_description(&mut section, report);
    let is_and = section.choice("operator", &OPERATORS, report);
    let dot1p = section.numbers::<u8>("dot1p", report);
    needed(&section, &["dot1p"], "write dot1p = [3, 4], the priorities that it matches", report);
    section.finish(report);
    let mask: u8 =
        dot1p.as_ref().map_or(0, |list| list.value.iter().fold(0, |mask, dot1p| mask | 1 << dot1p));
    if let (Some(is_and), true) = (is_and.filter(|it| it.value), mask.count_ones() > 1) {
        let what = format!("no frame has {} priorities at once", mask.count_ones());
        report.add(&is_and.location, what, "write operator = \"or\", which is the default");
    }
    mask
}

/// Reads `[policy.NAME]`.
fn read_named(
    mut section: TableReader,
    classifiers: &BTreeMap<String, u8>,
    report: &mut Diagnostics,
) -> Policy {
    let mut policy = [None; PRIORITIES];
    let mut matched_by: [Option<&str>; PRIORITIES] = [None; PRIORITIES];
    read_description(&mut section, report);
    let rules = section.list_of_sections("rules", RULES_CURE, report);
    needed(&section, &["rules"], RULES_CURE, report);
    for mut rule in rules.map_or_else(Vec::new, |rules| rules.value) {
        let name = rule.string("classifier", report);
        let local_precedence = rule.number("local_precedence", report);
        needed(&rule, &["classifier", "local_precedence"], RULES_CURE, report);
        rule.finish(report);
        let (Some(name), Some(local_precedence)) = (name, local_precedence) else { continue };
        let Some(mask) = resolve_name(classifiers, &name, "classifier", ("[classifier.NAME]", &[]), report)
        else {
            continue;
        };
        for dot1p in (0..PRIORITIES).filter(|dot1p| mask & 1 << dot1p != 0) {
            if let Some(other) = matched_by[dot1p].replace(name.value) {
                let what = format!("dot1p {dot1p} is matched by {other} already");
                report.add(&name.location, what, "leave it out of one of the two classifiers");
            }
            policy[dot1p] = Some(local_precedence.value);
        }
    }
    section.finish(report);
    policy
}

fn read_description(section: &mut TableReader, report: &mut Diagnostics) {
    if let Some(text) = section.string("description", report)
        && text.value.chars().count() > DESCRIPTION_CHARS
    {
        let what = format!("{} characters are too many", text.value.chars().count());
        report.add(&text.location, what, format!("a description has at most {DESCRIPTION_CHARS}"));
    }
}

/// Reports the settings that a table lacks.
fn needed(section: &TableReader, names: &[&str], cure: &str, report: &mut Diagnostics) {
    for name in names.iter().filter(|name| !section.has(name)) {
        report.add(&section.location, format!("no {name}"), cure);
    }
}
