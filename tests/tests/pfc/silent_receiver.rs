//! A receiver that never sends is known by the address of its veth, so that frames for it are not
//! flooded (docs/behavior.md, "Bridging").

use anyhow::Result;
use testbed::{Snapshot, Testbed, port};
use tests::{flow, frames, port_config, switch_config};

/// Data frames of priority 3 that a port has transmitted.
fn sent_to(now: &Snapshot, name: &str) -> Option<u64> {
    Some(port(now, name).ok()?.queues.iter().map(|queue| frames(queue.transmitted)).sum())
}

#[test]
fn frames_to_a_receiver_that_never_sent_reach_no_third_port() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b, _c) =
        (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?, bed.sluice_host(&switch, "c")?);
    let ports = ["a", "b", "c"].map(|name| port_config(name, "1G")).concat();
    let config = switch_config("on") + &ports + "[bridge]\naging_s = 1\n";
    let daemon = bed.daemon(&switch, &config)?;
    // The receiver's process would announce itself; its interface alone does not.
    let all_known = |now: &Snapshot| (now.bridge_entries == 3).then_some(());
    daemon.until("the switch knows the peers", all_known)?;
    let mut sender = bed.host(&a, &[flow(&b.mac(), 3, "1M")], &["--no-drop", "3", "--duration", "60s"])?;
    sender.start_sending()?;
    // The sender itself announces its address to all.
    let announced =
        daemon.until("frames move", |now| (sent_to(now, "b")? > 50).then(|| sent_to(now, "c")).flatten())?;
    assert!(announced < 10, "{announced} frames to a third port");
    let start = daemon.snapshot()?;
    let beyond = daemon.until("the aging time is over several times", |now| {
        (now.at_ns > start.at_ns + 8_000_000_000).then(|| now.clone())
    })?;
    assert!(sent_to(&beyond, "b") > sent_to(&start, "b"));
    assert_eq!(sent_to(&beyond, "c"), Some(announced), "{beyond:#?}");
    assert_eq!(port(&beyond, "b")?.received.map_or(0, |count| count.frames), 0, "it never sent");

    // Also after its carrier was away.
    for state in ["down", "up"] {
        b.namespace.ip(&format!("link set dev eth0 {state}"))?;
        let is_up = state == "up";
        daemon.until("the port follows", |now| (port(now, "b").ok()?.up == is_up).then_some(()))?;
    }
    daemon.until("it is known again", all_known)?;
    let known = daemon.snapshot()?;
    let later = daemon.until("frames move again", |now| {
        (sent_to(now, "b")? > sent_to(&known, "b")? + 20).then(|| now.clone())
    })?;
    assert_eq!(sent_to(&later, "c"), sent_to(&known, "c"));
    drop(sender);
    daemon.stop()?;
    Ok(())
}
