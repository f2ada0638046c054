//! Commands of clients (and SIGHUP): what each means for the poll loop, and how its outcome is
//! logged.

use control::command::no_port;
use control::{Command, CommandError, CommandResult, ErrorKind, Peer};
use dataplane::LoopCommand;
use tracing::{info, warn};
use wire::bitset::Set8;

use crate::control_loop::running_config::RunningConfig;

/// Log target of messages about a configuration file, which may take any number of lines (see
/// [`crate::log`]).
const FILE: &str = "sluiced::file";

/// What the poll loop has to do for a command of a client.
#[derive(Debug)]
pub struct LoopStep {
    /// The command to the poll loop.
    pub command: LoopCommand,
    /// The changed settings, where they are worth a log line.
    pub changes: Vec<String>,
    /// The running configuration after the loop has executed the command, if it differs.
    pub live: Option<RunningConfig>,
}

/// Returns what a command requires of a switch that runs with `live`; `None` if nothing.
pub fn plan(order: &Command, live: &RunningConfig) -> Result<Option<LoopStep>, CommandError> {
    let apply = |next: RunningConfig, changes| LoopStep {
        command: LoopCommand::Apply(Box::new(next.settings())),
        changes,
        live: Some(next),
    };
    let step = match order {
        Command::ClearWatermarks => {
            LoopStep { command: LoopCommand::ClearWatermarks, changes: Vec::new(), live: None }
        }
        Command::HoldPort { port, held } => {
            let command = LoopCommand::Hold { port: slot_of(port, live)?, held: *held };
            LoopStep { command, changes: Vec::new(), live: None }
        }
        Command::RecoverStorms { port } => {
            let command = LoopCommand::RecoverStorms(slot_of(port, live)?);
            LoopStep { command, changes: Vec::new(), live: None }
        }
        Command::LiftStormLimit { port, priority } => {
            let priorities = priority.map_or(Set8::ALL, |priority| Set8::of(priority.into()));
            let command = LoopCommand::LiftStormLimit { port: slot_of(port, live)?, priorities };
            LoopStep { command, changes: Vec::new(), live: None }
        }
        Command::FlushFdb { port, vlan } => {
            let port = port.as_deref().map(|port| slot_of(port, live)).transpose()?;
            let command = LoopCommand::FlushFdb { port, vid: *vlan };
            LoopStep { command, changes: Vec::new(), live: None }
        }
        Command::SetPortAdmin { port, up } => {
            let slot = slot_of(port, live)?;
            if live.is_admin_up(slot) == *up {
                return Ok(None);
            }
            // The settings are the same: the ports follow once they are in force.
            apply(live.with_admin(port, *up), Vec::new())
        }
        Command::SetPfc { enabled } if *enabled == live.config().pfc_enabled => return Ok(None),
        Command::SetPfc { enabled } => apply(live.with_pfc(*enabled), Vec::new()),
        Command::Reload => {
            let (next, changes) = live.reloaded()?;
            if changes.is_empty() {
                return Ok(None);
            }
            apply(next, changes)
        }
    };
    Ok(Some(step))
}

/// Returns the slot of the port with this name.
pub(crate) fn slot_of(name: &str, live: &RunningConfig) -> Result<usize, CommandError> {
    let ports = &live.config().switch.ports;
    live.slots().of_name(name).ok_or_else(|| {
        let message = no_port(name, ports.iter().map(|port| port.name.as_str()));
        CommandError { reason: ErrorKind::NotFound, message }
    })
}

/// Logs the outcome of a command, with the client that sent it; `None` for SIGHUP.
pub fn log(order: &Command, by: Option<&Peer>, outcome: &CommandResult) {
    let by = by.map_or("SIGHUP".to_owned(), Peer::to_string);
    match (order, outcome) {
        (Command::Reload, Err(refusal)) => {
            refusal.message.lines().for_each(|line| warn!(target: FILE, by, "reload: {line}"));
        }
        (_, Err(refusal)) => warn!(by, "{}: {}", order.what(), refusal.message.replace('\n', " ")),
        (Command::ClearWatermarks, Ok(_)) => info!(by, "watermarks are cleared"),
        (Command::HoldPort { port, held: true }, Ok(_)) => {
            warn!(port, by, "transmission is held, as for tests; `sluice port release {port}` lets it go on");
        }
        (Command::HoldPort { port, held: false }, Ok(_)) => info!(port, by, "transmission is released"),
        (Command::RecoverStorms { port }, Ok(_)) => {
            info!(port, by, "storms that waited for manual recovery are ended")
        }
        (Command::LiftStormLimit { port, .. }, Ok(_)) => info!(port, by, "the limit of storms is lifted"),
        (Command::SetPortAdmin { port, up: true }, Ok(_)) => info!(port, by, "admin up"),
        (Command::SetPortAdmin { port, up: false }, Ok(_)) => {
            warn!(port, by, "admin down; `sluice port up {port}` brings it up again");
        }
        (Command::SetPfc { enabled: true }, Ok(_)) => info!(by, "PFC is on, as the ports have it"),
        (Command::SetPfc { enabled: false }, Ok(_)) => {
            warn!(by, "PFC is off on all ports; `sluice pfc on` turns it on");
        }
        (Command::FlushFdb { port, vlan }, Ok(_)) => info!(port, vlan, by, "learned addresses are forgotten"),
        (Command::Reload, Ok(changes)) if changes.is_empty() => {
            info!(by, "reload: the file matches the running configuration");
        }
        (Command::Reload, Ok(changes)) => {
            changes.iter().for_each(|change| info!(target: FILE, by, "reload: {change}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn live() -> RunningConfig {
        let text = "[port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"\n\
                    [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n";
        RunningConfig::new(config::parse("lab.toml", text).unwrap(), Path::new("/nowhere/lab.toml"))
    }

    #[test]
    fn each_request_becomes_its_command() {
        let live = live();
        let step = plan(&Command::ClearWatermarks, &live).unwrap().unwrap();
        assert!(matches!(step.command, LoopCommand::ClearWatermarks) && step.live.is_none());
        let hold = |port: &str| plan(&Command::HoldPort { port: port.into(), held: true }, &live);
        let step = hold("b").unwrap().unwrap();
        assert!(matches!(step.command, LoopCommand::Hold { port: 1, held: true }), "{step:?}");
        let refusal = hold("c").unwrap_err();
        assert_eq!(refusal.reason, ErrorKind::NotFound);
        assert_eq!(refusal.message, "there is no port `c`; the ports are a, b");
        let refusal = plan(&Command::Reload, &live).unwrap_err();
        assert!(refusal.message.contains("/nowhere/lab.toml"), "{refusal}");
    }

    #[test]
    fn pfc_is_turned_off_and_on_and_no_more_than_once() {
        let set = |enabled, live: &RunningConfig| plan(&Command::SetPfc { enabled }, live).unwrap();
        let on = live();
        assert!(set(true, &on).is_none(), "it is on");
        let step = set(false, &on).unwrap();
        let off = step.live.unwrap();
        match step.command {
            LoopCommand::Apply(settings) => assert_eq!(settings.switch, on.settings().switch.without_pfc()),
            other => panic!("{other:?}"),
        }
        assert!(set(false, &off).is_none(), "it is off");
        match set(true, &off).unwrap().command {
            LoopCommand::Apply(settings) => assert_eq!(*settings, on.settings()),
            other => panic!("{other:?}"),
        }
    }
}
