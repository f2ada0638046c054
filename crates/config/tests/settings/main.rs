//! Every setting of the description: it is accepted, wrong values are refused with what would be
//! right, its default is the one described, and a reload does what is described. docs/settings.md
//! lists it.

mod page;

use config::aliases::ALIASES;
use config::reference::{NamedSetting, all_settings, needs_restart};
use config::spec::{DefaultSpec, ValueSpec};
use toml_edit::{DocumentMut, Item, Value};

const PFC_ON: &str = "port.a.pfc.mode = 'on'\nport.a.pfc.no_drop = [3]";
const SUBSCRIPTION: &str = "telemetry.subscription.a.destinations = ['a']
telemetry.subscription.a.sensors = [{ group = 'a', interval_s = 5 }]";
const VLAN: &str = "port.a.vlan.mode = 'trunk'\nport.a.vlan.pvid = 2";

/// What a file needs beside the settings whose names begin so.
const CONTEXT: &[(&str, &str)] = &[
    ("dataplane.switch_core_serves", "dataplane.cores = [0, 1]"),
    ("recorder.freeze_on_loss", "recorder.always = true"),
    ("buffer.ingress.profile", "buffer.ingress.profile.a.shared.dynamic_th = 1"),
    ("buffer.egress.profile", "buffer.egress.profile.a.shared.dynamic_th = 1"),
    ("buffer.ingress.profile", PFC_ON),
    ("buffer.ingress.profile", "port.a.buffer.ingress.priority.3.profile = 'a'"),
    ("buffer.egress.profile", "port.a.buffer.egress.queue.3.profile = 'a'"),
    ("buffer.ingress.pool.N.pause_threshold", PFC_ON),
    ("buffer.ingress.pool.N.pause_threshold", "port.a.buffer.ingress.priority.3.pool = 1"),
    ("buffer.ingress.pool.N.pause_threshold", "buffer.ingress.pool.1.shared_percent = 30"),
    ("wred", "port.a.wred = 'a'\nwred.a.queue.2 = {}"),
    ("wred.NAME.queue.N.mark", "wred.a.queue.3.ecn = true"),
    ("wred.NAME.queue.N.drop_not_ect", "wred.a.queue.3.ecn = true"),
    ("wred.NAME.queue.N.drop_not_ect", PFC_ON),
    ("queue-profile", "queue-profile.a.action = 'ecn'"),
    ("queue-profile", "port.a.queue_profile.a = [3]"),
    ("classifier", "classifier.a.dot1p = [5]"),
    ("classifier", "policy.a.rules = [{ classifier = 'a', local_precedence = 3 }]"),
    ("classifier", "port.a.policy = 'a'"),
    ("policy", "classifier.a.dot1p = [5]"),
    ("policy", "classifier.b.dot1p = [6]"),
    ("policy", "port.a.dcbx.enabled = true"),
    ("policy.NAME.rules.mode", "port.a.schedule.mode = 'ets'"),
    ("policy", "classifier.roce.dot1p = [4]"),
    (
        "policy",
        "policy.a.rules = [{ classifier = 'roce', local_precedence = 2 }, { classifier = 'a', local_precedence = 3 }]",
    ),
    ("policy", "port.a.policy = 'a'"),
    ("pfc", PFC_ON),
    ("bridge.max_entries", "bridge.max_entries_per_port = 100"),
    ("pfc.watchdog", "pfc.watchdog.priority.3.interval = 5"),
    ("pfc.watchdog.priority.N.limit", "pfc.watchdog.priority.3.limit = { period_s = 3, count = 3 }"),
    ("alarm.ingress.interval_s", "alarm.ingress.enabled = true"),
    ("alarm.egress.interval_s", "alarm.egress.enabled = true"),
    ("alarm.headroom.interval_s", "alarm.headroom.enabled = true"),
    ("alarm.drop.interval_s", "alarm.drop.enabled = true"),
    ("metrics", "[metrics]\nenabled = true"),
    ("telemetry.sensor-group", SUBSCRIPTION),
    ("telemetry.sensor-group", "telemetry.destination-group.a.collectors = ['192.0.2.1']"),
    ("telemetry.sensor-group", "[telemetry.sensor-group.a]\npaths = ['buffermonitor/pfcspeeds']"),
    ("telemetry.destination-group", SUBSCRIPTION),
    ("telemetry.destination-group", "telemetry.sensor-group.a.paths = ['buffermonitor/pfcspeeds']"),
    ("telemetry.destination-group", "[telemetry.destination-group.a]\ncollectors = ['192.0.2.2']"),
    ("telemetry.destination-group.NAME.tls", "tls.certificate = 'a.pem'"),
    ("telemetry.destination-group.NAME.tls", "tls.key = 'a.key'"),
    ("telemetry.subscription", "telemetry.sensor-group.usage.paths = ['buffermonitor/pfcspeeds']"),
    ("telemetry.subscription", "telemetry.sensor-group.other.paths = ['buffermonitor/bufferusages']"),
    ("telemetry.subscription", "telemetry.destination-group.collector1.collectors = ['192.0.2.1']"),
    ("telemetry.subscription", "telemetry.destination-group.other.collectors = ['192.0.2.2']"),
    ("telemetry.subscription", "telemetry.subscription.a.destinations = ['other']"),
    ("telemetry.subscription", "telemetry.subscription.a.sensors = [{ group = 'other', interval_s = 5 }]"),
    ("port.NAME.core", "dataplane.cores = [0, 1]"),
    ("port.NAME.burst_bytes", "port.a.speed = '1G'"),
    ("port.NAME.wire_overhead", "port.a.speed = '1G'"),
    ("port.NAME.static_addresses", "port.a.static_addresses = [{ address = '02:00:00:00:00:02' }]"),
    ("port.NAME.static_addresses", VLAN),
    ("port.NAME.dscp_to", "port.a.trust = 'dscp'"),
    ("port.NAME.policy.", "port.a.policy = [{ dot1p = 4, local_precedence = 3 }]"),
    ("port.NAME.wred", "wred.table.queue.3 = {}"),
    ("port.NAME.queue_profile", "queue-profile.a.action = 'ecn'"),
    ("port.NAME.vhost.pfc_frames", PFC_ON),
    ("port.NAME.pfc.rx", PFC_ON),
    ("port.NAME.pfc.tx", PFC_ON),
    ("port.NAME.pfc.no_drop", PFC_ON),
    ("port.NAME.pfc.p", PFC_ON),
    ("port.NAME.pfc.watchdog", PFC_ON),
    ("port.NAME.pfc.early-warning", PFC_ON),
    ("port.NAME.pfc.watchdog", "port.a.pfc.watchdog.priority.3.interval = 5"),
    (
        "port.NAME.pfc.watchdog.priority.N.limit",
        "port.a.pfc.watchdog.priority.3.limit = { period_s = 3, count = 3 }",
    ),
    ("port.NAME.pfc.early-warning", "port.a.pfc.early-warning.priority.3.in_pps = 5"),
    ("port.NAME.schedule.queue.N.burst_bytes", "port.a.schedule.queue.3.rate = '1G'"),
    ("port.NAME.schedule.group", "port.a.schedule.mode = 'ets'"),
    (
        "port.NAME.schedule.group",
        "port.a.schedule.group.0.queues = [0, 1, 2]\nport.a.schedule.group.0.bandwidth_percent = 60",
    ),
    (
        "port.NAME.schedule.group",
        "port.a.schedule.group.1 = { queues = [3, 4, 5, 6, 7], bandwidth_percent = 40 }",
    ),
    ("port.NAME.schedule.group.N.burst_bytes", "port.a.schedule.group.0.rate = '1G'"),
    ("port.NAME.buffer.ingress", PFC_ON),
    ("port.NAME.buffer.ingress", "buffer.ingress.pool.1.shared_percent = 30"),
    ("port.NAME.buffer.ingress", "buffer.ingress.profile.lossless.shared.dynamic_th = 1"),
    ("port.NAME.buffer.egress", "buffer.egress.pool.1.shared_percent = 30"),
    ("port.NAME.buffer.egress", "buffer.egress.profile.lossy.shared.dynamic_th = 1"),
    ("port.NAME.vlan", VLAN),
    ("port.NAME.dcbx", "[port.a.dcbx]"),
    ("port.NAME.dcbx.applications.", "applications = [{ udp = 4791, priority = 3 }]"),
];

/// Settings that can only be written in place of another one of their table.
const INSTEAD_OF: &[(&str, &str)] = &[
    ("detection_ms", "interval"),
    ("restoration_ms", "interval"),
    ("interval_ms", "interval_s"),
    ("ethertype", "udp"),
    ("tcp", "udp"),
    ("port", "udp"),
    ("dscp", "udp"),
    ("static_cells", "dynamic_th"),
    ("static_bytes", "dynamic_th"),
    ("dynamic_percent", "dynamic_th"),
    ("size_cells", "shared_percent"),
    ("size_bytes", "shared_percent"),
];

/// Settings that are only written together, and a value of the other one.
const TOGETHER_WITH: &[(&str, &str, i64)] =
    &[("detection_ms", "restoration_ms", 400), ("restoration_ms", "detection_ms", 400)];

/// Values that a file can have, where the first ones of the range cannot be, or are the default.
const EXAMPLES: &[(&str, &str)] = &[
    ("dataplane.cores", "[1]"),
    ("buffer.headroom_bytes", "4000000"),
    ("buffer.cell_bytes", "208"),
    ("buffer.total_cells", "60000"),
    ("buffer.total_bytes", "16000000"),
    ("pool.N.shared_percent", "20"),
    ("pool.N.size_bytes", "3000000"),
    (".high_cells", "2000"),
    (".high_bytes", "500000"),
    ("port.NAME.interface", "'veth1'"),
    ("port.NAME.vhost_user", "'/run/b.sock'"),
    ("port.NAME.wire_overhead", "false"),
    ("port.NAME.dscp_to_drop_level", "{ '46' = 1 }"),
    ("policy.NAME.rules.classifier", "'b'"),
    ("policy.NAME.rules", "[{ classifier = 'b', local_precedence = 1 }]"),
    ("port.NAME.policy", "[{ dot1p = 5, local_precedence = 2 }]"),
    ("watchdog.action", "'drop'"),
    ("group.N.queues", "[2, 1, 0]"),
    ("group.N.bandwidth_percent", "60"),
    ("group.N.scheduling", "'sp'"),
    ("dcbx.applications", "[{ udp = 4791, priority = 4 }]"),
    ("subscription.NAME.sensors", "[{ group = 'usage', interval_s = 7 }]"),
    ("destination-group.NAME.service", "'/a.b/C'"),
    ("metrics.enabled", "false"),
    ("queue-profile.NAME.action", "'wred'"),
    ("bridge.max_entries", "20000"),
    ("metrics.listen", "'127.0.0.1:9465'"),
    ("_bytes", "30000"),
];

fn example(setting: &NamedSetting) -> String {
    let example =
        EXAMPLES.iter().find(|(path, _)| setting.path.ends_with(path)).map(|(_, value)| value.to_string());
    example.or_else(|| setting.spec.example_value()).unwrap()
}

/// The rest of the file for settings of applications, which have another rule than priorities.
const OF_APPLICATIONS: &[&str] = &[
    "port.a.interface = 'veth0'",
    "port.a.policy = 'a'",
    "classifier.a.udp = [4791]",
    "policy.a.rules = [{ classifier = 'a', priority = 3, mode = 'dcbx' }]",
    "port.a.dcbx.enabled = true",
];

/// True for settings of a policy's applications.
fn is_of_applications(setting: &NamedSetting) -> bool {
    let protocol = setting.path.strip_prefix("classifier.NAME.");
    let is_protocol = ["ethertype", "tcp", "udp", "port", "dscp"].map(Some).contains(&protocol);
    is_protocol || setting.path == "policy.NAME.rules.priority"
}

fn context(setting: &NamedSetting) -> DocumentMut {
    if is_of_applications(setting) {
        return OF_APPLICATIONS.join("\n").parse().unwrap();
    }
    let has_socket = setting.path.starts_with("port.NAME.vhost");
    let mut lines =
        vec![if has_socket { "port.a.vhost_user = '/run/a.sock'" } else { "port.a.interface = 'veth0'" }];
    for (_, line) in CONTEXT.iter().filter(|(prefix, _)| setting.path.starts_with(prefix)) {
        if !lines.contains(line) {
            lines.push(line);
        }
    }
    lines.join("\n").parse().unwrap()
}

/// Returns the place of the setting in the file; tables are made, of lists the last one is taken.
fn table_and_name<'f>(
    file: &'f mut DocumentMut,
    setting: &NamedSetting,
) -> (&'f mut dyn toml_edit::TableLike, String) {
    let mut parts: Vec<&str> = setting.path.split('.').collect();
    let name = parts.pop().unwrap();
    let mut item = file.as_item_mut();
    for (at, part) in parts.iter().enumerate() {
        let key = match *part {
            "NAME" => "a",
            "N" if setting.path.contains("headroom.pool") || parts[at - 1] == "group" => "0",
            "N" if parts[at - 1] == "pool" => "1",
            "N" => "3",
            other => other,
        };
        item = &mut item[key];
        if item.is_none() {
            *item = toml_edit::table();
        }
        if item.is_array() {
            let last = item.as_array_mut().unwrap().iter_mut().last().unwrap();
            return (last.as_inline_table_mut().unwrap(), name.to_owned());
        }
    }
    (item.as_table_like_mut().unwrap(), name.to_owned())
}

/// Returns the file with the setting; `None` for `value`: without it.
fn file(setting: &NamedSetting, value: Option<&str>) -> String {
    let mut file = context(setting);
    let (table, name) = table_and_name(&mut file, setting);
    for (_, other) in INSTEAD_OF.iter().filter(|(new, _)| *new == name) {
        table.remove(other);
    }
    for (_, other, value) in TOGETHER_WITH.iter().filter(|(new, ..)| *new == name) {
        table.insert(other, toml_edit::value(*value));
    }
    match value {
        Some(value) => drop(table.insert(&name, Item::Value(value.parse::<Value>().unwrap()))),
        None => drop(table.remove(&name)),
    }
    file.to_string()
}

fn is_table(setting: &NamedSetting) -> bool {
    matches!(setting.spec.values, ValueSpec::Table(_))
        || setting.path.ends_with(".NAME")
        || setting.path.ends_with(".N")
}

fn settings() -> impl Iterator<Item = NamedSetting> {
    all_settings().into_iter().filter(|setting| !is_table(setting))
}

/// Returns the configuration of a file, or a failure.
fn read(setting: &NamedSetting, text: &str) -> Result<config::Config, String> {
    config::parse("x", text).map_err(|errors| format!("{}: {errors}\n{text}", setting.path))
}

/// Examines every setting, and shows all that fail.
fn for_each(examine: impl Fn(&NamedSetting) -> Result<(), String>) {
    let failures: Vec<String> = settings().filter_map(|setting| examine(&setting).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn ensure(holds: bool, failure: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(failure()) }
}

#[test]
fn each_is_accepted() {
    for_each(|setting| read(setting, &file(setting, Some(&example(setting)))).map(drop));
    assert!(settings().count() > 180);
}

/// Returns a wrong value, and what the message about it has to say.
fn wrong_values(name: &str, values: ValueSpec) -> Vec<(String, String)> {
    match values {
        ValueSpec::Number(first, last) => {
            // The most bytes are those of the file's cells.
            let range = if name.ends_with("_bytes") && last % 9216 == 0 {
                String::new()
            } else {
                format!("{first} to {last}")
            };
            let cure = format!("write a whole number from {range}");
            [first - 1, last + 1].map(|value| (value.to_string(), cure.clone())).to_vec()
        }
        ValueSpec::Boolean => vec![("'x'".to_owned(), "write true or false".to_owned())],
        ValueSpec::Speed => vec![("'801G'".to_owned(), "up to \"800G\"".to_owned())],
        ValueSpec::Text(_) => vec![("1".to_owned(), "write".to_owned())],
        ValueSpec::Choice(words) => vec![("'zzzz'".to_owned(), words()[0].to_owned())],
        ValueSpec::Eight { last, .. } => {
            vec![(format!("[0, 0, 0, 0, 0, 0, 0, {}]", last + 1), format!("from 0 to {last}"))]
        }
        ValueSpec::List(of) => {
            let wrong = wrong_values(name, *of).into_iter();
            let of_elements = wrong.map(|(value, cure)| (format!("[{value}]"), cure));
            of_elements.chain([("1.5".to_owned(), "write".to_owned())]).collect()
        }
        ValueSpec::Map(_, of) => {
            let wrong = wrong_values(name, *of).into_iter();
            wrong.map(|(value, cure)| (format!("{{ '3' = {value} }}"), cure)).collect()
        }
        ValueSpec::Either(kinds) => {
            let mut wrong = vec![("1.5".to_owned(), "write".to_owned())];
            if let ValueSpec::Number(first, last) = kinds[0] {
                wrong.extend(wrong_values(name, ValueSpec::Number(first, last)));
            }
            wrong
        }
        ValueSpec::Table(_) | ValueSpec::Size { .. } => vec![("1".to_owned(), "write".to_owned())],
    }
}

#[test]
fn wrong_values_are_refused_with_what_would_be_right() {
    for_each(|setting| {
        for (value, cure) in wrong_values(&setting.name, setting.spec.values) {
            let text = file(setting, Some(&value));
            let Err(errors) = config::parse("x", &text) else { return Err(format!("accepted: {text}")) };
            let about =
                |error: &config::ConfigError| error.cure.as_ref().is_some_and(|it| it.contains(&cure));
            let of_setting = |error: &&config::ConfigError| error.setting.contains(&setting.name);
            ensure(errors.list().iter().filter(of_setting).any(about), || {
                format!("no {cure:?} in {errors}")
            })?;
        }
        Ok(())
    });
}

#[test]
fn unknown_settings_are_refused_in_every_table() {
    for_each(|setting| {
        let unknown = NamedSetting { path: format!("{}x", setting.path), ..setting.clone() };
        let Err(errors) = config::parse("x", &file(&unknown, Some("1"))) else { return Err(unknown.path) };
        let is_unknown = errors.list().iter().any(|error| error.what == "unknown setting");
        ensure(is_unknown, || format!("{}: {errors}", unknown.path))
    });
}

#[test]
fn what_is_required_must_be_there() {
    for_each(|setting| {
        if setting.spec.default != DefaultSpec::Required {
            return Ok(());
        }
        let text = file(setting, None);
        ensure(config::parse("x", &text).is_err(), || format!("{}:\n{text}", setting.path))
    });
}

#[test]
fn to_write_a_default_changes_nothing() {
    for_each(|setting| {
        let DefaultSpec::Value(default) = setting.spec.default else { return Ok(()) };
        let mut with = read(setting, &file(setting, Some(default)))?;
        with.warnings = Default::default();
        let mut without = read(setting, &file(setting, None))?;
        without.warnings = Default::default();
        ensure(with == without, || format!("{} is not {default} by default", setting.path))
    });
}

/// Settings of which a reload has nothing to apply: notes, and words and presets that change no
/// number; what the daemon compares, which knows the cores; the place of a rule among others that
/// match something else; and what changes with another setting.
const WITHOUT_CHANGE: [&str; 8] = [
    "classifier.NAME.description",
    "classifier.NAME.operator",
    "policy.NAME.description",
    "policy.NAME.rules.insert_before",
    "buffer.preset",
    "port.NAME.core",
    "port.NAME.schedule.group.N.queues",
    "port.NAME.schedule.group.N.bandwidth_percent",
];

#[test]
fn a_reload_does_what_is_described() {
    for_each(|setting| {
        let before = read(setting, &context(setting).to_string())?;
        let after = read(setting, &file(setting, Some(&example(setting))))?;
        let changes = config::changes(&before, &after);
        let has_none = WITHOUT_CHANGE.contains(&setting.path.as_str());
        let [live, restart] = [&changes.live, &changes.restart].map(|lines| !lines.is_empty());
        let expected = (!setting.spec.needs_restart && !has_none, setting.spec.needs_restart && !has_none);
        ensure((live, restart) == expected, || format!("{}: {changes:?}", setting.path))
    });
}

#[test]
fn ports_have_defaults_except_of_what_is_one_ports() {
    for_each(|setting| {
        if !setting.path.starts_with("port.NAME.") {
            return Ok(());
        }
        let text = file(setting, Some(&example(setting)));
        let own = "port.a.interface = 'veth0'\n";
        let text = format!("{own}{}", text.replacen(own, "", 1).replace("port.a", "port-defaults"));
        let is_of_one_port = setting.spec.is_of_one_port || setting.path.contains("static_addresses");
        let outcome = read(setting, &text);
        ensure(outcome.is_err() == is_of_one_port, || format!("{outcome:?}"))
    });
}

#[test]
fn what_needs_a_restart() {
    let expected = [
        "switch",
        "dataplane",
        "control",
        "buffer.cell_bytes",
        "bridge.max_entries",
        "port.NAME.interface",
        "port.NAME.vhost_user",
        "port.NAME.vhost.role",
        "port.NAME.vhost.queues",
        "port.NAME.vhost.pfc_frames",
        "port.NAME.vhost.allow_unsealed_memory",
        "port.NAME.core",
    ];
    assert_eq!(needs_restart(), expected);
}

/// Names of other products are no settings here, and errors about them name ours.
#[test]
fn names_of_other_products_lead_to_ours() {
    let all = all_settings();
    for alias in ALIASES {
        assert!(all.iter().any(|setting| setting.path == alias.setting), "{alias:?}");
        for table in ["port.a.", "buffer.", ""] {
            let text = format!("port.a.interface = 'veth0'\n{table}{} = 1", alias.name.to_uppercase());
            let errors = config::parse("x", &text).unwrap_err().to_string();
            let ours = format!("of {} is {} here", alias.of, alias.setting);
            assert!(errors.contains(&ours), "{alias:?}: {errors}");
        }
    }
}
