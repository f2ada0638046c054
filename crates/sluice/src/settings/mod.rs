//! `sluice explain`: what a setting does, by its name or a part of it; `sluice schema` of the file.

mod schema;
pub mod set;

use anyhow::{Result, bail};
use clap::Args;
use config::aliases::alias;
use config::read::toml_document::did_you_mean;
use config::reference::{self, NamedSetting};
use config::spec::DefaultSpec;
use serde_json::{Value, json};

use crate::output;

/// Explain a setting of the configuration file.
#[derive(Args)]
#[command(after_long_help = "\
SETTING is a full name as in messages (port.server1.pfc.no_drop), one without names of ports and \
numbers (port.pfc.no_drop), its end (pfc.no_drop), or its beginning (port.pfc): then all below it \
are listed. Names of SONiC, Cisco, H3C, NVIDIA and dcb lead to ours. Without SETTING, all tables are listed. \
docs/settings.md has all settings on a page.

JSON: settings[], each with name, values, unit, default, default_words, required, needs_restart, about.")]
pub struct Explain {
    /// The setting.
    setting: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Returns a JSON Schema of the configuration file, for editors.
pub fn schema() -> Value {
    schema::schema()
}

/// Prints what is described about settings.
pub fn explain(arguments: &Explain) -> Result<()> {
    let found = match &arguments.setting {
        Some(query) => with_contents(find(query)?),
        None => tables(),
    };
    output::print(&match (arguments.json, &found[..]) {
        (true, _) => {
            output::json(&json!({ "settings": found.iter().map(as_json).collect::<Vec<_>>() }), true)?
        }
        (false, [one]) => in_full(one),
        (false, several) => list(several),
    })
}

/// Returns the outermost tables.
fn tables() -> Vec<NamedSetting> {
    let is_outermost =
        |setting: &NamedSetting| setting.path.strip_suffix(".NAME").unwrap_or(&setting.path) == setting.name;
    reference::all_settings().into_iter().filter(is_outermost).collect()
}

/// Finds the settings that a user may mean: exactly this one, else those that end so, else those
/// that begin so.
fn find(query: &str) -> Result<Vec<NamedSetting>> {
    let found = match alias(query) {
        Some(alias) => reference::matching(alias.setting),
        None => reference::matching(query),
    };
    if found.is_empty() {
        let all = reference::all_settings();
        let mut names: Vec<&str> = all.iter().map(|setting| setting.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let last = query.rsplit('.').next().unwrap_or(query);
        let hint =
            did_you_mean(last, &names).unwrap_or_else(|| "`sluice explain` lists all tables".to_owned());
        bail!("there is no setting {query:?}; {hint}");
    }
    Ok(found)
}

/// Adds the settings of a table if it is the only one that was found.
fn with_contents(found: Vec<NamedSetting>) -> Vec<NamedSetting> {
    let [table] = &found[..] else { return found };
    let inside = format!("{}.", table.path);
    let is_in = |setting: &NamedSetting| setting.path == table.path || setting.path.starts_with(&inside);
    reference::all_settings().into_iter().filter(is_in).collect()
}

fn default_of(setting: &NamedSetting) -> &'static str {
    match setting.spec.default {
        DefaultSpec::Nothing => "none",
        DefaultSpec::Value(default) | DefaultSpec::Words(default) => default,
        DefaultSpec::Required => "none; the setting is required",
    }
}

fn in_full(setting: &NamedSetting) -> String {
    let mut text = format!("{}\n  {}\n", setting.path, setting.spec.about);
    let values = setting.values();
    let reload = if setting.spec.needs_restart { "needs a restart" } else { "applied by `sluice reload`" };
    for (what, value) in [("Values", &*values), ("Default", default_of(setting)), ("A change", reload)] {
        text += &format!("\n  {:9} {value}", format!("{what}:"));
    }
    if let Some(example) = setting.spec.example_value() {
        text += &format!("\n  Example:  {} = {example}", setting.name);
    }
    text
}

fn list(settings: &[NamedSetting]) -> String {
    let mut table = output::table(&["Setting", "What it does"], 2);
    for setting in settings {
        table.add_row([&setting.path, setting.spec.about]);
    }
    table.trim_fmt()
}

fn as_json(setting: &NamedSetting) -> Value {
    let spec = &setting.spec;
    let (default, words) = match spec.default {
        DefaultSpec::Value(value) => (serde_json::from_str(value).unwrap_or(Value::Null), None),
        DefaultSpec::Words(words) => (Value::Null, Some(words)),
        _ => (Value::Null, None),
    };
    json!({
        "name": setting.path,
        "values": setting.values(),
        "unit": spec.unit_of(&setting.name),
        "default": default,
        "default_words": words,
        "required": spec.default == DefaultSpec::Required,
        "needs_restart": spec.needs_restart,
        "about": spec.about,
    })
}
