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
//!
//! A rule with `mode = "dcbx"` is for DCBX, too: the priorities of its classifier are advertised in
//! the ETS group of its local precedence. Its classifier may also match an application, whose
//! priority is then advertised; the switch classifies by tag and DSCP only. `insert_before` places
//! a rule before that of another classifier. Source: docs/dcbx.md, "Applications of a policy".

use std::collections::BTreeMap;

use switch::settings::PRIORITIES;
use toml::de::DeValue;
use wire::dcbx::ieee::{Application, Selector};

use crate::read::diagnostics::Diagnostics;
use crate::read::parse::{named_tables, resolve_name};
use crate::read::table_reader::{Setting, TableReader};
use crate::spec::{SettingSpec, TableSpec, ValueSpec, choice, list, number, text, words};
use crate::tables::port::dcbx::{DSCP_VALUES, ETHERTYPES, PORTS, SELECTORS};

const LIST_CURE: &str = "write a list, as in [{ dot1p = 5, local_precedence = 3 }], or the name of a policy";
const RULES_CURE: &str = "write a list, as in [{ classifier = \"roce\", local_precedence = 3 }]";
const APPLICATION_CURE: &str = "write { classifier = \"roce\", priority = 3, mode = \"dcbx\" }";
/// Longest description that the H3C switch accepts, in characters.
const DESCRIPTION_CHARS: usize = 127;

const OPERATORS: [(&str, bool); 2] = [("or", false), ("and", true)];
const MODES: [(&str, ()); 1] = [("dcbx", ())];

const DESCRIPTION: SettingSpec = text("description", "RoCE data").about("A note for readers of the file.");
const LOCAL_PRECEDENCE: SettingSpec = number("local_precedence", 0, 7).required("The queue of these frames.");

pub(crate) const CLASSIFIER: TableSpec = &[
    DESCRIPTION,
    choice("operator", || words(&OPERATORS))
        .value("\"or\"", "\"and\" would match no frame that \"or\" does not."),
    list("dot1p", &ValueSpec::Number(0, 7)).about("The priorities that it matches; or applications:"),
    list("ethertype", &ValueSpec::Number(ETHERTYPES.0, ETHERTYPES.1))
        .about("Ethertypes, for rules with `mode = \"dcbx\"`."),
    list("tcp", &ValueSpec::Number(PORTS.0, PORTS.1)).about("TCP or SCTP ports."),
    list("udp", &ValueSpec::Number(PORTS.0, PORTS.1)).about("UDP or DCCP ports."),
    list("port", &ValueSpec::Number(PORTS.0, PORTS.1)).about("Ports of any of these."),
    list("dscp", &ValueSpec::Number(DSCP_VALUES.0, DSCP_VALUES.1)).about("DSCPs."),
];

pub(crate) const POLICY: TableSpec =
    &[DESCRIPTION, list("rules", &ValueSpec::Table(RULE)).required("What each classifier's frames get.")];

const RULE: TableSpec = &[
    text("classifier", "roce").required("Name of the classifier."),
    text("insert_before", "roce").about("Classifier of an earlier rule, before which this one goes."),
    choice("mode", || words(&MODES)).about("\"dcbx\": DCBX advertises it, too."),
    number("local_precedence", 0, 7).about("The queue of frames with a matching priority."),
    number("priority", 0, 7).about("The priority that DCBX advertises for a matching application."),
];

/// The `policy` of a port: a policy's name, or rules.
pub(crate) const OF_PORT: [ValueSpec; 2] =
    [ValueSpec::Text("rdma"), ValueSpec::List(&ValueSpec::Table(PORT_RULE))];

const PORT_RULE: TableSpec =
    &[number("dot1p", 0, 7).required("The priority that it matches."), LOCAL_PRECEDENCE];

/// What a policy sets, and what of it DCBX advertises.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Policy {
    /// Local precedence by dot1p.
    pub(crate) local_precedence: [Option<u8>; PRIORITIES],
    /// The dot1p values of rules that are marked for DCBX, as a mask.
    pub(crate) dcbx_dot1p: u8,
    /// Applications of rules that are marked for DCBX, in the order of the rules.
    pub(crate) applications: Vec<Application>,
}

/// What `[classifier.NAME]` matches.
#[derive(Debug, Clone, PartialEq)]
enum Classifier {
    /// Tagged frames with one of these dot1p values, as a mask.
    Dot1p(u8),
    /// Applications: their protocols.
    Applications(Vec<(Selector, u16)>),
}

/// A rule of `[policy.NAME]`.
struct Rule<'f> {
    name: Setting<&'f str>,
    classifier: Classifier,
    /// The local precedence that it sets, or the priority that it advertises.
    value: u8,
    is_dcbx: bool,
}

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
            let policy = resolve_name(&self.0, &binding, "policy", ("[policy.NAME]", &[]), report)?.clone();
            return Some(Setting { value: policy, location: binding.location });
        }
        let rules = item.sections(LIST_CURE, report)?;
        let mut policy = Policy::default();
        for mut rule in rules.value {
            let dot1p = rule.number::<u8>("dot1p", report);
            let local_precedence = rule.number("local_precedence", report);
            needed(&rule, &["dot1p", "local_precedence"], LIST_CURE, report);
            rule.finish(report);
            let (Some(dot1p), Some(local_precedence)) = (dot1p, local_precedence) else { continue };
            let of_dot1p = &mut policy.local_precedence[usize::from(dot1p.value)];
            if of_dot1p.replace(local_precedence.value).is_some() {
                let what = format!("dot1p {} is matched twice", dot1p.value);
                report.add(&dot1p.location, what, "leave one of the two rules out");
            }
        }
        Some(Setting { value: policy, location: rules.location })
    }
}

/// Reads `[classifier.NAME]`.
fn read_classifier(mut section: TableReader, report: &mut Diagnostics) -> Classifier {
    read_description(&mut section, report);
    let is_and = section.choice("operator", &OPERATORS, report);
    let dot1p = section.numbers::<u8>("dot1p", report);
    let mut applications = Vec::new();
    let mut is_of_applications = false;
    for (name, selector) in SELECTORS {
        is_of_applications |= section.has(name);
        let protocols = section.numbers::<u16>(name, report).map_or_else(Vec::new, |list| list.value);
        applications.extend(protocols.into_iter().map(|protocol| (selector, protocol)));
    }
    if is_of_applications && section.has("dot1p") {
        let what = "a classifier matches priorities or applications, not both";
        report.add(&section.location, what, "make it two classifiers");
    } else if !is_of_applications {
        needed(&section, &["dot1p"], "write dot1p = [3, 4], the priorities that it matches", report);
    }
    section.finish(report);
    let mask: u8 =
        dot1p.as_ref().map_or(0, |list| list.value.iter().fold(0, |mask, dot1p| mask | 1 << dot1p));
    let (count, of_what) = match is_of_applications {
        true => (applications.len() as u32, "protocols"),
        false => (mask.count_ones(), "priorities"),
    };
    if let (Some(is_and), true) = (is_and.filter(|it| it.value), count > 1) {
        let what = format!("no frame has {count} {of_what} at once");
        report.add(&is_and.location, what, "write operator = \"or\", which is the default");
    }
    if is_of_applications { Classifier::Applications(applications) } else { Classifier::Dot1p(mask) }
}

/// Reads `[policy.NAME]`.
fn read_named(
    mut section: TableReader,
    classifiers: &BTreeMap<String, Classifier>,
    report: &mut Diagnostics,
) -> Policy {
    read_description(&mut section, report);
    let tables = section.list_of_sections("rules", RULES_CURE, report);
    needed(&section, &["rules"], RULES_CURE, report);
    let mut rules: Vec<Rule> = Vec::new();
    for mut table in tables.map_or_else(Vec::new, |tables| tables.value) {
        let before = table.string("insert_before", report);
        let Some(rule) = read_rule(table, classifiers, report) else { continue };
        let mut index = rules.len();
        if let Some(before) = before {
            match rules.iter().position(|rule| rule.name.value == before.value) {
                Some(found) => index = found,
                None => {
                    let what = format!("no rule of the classifier \"{}\" is above this one", before.value);
                    report.add(&before.location, what, "name the classifier of a rule that is above");
                }
            }
        }
        rules.insert(index, rule);
    }
    section.finish(report);
    policy_of(&rules, report)
}

/// Reads a rule of `[policy.NAME]`, without its place.
fn read_rule<'f>(
    mut table: TableReader<'f>,
    classifiers: &BTreeMap<String, Classifier>,
    report: &mut Diagnostics,
) -> Option<Rule<'f>> {
    let name = table.string("classifier", report);
    let mode = table.choice("mode", &MODES, report);
    let local_precedence = table.number::<u8>("local_precedence", report);
    let priority = table.number::<u8>("priority", report);
    needed(&table, &["classifier"], RULES_CURE, report);
    let found = name
        .as_ref()
        .and_then(|name| resolve_name(classifiers, name, "classifier", ("[classifier.NAME]", &[]), report));
    let value = match &found {
        Some(Classifier::Applications(_)) => {
            if !table.has("mode") {
                let what = "the switch does not classify by applications: DCBX advertises their priorities";
                report.add(&table.location, what, "write mode = \"dcbx\" in this rule");
            }
            needed(&table, &["priority"], APPLICATION_CURE, report);
            unfit(local_precedence.as_ref(), "priority = 3, which DCBX advertises", report);
            priority
        }
        _ => {
            needed(&table, &["local_precedence"], RULES_CURE, report);
            unfit(priority.as_ref(), "local_precedence = 3, the queue of such frames", report);
            local_precedence
        }
    };
    table.finish(report);
    Some(Rule { name: name?, classifier: found?, value: value?.value, is_dcbx: mode.is_some() })
}

/// Reports a setting that a rule of this kind of classifier does not have.
fn unfit(setting: Option<&Setting<u8>>, instead: &str, report: &mut Diagnostics) {
    if let Some(setting) = setting {
        report.add(&setting.location, "is not for this classifier", format!("write {instead}"));
    }
}

/// Returns the policy of rules, of which no two match the same.
fn policy_of(rules: &[Rule], report: &mut Diagnostics) -> Policy {
    let mut policy = Policy::default();
    let mut matched_by: [Option<&str>; PRIORITIES] = [None; PRIORITIES];
    let mut advertised_by: BTreeMap<(Selector, u16), &str> = BTreeMap::new();
    for Rule { name, classifier, value, is_dcbx } in rules {
        let mut matched = |what: String, other: Option<&str>| {
            if let Some(other) = other {
                let what = format!("{what} is matched by {other} already");
                report.add(&name.location, what, "leave it out of one of the two classifiers");
            }
        };
        match classifier {
            Classifier::Dot1p(mask) => {
                for dot1p in (0..PRIORITIES).filter(|dot1p| mask & 1 << dot1p != 0) {
                    matched(format!("dot1p {dot1p}"), matched_by[dot1p].replace(name.value));
                    policy.local_precedence[dot1p] = Some(*value);
                }
                policy.dcbx_dot1p |= if *is_dcbx { *mask } else { 0 };
            }
            Classifier::Applications(protocols) => {
                for &(selector, protocol) in protocols {
                    let key = SELECTORS.iter().find(|(_, it)| *it == selector).map_or("", |(key, _)| key);
                    matched(
                        format!("{key} {protocol}"),
                        advertised_by.insert((selector, protocol), name.value),
                    );
                    policy.applications.push(Application { selector, protocol, priority: *value });
                }
            }
        }
    }
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
