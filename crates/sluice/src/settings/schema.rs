//! `sluice schema`: a JSON Schema (2020-12) of the configuration, for editors.

use config::reference::FILE;
use config::spec::{DefaultSpec, KeySpec, SettingSpec, TableSpec, ValueSpec};
use serde_json::{Map, Value, json};

/// Returns the schema of a configuration file.
pub fn schema() -> Value {
    let mut schema = table(FILE, |_| true);
    let head = [
        ("$schema", "https://json-schema.org/draft/2020-12/schema"),
        ("title", "Sluice"),
        ("description", "Configuration of sluiced: docs/settings.md"),
    ];
    for (key, text) in head {
        schema[key] = json!(text);
    }
    schema["properties"]["port"]["minProperties"] = json!(1);
    schema
}

fn table(spec: TableSpec, has: impl Fn(&SettingSpec) -> bool) -> Value {
    let settings = || spec.iter().filter(|setting| has(setting)).flat_map(SettingSpec::by_name);
    let properties: Map<String, Value> =
        settings().map(|(name, spec)| (name.clone(), setting(&name, &spec))).collect();
    let is_required = |spec: &SettingSpec| spec.default == DefaultSpec::Required;
    let required: Vec<String> =
        settings().filter(|(_, spec)| is_required(spec)).map(|(name, _)| name).collect();
    let mut table = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    table
}

fn setting(name: &str, spec: &SettingSpec) -> Value {
    let mut schema = match (name, &spec.values) {
        ("port-defaults", ValueSpec::Table(of)) => table(of, |setting| !setting.is_of_one_port),
        (_, values) => self::values(values),
    };
    let unit = match spec.unit_of(name) {
        "" => String::new(),
        unit => format!(" In {unit}."),
    };
    let default = match spec.default {
        DefaultSpec::Words(words) => format!(" Default: {words}."),
        _ => String::new(),
    };
    let restart = if spec.needs_restart { " Needs a restart." } else { "" };
    schema["description"] = json!(format!("{}{unit}{default}{restart}", spec.about));
    if let DefaultSpec::Value(value) = spec.default {
        // These values are the same in TOML and JSON.
        schema["default"] = serde_json::from_str(value).expect("a described default is valid JSON");
    }
    schema
}

fn values(spec: &ValueSpec) -> Value {
    match spec {
        ValueSpec::Boolean => json!({ "type": "boolean" }),
        ValueSpec::Number(first, last) => json!({ "type": "integer", "minimum": first, "maximum": last }),
        ValueSpec::Speed => json!({ "anyOf": [
            { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?[KMG]$" },
            { "type": "integer", "minimum": 1_000_000, "maximum": 800_000_000_000u64 },
        ] }),
        ValueSpec::Text(example) => json!({ "type": "string", "examples": [example] }),
        ValueSpec::Choice(words) => json!({ "enum": words() }),
        ValueSpec::List(of) => json!({ "type": "array", "items": values(of) }),
        ValueSpec::Eight { last, .. } => {
            let number = json!({ "type": "integer", "minimum": 0, "maximum": last });
            json!({ "type": "array", "items": number, "minItems": 8, "maxItems": 8 })
        }
        ValueSpec::Table(of) => table(of, |_| true),
        ValueSpec::Map(keys, of) => {
            let pattern = match keys {
                KeySpec::Name => "^[A-Za-z0-9._-]{1,64}$".to_owned(),
                KeySpec::Dscp => "^[0-9]{1,2}(-[0-9]{1,2})?$".to_owned(),
                KeySpec::Number(last) => {
                    let numbers: Vec<String> = (0..=*last).map(|number| number.to_string()).collect();
                    format!("^({})$", numbers.join("|"))
                }
            };
            json!({
                "type": "object",
                "propertyNames": { "pattern": pattern },
                "additionalProperties": values(of),
            })
        }
        ValueSpec::Either(kinds) => json!({ "anyOf": kinds.iter().map(values).collect::<Vec<_>>() }),
        ValueSpec::Size { .. } => unreachable!("a size is described by each of its names"),
    }
}
