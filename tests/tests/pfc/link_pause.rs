//! 802.3x PAUSE on real veths, where a port's `flow_control` says so (docs/behavior.md, "802.3x
//! PAUSE"): row 288.

use std::time::Duration;

use anyhow::Result;
use testbed::{Testbed, conservation, port};
use tests::{AMPLE_HEADROOM_CELLS, flow, port_config, run, slow_port_config, switch_config, undisturbed};

const THREE_SECONDS: Duration = Duration::from_secs(3);

/// A host that supports only PAUSE sends three times what the port to the other host carries, in
/// two priorities, neither of them no-drop: its link is paused, and nothing is lost.
#[test]
fn a_link_that_is_paused_loses_nothing() -> Result<()> {
    let (run, ()) = undisturbed(|| {
        let bed = Testbed::new()?;
        let switch = bed.switch("switch")?;
        let (sender, receiver) = (bed.sluice_host(&switch, "sender")?, bed.sluice_host(&switch, "receiver")?);
        let mut config = switch_config("off") + &slow_port_config("receiver", 200);
        config += &port_config("sender", "2G");
        config += "flow_control = \"both\"\n";
        for priority in [0, 5] {
            config += &format!(
                "[port.sender.pfc.priority.{priority}]\nxoff = {{ static_cells = 4096 }}\nxon_offset_cells = 2048\n\
                 headroom_cells = {AMPLE_HEADROOM_CELLS}\n"
            );
        }
        for queue in [2, 5] {
            config += &format!("[port.receiver.buffer.egress.queue.{queue}]\nshared_percent = 100\n");
        }
        let daemon = bed.daemon(&switch, &config)?;
        let flows = [flow(&receiver.mac(), 0, "300M"), flow(&receiver.mac(), 5, "300M")];
        let arguments = ["--speed", "2G", "--flow-control", "--duration", "3s"];
        let sending = vec![bed.host(&sender, &flows, &arguments)?];
        let receiving = bed.host(&receiver, &[], &["--speed", "200M"])?;
        daemon.until_announced(2)?;
        let run = run(&[&daemon], sending, vec![receiving], THREE_SECONDS)?;
        conservation(&run.snapshot, &run.hosts())?;
        daemon.stop()?;
        Ok((run, ()))
    })?;
    for priority in [0, 5] {
        let total = run.total(priority);
        assert_eq!((total.received, total.dropped), (total.sent, 0), "priority {priority}: {total:?}");
        let offered = 300_000_000 / 8 / 1000 * 3;
        assert!(total.sent < offered * 2 / 3, "the link was paused: {} of {offered}", total.sent);
    }
    let (sent, pauses_received) = (port(&run.snapshot, "sender")?, run.report("sender")?);
    assert!(sent.pause_sent_frames >= 2, "{sent:?}");
    assert_eq!((pauses_received.pause_received, pauses_received.pfc_received), (sent.pause_sent_frames, 0));
    assert_eq!(sent.pfc_sent.as_ref().map_or(0, |pfc| pfc.frames), 0);
    Ok(())
}
