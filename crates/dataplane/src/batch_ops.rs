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

#[cfg(test)]
mod tests {
    use switch::settings::{BufferSettings, PortSettings, SwitchSettings};
    use switch::{FrameId, Switch};
    use wire::mac::MacAddr;

    use super::*;

    /// Bytes of a chunk: the headers of [`open_udp`], and 4 bytes more.
    const CHUNK_BYTES: usize = 46;

    /// A memory of one frame that has as many chunks as it needs.
    struct OneFrame(Vec<u8>);

    impl FrameMemory for OneFrame {
        fn alloc(&mut self) -> Option<FrameId> {
            None
        }

        fn free(&mut self, _frame: FrameId) {}

        fn bytes(&self, _frame: &FrameId, len: usize) -> &[u8] {
            &self.0[..len.min(CHUNK_BYTES)]
        }

        fn bytes_mut(&mut self, _frame: &FrameId, len: usize) -> &mut [u8] {
            &mut self.0[..len.min(CHUNK_BYTES)]
        }

        fn whole(&mut self, _frame: &FrameId, len: usize, work: impl FnOnce(&mut [u8]) -> bool) -> bool {
            work(&mut self.0[..len])
        }

        fn copy(&mut self, _from: &FrameId, _to: &FrameId, _len: usize) {}

        fn max_len(&self) -> usize {
            self.0.len()
        }

        fn free_frames(&self) -> usize {
            0
        }
    }

    /// Returns a UDP datagram over IPv4 with this payload, whose checksum is that of its pseudo
    /// header, as a Linux host leaves it to a device; and the checksum that it should have.
    fn open_udp(payload: &[u8]) -> (Vec<u8>, [u8; 2]) {
        let mut frame = vec![0; 14];
        wire::ethernet::write_header(&mut frame, MacAddr([2; 6]), MacAddr([4; 6]), None, 0x0800);
        let [ip_len, udp_len] = [28, 8].map(|headers| headers + payload.len() as u16);
        let pseudo = 0x0a00 + 1 + 0x0a00 + 2 + 17 + udp_len;
        let [[a, b], [c, d], [e, f]] = [ip_len, udp_len, pseudo].map(u16::to_be_bytes);
        frame.extend([0x45, 0, a, b, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 1, 0, 2, c, d, e, f]);
        frame.extend(payload);
        let words = payload.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let sum = u32::from(pseudo) + 1 + 2 + u32::from(udp_len) + words.sum::<u32>();
        (frame, (!((sum & 0xffff) as u16 + (sum >> 16) as u16)).to_be_bytes())
    }

    /// The checksum covers bytes of every chunk. It is only completed where that was requested.
    #[test]
    fn an_open_checksum_is_finished_over_one_chunk_and_over_several() {
        let settings = SwitchSettings {
            buffer: BufferSettings { total_cells: 64, headroom_cells: 0, ..BufferSettings::default() },
            usage_percent: 100,
            alarms: Default::default(),
            seed: 0,
            bridge: Default::default(),
            ports: vec![PortSettings::new("p0", None)],
        };
        let parser = Switch::new(&settings, &[MacAddr([2; 6])], 8).parser(0);
        for (payload, is_requested) in [(4, true), (6, true), (200, true), (6, false), (200, false)] {
            let (open, checksum) = open_udp(&vec![7; payload]);
            let mut finished = open.clone();
            if is_requested {
                finished[40..42].copy_from_slice(&checksum);
            }
            let mut memory = OneFrame(open);
            let mut received = vec![RxDesc::new(FrameId::new(0), finished.len() as u16)];
            let mut arrivals = Vec::new();
            let parse = |desc, bytes: &[u8]| parser.parse(desc, bytes);
            parse_batch(&mut received, &mut memory, is_requested, parse, &mut arrivals);
            assert_eq!((received.len(), arrivals.len()), (0, 1));
            assert_eq!(memory.0, finished, "{payload} bytes, requested: {is_requested}");
        }
    }
}
