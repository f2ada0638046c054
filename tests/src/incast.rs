//! The smallest incast: two hosts send more to a third than its port takes.

use std::time::Duration;

use anyhow::Result;
use testbed::{Daemon, Endpoint, Host, Namespace, Testbed, idle};

use crate::{
    AMPLE_HEADROOM_CELLS, Run, flow, group_config, port_config, run, slow_port_config, switch_config,
};

/// Hosts `a` and `b`, which send, and `c`, whose port has 100 Mbit/s.
pub struct Incast {
    /// Keeps all of it.
    pub bed: Testbed,
    /// Where the daemon runs.
    pub switch: Namespace,
    senders: [Endpoint; 2],
    receiver: Endpoint,
}

impl Incast {
    /// The hosts, plugged in.
    pub fn new() -> Result<Self> {
        let bed = Testbed::new()?;
        let switch = bed.switch("switch")?;
        let senders = [bed.quiet_host(&switch, "a")?, bed.quiet_host(&switch, "b")?];
        let receiver = bed.quiet_host(&switch, "c")?;
        Ok(Self { bed, switch, senders, receiver })
    }

    /// The switch, with `more` in its configuration.
    pub fn daemon(&self, more: &str) -> Result<Daemon> {
        let mut config = switch_config("on") + &slow_port_config("c", 100);
        for sender in &self.senders {
            config += &(port_config(&sender.name, "1G") + &group_config(&sender.name, AMPLE_HEADROOM_CELLS));
        }
        self.bed.daemon(&self.switch, &(config + more))
    }

    /// Each sender sends 100 Mbit/s of no-drop priority 3, and as much of priority 0.
    pub fn run(&self, daemon: &Daemon, duration: Duration) -> Result<Run> {
        let (sending, receiving) = self.hosts(duration)?;
        run(&[daemon], sending, vec![receiving], duration)
    }

    /// The same traffic for as long as `meanwhile` takes, two minutes at most; what that gave, once
    /// the switch is at rest.
    pub fn run_while<T>(&self, daemon: &Daemon, meanwhile: impl FnOnce() -> Result<T>) -> Result<T> {
        let (mut sending, receiving) = self.hosts(Duration::from_secs(120))?;
        sending.iter_mut().try_for_each(Host::go)?;
        let result = meanwhile();
        Host::stop_all(sending)?;
        daemon.until("the switch is at rest", |now| idle(now).then_some(()))?;
        receiving.stop()?;
        daemon.until("the switch is at rest", |now| idle(now).then_some(()))?;
        result
    }

    /// The senders, which wait for their "go", and the receiver.
    fn hosts(&self, duration: Duration) -> Result<(Vec<Host>, Host)> {
        let lasts = format!("{}s", duration.as_secs());
        let flows = [flow(&self.receiver.mac(), 3, "100M"), flow(&self.receiver.mac(), 0, "100M")];
        let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", &lasts];
        let start = |at| self.bed.host(at, &flows, &arguments);
        let sending = self.senders.iter().map(start).collect::<Result<_>>()?;
        let receiving = self.bed.host(&self.receiver, &[], &["--speed", "100M", "--no-drop", "3"])?;
        Ok((sending, receiving))
    }
}
