//! Jumbo frames with an MTU of 9000: no frame of a no-drop priority is lost, and ordinary hosts use
//! TCP with them, with no `ethtool` anywhere: partial checksums are completed over several chunks
//! of memory.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testbed::{Daemon, Endpoint, Namespace, Testbed, conservation, idle, port};
use tests::{
    AMPLE_HEADROOM_CELLS, Checksums, Total, TrafficRun, fetch, group_config, pause, port_config, run,
    slow_port_config, switch_config, undisturbed,
};

const MTU: u32 = 9000;
/// The longest frame of that MTU with a tag, without FCS.
const LONGEST_BYTES: u32 = MTU + 18;
const LASTS: Duration = Duration::from_secs(5);
const SLOW_BPS: f64 = 500e6;

/// Sets this MTU at both ends of a host's cable.
fn set_mtu(switch: &Namespace, host: &Endpoint) -> Result<()> {
    host.namespace.ip(&format!("link set dev {} mtu {MTU}", Endpoint::INTERFACE))?;
    switch.ip(&format!("link set dev {} mtu {MTU}", host.name)).map(drop)
}

/// Two senders of no-drop jumbo frames, 400 Mbit/s each, into a port of 500 Mbit/s.
fn incast() -> Result<TrafficRun> {
    let once = || -> Result<(TrafficRun, ())> {
        let bed = Testbed::new()?;
        let switch = bed.switch("switch")?;
        let senders = [bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?];
        let receiver = bed.sluice_host(&switch, "c")?;
        let mut config = switch_config("on") + &slow_port_config("c", 500);
        for sender in &senders {
            config += &(port_config(&sender.name, "2G") + &format!("mtu = {LONGEST_BYTES}\n"));
            config += &group_config(&sender.name, AMPLE_HEADROOM_CELLS);
        }
        [&senders[0], &senders[1], &receiver].iter().try_for_each(|host| set_mtu(&switch, host))?;
        let daemon = bed.daemon(&switch, &config)?;
        let flow = format!("to={},priority=3,size={LONGEST_BYTES},rate=400M", receiver.mac());
        let lasts = format!("{}s", LASTS.as_secs());
        let arguments = ["--speed", "2G", "--no-drop", "3", "--duration", &lasts];
        let start = |at| bed.host(at, std::slice::from_ref(&flow), &arguments);
        let sending = senders.iter().map(start).collect::<Result<_>>()?;
        let receiving = bed.host(&receiver, &[], &["--speed", "500M", "--no-drop", "3"])?;
        let run = run(&[&daemon], sending, vec![receiving], LASTS)?;
        conservation(&run.snapshot, &run.hosts())?;
        daemon.stop()?;
        Ok((run, ()))
    };
    Ok(undisturbed(once)?.0)
}

/// Checks that all frames arrived, with the senders paused for it, and that they had the expected
/// length.
fn nothing_was_lost(run: &TrafficRun) -> Result<()> {
    let no_drop = run.total(3);
    println!("{no_drop:?}, carried {:.1} Mbit/s", run.carried_bps("c")? / 1e6);
    assert_eq!(no_drop, Total { sent: no_drop.sent, received: no_drop.sent, ..Total::default() });
    assert!(no_drop.sent > 0);
    for sender in ["a", "b"] {
        let of_port = port(&run.snapshot, sender)?;
        assert!(pause(run.report(sender)?, 3).xoff > 0, "{sender} was paused");
        let received = of_port.received.unwrap_or_default();
        assert!(
            received.bytes > received.frames * u64::from(LONGEST_BYTES) * 9 / 10,
            "{sender}: {received:?}"
        );
        assert_eq!(of_port.kernel.unwrap_or_default().rx_too_long_frames, 0);
    }
    let carried = run.carried_bps("c")?;
    assert!((0.98 * SLOW_BPS..=1.01 * SLOW_BPS).contains(&carried), "the port carried {carried} bit/s");
    Ok(())
}

#[test]
fn no_jumbo_frame_of_a_no_drop_priority_is_lost() -> Result<()> {
    nothing_was_lost(&incast()?)
}

/// Checks that frames from B were long, and that none of them was lost.
fn all_is_well(daemon: Daemon, from_b: &str) -> Result<()> {
    let snapshot = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
    conservation(&snapshot, &[])?;
    for of_port in &snapshot.ports {
        let kernel = of_port.kernel.unwrap_or_default();
        assert_eq!((kernel.rx_too_long_frames, kernel.rx_fill_ring_empty_frames, kernel.tx_busy), (0, 0, 0));
        let dropped = of_port.drops.values().map(|drops| drops.frames).sum::<u64>();
        assert_eq!(dropped, 0, "{}: {:?}", of_port.name, of_port.drops);
    }
    let sent = port(&snapshot, from_b)?.received.unwrap_or_default();
    println!("{} frames of {} bytes on average", sent.frames, sent.bytes / sent.frames);
    ensure!(sent.bytes / sent.frames > 4000, "{sent:?}");
    let totals = daemon.stop()?;
    ensure!(totals.contains("every frame is accounted for"), "{totals}");
    Ok(())
}

#[test]
fn tcp_crosses_in_jumbo_frames() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.linux_host(&switch, "a")?, bed.linux_host(&switch, "b")?);
    [&a, &b].iter().try_for_each(|host| set_mtu(&switch, host))?;
    let daemon = bed.daemon(&switch, "[port.a]\ninterface = \"a\"\n\n[port.b]\ninterface = \"b\"\n")?;
    for address in [b.ipv4(), b.ipv6()] {
        fetch(&a, &b, address.parse()?).with_context(|| address.clone())?;
    }
    for host in [&a, &b] {
        ensure!(Checksums::of(&host.namespace)?.bad == 0, "bad checksums at {}", host.name);
    }
    all_is_well(daemon, "b")
}
/// Two switches with a trunk between them: each frame gets a tag in the first and loses it in the
/// second.
#[test]
fn tcp_crosses_in_jumbo_frames_that_get_and_lose_tags() -> Result<()> {
    let bed = Testbed::new()?;
    let (first_at, second_at) = (bed.switch("first")?, bed.switch("second")?);
    let (a, b) = (bed.linux_host(&first_at, "a")?, bed.linux_host(&second_at, "b")?);
    set_mtu(&first_at, &a)?;
    set_mtu(&second_at, &b)?;
    bed.cable((&first_at, "uplink"), (&second_at, "downlink"))?;
    first_at.ip(&format!("link set dev uplink mtu {MTU}"))?;
    second_at.ip(&format!("link set dev downlink mtu {MTU}"))?;
    let config = |host: &str, trunk: &str| {
        format!(
            "[port.{host}]\ninterface = \"{host}\"\nvlan = {{ mode = \"access\", pvid = 10 }}\n\n\
             [port.{trunk}]\ninterface = \"{trunk}\"\nvlan = {{ mode = \"trunk\", allowed = \"10\" }}\n"
        )
    };
    let first = bed.daemon(&first_at, &config("a", "uplink"))?;
    let second = bed.daemon(&second_at, &config("b", "downlink"))?;
    for address in [b.ipv4(), b.ipv6()] {
        fetch(&a, &b, address.parse()?).with_context(|| address.clone())?;
    }
    for host in [&a, &b] {
        ensure!(Checksums::of(&host.namespace)?.bad == 0, "bad checksums at {}", host.name);
    }
    all_is_well(second, "b")?;
    all_is_well(first, "uplink")
}
