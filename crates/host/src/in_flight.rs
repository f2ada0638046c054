//! The frames that the kernel has not completed. They cannot be recalled when a pause arrives, so
//! their number is bounded.

use switch::FrameId;
use switch::settings::PRIORITIES;

/// The most bytes passed to the kernel and not yet completed.
pub const IN_FLIGHT_BYTES: usize = 16_384;
/// The most frames passed to the kernel and not yet completed: the entries of a veth's ring
/// (docs/kernel/af-xdp.md, "Where frames vanish").
pub const IN_FLIGHT_FRAMES: usize = 256;

/// The frames held by the kernel.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// Content of each frame, by frame number.
    pub(crate) loads: Vec<FrameContent>,
    pub(crate) bytes: usize,
    /// False if the port bounds what it holds itself.
    pub(crate) is_bounded: bool,
    /// Bytes of the longest frame that the host sends.
    pub(crate) longest_bytes: usize,
    pub(crate) frames: usize,
    pub(crate) by_priority: [u64; PRIORITIES],
}

/// What a frame carries, by which its receiver counts it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FrameContent {
    pub(crate) kind: LoadKind,
    pub(crate) priority: u8,
    pub(crate) len: u16,
}

/// Kind of a frame and its flow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum LoadKind {
    #[default]
    Announcement,
    Cnp,
    /// A pause of a storm, which has no priority itself.
    Storm,
    /// A frame of LLDP, which no pause stops.
    Lldp,
    Flow(u16),
}

impl FrameContent {
    /// The number by which the frame counts for its priority: 0 or 1.
    fn of_priority(&self) -> u64 {
        u64::from(!matches!(self.kind, LoadKind::Storm | LoadKind::Lldp))
    }
}

impl InFlight {
    /// True if one more frame, even of the largest size, may be passed to the kernel.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_bounded
            || self.frames < IN_FLIGHT_FRAMES && self.bytes + self.longest_bytes <= IN_FLIGHT_BYTES
    }

    /// Adds a frame that is passed to the kernel.
    pub(crate) fn add(&mut self, frame: &FrameId, load: FrameContent) {
        self.loads[frame.index()] = load;
        self.frames += 1;
        self.bytes += usize::from(load.len);
        self.by_priority[usize::from(load.priority)] += load.of_priority();
    }

    /// Removes a frame that the kernel has completed. Returns its content.
    pub(crate) fn remove(&mut self, frame: &FrameId) -> FrameContent {
        let load = self.loads[frame.index()];
        self.frames -= 1;
        self.bytes -= usize::from(load.len);
        self.by_priority[usize::from(load.priority)] -= load.of_priority();
        load
    }
}
