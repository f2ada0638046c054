//! SONiC's CONFIG_DB as a configuration.
//!
//! A traffic class (TC) is a priority here, and its priority group has its number: a TC gets the
//! profile of the group that SONiC maps it to. Lines that all ports share are defaults.

mod buffer;
mod database;
mod port;
mod qos;

use serde_json::{Map, Value};

pub use crate::import::sonic::database::Note;
use crate::import::sonic::database::{Database, Port};
use crate::init::toml_key as quoted;

/// Ports of a switch, at most.
const MAX_PORTS: usize = 64;

/// A configuration, and what it lacks.
pub struct Imported {
    pub text: String,
    pub notes: Vec<Note>,
}

/// Imports these ports, each with its interface here, or all.
///
/// # Errors
/// A port does not exist, or there are too many.
pub fn import(tables: &Map<String, Value>, wanted: &[(String, String)]) -> Result<Imported, String> {
    let database = Database::new(tables);
    let mut ports = ports(&database, wanted)?;
    for port in &mut ports {
        port::link(&database, port);
        qos::maps(&database, port);
        qos::queues(&database, port);
        qos::watchdog(&database, port);
    }
    port::vlans(&database, &mut ports);
    let buffer = buffer::import(&database, &mut ports);
    let profiles = qos::profiles(&database, &ports);
    let name = switch_name(&database);
    let mut text = format!(
        "# Imported from SONiC's CONFIG_DB. Thresholds are those of its switch chip: for software,\n\
         # `sluice headroom --fix FILE --measured` raises headroom to what this machine needs.\n\n\
         [switch]\nname = \"{name}\"\n\n{buffer}{profiles}"
    );
    let (first, others) = ports.split_first().ok_or("it has no port")?;
    let is_shared =
        |line: &&String| !line.starts_with("vlan") && others.iter().all(|port| port.lines.contains(line));
    let shared: Vec<String> = first.lines.iter().filter(is_shared).cloned().collect();
    text += &format!("[port-defaults]\n{}\n\n", shared.join("\n"));
    for port in &ports {
        let own: Vec<_> = port.lines.iter().filter(|line| !shared.contains(line)).cloned().collect();
        text += &format!("[port.{}]\ninterface = {}\n", quoted(port.name), quoted_value(&port.interface));
        own.iter().for_each(|line| text += &format!("{line}\n"));
        text += "\n";
    }
    Ok(Imported { text: text.trim_end().to_owned() + "\n", notes: database.into_notes() })
}

fn ports<'j>(database: &Database<'j>, wanted: &[(String, String)]) -> Result<Vec<Port<'j>>, String> {
    let names = database.keys("PORT");
    if let Some((missing, _)) = wanted.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        let known = names.join(", ");
        return Err(format!("there is no port `{missing}` in its table PORT, which has {known}"));
    }
    let interface = |name: &str| match wanted {
        [] => Some(name.to_owned()),
        _ => wanted.iter().find(|(wanted, _)| wanted == name).map(|(_, interface)| interface.clone()),
    };
    let port = |name| {
        Some(Port {
            name,
            interface: interface(name)?,
            lines: Vec::new(),
            no_drop: Vec::new(),
            queues: [0; 8],
        })
    };
    let ports: Vec<_> = names.iter().filter_map(|name| port(*name)).collect();
    match ports.len() {
        0 => Err("its table PORT has no port".to_owned()),
        1..=MAX_PORTS => Ok(ports),
        many => Err(format!("it has {many} ports, and a switch {MAX_PORTS} at most: choose with --port")),
    }
}

fn switch_name(database: &Database) -> String {
    let name = database.field("DEVICE_METADATA", "localhost", "hostname").unwrap_or("sonic");
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).take(32).collect();
    if name.is_empty() { "sonic".to_owned() } else { name }
}

fn quoted_value(text: &str) -> String {
    Value::from(text).to_string() // a string of JSON is one of TOML
}

#[cfg(test)]
mod tests;
