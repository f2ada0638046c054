//! Two hosts on one cable, without a switch.

use anyhow::Result;
use testbed::{Endpoint, Namespace, Testbed};

/// Two hosts on one cable, without a switch: `near` has an address, and sends to `far`.
pub struct Cable {
    pub near: Endpoint,
    pub far: Namespace,
    pub bed: Testbed,
}

/// The address at the far end, which no host has; the near end has a permanent neighbor entry for
/// it.
pub const FAR: &str = "10.1.0.2";

impl Cable {
    pub fn new(queues: u32) -> Result<Self> {
        let bed = Testbed::new()?;
        let (near, far) = (bed.switch("near")?, bed.switch("far")?);
        near.ip(&format!(
            "link add eth0 numtxqueues {queues} numrxqueues {queues} type veth peer name eth0 netns {} numtxqueues \
             {queues} numrxqueues {queues}",
            far.name()
        ))?;
        far.ip("link set eth0 up")?;
        near.ip("link set eth0 up")?;
        near.ip("addr add 10.1.0.1/24 dev eth0")?;
        near.ip(&format!("neigh replace {FAR} lladdr 02:00:00:00:00:99 dev eth0"))?;
        let near = Endpoint { namespace: near, name: "near".into(), number: 1 };
        Ok(Self { near, far, bed })
    }
}
