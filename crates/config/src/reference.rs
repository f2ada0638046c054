//! All settings of the file by their full names, as its description has them.

use crate::spec::{SettingSpec, TableSpec, ValueSpec};
use crate::tables::FILE;

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

/// Returns all settings and tables of the file, each table before its settings. Those of
/// `[port-defaults]` are those of `[port.NAME]` and left out.
pub fn all_settings() -> Vec<NamedSetting> {
    let mut all = Vec::new();
    add_settings("", &FILE, false, &mut all);
    all
}

/// Returns the setting of this full name.
pub fn setting(path: &str) -> Option<NamedSetting> {
    all_settings().into_iter().find(|setting| setting.path == path)
}

fn add_settings(table: &str, spec: &TableSpec, restart: bool, all: &mut Vec<NamedSetting>) {
    for (name, mut spec) in spec.settings.iter().flat_map(SettingSpec::by_name) {
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
