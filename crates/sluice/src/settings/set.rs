//! `sluice set`: a setting of the running switch, changed in its file, which keeps its comments,
//! and applied by a reload.
//!
//! Rule: the file has the new setting if the daemon runs with it, and its old text if the daemon
//! refused it. Where the daemon has not answered, nobody knows which: the file keeps the new
//! setting, and the error says so. A port that a command took down or up follows the setting. A
//! setting that needs a restart is refused, and so is a file with other changes, which would be
//! applied, too.

use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, bail};
use clap::Args;
use control::{ClientError, Command, v1};
use schemars::JsonSchema;
use serde::Serialize;
use similar::TextDiff;
use toml_edit::{DocumentMut, InlineTable, Item, Key, Table, TableLike, Value};

use crate::exit::misuse;
use crate::headroom_fix::replace;
use crate::output;
use crate::socket::Daemon;

/// Change settings of the running switch, and of its file.
#[derive(Args)]
#[command(after_long_help = "\
KEY is the setting's full name, as `sluice explain` has it with the name of a port; VALUE is as in the \
file, and text needs no quotes. The file keeps its comments. It is changed, checked and reloaded, or it \
stays as it was: if there is a mistake, a setting that needs a restart, or another change in the file \
that is not applied yet. If the daemon does not answer, the file keeps the setting.

JSON: file, changes[] (a line for each thing that changed), written.

Examples:
  sluice set port.uplink.speed=10G
  sluice set port-defaults.pfc.priority.3.headroom_cells=8192 alarm.drop.enabled=true
  sluice set 'port.a.pfc.no_drop=[3, 4]' --dry-run")]
pub struct Arguments {
    /// The settings.
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = pair)]
    settings: Vec<(String, String)>,
    /// Only show what would change in the file.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// What changed.
#[derive(Serialize, JsonSchema)]
pub struct SetOutcome {
    /// The configuration file.
    pub file: String,
    /// A line for each thing that changed, or would change.
    pub changes: Vec<String>,
    /// True if the file was written.
    pub written: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write a setting and its value, as port.a.speed=10G".to_owned()),
    }
}

/// Changes the settings.
pub fn run(arguments: &Arguments) -> Result<()> {
    let running = arguments.daemon.talk(async |client| Ok(client.configuration().await?))?;
    let v1::Configuration { file, differences, needs_restart, invalid, overrides, .. } = running;
    if let Some(why) = invalid {
        bail!("{file} is as it was: it cannot be reloaded: {why}");
    }
    if let Some(why) = unapplied(&[differences, needs_restart].concat()) {
        bail!("{file} is as it was: {why}");
    }
    let old = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let new = match edited(&old, &arguments.settings) {
        Ok(new) => new,
        Err(refusal) => return misuse(format!("{refusal}; {file} is as it was")),
    };
    let wrong = |errors| {
        eprintln!("{:?}", miette::Report::new(errors));
        anyhow!("{file} is as it was")
    };
    let before = config::parse_for_daemon(&file, &old).map_err(wrong)?;
    let after = match config::parse_for_daemon(&file, &new).map_err(wrong) {
        Ok(after) => after,
        Err(refusal) => return misuse(refusal.to_string()),
    };
    let restart = config::changes(&before, &after).restart;
    if !restart.is_empty() {
        let list = restart.join("\n");
        bail!(
            "{file} is as it was: these settings need a restart of sluiced, so change the file itself:\n{list}"
        );
    }
    let mut changes = config::changes(&before, &after).live;
    if !arguments.dry_run && old != new {
        replace(Path::new(&file), &new)
            .with_context(|| format!("cannot write {file}, which is as it was"))?;
        changes = reload_or_restore(arguments, &file, &old)?;
    }
    for (port, up) in overruled(&arguments.settings, &overrides) {
        changes.push(format!("port.{port}: admin {}, no longer {} by command", word(up), word(!up)));
        if !arguments.dry_run {
            arguments.daemon.order(Command::SetPortAdmin { port, up })?;
        }
    }
    report(arguments, &file, (&old, &new), changes)
}

/// Returns the ports that a command took down or up, and that these settings want otherwise, with
/// true for up: a reload leaves them as they are where the file does not change. `overrides` are
/// the daemon's lines about what is in force beyond the file.
fn overruled(settings: &[(String, String)], overrides: &[String]) -> Vec<(String, bool)> {
    let wanted = settings.iter().filter_map(|(name, value)| {
        let keys = Key::parse(name).ok()?;
        let [table, port, setting] = &keys[..] else { return None };
        let is_admin = table.get() == "port" && setting.get() == "admin";
        let up = match parsed(value).as_str()? {
            "up" => true,
            "down" => false,
            _ => return None,
        };
        is_admin.then(|| (port.get().to_owned(), up))
    });
    let is_overruled = |(port, up): &(String, bool)| {
        let line = format!("port.{port}: admin {}, by command", word(!up));
        overrides.iter().any(|known| known.starts_with(&line))
    };
    wanted.filter(is_overruled).collect()
}

fn word(up: bool) -> &'static str {
    if up { "up" } else { "down" }
}

/// Returns why a file that differs like this from what runs cannot be changed, if it differs.
fn unapplied(differences: &[String]) -> Option<String> {
    if differences.iter().any(|line| line == config::PFC_ON_AGAIN) {
        let why = "PFC was turned off by hand, and a reload would turn it on: `sluice pfc on` first";
        return Some(why.to_owned());
    }
    let others = differences.join("\n");
    let why = format!("it has changes that are not applied, `sluice reload` first:\n{others}");
    (!differences.is_empty()).then_some(why)
}

/// Has the daemon reload the file, and restores the file if that is refused.
fn reload_or_restore(arguments: &Arguments, file: &str, old: &str) -> Result<Vec<String>> {
    arguments.daemon.order(Command::Reload).map_err(|error| not_reloaded(error, file, old))
}

/// Restores the file if the daemon refused it. Returns the error, and which setting the file has.
fn not_reloaded(error: Error, file: &str, old: &str) -> Error {
    if !matches!(error.downcast_ref::<ClientError>(), Some(ClientError::Declined(_))) {
        return error.context(format!(
            "{file} has the new setting, and it is not known whether the daemon has applied it: see `sluice show config`"
        ));
    }
    match replace(Path::new(file), old) {
        Ok(()) => error.context(format!("{file} is as it was")),
        Err(failed) => failed.context(format!("{file} has the new setting, which was refused: {error}")),
    }
}

fn report(arguments: &Arguments, file: &str, texts: (&str, &str), changes: Vec<String>) -> Result<()> {
    let (old, new) = texts;
    let written = !arguments.dry_run && old != new;
    if arguments.json {
        let outcome = SetOutcome { file: file.to_owned(), changes, written };
        return output::print(&output::json(&outcome, true)?);
    }
    if old == new && changes.is_empty() {
        return output::print(&format!("Nothing changed: {file} has it already."));
    }
    if old == new {
        let end = if arguments.dry_run { "\nNothing changed (--dry-run)." } else { "" };
        return output::print(&format!("{file} has it already.\n{}{end}", changes.join("\n")));
    }
    let diff = TextDiff::from_lines(old, new).unified_diff().context_radius(1).header(file, file).to_string();
    let end = if written { changes.join("\n") } else { format!("{file} is as it was (--dry-run).") };
    output::print(&format!("{diff}\n{end}"))
}

/// Returns the text with these settings.
///
/// # Errors
/// What is wrong with one.
fn edited(text: &str, settings: &[(String, String)]) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("it is no TOML: {error}"))?;
    for (name, value) in settings {
        let keys = Key::parse(name).map_err(|_| format!("`{name}` is no name of a setting"))?;
        let (last, path) = keys.split_last().ok_or_else(|| format!("`{name}` is no name of a setting"))?;
        let mut table: &mut dyn TableLike = document.as_table_mut();
        let mut is_inline = false;
        for key in path {
            is_inline |= table.get(key.get()).is_some_and(Item::is_inline_table);
            let inside = subtable(table, key, is_inline);
            table = inside.ok_or_else(|| format!("`{}` in {name} is no table", key.get()))?;
        }
        let mut value = parsed(value);
        if let Some(Item::Value(before)) = table.get(last.get()) {
            *value.decor_mut() = before.decor().clone(); // a comment after it stays
        } else if table.get(last.get()).is_some() {
            return Err(format!("{name} is a table: name one of its settings"));
        }
        match table.get_mut(last.get()) {
            Some(item) => *item = Item::Value(value),
            None => drop(table.insert(last.get(), Item::Value(value))),
        }
    }
    Ok(document.to_string())
}

/// Returns a value as the file would have it, or else text.
fn parsed(text: &str) -> Value {
    text.parse().unwrap_or_else(|_| Value::from(text))
}

/// Returns a table in a table, which is created in the style of its parent.
fn subtable<'t>(parent: &'t mut dyn TableLike, key: &Key, is_inline: bool) -> Option<&'t mut dyn TableLike> {
    if parent.get(key.get()).is_none() {
        // Below a dotted key, or in an inline table, there can be no heading.
        let new = match parent.is_dotted() || is_inline {
            true => Item::Value(InlineTable::new().into()),
            false => Item::Table(implicit()),
        };
        parent.insert(key.get(), new);
    }
    parent.get_mut(key.get())?.as_table_like_mut()
}

/// Returns a table whose heading appears once it has a setting.
fn implicit() -> Table {
    let mut table = Table::new();
    table.set_implicit(true);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# The lab.
[port-defaults]
speed = \"1G\"   # of the veths
pfc = { mode = \"on\", no_drop = [3] } # one priority

[port.a]
interface = \"sw-a\"
pfc.priority.3.headroom_cells = 4096
";

    fn set(settings: &[&str]) -> Result<String, String> {
        let pairs: Vec<_> = settings.iter().map(|text| pair(text).unwrap()).collect();
        edited(FILE, &pairs)
    }

    /// A daemon that refused runs with the old text; one that did not answer may have either.
    #[test]
    fn the_file_is_restored_only_where_the_daemon_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.toml");
        let file = path.display().to_string();
        let after = |error: ClientError| {
            std::fs::write(&path, "new").unwrap();
            let message = format!("{:#}", not_reloaded(error.into(), &file, "old"));
            (std::fs::read_to_string(&path).unwrap(), message)
        };
        let (text, message) = after(ClientError::Declined("nothing was changed".to_owned()));
        assert_eq!((text, message), ("old".to_owned(), format!("{file} is as it was: nothing was changed")));
        for error in [ClientError::Silent("a.sock".into()), ClientError::Ended("a.sock".into())] {
            let (text, message) = after(error);
            assert_eq!(text, "new");
            assert!(message.contains("it is not known whether") && message.contains("`sluice show config`"));
        }
    }

    /// Only a command that took the port to the other state, and only of that port.
    #[test]
    fn a_command_before_is_overruled() {
        let line = |port: &str, now: &str| format!("port.{port}: admin {now}, by command: `sluice port …`");
        let overrides = [line("a", "down"), line("b.1", "up"), "PFC is off on all ports".to_owned()];
        let overruled = |setting: &str| super::overruled(&[pair(setting).unwrap()], &overrides);
        assert_eq!(overruled("port.a.admin=up"), [("a".to_owned(), true)]);
        assert_eq!(overruled("port.\"b.1\".admin=\"down\""), [("b.1".to_owned(), false)]);
        for other in ["port.a.admin=down", "port.c.admin=up", "port.a.speed=1G", "port-defaults.admin=up"] {
            assert_eq!(overruled(other), [], "{other}");
        }
    }

    #[test]
    fn what_is_not_applied_is_named() {
        let why =
            |lines: &[&str]| unapplied(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
        assert_eq!(why(&[]), None);
        let other = why(&["port.a: mtu 1518 → 9018"]).unwrap();
        assert!(other.ends_with("`sluice reload` first:\nport.a: mtu 1518 → 9018"), "{other}");
        assert!(why(&[config::PFC_ON_AGAIN]).unwrap().ends_with("`sluice pfc on` first"));
    }

    /// Every other line, and every comment, stays.
    #[test]
    fn a_value_is_replaced_where_it_stands() {
        for (setting, old, new) in [
            ("port-defaults.speed=2.5G", "speed = \"1G\"   # of", "speed = \"2.5G\"   # of"),
            ("port-defaults.pfc.no_drop=[3, 4]", "no_drop = [3] }", "no_drop = [3, 4] }"),
            ("port.a.pfc.priority.3.headroom_cells=5000", "cells = 4096", "cells = 5000"),
            ("port.a.interface=\"sw-b\"", "\"sw-a\"", "\"sw-b\""),
        ] {
            assert_eq!(set(&[setting]).unwrap(), FILE.replace(old, new), "{setting}");
        }
    }

    #[test]
    fn a_new_setting_gets_its_table() {
        let text =
            set(&["alarm.drop.enabled=true", "port.a.mtu=9018", "port-defaults.pfc.pause_time=100"]).unwrap();
        assert!(text.contains("[alarm.drop]\nenabled = true\n"), "{text}");
        assert!(text.contains("cells = 4096\nmtu = 9018\n"), "{text}");
        assert!(text.contains("no_drop = [3] , pause_time = 100 } # one priority"), "{text}");
        let before: toml::Table = FILE.parse().unwrap();
        let after: toml::Table = text.parse().unwrap();
        assert_eq!(after["port"]["a"]["interface"], before["port"]["a"]["interface"]);
        assert_eq!(after["port"]["a"]["mtu"].as_integer(), Some(9018));
    }

    #[test]
    fn what_is_no_setting_is_named() {
        assert_eq!(
            set(&["port-defaults.speed.fast=1"]).unwrap_err(),
            "`speed` in port-defaults.speed.fast is no table"
        );
        assert_eq!(set(&["port.a.pfc=off"]).unwrap_err(), "port.a.pfc is a table: name one of its settings");
        assert_eq!(set(&["port..a=1"]).unwrap_err(), "`port..a` is no name of a setting");
        assert!(pair("port.a.speed").is_err() && pair("=1").is_err() && pair("a=").is_err());
    }
}
