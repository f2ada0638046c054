//! The frames of a host that the kernel has and has not completed. They cannot be called back when
//! a pause comes, so they are bounded.

use switch::FrameId;
use switch::settings::PRIORITIES;

/// Most bytes handed to the kernel and not yet completed.
pub const IN_FLIGHT_BYTES: usize = 16_384;
/// Most frames handed to the kernel and not yet completed: the entries of a veth's ring
/// (docs/kernel-behavior.md, "Where frames vanish").
pub const IN_FLIGHT_FRAMES: usize = 256;

/// Frames with the kernel.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// By frame number: what it carries.
    pub(crate) loads: Vec<Load>,
    pub(crate) bytes: usize,
    /// Bytes of the longest frame that it sends.
    pub(crate) longest_bytes: usize,
    pub(crate) frames: usize,
    pub(crate) by_priority: [u64; PRIORITIES],
}

/// What a frame carries.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    pub(crate) kind: LoadKind,
    pub(crate) priority: u8,
    pub(crate) len: u16,
}

/// Whose frame it is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum LoadKind {
    #[default]
    Announcement,
    Cnp,
    /// A pause of a storm: of no priority itself.
    Storm,
    Flow(u16),
}

impl Load {
    /// Frames of its priority that it is.
    fn of_priority(&self) -> u64 {
        u64::from(!matches!(self.kind, LoadKind::Storm))
    }
}

impl InFlight {
    /// One more frame, even of the largest size, may be handed to the kernel.
    pub(crate) fn has_room(&self) -> bool {
        self.frames < IN_FLIGHT_FRAMES && self.bytes + self.longest_bytes <= IN_FLIGHT_BYTES
    }

    /// A frame goes to the kernel.
    pub(crate) fn add(&mut self, frame: &FrameId, load: Load) {
        self.loads[frame.index()] = load;
        self.frames += 1;
        self.bytes += usize::from(load.len);
        self.by_priority[usize::from(load.priority)] += load.of_priority();
    }

    /// The kernel is done with a frame: what it carried.
    pub(crate) fn remove(&mut self, frame: &FrameId) -> Load {
        let load = self.loads[frame.index()];
        self.frames -= 1;
        self.bytes -= usize::from(load.len);
        self.by_priority[usize::from(load.priority)] -= load.of_priority();
        load
    }
}
