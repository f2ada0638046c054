//! What must hold at the end of every run (design §7.1, 2 and 5): every frame is somewhere, and no cell is charged for
//! a frame that is gone.

use anyhow::{Context, Result, bail};
use control::Balance;
use control::v1::Group;
use host::report::Report;

use crate::Snapshot;

/// One port in a [`Snapshot`].
pub use control::v1::Port;

/// The port of this name.
pub fn port<'a>(snapshot: &'a Snapshot, name: &str) -> Result<&'a Port> {
    snapshot.ports.iter().find(|port| port.name == name).with_context(|| format!("no port {name}"))
}

/// Frames dropped for `reason` on all ports.
pub fn drops(snapshot: &Snapshot, reason: &str) -> u64 {
    snapshot.ports.iter().map(|port| dropped(port, reason)).sum()
}

fn dropped(port: &Port, reason: &str) -> u64 {
    port.drops.iter().filter(|drop| drop.reason == reason).map(|drop| frames(&drop.count)).sum()
}

fn frames(count: &Option<control::v1::Count>) -> u64 {
    count.map_or(0, |count| count.frames)
}

fn cells(level: &Option<control::v1::Level>) -> u64 {
    level.map_or(0, |level| u64::from(level.cells))
}

/// True when the switch holds no frame and pauses nobody.
pub fn idle(snapshot: &Snapshot) -> bool {
    snapshot.ports.iter().all(|port| {
        port.queues.iter().all(|queue| queue.waiting_frames == 0 && cells(&queue.level) == 0)
            && port.groups.iter().all(|group| !group.xoff && group_cells(group) == 0)
    })
}

fn group_cells(group: &Group) -> u64 {
    u64::from(group.reserved_cells) + cells(&group.shared) + cells(&group.headroom)
}

/// Statements of the form "this number is that number", of which all failed ones are told together.
#[derive(Default)]
struct Ledger {
    wrong: Vec<String>,
}

impl Ledger {
    fn equal(&mut self, what: impl Into<String>, left: u64, right: u64) {
        if left != right {
            let what = what.into();
            let difference = i128::from(left) - i128::from(right);
            self.wrong.push(format!("{what}: {left} is not {right} (difference {difference})"));
        }
    }
}

/// Checks that a switch at rest accounts for every frame and every cell, alone, with its kernel, and with the hosts on
/// its ports: `hosts` are pairs of a port and the report of the host there. The error says all that is wrong.
pub fn conservation(snapshot: &Snapshot, hosts: &[(&str, &Report)]) -> Result<()> {
    let mut ledger = Ledger::default();
    whole_switch(&mut ledger, snapshot);
    for port in &snapshot.ports {
        one_port(&mut ledger, port);
    }
    for (name, report) in hosts {
        port_and_host(&mut ledger, port(snapshot, name)?, report);
    }
    if !ledger.wrong.is_empty() {
        bail!(
            "frames or cells are not conserved:\n  {}\n{snapshot:#?}\n{hosts:#?}",
            ledger.wrong.join("\n  ")
        );
    }
    Ok(())
}

fn whole_switch(ledger: &mut Ledger, snapshot: &Snapshot) {
    let balance = Balance::of(snapshot);
    if !balance.holds() {
        ledger.wrong.push(balance.to_string());
    }
    let queues = snapshot.ports.iter().flat_map(|port| &port.queues);
    ledger.equal(
        "frames dropped by full queues = drops with reason tail_drop",
        queues.map(|queue| frames(&queue.dropped)).sum(),
        drops(snapshot, "tail_drop"),
    );
    ledger.equal(
        "frames of the memory = free and in the ports' rings",
        snapshot.memory_frames,
        snapshot.memory_free + snapshot.memory_in_rings,
    );
    ledger.equal("cells of the shared pool (ingress) at rest", cells(&snapshot.shared_ingress), 0);
    ledger.equal("cells of the shared pool (egress) at rest", cells(&snapshot.shared_egress), 0);
    ledger.equal("cells of the headroom pool at rest", cells(&snapshot.headroom), 0);
}

fn one_port(ledger: &mut Ledger, port: &Port) {
    let name = &port.name;
    for (priority, group) in port.groups.iter().enumerate() {
        ledger.equal(format!("{name}: cells of group {priority} at rest"), group_cells(group), 0);
        ledger.equal(format!("{name}: group {priority} in XOFF at rest"), u64::from(group.xoff), 0);
    }
    for (number, queue) in port.queues.iter().enumerate() {
        ledger.equal(format!("{name}: cells of queue {number} at rest"), cells(&queue.level), 0);
        ledger.equal(format!("{name}: frames in queue {number} at rest"), queue.waiting_frames, 0);
    }
    ledger.equal(
        format!("{name}: dropped by groups = ingress drops"),
        port.groups.iter().map(|group| frames(&group.dropped)).sum(),
        dropped(port, "ingress_lossy") + dropped(port, "ingress_no_drop"),
    );
    ledger.equal(
        format!("{name}: transmitted by queues = transmitted"),
        port.queues.iter().map(|queue| frames(&queue.transmitted)).sum(),
        frames(&port.transmitted),
    );
    let kernel = port.kernel.unwrap_or_default();
    ledger.equal(
        format!("{name}: frames the kernel said it lost = drops with reason kernel_lost"),
        kernel.tx_busy,
        dropped(port, "kernel_lost"),
    );
    ledger.equal(
        format!("{name}: descriptors that the kernel refused"),
        kernel.rx_invalid + kernel.tx_invalid,
        0,
    );
}

/// What one side of a cable sent is what the other side got, less what a kernel says it dropped in between.
fn port_and_host(ledger: &mut Ledger, port: &Port, host: &Report) {
    let name = &port.name;
    let kernel = port.kernel.unwrap_or_default();
    let sent: u64 = host.sent.iter().map(|flow| flow.sent_frames).sum();
    ledger.equal(
        format!("{name}: sent by the host = received here + lost by our kernel"),
        sent + host.announcements_sent,
        frames(&port.received) + kernel.rx_fill_ring_empty + kernel.rx_ring_full + kernel.rx_dropped,
    );
    let of_flows = host.received.iter().map(|flow| {
        flow.received_frames + flow.duplicated_frames + flow.corrupted_frames + flow.too_old_frames
    });
    let others = host.announcements_received
        + host.other_received
        + host.control_ignored
        + host.corrupted_unattributed
        + host.flows_refused;
    ledger.equal(
        format!("{name}: transmitted and PFC frames = arrived at the host"),
        frames(&port.transmitted) + port.pfc_sent.as_ref().map_or(0, |pfc| pfc.frames),
        of_flows.sum::<u64>() + others + host.pfc_received + host.kernel_lost,
    );
    if host.kernel_lost == 0 {
        ledger.equal(
            format!("{name}: PFC frames sent = PFC frames at the host"),
            port.pfc_sent.as_ref().map_or(0, |pfc| pfc.frames),
            host.pfc_received,
        );
    }
}
