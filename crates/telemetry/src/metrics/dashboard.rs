//! The dashboard in `config/grafana`: every name in its queries is one of the metrics.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::prometheus_text;
use super::tests::{full, labels_by_name, openmetrics};

const DASHBOARD: &str = include_str!("../../../../config/grafana/sluice.json");
/// Labels that Prometheus adds.
const ADDED: [&str; 2] = ["instance", "job"];

/// All queries, including those of the variables, and the legends.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let panels = list(&dashboard["panels"]);
    let targets = panels.iter().flat_map(|panel| list(&panel["targets"]));
    let variables = list(&dashboard["templating"]["list"]);
    let variables = variables.iter().filter(|variable| variable["type"] == "query");
    targets
        .map(|target| (text(&target["expr"]), text(&target["legendFormat"])))
        .chain(variables.map(|variable| (text(&variable["query"]), String::new())))
        .collect()
}

/// The words of a query that consist of the characters of names.
fn words(query: &str) -> impl Iterator<Item = &str> {
    query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The text between each `open` and the next `close`.
fn between<'t>(text: &'t str, open: &str, close: &str) -> Vec<&'t str> {
    text.split(open).skip(1).filter_map(|rest| Some(rest.split_once(close)?.0)).collect()
}

/// Names and labels of the metrics of a switch on which every counter has counted.
pub(super) struct Known {
    metrics: String,
    labels: BTreeMap<String, BTreeSet<String>>,
}

impl Known {
    pub(super) fn new() -> Self {
        let metrics = prometheus_text::prometheus(&openmetrics(full()));
        Self { labels: labels_by_name(&metrics), metrics }
    }

    /// Panics if the query or its legend names a metric, a label or a label's value that no series
    /// has.
    pub(super) fn check(&self, query: &str, legend: &str) {
        let names: Vec<_> = words(query).filter(|word| word.starts_with("sluice_")).collect();
        assert!(!names.is_empty(), "{query}");
        let of_name =
            |name: &&str| self.labels.get(*name).unwrap_or_else(|| panic!("there is no {name}: {query}"));
        let labels: Vec<_> = names.iter().flat_map(of_name).map(String::as_str).chain(ADDED).collect();
        let matchers = between(query, "{", "}").into_iter().flat_map(|list| list.split(','));
        let matched = matchers.clone().map(|matcher| words(matcher).next().unwrap());
        let grouped = between(query, "by (", ")").into_iter().flat_map(|list| list.split(", "));
        for label in matched.chain(grouped).chain(between(legend, "{{", "}}")) {
            assert!(labels.contains(&label), "there is no label {label}: {query} {legend}");
        }
        for (label, value) in matchers.filter_map(|matcher| matcher.split_once("=\"")) {
            let exists = self.metrics.contains(&format!("{label}=\"{value}"));
            assert!(exists, "nothing has {label}=\"{value}: {query}");
        }
    }
}

#[test]
fn every_metric_and_label_of_the_dashboard_exists() {
    let (known, queries) = (Known::new(), queries());
    assert!(queries.len() > 30, "{}", queries.len());
    queries.iter().for_each(|(query, legend)| known.check(query, legend));
}

#[test]
fn a_wrong_name_would_be_found() {
    assert_eq!(words("rate(a_b{c=~\"$d\"}[5m])").collect::<Vec<_>>(), ["rate", "a_b", "c", "d", "5m"]);
    assert_eq!(between("x{a=\"1\",b=\"2\"} + y{c=\"3\"}", "{", "}"), ["a=\"1\",b=\"2\"", "c=\"3\""]);
    assert!(!labels_by_name(&openmetrics(full())).contains_key("sluice_port_received_frames"));
}
