//! Operations on batches of frames that do not depend on which loop serves the port: headers are
//! parsed and transport checksums completed on receipt, and edits are made before transmission.
//!
//! Source: docs/architecture.md, "Frame path"; docs/multi-core.md, "Who does what".

use switch::{FrameMemory, RxDesc, RxFrame, TxDesc};
use wire::checksum;
use wire::ip::DsField;

/// How many frames ahead headers are prefetched into the cache.
pub(crate) const LOOK_AHEAD: usize = 6;

/// Parses all frames of `received` in order with `parse`, and appends the results to `arrivals`.
/// Completes transport checksums that a Linux host left to offload, where requested.
#[inline]
pub(crate) fn parse_batch<M: FrameMemory>(
    received: &mut Vec<RxDesc>,
    memory: &mut M,
    complete_checksums: bool,
    parse: impl Fn(RxDesc, &[u8]) -> RxFrame,
    arrivals: &mut Vec<RxFrame>,
) {
    let mut batch = received.drain(..);
    while let Some(received) = batch.next() {
        if let Some(ahead) = batch.as_slice().get(LOOK_AHEAD) {
            memory.prefetch(&ahead.frame);
        }
        let len = usize::from(received.len);
        let bytes = memory.bytes_mut(&received.frame, len);
        let is_together = bytes.len() == len;
        let arrival = parse(received, bytes);
        if let (true, Some(field)) = (complete_checksums, arrival.meta.ds_field) {
            if is_together {
                checksum::complete_transport(bytes, field);
            } else {
                complete_long_checksum(memory, &arrival, field);
            }
        }
        arrivals.push(arrival);
    }
}

/// Completes the transport checksum of a frame that spans several chunks.
#[cold]
fn complete_long_checksum<M: FrameMemory>(memory: &mut M, arrival: &RxFrame, field: DsField) {
    memory.whole(&arrival.frame, usize::from(arrival.meta.len), |bytes| {
        checksum::complete_transport(bytes, field)
    });
}

/// Makes all edits of `frames`, in order. Frames without edits are not touched.
pub(crate) fn apply_edits<M: FrameMemory>(frames: &[TxDesc], memory: &mut M) {
    for (index, TxDesc { frame, len, edit, .. }) in frames.iter().enumerate() {
        if let Some(ahead) = frames.get(index + LOOK_AHEAD)
            && !ahead.edit.is_none()
        {
            memory.prefetch(&ahead.frame);
        }
        if !edit.is_none() {
            edit.apply(memory, frame, *len);
        }
    }
}
