//! Ports that a reload adds and removes, and changed interfaces: the steps of the control loop, in
//! their order.
//!
//! Rule: ports to add are opened first, unless they are admin down; if that fails, nothing has
//! changed. Then the poll loop applies all settings at once. Then ports join and leave, and the
//! command is complete when all have. Source: docs/behavior.md, "Ports that are added and removed",
//! "MTUs".

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use control::{CommandError, CommandResult, ErrorKind};
use dataplane::LoopCommand;
use switch::{EventKind, EventRecord, PortSettings};
use telemetry::Settings;
use tracing::{error, info};

use super::{ActiveCommand, CommandStage, ControlLoop, PendingCommand, answer_command, unusable};
use crate::control_loop::running_config::RunningConfig;
use crate::ports::interface::DeviceKind;
use crate::ports::link_monitor::Found;
use crate::ports::worker::Assignment;

/// The most warnings of agreements that are remembered.
const MAX_WARNED_OF: usize = 256;

impl ControlLoop {
    /// Applies the current MTUs and speeds of the interfaces to the poll loop, and warns of what
    /// does not fit them.
    pub(super) fn apply_interface_changes(&mut self) {
        let mut live = self.running.clone();
        for &slot in self.running.slots().in_config_order() {
            if let Some(interface) = self.ports.interface(slot) {
                live.set_interface(slot, interface);
            }
        }
        self.warn_of_links();
        if live.slots() != self.running.slots() {
            self.apply(live);
        }
    }

    /// Warns of MTUs that differ, and of headroom and pauses that are not sufficient for the
    /// interfaces and for what was agreed with the peers.
    fn warn_of_links(&mut self) {
        let mut mtus = Vec::new();
        let mut warnings = Vec::new();
        let config = self.running.config();
        let agreed = self.running.agreed_ports();
        let slots = self.running.slots().in_config_order();
        for (&slot, (port, link)) in slots.iter().zip(agreed.iter().zip(&config.links)) {
            if let Some(interface) = self.ports.interface(slot) {
                if interface.kind == DeviceKind::VhostUser {
                    continue; // its guest's MTU is unknown
                }
                mtus.push((self.running.slots().name(slot).unwrap_or_default(), interface.mtu));
                let warning =
                    config::headroom_mtu_warning(port, link, interface.mtu).filter(|_| config.pfc_enabled);
                warnings.extend(warning.map(|text| (EventKind::MtuBeyondHeadroom, Some(slot), text)));
                let port = PortSettings { link_speed_bps: interface.speed_bps, ..port.clone() };
                let warning = config::short_pause_warning(&port).filter(|_| config.pfc_enabled);
                warnings.extend(warning.map(|text| (EventKind::PauseTooShort, Some(slot), text)));
            }
        }
        warnings.extend(config::mtu_warning(mtus).map(|text| (EventKind::MtusDiffer, None, text)));
        let uncovered = config::agreement_warnings(config, &agreed).into_iter();
        warnings
            .extend(uncovered.map(|(number, text)| (EventKind::DcbxUncovered, Some(slots[number]), text)));
        for (kind, port, text) in warnings.iter().filter(|warning| !self.link_warnings.contains(warning)) {
            let event = EventRecord { port: *port, ..EventRecord::new(*kind, text.clone()) };
            // A peer may agree to the same again and again.
            let is_of_agreement = *kind == EventKind::DcbxUncovered;
            if is_of_agreement && self.agreements_warned_of.contains(text) {
                continue;
            }
            if is_of_agreement && self.agreements_warned_of.len() < MAX_WARNED_OF {
                self.agreements_warned_of.push(text.clone());
            }
            self.events.record_now(event);
        }
        self.link_warnings = warnings;
    }

    /// Applies what the peers of the ports agree to now, if that has changed.
    pub(super) fn take_on_agreements(&mut self) {
        if let Some(live) = self.lldp.agreed(&self.running) {
            self.apply(live);
        }
    }

    /// Probes the ports that have got no-drop priorities.
    fn probe_pfc(&mut self) {
        let settings = self.running.settings().switch;
        let open = |slot| self.ports.interface(slot).filter(|_| self.ports.is_open(slot));
        let interfaces: Vec<_> = (0..settings.ports.len()).map(open).collect();
        self.pfc_probe.include(&settings, &interfaces);
    }

    /// Has the poll loop apply a configuration that no client asked for.
    fn apply(&mut self, live: RunningConfig) {
        self.commands.push_back(LoopCommand::Apply(Box::new(live.settings())));
        let (pending, changes) = (None, Vec::new());
        self.active =
            Some(ActiveCommand { pending, changes, live: Some(live), stage: CommandStage::SentToLoop });
    }

    /// The interfaces of the ports that a configuration adds, in the order of their slots.
    pub(super) fn added_interfaces(&self, live: &RunningConfig) -> Vec<String> {
        let added = live.slots().added_to(self.running.slots());
        added.iter().filter_map(|&slot| live.slots().interface(slot).map(str::to_owned)).collect()
    }

    /// Starts to open the ports that a command adds, on what was found of their interfaces. The
    /// poll loop gets its command once they are open.
    fn open_added(&mut self, order: &mut ActiveCommand, found: Vec<Found>) -> Result<()> {
        let Some(live) = &mut order.live else { return Ok(()) };
        let added = live.slots().added_to(self.running.slots());
        let names = self.added_interfaces(live);
        let mut free = self.ports.free_queues();
        let mut prepared = Vec::with_capacity(added.len());
        for ((&slot, (interface, queues)), name) in added.iter().zip(found).zip(&names) {
            // A port that is admin down may have no interface yet, as at the start.
            let admin_up = live.is_admin_up(slot);
            let queues = match queues {
                Err(xdp::Error::NoInterface { .. }) if !admin_up => 1,
                queues => queues?,
            };
            ensure!(interface.is_some() || !admin_up, "interface {name} went away");
            free = free.checked_sub(queues).with_context(|| {
                format!(
                    "interface {name} has {queues} RX queues, and memory is set aside for {free} more: `ethtool -L {name} rx N` \
                     gives it fewer; dataplane.spare_ports sets aside more at the next start"
                )
            })?;
            interface.iter().for_each(|interface| live.set_interface(slot, interface));
            prepared.push((slot, interface, queues));
        }
        let settings = live.settings();
        for ((slot, interface, queues), name) in prepared.into_iter().zip(names) {
            let assignment = Assignment { interface: name, min_posted: settings.min_posted[slot] };
            self.ports.prepare(slot, interface, (assignment, queues), live.is_admin_up(slot));
        }
        order.stage = CommandStage::Opening(LoopCommand::Apply(Box::new(settings)));
        Ok(())
    }

    /// Continues a command that waits for interfaces or ports.
    pub(super) fn resume(&mut self) {
        let Some(mut order) = self.active.take() else { return };
        if order.is_looking_up() && order.is_abandoned() {
            return;
        }
        if let CommandStage::LookingUpRaised(look_up) = &mut order.stage
            && look_up.poll().is_some()
        {
            for report in self.link_monitor.reported() {
                self.on_link_report(report);
            }
            return order.pending.into_iter().for_each(|pending| self.carry_out(pending));
        }
        if let CommandStage::LookingUpAdded(look_up) = &mut order.stage
            && let Some(found) = look_up.poll()
            && let Err(why) = found.and_then(|found| self.open_added(&mut order, found))
        {
            return answer_command(order.pending, Err(unusable(&why.to_string())));
        }
        match (order.stage, self.ports.prepared()) {
            (CommandStage::Opening(command), Some(Ok(()))) => {
                self.commands.push_back(command);
                order.stage = CommandStage::SentToLoop;
            }
            (CommandStage::Opening(_), Some(Err((slot, why)))) => {
                self.ports.abort();
                let name = order.live.as_ref().and_then(|live| live.slots().name(slot)).unwrap_or_default();
                return answer_command(order.pending, Err(unusable(&format!("port.{name}: {why}"))));
            }
            (CommandStage::WaitingForPorts(slots, until), _)
                if self.ports.are_settled(&slots) || Instant::now() >= until =>
            {
                if !self.ports.are_settled(&slots) {
                    let late = "some ports are still being opened or closed: `sluice show ports` says which";
                    order.changes.push(late.to_owned());
                }
                let outcome = self.outcome(order.pending.as_ref(), order.changes);
                return answer_command(order.pending, outcome);
            }
            (stage, _) => order.stage = stage,
        }
        self.active = Some(order);
    }

    /// Returns the outcome of a command whose ports are settled. A port that was to come up and has
    /// not is an error, though it stays admin up.
    fn outcome(&self, pending: Option<&PendingCommand>, changes: Vec<String>) -> CommandResult {
        let raised = pending.and_then(|pending| pending.command.raised_port());
        let slot = raised.and_then(|port| self.running.slots().of_name(port));
        let (Some(port), Some(why)) = (raised, slot.and_then(|slot| self.ports.why_closed(slot))) else {
            return Ok(changes);
        };
        let message = format!("port {port} is admin up, and carries no frames yet: {why}");
        Err(CommandError { reason: ErrorKind::Precondition, message })
    }

    /// Makes `running` the running configuration. Returns the slots of the ports that were added or
    /// removed.
    pub(super) fn adopt(&mut self, live: RunningConfig) -> Vec<usize> {
        let before = std::mem::replace(&mut self.running, live);
        if before.config() != self.running.config() {
            self.agreements_warned_of.clear();
        }
        self.warn_of_links();
        self.probe_pfc();
        self.stall_check.reset();
        self.lldp.reconfigure();
        self.flight_recorder.apply(self.running.config().recorder);
        if let Err(error) = self.telemetry.apply(&Settings::of(self.running.config(), self.running.file())) {
            error!("the new settings of telemetry and metrics are not in force: {error:#}");
        }
        let now = self.running.slots().clone();
        let (added, removed) = (now.added_to(before.slots()), before.slots().added_to(&now));
        for &slot in &removed {
            self.lldp.remove(slot);
            self.running = self.running.clone().with_negotiated(slot, None);
            let name = before.slots().name(slot).unwrap_or_default();
            let message =
                "the port was removed: its counters are kept in the sum of removed ports".to_owned();
            self.events.record_now(EventRecord::new(EventKind::PortRemoved, message).of_port(slot));
            info!(port = name, "removed");
            self.link_monitor.forget(slot);
        }
        for &slot in &added {
            self.events.set_name(slot, now.name(slot).unwrap_or_default());
            self.watermarks.forget_slot(slot);
            let interface = now.interface(slot).unwrap_or_default();
            let message = format!("the port was added, on interface {interface}");
            self.events.record_now(EventRecord::new(EventKind::PortAdded, message).of_port(slot));
        }
        for (slot, name, interface) in self.ports.pending() {
            self.link_monitor.add(slot, name, interface);
        }
        self.ports.on_applied(&removed);
        [added, removed, self.apply_admin()].concat()
    }

    /// Takes ports down, or up, as the running configuration has it. Returns their slots.
    fn apply_admin(&mut self) -> Vec<usize> {
        let slots = self.running.slots().in_config_order().to_vec();
        slots.into_iter().filter(|&slot| self.ports.set_admin(slot, self.running.is_admin_up(slot))).collect()
    }
}
