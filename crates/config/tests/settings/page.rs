//! docs/settings.md, "The tables": generated from the description.

use std::fmt::Write;

use config::reference::{NamedSetting, all_settings};
use config::spec::DefaultSpec;

/// The tables of docs/settings.md are those of the description. `UPDATE_DOCS=1` writes them.
#[test]
fn docs_have_every_setting() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    let page = std::fs::read_to_string(path).unwrap();
    let heading = "## The tables\n";
    let (before, _) = page.split_once(heading).expect("docs/settings.md has the tables");
    let expected = format!("{before}{heading}{}", tables());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, expected).unwrap();
    } else {
        assert!(page == expected, "run with UPDATE_DOCS=1 to generate docs/settings.md");
    }
}

fn tables() -> String {
    let all = all_settings();
    let mut page = String::new();
    for table in &all {
        let inside = |setting: &&NamedSetting| {
            setting.path.rsplit_once('.').is_some_and(|(parent, _)| parent == table.path)
                || setting.path.strip_prefix(&table.path).is_some_and(|rest| {
                    rest.matches('.').count() == 2 && (rest.ends_with(".NAME") || rest.ends_with(".N"))
                })
        };
        let settings: Vec<&NamedSetting> = all.iter().filter(inside).collect();
        if settings.is_empty() && table.path != "port-defaults" {
            continue;
        }
        write!(page, "\n### `{}`\n\n{}\n", table.path, about(table)).unwrap();
        if !settings.is_empty() {
            page += "\n| setting | values | default | what it does |\n|---|---|---|---|\n";
        }
        for setting in settings {
            // Shown with the cells.
            let Some(rounded) = rounding(&all, setting) else { continue };
            let name = setting.path.strip_prefix(&format!("{}.", table.path)).unwrap();
            let (values, default) = (setting.values(), default(setting));
            writeln!(page, "| `{name}`{rounded} | {values} | {default} | {} |", about(setting)).unwrap();
        }
    }
    page
}

/// Returns what the page says about a size in bytes beside that in cells; `None` for the former.
fn rounding(all: &[NamedSetting], setting: &NamedSetting) -> Option<String> {
    let other = |from: &str, to: &str| {
        let path = format!("{}{to}", setting.path.strip_suffix(from)?);
        all.iter().find(|other| other.path == path)
    };
    if other("_bytes", "_cells").is_some() {
        return None;
    }
    let bytes = other("_cells", "_bytes").map(|bytes| {
        let how = if bytes.spec.about.contains(" up ") { "up" } else { "down" };
        format!(" or `{}`, rounded {how} to cells", bytes.name)
    });
    Some(bytes.unwrap_or_default())
}

fn about(setting: &NamedSetting) -> String {
    let restart = if setting.spec.needs_restart { " Needs a restart." } else { "" };
    format!("{}{restart}", setting.spec.about)
}

fn default(setting: &NamedSetting) -> String {
    match setting.spec.default {
        DefaultSpec::Nothing => "–".to_owned(),
        DefaultSpec::Value(value) => format!("`{value}`"),
        DefaultSpec::Words(words) => words.to_owned(),
        DefaultSpec::Required => "required".to_owned(),
    }
}
