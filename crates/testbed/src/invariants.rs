//! Invariants at the end of every run (docs/behavior.md, "Invariants", 1, 2 and 5): every frame is
//! accounted for, and no cell stays charged for a frame that has left.

use anyhow::{Context, Result, anyhow};
use control::v1::{Group, Pool};
use control::{FrameBalance, frames};
use host::report::HostReport;
use switch::DropReason;
use switch::monitor::counters::{DropSide, DropSum};

use control::v1::Snapshot;

/// One port in a [`Snapshot`].
pub use control::v1::Port;

/// Returns the port with this name.
pub fn port<'a>(snapshot: &'a Snapshot, name: &str) -> Result<&'a Port> {
    snapshot.ports.iter().find(|port| port.name == name).with_context(|| format!("no port {name}"))
}

/// Returns the bytes on the line of a port's transmitted frames, including the Ethernet overhead of
/// each where the port emulates a wire.
pub fn line_bytes(port: &Port) -> u64 {
    port.transmitted.map_or(0, |sent| sent.bytes + sent.frames * u64::from(port.overhead_bytes))
}

/// Returns the frames dropped for `reason` on all ports.
pub fn drops(snapshot: &Snapshot, reason: &str) -> u64 {
    snapshot.ports.iter().map(|port| dropped(port, reason)).sum()
}

fn dropped(port: &Port, reason: &str) -> u64 {
    port.drops.get(reason).unwrap_or_else(|| panic!("no drop reason is called {reason}")).frames
}

fn cells(level: &Option<control::v1::Level>) -> u64 {
    level.map_or(0, |level| u64::from(level.cells))
}

/// Returns the frames that a kernel had no room for, at the switch or at a host, because the
/// program behind it stalled for longer than its rings last. Their priorities are unknown.
pub fn lost_by_kernels<'a>(snapshot: &Snapshot, hosts: impl IntoIterator<Item = &'a HostReport>) -> u64 {
    let at_switch = snapshot.ports.iter().map(lost_on_receipt).sum::<u64>();
    at_switch + hosts.into_iter().map(|host| host.kernel_lost).sum::<u64>()
}

/// Returns the frames that the kernel of a port had no room for.
pub(crate) fn lost_on_receipt(port: &Port) -> u64 {
    port.kernel_counters().rx_lost_frames()
}

/// True if the switch holds no frame and pauses no peer.
pub fn idle(snapshot: &Snapshot) -> bool {
    snapshot.ports.iter().all(|port| {
        port.queues.iter().all(|queue| queue.waiting_frames == 0 && cells(&queue.level) == 0)
            && port.groups.iter().all(|group| !group.xoff && group_cells(group) == 0)
    })
}

fn group_cells(group: &Group) -> u64 {
    u64::from(group.reserved_cells) + cells(&group.shared) + cells(&group.headroom)
}

/// Equations between two numbers; all failed ones are reported together.
#[derive(Default)]
struct FrameLedger {
    wrong: Vec<String>,
}

impl FrameLedger {
    fn equal(&mut self, what: impl Into<String>, left: u64, right: u64) {
        if left != right {
            let what = what.into();
            let difference = i128::from(left) - i128::from(right);
            self.wrong.push(format!("{what}: {left} is not {right} (difference {difference})"));
        }
    }
}

/// Checks that an idle switch accounts for every frame and every cell, by itself, against its
/// kernel, and against the hosts on its ports: `hosts` are pairs of a port and the report of its
/// host. The error lists all differences.
pub fn conservation(snapshot: &Snapshot, hosts: &[(&str, &HostReport)]) -> Result<()> {
    let of_host =
        |ledger: &mut FrameLedger, port: &Port, host: &HostReport| port_and_host(ledger, port, host);
    balance(snapshot, hosts, of_host)
}

/// As [`conservation`], for any configuration: announcements may be in any queue. So as many frames
/// as all hosts have announced themselves may be missing at a host, which started after others.
pub fn conservation_beside_announcements(snapshot: &Snapshot, hosts: &[(&str, &HostReport)]) -> Result<()> {
    let announced = hosts.iter().map(|(_, host)| host.announcements_sent).sum();
    let of_host = |ledger: &mut FrameLedger, port: &Port, host: &HostReport| {
        sent_by_host(ledger, port, host);
        let sent = frames(port.transmitted) + pauses_sent(port);
        let arrived = arrived(host) + host.announcements_received + host.kernel_lost;
        let arrived = arrived + host.pfc_received + host.pause_received;
        if arrived > sent || sent - arrived > announced {
            let what = format!("{}: of {sent} transmitted frames {arrived} arrived", port.name);
            ledger.wrong.push(what);
        }
    };
    balance(snapshot, hosts, of_host)
}

/// Checks a switch by itself, and each host by `of_host`.
fn balance(
    snapshot: &Snapshot,
    hosts: &[(&str, &HostReport)],
    of_host: impl Fn(&mut FrameLedger, &Port, &HostReport),
) -> Result<()> {
    let mut ledger = FrameLedger::default();
    whole_switch(&mut ledger, snapshot);
    for port in &snapshot.ports {
        one_port(&mut ledger, port);
    }
    for (name, report) in hosts {
        of_host(&mut ledger, port(snapshot, name)?, report);
    }
    if !ledger.wrong.is_empty() {
        let all = anyhow!("{snapshot:#?}\n{hosts:#?}");
        let wrong = ledger.wrong.join("\n  ");
        return Err(all.context(format!("frames or cells are not conserved:\n  {wrong}")));
    }
    Ok(())
}

fn whole_switch(ledger: &mut FrameLedger, snapshot: &Snapshot) {
    let balance = FrameBalance::of(snapshot);
    if !balance.holds() {
        ledger.wrong.push(balance.to_string());
    }
    let queues = snapshot.ports.iter().flat_map(|port| &port.queues);
    ledger.equal(
        "frames dropped by full queues = drops with reason tail_drop",
        queues.map(|queue| frames(queue.dropped)).sum(),
        drops(snapshot, DropReason::TailDrop.name()),
    );
    ledger.equal(
        "frames of the memory = free and in the ports' rings",
        snapshot.memory_frames,
        snapshot.memory_free_frames + snapshot.memory_in_rings_frames,
    );
    let pools = |pools: &[Pool]| pools.iter().map(|pool| cells(&pool.level)).sum();
    ledger.equal("cells of the shared pools (ingress) at rest", pools(&snapshot.ingress_pools), 0);
    ledger.equal("cells of the shared pools (egress) at rest", pools(&snapshot.egress_pools), 0);
    ledger.equal("cells of the headroom pool at rest", pools(snapshot.headroom.as_slice()), 0);
}

fn one_port(ledger: &mut FrameLedger, port: &Port) {
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
        port.groups.iter().map(|group| frames(group.dropped)).sum(),
        port.dropped_where(|reason| (reason.side(), reason.sum()) == (DropSide::Input, DropSum::NoBuffer))
            .frames,
    );
    ledger.equal(
        format!("{name}: lost by the kernel, of queues = of the port"),
        port.queues.iter().map(|queue| frames(queue.kernel_lost)).sum(),
        port.kernel_lost_frames,
    );
    let kernel = port.kernel.unwrap_or_default();
    // A zero-copy port gets no loss counts from its kernel; it counts its losses itself.
    if !port.link.as_ref().is_some_and(|link| link.zero_copy) {
        ledger.equal(
            format!("{name}: calls that returned EBUSY = frames that the kernel lost"),
            kernel.tx_busy,
            port.kernel_lost_frames + port.kernel_lost_pfc_frames,
        );
    }
    ledger.equal(
        format!("{name}: descriptors that the kernel refused"),
        kernel.rx_invalid_frames + kernel.tx_invalid_frames,
        0,
    );
}

/// The queue of announcements: [`conservation`] expects `port_priority` to be this on ports of
/// `sluice host`.
///
/// Hosts announce themselves as soon as they start, and so also to hosts that have not started yet.
/// In their own queue these frames do not blur the count of other frames.
pub const ANNOUNCEMENT_QUEUE: usize = 7;

/// Returns the PFC and PAUSE frames that a port sent, except those that the kernel lost.
pub fn pauses_sent(port: &Port) -> u64 {
    let pfc = port.pfc_sent.as_ref().map_or(0, |pfc| pfc.frames);
    pfc + port.pause_sent_frames - port.kernel_lost_pfc_frames
}

/// Checks that a port has received what its host sent, less what its kernel lost.
fn sent_by_host(ledger: &mut FrameLedger, port: &Port, host: &HostReport) {
    let sent: u64 = host.sent.iter().map(|flow| flow.sent_frames).sum();
    ledger.equal(
        format!("{}: sent by the host = received here + lost by our kernel", port.name),
        sent + host.announcements_sent + host.cnps_sent,
        frames(port.received) + lost_on_receipt(port),
    );
}

/// Returns the frames that a host received, except announcements and pauses.
fn arrived(host: &HostReport) -> u64 {
    let of_flows = host.received.iter().map(|flow| {
        flow.received_frames + flow.duplicated_frames + flow.corrupted_frames + flow.too_old_frames
    });
    let others =
        host.other_received + host.control_ignored + host.corrupted_unattributed + host.flows_refused;
    of_flows.sum::<u64>() + host.cnps_received + others
}

/// Checks that each side of a cable received what the other side sent, less what a kernel reports
/// as dropped in between.
fn port_and_host(ledger: &mut FrameLedger, port: &Port, host: &HostReport) {
    let name = &port.name;
    sent_by_host(ledger, port, host);
    ledger.equal(
        format!("{name}: announced by the host = received in the priority group of announcements"),
        host.announcements_sent,
        frames(port.groups[ANNOUNCEMENT_QUEUE].received),
    );
    let announcements = frames(port.queues[ANNOUNCEMENT_QUEUE].transmitted);
    let data_sent = frames(port.transmitted) - announcements;
    let data_arrived = arrived(host);
    let pfc_sent = pauses_sent(port);
    let pfc_received = host.pfc_received + host.pause_received;
    if host.kernel_lost == 0 {
        ledger.equal(format!("{name}: transmitted, except announcements = arrived"), data_sent, data_arrived);
        ledger.equal(
            format!("{name}: PFC and PAUSE frames sent = PFC and PAUSE frames at the host"),
            pfc_sent,
            pfc_received,
        );
    } else {
        // A kernel does not report the kinds of the frames that it lost.
        ledger.equal(
            format!(
                "{name}: transmitted, except announcements, and PFC = arrived + lost by the host's kernel"
            ),
            data_sent + pfc_sent,
            data_arrived + pfc_received + host.kernel_lost,
        );
    }
    if host.announcements_received > announcements {
        ledger.wrong.push(format!("{name}: more announcements arrived than were transmitted"));
    }
}
