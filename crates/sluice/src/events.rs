//! `sluice events`: past and future events of a running switch.

use anyhow::Result;
use clap::{Args, ValueEnum};
use control::v1;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::output;
use crate::socket::Daemon;

/// Show what happened on a running switch: losses, ports that went down, changes of the
/// configuration.
#[derive(Args)]
#[command(after_long_help = "\
A line each: time, number, severity, port, what happened. Numbers count from 1 since the daemon \
started. It keeps the last 4096 events; earlier ones are reported as missing. Each reader \
has its own position: `--since N` continues after the last event that it has seen. XOFF and XON are no \
events here, there may be thousands a second: `sluice show pfc` counts them, and `sluice record` \
has each of them.

docs/monitoring/events.md lists all kinds.

JSON: an object a line with number, at_ns (the loop's clock: since the daemon started), unix_ns, \
kind, severity, port, priority, queue, values{}, message; where events are missing, an object with \
`missed`.")]
pub struct Arguments {
    /// Go on with what happens, until interrupted.
    #[arg(short, long)]
    follow: bool,
    /// Only events after this number.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    since: u64,
    /// Only events that matter at least so much.
    #[arg(long, value_enum, default_value = "info")]
    severity: Severity,
    /// Only events of this port.
    #[arg(long, value_name = "NAME")]
    port: Option<String>,
    /// Print JSON, an object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: Daemon,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Severity {
    /// Something changed.
    Info,
    /// Needs attention.
    Warning,
    /// The no-drop guarantee is violated.
    Error,
}

impl Arguments {
    fn wants(&self, event: &v1::Event) -> bool {
        let matters = match self.severity {
            Severity::Info => true,
            Severity::Warning => event.severity != "info",
            Severity::Error => event.severity == "error",
        };
        matters && self.port.as_ref().is_none_or(|port| event.port.as_ref() == Some(port))
    }
}

/// Prints the events.
pub fn run(arguments: &Arguments) -> Result<()> {
    arguments.daemon.talk(async |client| {
        if let Some(port) = &arguments.port {
            // Lists the ports if this one is unknown.
            crate::show::only(&client.snapshot().await?, Some(port))?;
        }
        let mut batches = client.events(arguments.since, arguments.follow).await?;
        while let Some(batch) = batches.next().await? {
            let text = lines(arguments, &batch, &TimeZone::system())?;
            if !text.is_empty() {
                output::print(&text)?;
            }
        }
        Ok(())
    })
}

/// Formats a batch of events.
fn lines(arguments: &Arguments, batch: &v1::EventBatch, zone: &TimeZone) -> Result<String> {
    let mut lines = Vec::new();
    if batch.missed > 0 {
        lines.push(if arguments.json {
            output::json(&json!({ "missed": batch.missed }), false)?
        } else {
            format!("({} earlier events are no longer kept)", output::grouped(batch.missed))
        });
    }
    for event in batch.events.iter().filter(|event| arguments.wants(event)) {
        lines.push(if arguments.json { output::json(event, false)? } else { line(event, zone) });
    }
    Ok(lines.join("\n"))
}

/// Formats an event as a line of text.
fn line(event: &v1::Event, zone: &TimeZone) -> String {
    let time = Timestamp::from_nanosecond(event.unix_ns.into()).unwrap_or_default();
    let time = time.to_zoned(zone.clone()).strftime("%F %T%.6f");
    let prefix = event.port.as_ref().map_or(String::new(), |port| format!("{port}: "));
    format!("{time} {:>5} {:<7} {prefix}{}", event.number, event.severity, event.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn batch() -> v1::EventBatch {
        let event = |number, severity: &str, port: Option<&str>, message: &str| v1::Event {
            number,
            at_ns: 1_500_000_000 + number,
            unix_ns: 1_800_000_000_123_456_789 + number * 1_000_000_000,
            kind: "a_kind".to_owned(),
            severity: severity.to_owned(),
            port: port.map(str::to_owned),
            priority: port.map(|_| 3),
            port_number: None,
            queue: None,
            values: [("frames".to_owned(), 7)].into(),
            message: message.to_owned(),
        };
        v1::EventBatch {
            events: vec![
                event(901, "info", None, "reload: port a: speed 1G → 2G"),
                event(902, "warning", Some("a"), "the port carries no frames any more"),
                event(10_903, "error", Some("b"), "frames of no-drop priority 3 are lost"),
            ],
            missed: 900,
        }
    }

    fn printed(arguments: &[&str]) -> String {
        let Command { arguments } = Command::parse_from([&["events"], arguments].concat());
        lines(&arguments, &batch(), &TimeZone::UTC).unwrap()
    }

    #[test]
    fn a_line_each_for_people_and_an_object_each_for_programs() {
        insta::assert_snapshot!(printed(&[]), @r"
        (900 earlier events are no longer kept)
        2027-01-15 08:15:01.123456   901 info    reload: port a: speed 1G → 2G
        2027-01-15 08:15:02.123456   902 warning a: the port carries no frames any more
        2027-01-15 11:01:43.123456 10903 error   b: frames of no-drop priority 3 are lost
        ");
        insta::assert_snapshot!(printed(&["--json", "--severity", "error"]), @r#"
        {"missed":900}
        {"number":10903,"at_ns":1500010903,"unix_ns":1800010903123456789,"kind":"a_kind","severity":"error","port":"b","priority":3,"values":{"frames":7},"message":"frames of no-drop priority 3 are lost","queue":null,"port_number":null}
        "#);
    }

    #[test]
    fn only_requested_events() {
        // Without the one about missing events.
        let count = |arguments: &[&str]| printed(arguments).lines().count() - 1;
        assert_eq!(count(&["--severity", "warning"]), 2);
        assert_eq!(count(&["--severity", "error"]), 1);
        assert_eq!(count(&["--port", "a"]), 1);
        assert_eq!(count(&["--port", "a", "--severity", "error"]), 0);
    }
}
