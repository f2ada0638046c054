//! `sluice schema VIEW`: JSON Schemas (2020-12) of what `sluice show VIEW --json` and other
//! commands print. They are derived from the types that are printed; comments of counters are those
//! of the proto file.

use ::sim::results::Results;
use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser, Resettable};
use clap::{Args, ValueEnum};
use control::v1::{Configuration, Event, FdbEntry, LldpPorts, Snapshot, Telemetry};
use host::report::ReportLine;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::daemon::{DaemonView, dcbx, maps, neighbors, profiles, version, watchdog};
use super::json::Document;
use super::view::{Detail, View};
use super::{Shown, check_detail, view_of};
use crate::advise::Advice;
use crate::check::Message;
use crate::commands::{ReloadPreview, Reloaded};
use crate::exit::misuse;
use crate::lab::LabRow;
use crate::lab::verdict::LabVerdict;
use crate::output;
use crate::settings;
use crate::settings::set::SetOutcome;

/// What a command prints: its name here, the command, and the schema.
type CommandSchema = (&'static str, &'static str, fn() -> Value);

const COMMANDS: [CommandSchema; 10] = [
    ("events", "events --json, a line", of::<Event>),
    ("check", "check --json", of::<Vec<Message>>),
    ("sim", "sim --json", of::<Results>),
    ("advise", "advise --json", of::<Advice>),
    ("lab", "lab up --json", of::<LabVerdict>),
    ("lab-status", "lab status --json", of::<Vec<LabRow>>),
    ("reload", "reload --json", of::<Reloaded>),
    ("reload-dry-run", "reload --dry-run --json", of::<ReloadPreview>),
    ("set", "set --json", of::<SetOutcome>),
    ("host", "host --json, a line", of::<ReportLine>),
];

/// Print a JSON Schema: of the configuration file, or of the JSON of a command.
#[derive(Args)]
#[command(after_long_help = "\
Without VIEW: of the configuration file. Begin a file with `#:schema PATH` where the schema is, \
relative to the file. With VIEW: of what `sluice show VIEW --json` prints, or another command: events \
and host (of a line), check, sim, advise, lab (of `lab up`), lab-status, reload, reload-dry-run, set. \
Programs must expect further fields of later versions.")]
pub struct Arguments {
    /// A view of `sluice show`, or a command.
    #[arg(value_name = "VIEW", value_parser = PossibleValuesParser::new(names()))]
    view: Option<String>,
    /// More of a view: `lldp neighbors`.
    #[arg(value_enum, hide_possible_values = true, value_name = "MORE")]
    detail: Option<Detail>,
}

/// Prints the schema.
pub fn run(arguments: &Arguments) -> Result<()> {
    let schema = match arguments.view.as_deref() {
        None => settings::schema(),
        Some(name) => named(name, arguments.detail)?,
    };
    output::print(&output::json(&schema, true)?)
}

/// Returns the schema of a view or of a command.
fn named(name: &str, detail: Option<Detail>) -> Result<Value> {
    if let Some(schema) = of_command(name) {
        let Some(detail) = detail else { return Ok(schema) };
        let (more, of) = (detail.name(), view_of(detail).name());
        return misuse(format!("`{more}` is for `schema {of}`: `schema {name}` has none"));
    }
    let shown = Shown::from_str(name, false).map_err(anyhow::Error::msg)?;
    if let Some(detail) = detail {
        check_detail(detail, shown)?;
    }
    Ok(schema(shown, detail))
}

/// The views by name, without what `sluice show` says of each.
fn names() -> Vec<PossibleValue> {
    let views = Shown::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let commands = COMMANDS.map(|(name, ..)| PossibleValue::new(name));
    views.map(|view| view.help(Resettable::Reset)).chain(commands).collect()
}

/// Returns the schema of what a command prints.
fn of_command(name: &str) -> Option<Value> {
    let (_, command, schema) = COMMANDS.iter().find(|(known, ..)| *known == name)?;
    let mut schema = schema();
    schema["title"] = format!("sluice {command}").into();
    Some(schema)
}

/// Returns the schema of a view.
fn schema(shown: Shown, detail: Option<Detail>) -> Value {
    match shown {
        Shown::Of(view) => of_view(view),
        Shown::Daemon(DaemonView::Telemetry) => of::<Telemetry>(),
        Shown::Daemon(DaemonView::Lldp) if detail.is_some() => of::<neighbors::Document>(),
        Shown::Daemon(DaemonView::Lldp) => of::<LldpPorts>(),
        Shown::Daemon(DaemonView::Dcbx) => of::<Vec<dcbx::PortRow>>(),
        Shown::Daemon(DaemonView::Fdb) => of::<Vec<FdbEntry>>(),
        Shown::Daemon(DaemonView::Config) => of::<Configuration>(),
        Shown::Daemon(DaemonView::Maps) => of::<Vec<maps::Row>>(),
        Shown::Daemon(DaemonView::Profiles) => of::<profiles::Document>(),
        Shown::Daemon(DaemonView::Watchdog) => of::<Vec<watchdog::Row>>(),
        Shown::Daemon(DaemonView::Version) => of::<version::Row>(),
    }
}

/// Returns the schema of what is printed of a type.
fn of<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>().to_value()
}

/// Returns the schema of a view of the switch: it has the lists of the view, and always.
fn of_view(view: View) -> Value {
    let mut schema = of::<Document>();
    let printed = serde_json::to_value(Document::of(view, &Snapshot::default(), None)).unwrap_or_default();
    let is_printed = |name: &String| printed.get(name).is_some() || name == "cleared_at_ns";
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|name, _| is_printed(name));
    }
    let required = printed.as_object().into_iter().flat_map(|fields| fields.keys().cloned());
    schema["required"] = required.collect();
    schema["title"] = format!("sluice show {} --json", Shown::Of(view).name()).into();
    schema
}

#[cfg(test)]
mod tests {
    use super::super::daemon::{configuration_sample, sample, telemetry};
    use super::*;
    use crate::{show_fixture, sim};
    use control::v1::{Dcbx, DcbxFeature, Info, Port};
    use host::report::{DcbxReport, FlowReceived, FlowSent, HostReport, Pause};
    use serde::Serialize;
    use serde_json::json;

    /// Forbids fields that a schema does not describe, as later versions may have them, but this
    /// one must not.
    fn forbid_others(schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                fields.values_mut().for_each(forbid_others);
                if fields.contains_key("properties") && !fields.contains_key("additionalProperties") {
                    fields.insert("additionalProperties".to_owned(), json!(false));
                }
            }
            Value::Array(items) => items.iter_mut().for_each(forbid_others),
            _ => {}
        }
    }

    /// Returns what is wrong with a value.
    fn violations(mut schema: Value, value: &impl Serialize) -> Vec<String> {
        forbid_others(&mut schema);
        let validator = jsonschema::validator_for(&schema).unwrap();
        let value = serde_json::to_value(value).unwrap();
        validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path)).collect()
    }

    #[track_caller]
    fn valid(shown: Shown, detail: Option<Detail>, value: impl Serialize) {
        assert_eq!(violations(schema(shown, detail), &value), [""; 0], "{shown:?}");
    }

    #[test]
    fn each_view_of_the_switch_prints_what_its_schema_describes() {
        let (before, now) = (show_fixture::snapshot(), show_fixture::later());
        for &view in View::value_variants() {
            let vlans = show_fixture::with_vlans();
            for (now, before) in [(&now, None), (&now, Some(&before)), (&vlans, None)] {
                valid(Shown::Of(view), None, Document::of(view, now, before));
            }
        }
    }

    /// A list that a view does not have, and a field that is missing or of another type, are found.
    #[test]
    fn schemas_are_strict() {
        let now = show_fixture::snapshot();
        let schema = || schema(Shown::Of(View::Queues), None);
        assert!(violations(schema(), &Document::of(View::Pfc, &now, None)).len() > 1);
        let queues = serde_json::to_value(Document::of(View::Queues, &now, None)).unwrap();
        assert_eq!(violations(schema(), &queues), [""; 0]);
        let mut other = queues.clone();
        other["queues"][0]["paused"] = json!("no");
        assert_eq!(violations(schema(), &other).len(), 1);
        let mut other = queues.clone();
        other["queues"][0].as_object_mut().unwrap().remove("pauses");
        assert_eq!(violations(schema(), &other).len(), 1);
        let about = &schema()["$defs"]["QueueRow"]["properties"]["pauses"]["description"];
        assert_eq!(about, "Times that a pause began.", "the comment of the proto file");
    }

    /// Every view has its value here: a new one does not compile.
    #[test]
    fn each_view_of_the_daemon_prints_what_its_schema_describes() {
        let configuration = configuration_sample();
        let feature = DcbxFeature { peer: Some("3".to_owned()), ..DcbxFeature::default() };
        let dcbx = Dcbx { features: vec![feature, DcbxFeature::default()], ..Dcbx::default() };
        let snapshot =
            Snapshot { ports: vec![Port { dcbx: Some(dcbx), ..Port::default() }], ..Snapshot::default() };
        for &view in DaemonView::value_variants() {
            let shown = Shown::Daemon(view);
            match view {
                DaemonView::Telemetry => valid(shown, None, telemetry::tests::telemetry()),
                DaemonView::Lldp => {
                    valid(shown, None, sample::ports());
                    valid(shown, Some(Detail::Neighbors), neighbors::json(&sample::ports()));
                }
                DaemonView::Dcbx => valid(shown, None, dcbx::rows(&snapshot)),
                DaemonView::Fdb => valid(shown, None, [FdbEntry::default()]),
                DaemonView::Config => valid(shown, None, &configuration),
                DaemonView::Maps => valid(shown, None, maps::rows(&configuration)),
                DaemonView::Profiles => valid(shown, None, profiles::document(&configuration)),
                DaemonView::Watchdog => valid(shown, None, watchdog::rows(&configuration, None)),
                DaemonView::Version => valid(shown, None, version::row(&Info::default())),
            }
        }
    }

    /// Every command has its values here.
    #[test]
    fn each_command_prints_what_its_schema_describes() {
        let text = || "x".to_owned();
        for (name, ..) in COMMANDS {
            let values = match name {
                "events" => vec![json!(Event::default())],
                "check" => {
                    let invalid = crate::check::sample("[port.a]\nspeed = 7\n");
                    let port = "[port.a]\ninterface = \"a\"\npfc = { mode = \"on\", no_drop = [3] }\n";
                    let valid = crate::check::sample(port);
                    assert!(invalid[0]["severity"] == "error" && valid[0]["severity"] != "error");
                    vec![invalid, valid, json!([])]
                }
                "sim" => [sim::sample::incast(), sim::sample::nothing(), sim::sample::fabric()]
                    .map(|results| json!(results))
                    .into(),
                "advise" => vec![json!(crate::advise::sample())],
                "lab" => vec![json!(crate::lab::verdict::sample())],
                "lab-status" => vec![json!([crate::lab::sample()])],
                "reload" => vec![json!(Reloaded { changes: vec![text()] })],
                "reload-dry-run" => [None, Some(text())]
                    .map(|invalid| {
                        let (changes, needs_restart) = (vec![text()], vec![text()]);
                        json!(ReloadPreview { changes, needs_restart, invalid, accepted: false })
                    })
                    .into(),
                "set" => vec![json!(SetOutcome { file: text(), changes: vec![text()], written: true })],
                "host" => {
                    let report = HostReport {
                        sent: vec![FlowSent::default()],
                        received: vec![FlowReceived::default()],
                        pauses: vec![Pause::default()],
                        dcbx: Some(DcbxReport { peer_no_drop: Some(vec![3]), ..DcbxReport::default() }),
                        ..HostReport::default()
                    };
                    let lines = [
                        ReportLine::Ready { mac: text() },
                        ReportLine::Progress(HostReport::default()),
                        ReportLine::Final(report),
                    ];
                    lines.map(|line| json!(line)).into()
                }
                other => panic!("{other} has no value"),
            };
            for value in values {
                assert_eq!(violations(of_command(name).unwrap(), &value), [""; 0], "{name}");
            }
            assert_ne!(violations(of_command(name).unwrap(), &json!({ "other": 1 })), [""; 0], "{name}");
        }
    }
}
