//! `--set KEY=VALUE`: another value for a setting of the scenario, or of a configuration that it
//! names, for this run.
//!
//! Rule: KEY is a path as TOML writes it. Of a list of tables, `[[traffic]]` for example, a table
//! is named by its `name`, or by its number from 0. `FILE:KEY` is for a configuration, by its path
//! in the scenario. VALUE is TOML, or else a string: `rate=10G` and `rate="10G"` are the same.

use std::str::FromStr;

use toml_edit::{DocumentMut, Item, Key, TableLike, Value};

/// A setting with its value for this run.
#[derive(Debug, Clone)]
pub struct Override {
    /// Path of the configuration in the scenario; `None` for the scenario itself.
    pub file: Option<String>,
    /// As it was written, whole and its key.
    pub text: String,
    key: String,
    path: Vec<String>,
    value: Value,
}

impl Override {
    /// Sets the seed of the scenario. It is set before the scenario is read, since reading it draws
    /// random numbers, too.
    pub fn of_seed(seed: u64) -> Self {
        format!("seed={seed}").parse().expect("a key and a value")
    }
}

impl FromStr for Override {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const CURE: &str =
            "write KEY=VALUE, as in traffic.rdma.rate=10G, or FILE:KEY=VALUE for a configuration";
        let (key, value) = text.split_once('=').ok_or(CURE)?;
        let (file, key) = match key.split_once(':') {
            Some((file, key)) => (Some(file.trim().to_owned()), key.trim()),
            None => (None, key.trim()),
        };
        let path = Key::parse(key).map_err(|_| CURE)?.iter().map(|key| key.get().to_owned()).collect();
        let value = value.trim();
        let value = value.parse::<Value>().unwrap_or_else(|_| Value::from(value));
        Ok(Self { file, text: text.to_owned(), key: key.to_owned(), path, value })
    }
}

/// Returns the text of a file with other values.
///
/// # Errors
/// A path leads through a value, or to a table of a list that is not there.
pub fn apply<'o>(text: &str, overrides: impl IntoIterator<Item = &'o Override>) -> Result<String, String> {
    let mut overrides = overrides.into_iter().peekable();
    if overrides.peek().is_none() {
        return Ok(text.to_owned());
    }
    // A file with mistakes is left to the reader, who reports them.
    let Ok(mut document) = text.parse::<DocumentMut>() else { return Ok(text.to_owned()) };
    for given in overrides {
        let (last, tables) = given.path.split_last().expect("a key has a name");
        let mut table: &mut dyn TableLike = document.as_table_mut();
        let mut tables = tables.iter();
        while let Some(name) = tables.next() {
            let item = table.entry(name).or_insert_with(toml_edit::table);
            table = match item {
                Item::ArrayOfTables(list) => {
                    let names: Vec<String> = list.iter().map(name_of).collect();
                    let wanted = tables.next().ok_or_else(|| missing(given, name, &names))?;
                    let is_it =
                        |(number, own): (usize, &String)| own == wanted || number.to_string() == *wanted;
                    let at = names.iter().enumerate().position(is_it);
                    list.get_mut(at.ok_or_else(|| missing(given, name, &names))?).expect("it was found")
                }
                other => other
                    .as_table_like_mut()
                    .ok_or_else(|| format!("--set {}: {name} is a value, not a table", given.key))?,
            };
        }
        // A size is in cells or in bytes, and not both.
        for (unit, other) in [("_cells", "_bytes"), ("_bytes", "_cells")] {
            if let Some(name) = last.strip_suffix(unit) {
                table.remove(&format!("{name}{other}"));
            }
        }
        table.insert(last, Item::Value(given.value.clone()));
    }
    Ok(document.to_string())
}

fn name_of(table: &toml_edit::Table) -> String {
    table.get("name").and_then(Item::as_str).unwrap_or_default().to_owned()
}

fn missing(given: &Override, list: &str, names: &[String]) -> String {
    let known: Vec<&str> = names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let by_name = if known.is_empty() { String::new() } else { format!(" or one of {}", known.join(", ")) };
    format!(
        "--set {}: write {list}.WHICH.SETTING, where WHICH is a number below {}{by_name}",
        given.key,
        names.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
duration = \"1ms\"
[host.\"h[1-2]\"]
[[traffic]]
name = \"rdma\"
rate = \"1G\"
[[link]]
ends = [\"a\", \"b\"]
";

    fn with(overrides: &[&str]) -> Result<String, String> {
        let parsed: Vec<Override> = overrides.iter().map(|text| text.parse().unwrap()).collect();
        apply(TEXT, &parsed)
    }

    #[test]
    fn settings_get_other_values() {
        assert_eq!(with(&[]).unwrap(), TEXT);
        insta::assert_snapshot!(
            with(&[
                "duration=5ms",
                "traffic.rdma.rate = 10G",
                "traffic.0.priority=3",
                "traffic.rdma.dcqcn={ additive = \"5M\" }",
                "link.0.cable_m=10",
                "host.\"h[1-2]\".no_drop=[3, 4]",
                "new.table.is_made=true",
            ])
            .unwrap()
        );
    }

    #[test]
    fn paths_that_lead_nowhere_are_refused() {
        for (given, expected) in [
            ("duration.x=1", "--set duration.x: duration is a value, not a table"),
            (
                "traffic.rate=1G",
                "--set traffic.rate: write traffic.WHICH.SETTING, where WHICH is a number below 1 or one of rdma",
            ),
            (
                "traffic.rmda.rate=1G",
                "--set traffic.rmda.rate: write traffic.WHICH.SETTING, where WHICH is a number below 1 or one of rdma",
            ),
            ("link.1.mtu=1", "--set link.1.mtu: write link.WHICH.SETTING, where WHICH is a number below 1"),
        ] {
            assert_eq!(with(&[given]).unwrap_err(), expected);
        }
        for wrong in ["rate", "=5", "a..b=1", ""] {
            assert!(wrong.parse::<Override>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_configuration_is_named_before_the_key() {
        let given: Override = "devices/leaf.toml:buffer.headroom_cells=5000".parse().unwrap();
        assert_eq!(given.file.as_deref(), Some("devices/leaf.toml"));
        let text = apply("[buffer]\ntotal_cells = 9\n", [&given]).unwrap();
        assert_eq!(text, "[buffer]\ntotal_cells = 9\nheadroom_cells = 5000\n");
        let text = apply("[buffer]\nheadroom_bytes = 7\ntotal_cells = 9\n", [&given]).unwrap();
        assert_eq!(text, "[buffer]\ntotal_cells = 9\nheadroom_cells = 5000\n");
    }
}
