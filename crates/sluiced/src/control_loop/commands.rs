//! What clients (and SIGHUP) can tell the daemon to do: what each order means for the loop, and what the log says of it.

use control::{Order, Outcome, Reason, Refusal};
use dataplane::Command;
use tracing::{info, warn};
use wire::bitset::Set8;

use crate::control_loop::running_config::Live;

/// Target of what is said of a file, which has as many lines as it takes (see [`crate::log`]).
const FILE: &str = "sluiced::file";

/// What the loop is told for the sake of an order.
#[derive(Debug)]
pub struct Step {
    /// The command.
    pub command: Command,
    /// What it changes, where that is worth a line.
    pub changes: Vec<String>,
    /// What runs once it is obeyed, if that is something else.
    pub live: Option<Live>,
}

/// What an order takes on a switch that runs as `live` says; `None`: nothing.
pub fn plan(order: &Order, live: &Live) -> Result<Option<Step>, Refusal> {
    let apply = |next: Live, changes| Step {
        command: Command::Apply(Box::new(next.settings())),
        changes,
        live: Some(next),
    };
    let step = match order {
        Order::ClearWatermarks => Step { command: Command::ClearWatermarks, changes: Vec::new(), live: None },
        Order::HoldPort { port, held } => {
            let command = Command::Hold { port: number(port, live)?, held: *held };
            Step { command, changes: Vec::new(), live: None }
        }
        Order::RecoverStorms { port } => {
            let command = Command::RecoverStorms(number(port, live)?);
            Step { command, changes: Vec::new(), live: None }
        }
        Order::LiftStormLimit { port, priority } => {
            let priorities = priority.map_or(Set8::ALL, |priority| Set8::of(priority.into()));
            let command = Command::LiftStormLimit { port: number(port, live)?, priorities };
            Step { command, changes: Vec::new(), live: None }
        }
        Order::SetPfc { enabled } if *enabled == live.config().pfc_enabled => return Ok(None),
        Order::SetPfc { enabled } => apply(live.with_pfc(*enabled), Vec::new()),
        Order::Reload => {
            let (next, changes) = live.reloaded()?;
            if changes.is_empty() {
                return Ok(None);
            }
            apply(next, changes)
        }
    };
    Ok(Some(step))
}

/// The place of the port of this name.
fn number(name: &str, live: &Live) -> Result<usize, Refusal> {
    let ports = &live.config().switch.ports;
    live.places().of_name(name).ok_or_else(|| {
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        let message = format!("there is no port `{name}`; the ports are {}", names.join(", "));
        Refusal { reason: Reason::NotFound, message }
    })
}

/// Logs what became of an order.
pub fn log(order: &Order, outcome: &Outcome) {
    match (order, outcome) {
        (_, Err(refusal)) => {
            let what = match order {
                Order::ClearWatermarks => "clear watermarks",
                Order::HoldPort { .. } => "hold or release a port",
                Order::SetPfc { .. } => "PFC on or off",
                Order::RecoverStorms { .. } => "recover from storms",
                Order::LiftStormLimit { .. } => "lift the limit of storms",
                Order::Reload => "reload",
            };
            refusal.message.lines().for_each(|line| warn!(target: FILE, "{what}: {line}"));
        }
        (Order::ClearWatermarks, Ok(_)) => info!("watermarks are cleared"),
        (Order::HoldPort { port, held: true }, Ok(_)) => {
            warn!(port, "transmission is held, as for tests; `sluice port release {port}` lets it go on");
        }
        (Order::HoldPort { port, held: false }, Ok(_)) => info!(port, "transmission is released"),
        (Order::RecoverStorms { port }, Ok(_)) => info!(port, "storms that waited for it are ended by hand"),
        (Order::LiftStormLimit { port, .. }, Ok(_)) => info!(port, "the limit of storms is lifted"),
        (Order::SetPfc { enabled: true }, Ok(_)) => info!("PFC is on, as the ports have it"),
        (Order::SetPfc { enabled: false }, Ok(_)) => {
            warn!("PFC is off on all ports; `sluice pfc on` turns it on");
        }
        (Order::Reload, Ok(changes)) if changes.is_empty() => {
            info!("reload: the file says what is running already");
        }
        (Order::Reload, Ok(changes)) => {
            changes.iter().for_each(|change| info!(target: FILE, "reload: {change}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn live() -> Live {
        let text = "[port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"\n\
                    [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n";
        Live::new(config::parse("lab.toml", text).unwrap(), Path::new("/nowhere/lab.toml"))
    }

    #[test]
    fn each_order_becomes_its_command() {
        let live = live();
        let step = plan(&Order::ClearWatermarks, &live).unwrap().unwrap();
        assert!(matches!(step.command, Command::ClearWatermarks) && step.live.is_none());
        let hold = |port: &str| plan(&Order::HoldPort { port: port.into(), held: true }, &live);
        let step = hold("b").unwrap().unwrap();
        assert!(matches!(step.command, Command::Hold { port: 1, held: true }), "{step:?}");
        let refusal = hold("c").unwrap_err();
        assert_eq!(refusal.reason, Reason::NotFound);
        assert_eq!(refusal.message, "there is no port `c`; the ports are a, b");
        let refusal = plan(&Order::Reload, &live).unwrap_err();
        assert!(refusal.message.contains("/nowhere/lab.toml"), "{refusal}");
    }

    #[test]
    fn pfc_is_turned_off_and_on_and_no_more_than_once() {
        let set = |enabled, live: &Live| plan(&Order::SetPfc { enabled }, live).unwrap();
        let on = live();
        assert!(set(true, &on).is_none(), "it is on");
        let step = set(false, &on).unwrap();
        let off = step.live.unwrap();
        match step.command {
            Command::Apply(settings) => assert_eq!(settings.switch, on.settings().switch.without_pfc()),
            other => panic!("{other:?}"),
        }
        assert!(set(false, &off).is_none(), "it is off");
        match set(true, &off).unwrap().command {
            Command::Apply(settings) => assert_eq!(*settings, on.settings()),
            other => panic!("{other:?}"),
        }
    }
}
