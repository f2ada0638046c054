//! `sluice nic attach --dcbx`: the interface honors what is agreed with the switch, until a signal.

use std::os::fd::AsFd;

use anyhow::{Context, Result};
use dcbx::status::{FeatureState, Status};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use serde_json::{Value, json};

use super::namespace::{Namespace, list, priorities};
use crate::output;

/// Takes the signals that end the command. Threads started from now on do not get them either.
pub fn stop_signals() -> Result<SignalFd> {
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    signals.thread_block().context("blocking signals")?;
    SignalFd::new(&signals).context("a descriptor for signals")
}

/// Has `device`, with this program attached, honor what is agreed with the switch until a signal;
/// it asks for the priorities `requested`, as a mask. Nothing is honored afterwards.
pub fn run(
    (device, program): (&str, u32),
    namespace: &Namespace,
    requested: u8,
    is_json: bool,
    stop: &SignalFd,
) -> Result<()> {
    let mut shown = None;
    let ended = namespace.enter(|| {
        let ended = nic::follow(device, requested, stop.as_fd(), |status| {
            nic::set_no_drop(device, program, status.operational.no_drop)?;
            let line = if is_json { json(device, status).to_string() } else { text(device, status) };
            if shown.as_ref() != Some(&line) {
                // A reader that is gone does not end the negotiation.
                let _ = output::print(&line);
                shown = Some(line);
            }
            Ok(())
        });
        // The qdisc may be gone, too, which is then how it has ended.
        let reset = nic::set_no_drop(device, program, 0);
        ended.and(reset)
    });
    if ended.is_ok() && !is_json {
        let suffix = namespace.suffix();
        let netns = namespace.netns.as_ref().map(|name| format!(" --netns {name}")).unwrap_or_default();
        let _ = output::print(&format!(
            "{device}{suffix} has withdrawn from DCBX and honors no pause; `sluice nic detach {device}{netns}` removes its \
             qdisc."
        ));
    }
    ended
}

fn json(device: &str, status: &Status) -> Value {
    let pfc = &status.pfc;
    json!({
        "device": device,
        "version": status.version.to_string(),
        "state": pfc.state.to_string(),
        "reason": pfc.reason.to_string(),
        "local_no_drop": list(pfc.local),
        "peer_no_drop": pfc.peer.map(list),
        "no_drop": list(status.operational.no_drop),
    })
}

fn text(device: &str, status: &Status) -> String {
    let (pfc, no_drop) = (&status.pfc, status.operational.no_drop);
    let honors = match (pfc.state, no_drop) {
        (FeatureState::Agreed, 0) => "no pause, as agreed".to_owned(),
        (_, 0) => "no pause".to_owned(),
        _ => format!("pauses of {}", priorities(no_drop)),
    };
    format!("{device} honors {honors} ({}: {}).", status.version, pfc.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dcbx::settings::{DcbxSettings, PfcSettings, Version};
    use dcbx::status::{FeatureReason, PeerState};

    fn status() -> Status {
        let pfc = PfcSettings { no_drop: 0b1000, willing: true, ..PfcSettings::default() };
        Status::new(&DcbxSettings { pfc, ..DcbxSettings::default() }, Version::Ieee)
    }

    #[test]
    fn each_outcome_has_a_line() {
        let mut of = status();
        assert_eq!(text("eth0", &of), "eth0 honors no pause (IEEE: no peer with DCBX).");
        of.peer = PeerState::One;
        of.pfc.peer = Some(0b11_0000);
        (of.pfc.state, of.pfc.reason) = (FeatureState::Agreed, FeatureReason::TakenOver);
        of.operational.no_drop = 0b11_0000;
        assert_eq!(text("eth0", &of), "eth0 honors pauses of 4, 5 (IEEE: taken over from the peer).");
        let expected = json!({
            "device": "eth0", "version": "IEEE", "state": "agreed", "reason": "taken over from the peer",
            "local_no_drop": [3], "peer_no_drop": [4, 5], "no_drop": [4, 5],
        });
        assert_eq!(json("eth0", &of), expected);
        of.operational.no_drop = 0;
        assert_eq!(text("eth0", &of), "eth0 honors no pause, as agreed (IEEE: taken over from the peer).");
    }
}
