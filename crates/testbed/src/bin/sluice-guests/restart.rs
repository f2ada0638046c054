//! The owner of the sockets goes and comes again while its guests live, and so does a guest.

use std::time::Instant;

use anyhow::Result;

use crate::guest::ipv4;
use crate::network::{Network, RECEIVER};
use crate::verdict::Finding;

/// Ends the daemon and starts another one in its place; then kills the receiver and boots it again.
pub fn run(network: &mut Network) -> Result<Vec<Finding>> {
    Ok(vec![
        after("a restart of the daemon", network, Network::restart)?,
        after("a guest that is killed and boots again", network, Network::replace_receiver)?,
    ])
}

/// Does something, and waits until both senders reach the receiver.
fn after(
    what: &str,
    network: &mut Network,
    change: impl FnOnce(&mut Network) -> Result<()>,
) -> Result<Finding> {
    let began = Instant::now();
    if let Err(error) = change(network) {
        let text = format!("{what}: the ports do not come up again: {error:#}");
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
        format!("{what}: all guests reach each other again, {seconds:.0} s after it began")
    } else {
        format!("{what}: guests {} do not reach the receiver", silent.join(" and "))
    };
    Ok(Finding { good: Some(silent.is_empty()), text })
}
