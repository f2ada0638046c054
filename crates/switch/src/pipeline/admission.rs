//! Whether a frame has room.
//!
//! Rule: it must fit the line that it is to leave by, its group at ingress and its queue at egress.
//! Both ends decide before either is charged: what one of them refuses leaves no trace in the
//! other's watermarks, and only what ingress refuses triggers PFC. Who refuses is whose drop it is.
//! Source: docs/behavior.md, "Priority groups", "Egress queues" and "MTUs"; where a refusal is
//! counted: [`crate::pipeline::drops`].

use crate::buffer::pool::Pools;
use crate::egress::Egress;
use crate::frame::meta::FrameMeta;
use crate::ingress::Ingress;
use crate::ingress::priority_group::BufferRegion;
use crate::monitor::counters::DropReason;

/// Whether a frame fits the line that it is to leave by and has room at both ends, and which area
/// of ingress takes it.
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

/// Whether a frame has room at both ends, and which area of ingress takes it.
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
