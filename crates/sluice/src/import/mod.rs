//! `sluice import`: a configuration from that of another system, and what it could not carry over.

mod sonic;

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::exit::misuse;
use crate::import::sonic::{Imported, Note};
use crate::new_file::write_file;
use crate::output;

/// Write a configuration from that of another system.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    from: Source,
}

/// The other system.
#[derive(Subcommand)]
enum Source {
    Sonic(Sonic),
}

/// From SONiC's CONFIG_DB, as `sonic-cfggen -d --print-data` or /etc/sonic/config_db.json has it.
#[derive(Args)]
#[command(after_long_help = "\
Carried over are ports, buffer pools and profiles, the maps of priorities, PFC, WRED and ECN, \
schedulers, the PFC watchdog, cable lengths and VLANs. What has no counterpart, or not the same, is \
listed on standard error: table, key, field and why. Thresholds of a switch chip are too small for \
software: `sluice headroom --fix FILE --measured` raises them for this machine.

JSON: file (null: standard output), config (the text), not_carried[] with table, key (empty: the \
whole table), field (empty: the whole entry), why.

Examples:
  sluice import sonic config_db.json --output sonic.toml
  sluice import sonic config_db.json --port Ethernet0=eth0 --port Ethernet4=eth1")]
struct Sonic {
    /// The CONFIG_DB.
    #[arg(value_name = "CONFIG_DB.json")]
    file: PathBuf,
    /// Only this port, and the interface that it has here; may be repeated. Without it, all ports,
    /// with interfaces of the same names.
    #[arg(long, value_name = "PORT=INTERFACE", value_parser = pair)]
    port: Vec<(String, String)>,
    /// Where the configuration goes [default: standard output].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace FILE if it exists.
    #[arg(long, requires = "output")]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((port, interface)) if !port.is_empty() && !interface.is_empty() => {
            Ok((port.to_owned(), interface.to_owned()))
        }
        _ => Err("write the port and its interface, as Ethernet0=eth0".to_owned()),
    }
}

/// Returns the configuration of a CONFIG_DB with all its ports.
///
/// # Errors
/// The text is none, or it has no port, or too many.
pub fn of_sonic(text: &str) -> Result<String, String> {
    let imported = sonic::import(&database(text).map_err(|why| format!("it {why}"))?, &[])?;
    Ok(imported.text)
}

/// Returns the tables of a CONFIG_DB.
fn database(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(tables)) => Ok(tables),
        Ok(_) => Err("is no CONFIG_DB: an object of tables is expected".to_owned()),
        Err(error) => Err(format!("is no JSON: {error}")),
    }
}

/// Imports, and reports what was not carried over.
pub fn run(arguments: &Arguments) -> Result<()> {
    let Source::Sonic(arguments) = &arguments.from;
    let name = arguments.file.display().to_string();
    let text = std::fs::read_to_string(&arguments.file).with_context(|| format!("cannot read {name}"))?;
    let database = database(&text).map_err(|why| anyhow!("{name} {why}"))?;
    let Imported { text, notes } = match sonic::import(&database, &arguments.port) {
        Ok(imported) => imported,
        Err(refusal) => return misuse(format!("{name}: {refusal}")),
    };
    let target = arguments.output.as_ref().map(|file| file.display().to_string());
    let shown = target.as_deref().unwrap_or("the configuration");
    let checked = config::parse(shown, &text).map_err(|errors| {
        eprintln!("{:?}", miette::Report::new(errors));
        anyhow!("{name} was not imported: the result would not be accepted")
    })?;
    if let Some(file) = &arguments.output {
        write_file(file, &text, arguments.force)?;
    }
    if arguments.json {
        let object = json!({ "file": target, "config": text, "not_carried": notes });
        return output::print(&output::json(&object, true)?);
    }
    if !checked.warnings.list().is_empty() {
        eprintln!("{:?}", miette::Report::new(checked.warnings.clone()));
    }
    eprint!("{}", listed(&notes));
    match target {
        Some(target) => output::print(&format!("{} ports are in {target}.", checked.interfaces.len())),
        None => output::print(text.trim_end()),
    }
}

/// Lists what was not carried over, table by table.
fn listed(notes: &[Note]) -> String {
    let mut out = String::new();
    let mut table = "";
    for note in notes {
        if note.table != table {
            table = &note.table;
            out += &format!("{table}: not carried over:\n");
        }
        let path = [note.key.as_str(), note.field.as_str()];
        let path: Vec<_> = path.into_iter().filter(|part| !part.is_empty()).collect();
        let path = if path.is_empty() { "all".to_owned() } else { path.join(" ") };
        out += &format!("    {path}: {}\n", note.why);
    }
    out
}
