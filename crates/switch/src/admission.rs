//! Whether a frame has room.
//!
//! Rule: it must fit the line that it is to leave by, its group at ingress and its queue at egress. Both ends decide before either is
//! charged: what one of them refuses leaves no trace in the other's watermarks, and only what ingress refuses triggers PFC. Who refuses is whose drop it is.
//! Source: docs/law.md, "Priority groups", "Egress queues" and "MTUs"; where a refusal is counted: [`crate::drops`].

use crate::counters::DropReason;
use crate::egress::Egress;
use crate::group::Area;
use crate::ingress::Ingress;
use crate::pool::Pools;
use crate::store::Charge;

/// Whether a frame fits the line that it is to leave by and has room at both ends, and which area of ingress takes it.
#[inline]
pub(crate) fn admit(
    ingress: &Ingress,
    egress: &Egress,
    charge: &Charge,
    pools: &Pools,
) -> Result<Area, DropReason> {
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
    charge: &Charge,
    pools: &Pools,
) -> Result<Area, DropReason> {
    let area = ingress.admit(charge, pools)?;
    if egress.admit(charge, pools) { Ok(area) } else { Err(egress.refusal(charge)) }
}
