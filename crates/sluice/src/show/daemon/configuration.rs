//! `sluice show config`: the file as the daemon read it, how it differs now, and what is in force
//! although it does not say it; with `effective`, the settings in force, defaults included.

use std::fmt::Write;

use control::v1::Configuration;
use serde_json::Value;

/// Formats the running file and its differences.
pub fn text(configuration: &Configuration) -> String {
    let Configuration { file, text, differences, needs_restart, invalid, overrides, .. } = configuration;
    let mut out = format!("# {file}, as it was read\n{}\n", text.trim_end());
    let mut list = |heading: &str, lines: &[String]| {
        if !lines.is_empty() {
            let _ = write!(out, "\n# {heading}\n");
            lines.iter().for_each(|line| out.push_str(&format!("#   {line}\n")));
        }
    };
    list("In force besides the file:", overrides);
    list("`sluice reload` would change:", differences);
    list(
        "The file also changes what needs a restart of sluiced; until then it is not loaded:",
        needs_restart,
    );
    let invalid: Vec<String> = invalid.iter().flat_map(|why| why.lines().map(str::to_owned)).collect();
    list("The file cannot be loaded now:", &invalid);
    if differences.is_empty() && needs_restart.is_empty() && invalid.is_empty() {
        out.push_str("\n# The file is what runs.\n");
    }
    out
}

/// Formats every setting in force, a line each: `port.NAME.SETTING = value`.
pub fn effective(configuration: &Configuration) -> String {
    let mut lines = Vec::new();
    for port in &configuration.ports {
        let value = serde_json::to_value(port).unwrap_or_default();
        flatten(&format!("port.{}", port.name), &value, &mut lines);
    }
    lines.join("\n")
}

/// Adds the values inside a value; lists of numbers are one line, nulls none.
fn flatten(path: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| *name != "name") {
                flatten(&format!("{path}.{name}"), value, lines);
            }
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            let singular = path.strip_suffix("ies").map(|path| format!("{path}y"));
            let singular = singular.unwrap_or_else(|| path.trim_end_matches('s').to_owned());
            for (number, value) in values.iter().enumerate() {
                flatten(&format!("{singular}.{number}"), value, lines);
            }
        }
        value => lines.push(format!("{path} = {value}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::configuration_sample as sample;
    use super::*;

    #[test]
    fn the_file_and_how_it_differs() {
        insta::assert_snapshot!(text(&sample()));
        let same = Configuration {
            differences: Vec::new(),
            needs_restart: Vec::new(),
            overrides: Vec::new(),
            ..sample()
        };
        assert!(
            text(&same).ends_with("interface = \"veth0\"\n\n# The file is what runs.\n"),
            "{}",
            text(&same)
        );
        let wrong = Configuration { invalid: Some("one\ntwo".to_owned()), ..same };
        assert!(
            text(&wrong).ends_with("# The file cannot be loaded now:\n#   one\n#   two\n"),
            "{}",
            text(&wrong)
        );
    }

    #[test]
    fn every_setting_in_force() {
        let text = effective(&sample());
        for line in [
            "port.a.interface = \"veth0\"",
            "port.a.maps.dot1p_to_queue = [2,0,1,3,4,5,6,7]",
            "port.a.priority.3.no_drop = true",
            "port.a.priority.3.thresholds.xoff_cells = 768",
            "port.a.priority.3.watchdog.action = \"drop\"",
            "port.b.queue.7.pool = 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
