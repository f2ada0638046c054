//! `sluice show telemetry`: the reports to collectors, and their state.

use control::v1::{Telemetry, TelemetryDestination, TelemetryMetrics, TelemetrySensor};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::show::format::{self, grouped};

/// Formats the state as tables.
pub fn table(telemetry: &Telemetry, zone: &TimeZone) -> String {
    let metrics = telemetry.metrics.as_ref().map(metrics);
    if telemetry.subscriptions.is_empty() {
        let none = "Nothing is reported to collectors: there is no [telemetry.subscription.NAME].".to_owned();
        return [Some(none), metrics].into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    }
    let parts = [subscriptions(telemetry), destinations(telemetry), errors(telemetry, zone)];
    parts.into_iter().chain(metrics).collect::<Vec<_>>().join("\n\n")
}

fn metrics(metrics: &TelemetryMetrics) -> String {
    match &metrics.last_error {
        _ if metrics.listening => format!("Metrics are served at {}.", metrics.address),
        Some(error) => format!("Metrics are not served: {error}; it is tried again."),
        None => format!("Metrics are not served at {} yet.", metrics.address),
    }
}

fn subscriptions(telemetry: &Telemetry) -> String {
    let headings = ["Subscription", "Sensor group", "Path", "Every", "Samples", "Missed", "Events"];
    let mut table = format::table(&headings, 3);
    for subscription in &telemetry.subscriptions {
        for sensor in &subscription.sensors {
            // The numbers are those of the group, so they are in the row of its first path.
            for (index, path) in sensor.paths.iter().enumerate() {
                let words = match index {
                    0 => [subscription.name.clone(), sensor.group.clone(), path.clone()],
                    _ => [String::new(), String::new(), path.clone()],
                };
                let numbers = if index == 0 { numbers(sensor) } else { Default::default() };
                table.add_row(words.into_iter().chain(numbers));
            }
        }
    }
    table.trim_fmt()
}

fn numbers(sensor: &TelemetrySensor) -> [String; 4] {
    match sensor.interval_ms {
        Some(ms) if ms.is_multiple_of(1000) => {
            let every = format!("{} s", grouped(ms / 1000));
            [every, grouped(sensor.samples), grouped(sensor.missed_samples), String::new()]
        }
        Some(ms) => {
            let every = format!("{} ms", grouped(ms));
            [every, grouped(sensor.samples), grouped(sensor.missed_samples), String::new()]
        }
        None => ["event".to_owned(), String::new(), String::new(), grouped(sensor.events)],
    }
}

fn destinations(telemetry: &Telemetry) -> String {
    let headings =
        ["Group", "Collector", "State", "Sent", "Dropped", "Backlog", "of", "Connec-\ntions", "Failures"];
    let mut table = format::table(&headings, 3);
    for to in &telemetry.destinations {
        let numbers = [to.sent, to.dropped, to.backlog, to.most_backlog, to.connections, to.failures];
        let words = [to.group.clone(), address(to), to.state.clone()];
        table.add_row(words.into_iter().chain(numbers.map(grouped)));
    }
    table.trim_fmt()
}

fn address(to: &TelemetryDestination) -> String {
    let tls = if to.tls { ", TLS" } else { "" };
    match &to.vpn_instance {
        Some(name) => format!("{} in {name}{tls}", to.address),
        None => format!("{}{tls}", to.address),
    }
}

/// Formats the last error of each collector, which may have any length.
fn errors(telemetry: &Telemetry, zone: &TimeZone) -> String {
    let line = |to: &TelemetryDestination| {
        let ms = i64::try_from(to.last_error_unix_ms?).ok()?;
        let time = Timestamp::from_millisecond(ms).ok()?.to_zoned(zone.clone()).strftime("%F %T");
        Some(format!("{}: {time}: {}", to.address, to.last_error.as_ref()?))
    };
    let lines: Vec<String> = telemetry.destinations.iter().filter_map(line).collect();
    if lines.is_empty() { "No errors.".to_owned() } else { format!("Last errors\n{}", lines.join("\n")) }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use control::v1::TelemetrySubscription;

    pub fn telemetry() -> Telemetry {
        let sensor = |group: &str, paths: &[&str], interval_ms| TelemetrySensor {
            group: group.to_owned(),
            paths: paths.iter().map(|&path| path.to_owned()).collect(),
            interval_ms,
            samples: interval_ms.map_or(0, |ms| 100_000 / ms),
            missed_samples: 0,
            events: if interval_ms.is_none() { 1234 } else { 0 },
        };
        let use_paths = ["buffermonitor/bufferusages", "buffermonitor/headroomusages"];
        let to = |address: &str, state: &str, sent, dropped, last_error: Option<&str>| TelemetryDestination {
            group: "collector1".to_owned(),
            address: address.to_owned(),
            vpn_instance: last_error.map(|_| "mgmt".to_owned()),
            tls: last_error.is_none(),
            state: state.to_owned(),
            sent,
            dropped,
            backlog: dropped.min(1000),
            backlog_bytes: 4000,
            most_backlog: 1000,
            connections: 1,
            failures: 9,
            last_error: last_error.map(str::to_owned),
            last_error_unix_ms: last_error.map(|_| 1_800_000_000_000),
        };
        Telemetry {
            subscriptions: vec![TelemetrySubscription {
                name: "A".to_owned(),
                sensors: vec![
                    sensor("test1", &use_paths, Some(10_000)),
                    sensor("fast", &["qstat/queuestat"], Some(150)),
                    sensor("test2", &["sluice/events"], None),
                ],
                destinations: vec!["192.168.2.1:50050".to_owned()],
            }],
            destinations: vec![
                to("192.168.2.1:50050", "sending", 12_345, 0, None),
                to("[fd00::1]:50050", "waiting", 0, 34_567, Some("Connection refused (os error 111)")),
            ],
            metrics: Some(TelemetryMetrics {
                address: "192.0.2.1:9464".to_owned(),
                listening: false,
                last_error: Some("cannot listen on 192.0.2.1:9464: no such address".to_owned()),
                last_error_unix_ms: None,
            }),
        }
    }

    #[test]
    fn subscriptions_destinations_and_errors() {
        let text = table(&telemetry(), &TimeZone::UTC);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        insta::assert_snapshot!(text);
        insta::assert_snapshot!(table(&Telemetry::default(), &TimeZone::UTC), @"Nothing is reported to collectors: there is no [telemetry.subscription.NAME].");
    }
}
