//! The owner of the sockets goes and comes again while its guests live.

use std::time::Instant;

use anyhow::{Result, ensure};

use crate::guest::ipv4;
use crate::network::{Network, RECEIVER};
use crate::verdict::Finding;

/// Ends the daemon, starts another one in its place, and waits until the guests reach each other.
pub fn run(network: &mut Network) -> Result<Finding> {
    let began = Instant::now();
    network.restart()?;
    let (senders, _) = network.split();
    for sender in senders.iter_mut() {
        let line =
            format!("for i in $(busybox seq 60); do ping -c 1 -W 1 {} && break; done", ipv4(0, RECEIVER));
        let output = sender.run(&line)?;
        ensure!(output.contains("1 received"), "guest {} reaches nobody\n{output}", sender.name);
    }
    let seconds = began.elapsed().as_secs_f64();
    let text = format!(
        "a restart of the daemon: all guests reach each other again, {seconds:.0} s after its end began"
    );
    Ok(Finding { good: true, text })
}
