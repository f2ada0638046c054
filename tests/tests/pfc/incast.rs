//! The lossless guarantee: two senders into one port that is too slow for them, with a no-drop
//! priority and best effort (docs/behavior.md, "Invariants", 3 to 5).

use std::time::Duration;

use anyhow::Result;
use testbed::{Endpoint, Snapshot, Testbed, conservation, drops, eventually, port};
use tests::{
    AMPLE_HEADROOM_CELLS, Total, TrafficRun, flow, frames, group_config, mbps, pause, port_config, run,
    slow_port_config, switch_config, undisturbed,
};

const TEN_SECONDS: Duration = Duration::from_secs(10);
const SLOW_MBPS: u64 = 500;

/// Parameters of the incast.
struct Incast {
    pfc: &'static str,
    headroom_cells: u32,
    reaction_delay: &'static str,
}

/// Two senders, 600 Mbit/s each on priority 3 and on priority 0, into a port of 500 Mbit/s (see
/// [`mbps`]), for 10 s. The switch and its hosts must agree on every frame, whatever was lost. The
/// result includes the daemon's log.
fn incast(how: &Incast) -> Result<(TrafficRun, String)> {
    undisturbed(|| incast_once(how))
}

fn incast_once(how: &Incast) -> Result<(TrafficRun, String)> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let senders = [bed.sluice_host(&switch, "sender1")?, bed.sluice_host(&switch, "sender2")?];
    let receiver = bed.sluice_host(&switch, "receiver")?;
    let [fast, offered, slow] = [2000, 600, SLOW_MBPS].map(|rate| format!("{}M", mbps(rate)));
    let mut config = switch_config(how.pfc) + &slow_port_config("receiver", mbps(SLOW_MBPS));
    for sender in &senders {
        config += &port_config(&sender.name, &fast);
        config += &group_config(&sender.name, how.headroom_cells);
    }
    let daemon = bed.daemon(&switch, &config)?;
    let flows = [flow(&receiver.mac(), 3, &offered), flow(&receiver.mac(), 0, &offered)];
    let arguments =
        ["--speed", &fast, "--no-drop", "3", "--duration", "10s", "--reaction-delay", how.reaction_delay];
    let sending = senders.iter().map(|at| bed.host(at, &flows, &arguments)).collect::<Result<_>>()?;
    let receiving = bed.host(&receiver, &[], &["--speed", &slow, "--no-drop", "3"])?;
    daemon.until_announced(3)?;

    let run = run(&[&daemon], sending, vec![receiving], TEN_SECONDS)?;
    conservation(&run.snapshot, &run.hosts())?;
    let log = daemon.stop()?;
    Ok((run, log))
}

#[test]
fn no_drop_loses_nothing_and_best_effort_loses_what_is_counted() -> Result<()> {
    let (run, _) =
        incast(&Incast { pfc: "on", headroom_cells: AMPLE_HEADROOM_CELLS, reaction_delay: "10us" })?;

    let no_drop = run.total(3);
    let nothing_wrong = Total { sent: no_drop.sent, received: no_drop.sent, ..Total::default() };
    assert_eq!(no_drop, nothing_wrong, "priority 3");
    // More than one of the senders offers, less than both do: the queue was never empty, and both
    // were paused.
    assert!(no_drop.sent > 0);
    for sender in ["sender1", "sender2"] {
        let sent = port(&run.snapshot, sender)?.pfc_sent.clone().unwrap_or_default();
        assert!(sent.xoff_frames[3] > 0 && sent.xon_frames[3] > 0, "{sender}: {sent:?}");
        assert_eq!(
            (sent.xoff_frames.iter().sum::<u64>(), sent.xon_frames.iter().sum::<u64>()),
            (sent.xoff_frames[3], sent.xon_frames[3])
        );
        let seen = pause(run.report(sender)?, 3);
        assert_eq!(
            (seen.xoff, seen.xon),
            (sent.xoff_frames[3], sent.xon_frames[3]),
            "{sender} saw what was sent"
        );
        assert_eq!(seen.sent_while_paused, 0, "{sender} honors pauses");
        let flow = &run.report(sender)?.sent[0];
        assert!(flow.sent_frames < flow.offered_frames, "{sender} was held back");
    }

    let best_effort = run.total(0);
    let lost = best_effort.sent - best_effort.received;
    assert!(lost > 0, "an overload of best effort must lose something: {best_effort:?}");
    assert_eq!(lost, best_effort.dropped, "priority 0: lost and counted as dropped");
    let counted = drops(&run.snapshot, "ingress_lossy") + drops(&run.snapshot, "tail_drop");
    assert_eq!(lost, counted, "priority 0: lost and the drop counters by reason");
    assert_eq!((best_effort.reordered, best_effort.corrupted, best_effort.duplicated), (0, 0, 0));

    let carried = run.carried_bps("receiver")?;
    println!("carried {:.1} Mbit/s; priority 3 {no_drop:?}; priority 0 {best_effort:?}", carried / 1e6);
    let slow_bps = mbps(SLOW_MBPS) as f64 * 1e6;
    assert!(carried >= 0.98 * slow_bps, "the port carried {carried} bit/s");
    assert!(carried <= 1.01 * slow_bps, "the port carried {carried} bit/s");
    Ok(())
}

/// The same run without PFC: if it lost nothing either, the test above would prove nothing.
#[test]
fn without_pfc_priority_3_loses_frames() -> Result<()> {
    let (run, _) =
        incast(&Incast { pfc: "off", headroom_cells: AMPLE_HEADROOM_CELLS, reaction_delay: "10us" })?;
    let (mut missing, mut dropped) = (0, 0);
    for priority in [3, 0] {
        let total = run.total(priority);
        let lost = total.sent - total.received;
        assert!(lost > total.sent / 10, "priority {priority}: {total:?}");
        assert!(lost >= total.dropped, "priority {priority}: {total:?}");
        missing += lost;
        dropped += total.dropped;
    }
    // Without a no-drop priority few chunks are posted for a stall, and a kernel does not report
    // the priority of frames that it lost. If it lost none, this and the lines above show that each
    // priority lost exactly what was counted as dropped.
    assert_eq!(missing, dropped + run.lost_by_kernels(), "lost, and counted as dropped");
    for port in &run.snapshot.ports {
        assert_eq!(port.pfc_sent.clone().unwrap_or_default().frames, 0, "{}: no PFC", port.name);
    }
    Ok(())
}

/// Senders that take a millisecond to stop send 75 frames, 300 cells, more; with headroom for 8
/// cells most of them find no room. Each of them is counted, and an event reports the no-drop loss.
#[test]
fn with_headroom_cut_the_switch_counts_what_the_receiver_misses() -> Result<()> {
    let (run, log) = incast(&Incast { pfc: "on", headroom_cells: 8, reaction_delay: "1ms" })?;
    let no_drop = run.total(3);
    let lost = no_drop.sent - no_drop.received;
    assert!(lost > 0, "{no_drop:?}");
    assert_eq!(lost, drops(&run.snapshot, "ingress_no_drop"), "missing at the receiver, and counted");
    assert_eq!(lost, no_drop.dropped, "and counted by the priority groups");
    assert_eq!((no_drop.reordered, no_drop.corrupted, no_drop.duplicated), (0, 0, 0));
    for sender in ["sender1", "sender2"] {
        let group = &port(&run.snapshot, sender)?.groups[3];
        assert!(group.headroom.unwrap_or_default().peak_cells <= 8, "{sender}: {group:?}");
        assert!(pause(run.report(sender)?, 3).xoff > 0, "{sender} was paused anyway");
    }
    assert!(log.contains("headroom"), "an event says so:\n{log}");
    Ok(())
}

/// Runs two switches in series, the slow port at the second. The result includes that switch, idle.
fn series() -> Result<(TrafficRun, Snapshot)> {
    let bed = Testbed::new()?;
    let (first_at, second_at) = (bed.switch("first")?, bed.switch("second")?);
    let senders = [bed.sluice_host(&first_at, "sender1")?, bed.sluice_host(&first_at, "sender2")?];
    let receiver = bed.sluice_host(&second_at, "receiver")?;
    bed.cable((&first_at, "uplink"), (&second_at, "downlink"))?;
    let mut config = switch_config("on") + &port_config("uplink", "2G");
    for sender in &senders {
        config += &port_config(&sender.name, "2G");
        config += &group_config(&sender.name, AMPLE_HEADROOM_CELLS);
    }
    let first = bed.daemon(&first_at, &config)?;
    // Two poll loops on one core would stall each other, so the second gets another core if there
    // is one.
    let core = std::thread::available_parallelism()?.get().min(2) - 1;
    let config = format!("[dataplane]\ncores = [{core}]\n\n")
        + &switch_config("on")
        + &slow_port_config("receiver", 300)
        + &port_config("downlink", "2G")
        + &group_config("downlink", AMPLE_HEADROOM_CELLS);
    let second = bed.daemon(&second_at, &config)?;

    let flows = [flow(&receiver.mac(), 3, "300M")];
    let arguments = ["--speed", "2G", "--no-drop", "3", "--duration", "10s"];
    let sending = senders.iter().map(|at| bed.host(at, &flows, &arguments)).collect::<Result<_>>()?;
    let receiving = bed.host(&receiver, &[], &["--speed", "300M", "--no-drop", "3"])?;
    for daemon in [&first, &second] {
        daemon.until_announced(3)?;
    }
    let run = run(&[&first, &second], sending, vec![receiving], TEN_SECONDS)?;
    let after = eventually("both switches agree", || {
        let (one, other) = (first.snapshot()?, second.snapshot()?);
        let sent = frames(port(&one, "uplink")?.transmitted);
        Ok((sent == frames(port(&other, "downlink")?.received)).then_some(other))
    })?;

    let (at_second, at_first) =
        run.hosts().into_iter().partition::<Vec<_>, _>(|(port, _)| *port == "receiver");
    conservation(&run.snapshot, &at_first)?;
    conservation(&after, &at_second)?;
    first.stop()?;
    second.stop()?;
    Ok((run, after))
}

/// The second switch pauses the first, which pauses its hosts in turn.
#[test]
fn two_switches_in_series_pass_the_pause_on_and_lose_nothing() -> Result<()> {
    let (run, after) = undisturbed(series)?;
    let senders = ["sender1", "sender2"];
    let arrived = &run.report("receiver")?.received;
    let sent: u64 =
        senders.iter().map(|name| Ok(run.report(name)?.sent[0].sent_frames)).sum::<Result<u64>>()?;
    let received: u64 = arrived.iter().map(|flow| flow.received_frames).sum();
    assert_eq!(sent - received, 0, "lost end to end, of {sent}");
    for flow in arrived {
        assert_eq!(
            (flow.lost_frames, flow.duplicated_frames, flow.reordered_frames, flow.corrupted_frames),
            (0, 0, 0, 0),
            "{flow:?}"
        );
    }

    // The second switch paused the first.
    let reported = port(&after, "downlink")?.pfc_sent.clone().unwrap_or_default();
    let uplink = port(&run.snapshot, "uplink")?;
    let pauses_received = uplink.pfc_received.clone().unwrap_or_default();
    assert!(reported.xoff_frames[3] > 0 && reported.xon_frames[3] > 0, "{reported:?}");
    assert_eq!(
        (reported.xoff_frames[3], reported.xon_frames[3]),
        (pauses_received.xoff_frames[3], pauses_received.xon_frames[3]),
        "what one sent the other received"
    );
    assert!(uplink.queues[3].pauses > 0 && uplink.queues[3].paused_ns > 0, "{:?}", uplink.queues[3]);
    // The first switch paused its hosts.
    for sender in senders {
        let sent = port(&run.snapshot, sender)?.pfc_sent.clone().unwrap_or_default();
        assert!(sent.xoff_frames[3] > 0 && sent.xon_frames[3] > 0, "{sender}: {sent:?}");
        let seen = pause(run.report(sender)?, 3);
        assert!(seen.paused_ns > 0, "{sender} was paused");
        assert_eq!(
            (seen.xoff, seen.xon),
            (sent.xoff_frames[3], sent.xon_frames[3]),
            "{sender} received both"
        );
        assert_eq!(seen.sent_while_paused, 0, "{sender} honors pauses");
        let flow = &run.report(sender)?.sent[0];
        assert!(flow.sent_frames < flow.offered_frames, "{sender} was held back: {flow:?}");
    }
    Ok(())
}

/// One sender of an incast on priority 3 also sends a little on priority 5 to a host without other
/// traffic.
struct Crossing<'a> {
    bed: &'a Testbed,
    senders: [Endpoint; 2],
    receiver: Endpoint,
    bystander: Endpoint,
}

impl Crossing<'_> {
    /// Runs the flow of priority 5 for 5 s, alone or beside the incast.
    fn run(&self, config: &str, switch: &testbed::Namespace, congested: bool) -> Result<TrafficRun> {
        let daemon = self.bed.daemon(switch, config)?;
        let crossing = flow(&self.bystander.mac(), 5, "50M");
        let crowd = flow(&self.receiver.mac(), 3, "600M");
        let arguments = ["--speed", "2G", "--no-drop", "3", "--duration", "5s"];
        let mut sending = Vec::new();
        if congested {
            sending.push(self.bed.host(&self.senders[0], &[crossing, crowd.clone()], &arguments)?);
            sending.push(self.bed.host(&self.senders[1], &[crowd], &arguments)?);
        } else {
            sending.push(self.bed.host(&self.senders[0], &[crossing], &arguments)?);
        }
        let known = sending.len() as u64 + 2;
        let receiving = [&self.receiver, &self.bystander]
            .into_iter()
            .map(|at| self.bed.host(at, &[], &["--no-drop", "3"]))
            .collect::<Result<_>>()?;
        daemon.until_announced(known)?;
        let run = run(&[&daemon], sending, receiving, Duration::from_secs(5))?;
        conservation(&run.snapshot, &run.hosts())?;
        daemon.stop()?;
        Ok(run)
    }
}

#[test]
fn a_priority_that_is_not_paused_keeps_its_rate_and_latency() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let crossing = Crossing {
        bed: &bed,
        senders: [bed.sluice_host(&switch, "sender1")?, bed.sluice_host(&switch, "sender2")?],
        receiver: bed.sluice_host(&switch, "receiver")?,
        bystander: bed.sluice_host(&switch, "bystander")?,
    };
    let mut config =
        switch_config("on") + &slow_port_config("receiver", 500) + &port_config("bystander", "2G");
    for sender in &crossing.senders {
        config += &port_config(&sender.name, "2G");
        config += &group_config(&sender.name, AMPLE_HEADROOM_CELLS);
    }
    let (alone, ()) = undisturbed(|| Ok((crossing.run(&config, &switch, false)?, ())))?;
    let (beside, ()) = undisturbed(|| Ok((crossing.run(&config, &switch, true)?, ())))?;

    // Priority 3 of the same host was paused for a good part of the time.
    let paused = pause(beside.report("sender1")?, 3);
    assert!(paused.paused_ns > 1_000_000_000, "{paused:?}");
    assert_eq!(beside.total(3).sent, beside.total(3).received);
    // Priority 5 sent all its frames and lost none.
    for run in [&alone, &beside] {
        let flow = &run.report("sender1")?.sent[0];
        assert_eq!(flow.priority, 5);
        assert!(flow.sent_frames * 100 >= flow.offered_frames * 99, "{flow:?}");
        assert_eq!(run.total(5).received, run.total(5).sent);
        assert_eq!(pause(run.report("sender1")?, 5).xoff, 0, "priority 5 was never paused");
    }
    let latency =
        |run: &TrafficRun, name: &str| Ok::<_, anyhow::Error>(run.report(name)?.received[0].latency_ns);
    let (quiet, busy, held) =
        (latency(&alone, "bystander")?, latency(&beside, "bystander")?, latency(&beside, "receiver")?);
    println!("priority 5 alone {quiet:?}\npriority 5 beside {busy:?}\npriority 3 {held:?}");
    // A frame of priority 3 waits behind a queue of at least 2048 cells (4 ms at 500 Mbit/s). If
    // priority 5 had to wait there too, its median would be as large; as it is, nine of ten frames
    // are faster than the median of priority 3.
    assert!(busy.p90 * 2 < held.p50, "priority 5 {busy:?} beside priority 3 {held:?}");
    assert!(busy.p50 < (10 * quiet.p50).max(1_000_000), "priority 5 {busy:?} beside, {quiet:?} alone");
    Ok(())
}
