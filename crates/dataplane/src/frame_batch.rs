//! Batches of frames, as whichever loop serves their port handles them: headers are parsed and
//! transport checksums finished on receipt, edits made before transmission.
//!
//! Source: docs/architecture.md, "The way of a frame"; docs/multi-core.md, "Who does what".

use switch::{FrameMemory, RxDesc, RxFrame, TxDesc};
use wire::checksum;
use wire::ip::DsField;

/// Headers are fetched into the cache so many frames before they are read.
pub(crate) const LOOK_AHEAD: usize = 6;

/// Looks at all of `received`, in order, by `look`, and appends what it found to `arrivals`.
/// Transport checksums that a Linux host left open are finished where that is wanted.
#[inline]
pub(crate) fn parse_batch<M: FrameMemory>(
    received: &mut Vec<RxDesc>,
    memory: &mut M,
    finish_checksums: bool,
    look: impl Fn(RxDesc, &[u8]) -> RxFrame,
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
        let arrival = look(received, bytes);
        if let (true, Some(field)) = (finish_checksums, arrival.charge.ds_field) {
            if is_together {
                checksum::finish_transport(bytes, field);
            } else {
                finish_long(memory, &arrival, field);
            }
        }
        arrivals.push(arrival);
    }
}

/// Finishes the transport checksum of a frame whose bytes do not all lie together.
#[cold]
fn finish_long<M: FrameMemory>(memory: &mut M, arrival: &RxFrame, field: DsField) {
    memory.whole(&arrival.frame, usize::from(arrival.charge.len), |bytes| {
        checksum::finish_transport(bytes, field)
    });
}

/// Makes all edits of `frames`, in order: those that have none are not touched.
pub(crate) fn make_edits<M: FrameMemory>(frames: &[TxDesc], memory: &mut M) {
    for (place, TxDesc { frame, len, edit }) in frames.iter().enumerate() {
        if let Some(ahead) = frames.get(place + LOOK_AHEAD)
            && !ahead.edit.is_none()
        {
            memory.prefetch(&ahead.frame);
        }
        if !edit.is_none() {
            edit.make(memory, frame, *len);
        }
    }
}
