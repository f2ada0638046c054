//! The owner of the sockets goes and comes again while its guests live.

use std::time::Instant;

use anyhow::Result;

use crate::guest::ipv4;
use crate::network::{Network, RECEIVER};
use crate::verdict::Finding;

/// Ends the daemon, starts another one in its place, and waits until the guests reach each other.
pub fn run(network: &mut Network) -> Result<Finding> {
    let began = Instant::now();
    if let Err(error) = network.restart() {
        let text = format!("a restart of the daemon: its ports do not come up again: {error:#}");
        return Ok(Finding { good: Some(false), text });
    }
    let mut silent = Vec::new();
    let (senders, _) = network.split();
    for sender in senders.iter_mut() {
        let line =
            format!("for i in $(busybox seq 60); do ping -c 1 -W 1 {} && break; done", ipv4(0, RECEIVER));
        sender.begin(&line)?;
        let (_, is_reached) = sender.end()?;
        if !is_reached {
            silent.push(sender.name);
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let text = if silent.is_empty() {
        format!(
            "a restart of the daemon: all guests reach each other again, {seconds:.0} s after its end began"
        )
    } else {
        format!("a restart of the daemon: guests {} do not reach the receiver", silent.join(" and "))
    };
    Ok(Finding { good: Some(silent.is_empty()), text })
}
