//! `sluice schema` and `sluice explain`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs the command, which must succeed, and returns what it prints.
#[track_caller]
fn sluice(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sluice")).args(arguments).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn schema() -> Value {
    serde_json::from_str(&sluice(&["schema"])).unwrap()
}

/// Returns what violates a schema: the path of each value. It knows the keywords that are used.
fn violations(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let mut broken = false;
    for (keyword, of) in schema.as_object().unwrap() {
        broken |= match &**keyword {
            "$schema" | "title" | "description" | "default" | "examples" => false,
            "type" => match of.as_str().unwrap() {
                "object" => !value.is_object(),
                "array" => !value.is_array(),
                "string" => !value.is_string(),
                "boolean" => !value.is_boolean(),
                "integer" => !value.is_i64() && !value.is_u64(),
                other => panic!("the type {other}"),
            },
            "enum" => !of.as_array().unwrap().contains(value),
            "minimum" => value.as_i64().is_some_and(|it| it < of.as_i64().unwrap()),
            "maximum" => value.as_i64().is_some_and(|it| it > of.as_i64().unwrap()),
            "minItems" => value.as_array().is_some_and(|it| (it.len() as u64) < of.as_u64().unwrap()),
            "maxItems" => value.as_array().is_some_and(|it| it.len() as u64 > of.as_u64().unwrap()),
            "minProperties" => value.as_object().is_some_and(|it| (it.len() as u64) < of.as_u64().unwrap()),
            "pattern" => value.as_str().is_some_and(|it| !regex(of).is_match(it)),
            "required" => value.as_object().is_some_and(|it| {
                of.as_array().unwrap().iter().any(|name| !it.contains_key(name.as_str().unwrap()))
            }),
            "anyOf" => of.as_array().unwrap().iter().all(|schema| {
                let mut inner = Vec::new();
                violations(schema, value, path, &mut inner);
                !inner.is_empty()
            }),
            "items" => {
                for element in value.as_array().into_iter().flatten() {
                    violations(of, element, path, found);
                }
                false
            }
            "properties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    if let Some(schema) = of.get(name) {
                        violations(schema, value, &format!("{path}.{name}"), found);
                    }
                }
                false
            }
            "additionalProperties" => {
                let known = |name: &str| schema.get("properties").is_some_and(|it| it.get(name).is_some());
                let others = value.as_object().into_iter().flatten().filter(|(name, _)| !known(name));
                for (name, value) in others {
                    match of {
                        Value::Bool(false) => found.push(format!("{path}.{name}")),
                        schema => violations(schema, value, &format!("{path}.{name}"), found),
                    }
                }
                false
            }
            "propertyNames" => {
                let names = value.as_object().into_iter().flatten();
                names.into_iter().any(|(name, _)| !regex(&of["pattern"]).is_match(name))
            }
            other => panic!("the keyword {other}"),
        };
    }
    if broken {
        found.push(path.to_owned());
    }
}

fn regex(pattern: &Value) -> regex_lite::Regex {
    regex_lite::Regex::new(pattern.as_str().unwrap()).unwrap()
}

fn violations_of(text: &str) -> Vec<String> {
    let file: toml::Table = text.parse().unwrap();
    let mut found = Vec::new();
    violations(&schema(), &serde_json::to_value(file).unwrap(), "", &mut found);
    found
}

#[test]
fn every_file_in_config_has_the_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = 0;
    for entry in std::fs::read_dir(root.join("config")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            assert_eq!(violations_of(&std::fs::read_to_string(&path).unwrap()), [""; 0], "{path:?}");
            files += 1;
        }
    }
    assert!(files >= 10);
    let page = std::fs::read_to_string(root.join("docs/settings.md")).unwrap();
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(violations_of(example), [""; 0], "docs/settings.md");
}

#[test]
fn wrong_files_do_not_have_the_schema() {
    for (text, violation) in [
        ("", ""),
        ("port = {}", ".port"),
        ("port.a = {}", ".port.a"),
        ("port.a = { interface = 'x', sped = '1G' }", ".port.a.sped"),
        ("port.a = { interface = 'x', speed = 'fast' }", ".port.a.speed"),
        ("port.a = { interface = 'x', speed = 10 }", ".port.a.speed"),
        ("port.a = { interface = 'x', mtu = 63 }", ".port.a.mtu"),
        ("port.a = { interface = 'x', trust = 'mac' }", ".port.a.trust"),
        ("port.a = { interface = 'x', pfc.no_drop = [3, 8] }", ".port.a.pfc.no_drop"),
        ("port.a = { interface = 'x', pfc.priority.8 = {} }", ".port.a.pfc.priority"),
        ("port.a = { interface = 'x', dot1p_to_queue = [1, 2] }", ".port.a.dot1p_to_queue"),
        ("port.a = { interface = 'x', broadcast_limit_pps = 'on' }", ".port.a.broadcast_limit_pps"),
        ("port-defaults.interface = 'x'\nport.a.interface = 'y'", ".port-defaults.interface"),
        ("'port'.'a b'.interface = 'y'", ".port"),
    ] {
        assert_eq!(violations_of(text), [violation], "{text}");
    }
}

#[test]
fn settings_are_explained_by_names_and_their_parts() {
    let full = sluice(&["explain", "port.NAME.pfc.no_drop"]);
    for query in [
        "port.pfc.no_drop",
        "pfc.no_drop",
        "no_drop",
        "port.server1.pfc.no_drop",
        "port-defaults.pfc.no_drop",
        "pfc_enable",
    ] {
        assert_eq!(sluice(&["explain", query]), full, "{query}");
    }
    insta::assert_snapshot!(
        full + &sluice(&["explain", "dataplane.cores"]) + &sluice(&["explain", "port.pfc.p"])
    );
}

#[test]
fn explanations_in_json() {
    insta::assert_snapshot!(sluice(&["explain", "port.mtu", "--json"]));
    let all: Value = serde_json::from_str(&sluice(&["explain", "--json"])).unwrap();
    assert_eq!(all["settings"].as_array().unwrap().len(), schema()["properties"].as_object().unwrap().len());
}

#[test]
fn a_near_miss_is_suggested() {
    let output = Command::new(env!("CARGO_BIN_EXE_sluice")).args(["explain", "port.sped"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error, "sluice: there is no setting \"port.sped\"; did you mean \"speed\"?\n");
}
