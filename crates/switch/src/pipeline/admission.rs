//! Admission: whether a frame fits the MTU, its priority group and its queue.
//!
//! Rule: a frame must fit the link of its output port, its group at ingress and its queue at
//! egress. Both halves decide before either is charged, so a frame that one half rejects leaves no
//! trace in the watermarks of the other. Only a rejection at ingress triggers PFC. The drop is
//! counted at the half that rejected the frame. Source: docs/behavior.md, "Priority groups",
//! "Egress queues" and "MTUs"; where a rejected frame is counted: [`crate::pipeline::drops`].

use crate::buffer::pool::Pools;
use crate::egress::Egress;
use crate::frame::meta::FrameMeta;
use crate::ingress::Ingress;
use crate::ingress::priority_group::BufferRegion;
use crate::monitor::counters::DropReason;

/// Checks a frame against the MTU of its output port and the buffer limits of both halves. Returns
/// the ingress region to charge.
#[inline]
pub(crate) fn admit(
    ingress: &Ingress,
    egress: &Egress,
    charge: &FrameMeta,
    pools: &Pools,
) -> Result<BufferRegion, DropReason> {
    if charge.len > egress.longest_bytes() {
        return Err(DropReason::MtuExceeded);
    }
    admit_cells(ingress, egress, charge, pools)
}

/// Checks a frame against the buffer limits of both halves. Returns the ingress region to charge.
#[inline(always)] // a part of `admit`
pub(crate) fn admit_cells(
    ingress: &Ingress,
    egress: &Egress,
    charge: &FrameMeta,
    pools: &Pools,
) -> Result<BufferRegion, DropReason> {
    let area = ingress.admit(charge, pools)?;
    if egress.admit(charge, pools) { Ok(area) } else { Err(egress.drop_reason(charge)) }
}
