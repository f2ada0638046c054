//! All settings of the file by their full names, as its description has them.

use crate::read::suggest::quoted_list;
use crate::spec::{KeySpec, SettingSpec, TableSpec, ValueSpec};
pub use crate::tables::FILE;

/// A setting by its full name.
#[derive(Debug, Clone)]
pub struct NamedSetting {
    /// Full name, as `port.NAME.pfc.priority.N.headroom_cells`.
    pub path: String,
    /// Its last part, as in the file.
    pub name: String,
    /// The setting; where its table needs a restart, it does.
    pub spec: SettingSpec,
}

impl NamedSetting {
    /// Returns in words what it can be, with its unit.
    pub fn values(&self) -> String {
        let unit = self.spec.unit_of(&self.name);
        let values = in_words(&self.spec.values);
        if unit.is_empty() { values } else { format!("{values} {unit}") }
    }
}

fn in_words(values: &ValueSpec) -> String {
    match values {
        ValueSpec::Boolean => "true or false".to_owned(),
        ValueSpec::Number(first, last) => format!("{first} to {last}"),
        ValueSpec::Speed => "as \"2.5G\", up to \"800G\"; or bit/s, from 1000000".to_owned(),
        ValueSpec::Text(example) => format!("text, as \"{example}\""),
        ValueSpec::Choice(words) => quoted_list(&words(), ", "),
        ValueSpec::List(of) => format!("list of: {}", in_words(of)),
        ValueSpec::Eight { last, index } => format!("8 numbers, 0 to {last}, by {index}"),
        ValueSpec::Table(_) => "table".to_owned(),
        ValueSpec::Map(keys, ValueSpec::Table(_)) => format!("table by {}", keys.placeholder()),
        ValueSpec::Map(keys, of) => format!("table by {}: {}", keys.placeholder(), in_words(of)),
        ValueSpec::Either(kinds) => kinds.iter().map(in_words).collect::<Vec<_>>().join(", or "),
        ValueSpec::Size { .. } => "cells, or bytes".to_owned(),
    }
}

/// Returns all settings and tables of the file, each table before its settings. Those of
/// `[port-defaults]` are those of `[port.NAME]` and left out.
pub fn all_settings() -> Vec<NamedSetting> {
    let mut all = Vec::new();
    add_settings("", FILE, false, &mut all);
    all
}

/// Returns the setting of this full name.
pub fn setting(path: &str) -> Option<NamedSetting> {
    all_settings().into_iter().find(|setting| setting.path == path)
}

fn add_settings(table: &str, spec: TableSpec, restart: bool, all: &mut Vec<NamedSetting>) {
    for (name, mut spec) in spec.iter().flat_map(SettingSpec::by_name) {
        let path = if table.is_empty() { name.clone() } else { format!("{table}.{name}") };
        spec.needs_restart |= restart;
        let (mut inner, mut values) = (path.clone(), &spec.values);
        while let ValueSpec::Map(keys, of) = values {
            inner = format!("{inner}.{}", keys.placeholder());
            values = of;
        }
        let table = values.table().filter(|_| path != "port-defaults");
        let has_map = matches!(spec.values, ValueSpec::Map(..)) && table.is_some();
        let path = if has_map { inner.clone() } else { path };
        all.push(NamedSetting { path, name, spec });
        if let Some(table) = table {
            add_settings(&inner, table, spec.needs_restart, all);
        }
    }
}

/// Returns what only a restart applies: settings, and tables of which none can be reloaded.
pub fn needs_restart() -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for setting in all_settings().into_iter().filter(|setting| setting.spec.needs_restart) {
        let is_in = |table: &String| setting.path.starts_with(&format!("{table}."));
        if !found.iter().any(is_in) {
            found.push(setting.path);
        }
    }
    found
}

/// Returns the settings that `query` may mean: those of exactly this name, else those that end so,
/// else those that begin so. Names of ports and numbers may be left out, or be any.
pub fn matching(query: &str) -> Vec<NamedSetting> {
    let query = query.strip_prefix("port-defaults.").map_or(query.to_owned(), |it| format!("port.{it}"));
    let query: Vec<&str> = query.split('.').collect();
    let ways = [(false, false), (true, false), (true, true)];
    let ways =
        ways.into_iter().flat_map(|(inside, beginning)| [false, true].map(|it| (inside, beginning, it)));
    for (inside, is_beginning, has_names) in ways {
        let is_meant = |setting: &NamedSetting| {
            let path: Vec<&str> = setting.path.split('.').collect();
            let mut starts = 0..if inside { path.len() } else { 1 };
            starts
                .any(|at| !is_placeholder(path[at]) && is_same(&query, &path[at..], is_beginning, has_names))
        };
        let found: Vec<NamedSetting> = all_settings().into_iter().filter(is_meant).collect();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

fn is_placeholder(part: &str) -> bool {
    [KeySpec::Name, KeySpec::Number(0)].iter().any(|key| key.placeholder() == part)
}

/// Returns true if a query is a path, or the beginning of one; its last part may be the beginning
/// of a name, then. `has_names`: parts of the query stand for those that the user chooses.
fn is_same(query: &[&str], path: &[&str], is_beginning: bool, has_names: bool) -> bool {
    let Some((name, inner)) = path.split_first() else { return query.is_empty() };
    let Some((part, rest)) = query.split_first() else {
        return is_beginning || path.iter().all(|part| is_placeholder(part));
    };
    if is_placeholder(name) {
        let is_named = has_names && !rest.is_empty() && is_same(rest, inner, is_beginning, has_names);
        return is_named || is_same(query, inner, is_beginning, has_names);
    }
    let is_part = name == part || is_beginning && rest.is_empty() && name.starts_with(part);
    is_part && is_same(rest, inner, is_beginning, has_names)
}
