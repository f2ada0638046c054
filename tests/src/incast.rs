//! The smallest incast: two hosts send more to a third than its port carries.

use std::time::Duration;

use anyhow::Result;
use testbed::{Daemon, Endpoint, Host, Namespace, Testbed, idle};

use crate::configurations::{
    AMPLE_HEADROOM_CELLS, flow, group_config, port_config, slow_port_config, switch_config,
};
use crate::traffic_run::{TrafficRun, run};

/// Longer than any test: for hosts that send until they are stopped.
pub const UNTIL_STOPPED: Duration = Duration::from_secs(24 * 60 * 60);

/// Senders `a` and `b`, and receiver `c`, whose port has 100 Mbit/s.
pub struct Incast {
    /// The testbed, which keeps everything alive.
    pub bed: Testbed,
    /// Namespace of the daemon.
    pub switch: Namespace,
    senders: [Endpoint; 2],
    receiver: Endpoint,
}

impl Incast {
    /// Creates the hosts, plugged in.
    pub fn new() -> Result<Self> {
        let bed = Testbed::new()?;
        let switch = bed.switch("switch")?;
        let senders = [bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?];
        let receiver = bed.sluice_host(&switch, "c")?;
        Ok(Self { bed, switch, senders, receiver })
    }

    /// Returns the host on the slow port.
    pub fn receiver(&self) -> &Endpoint {
        &self.receiver
    }

    /// Starts the switch, with `more` in its configuration.
    pub fn daemon(&self, more: &str) -> Result<Daemon> {
        self.bed.daemon(&self.switch, &self.config(more))
    }

    /// Returns the configuration of the switch, and `more`.
    pub fn config(&self, more: &str) -> String {
        let mut config = switch_config("on") + &slow_port_config("c", 100);
        for sender in &self.senders {
            config += &(port_config(&sender.name, "1G") + &group_config(&sender.name, AMPLE_HEADROOM_CELLS));
        }
        config + more
    }

    /// Runs the incast: each sender sends 100 Mbit/s of no-drop priority 3, and as much of priority
    /// 0.
    pub fn run(&self, daemon: &Daemon, duration: Duration) -> Result<TrafficRun> {
        let (sending, receiving) = self.hosts(duration)?;
        run(&[daemon], sending, vec![receiving], duration)
    }

    /// Runs the same traffic while `meanwhile` runs. Returns its result, and what became of the
    /// frames.
    pub fn run_while<T>(
        &self,
        daemon: &Daemon,
        meanwhile: impl FnOnce() -> Result<T>,
    ) -> Result<(T, TrafficRun)> {
        let (mut sending, receiving) = self.hosts(UNTIL_STOPPED)?;
        sending.iter_mut().try_for_each(Host::start_sending)?;
        let result = meanwhile();
        let mut reports = Host::stop_all(sending)?;
        daemon.until("the switch is at rest", |now| idle(now).then_some(()))?;
        reports.extend(Host::stop_all(vec![receiving])?);
        let snapshot = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
        Ok((result?, TrafficRun { snapshot, sending: Vec::new(), reports }))
    }

    /// Starts the senders, which wait for their "go", and the receiver.
    pub fn hosts(&self, duration: Duration) -> Result<(Vec<Host>, Host)> {
        let lasts = format!("{}s", duration.as_secs());
        let flows = [flow(&self.receiver.mac(), 3, "100M"), flow(&self.receiver.mac(), 0, "100M")];
        let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", &lasts];
        let start = |at| self.bed.host(at, &flows, &arguments);
        let sending = self.senders.iter().map(start).collect::<Result<_>>()?;
        let receiving = self.bed.host(&self.receiver, &[], &["--speed", "100M", "--no-drop", "3"])?;
        Ok((sending, receiving))
    }
}
