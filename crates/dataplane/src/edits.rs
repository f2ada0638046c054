//! The edits of a batch of frames that leave, made by whichever loop serves their port.
//!
//! Source: docs/multi-core.md, "Who does what"; [`switch::edit`].

use switch::{Memory, Outgoing};

use crate::look::LOOK_AHEAD;

/// Makes all edits of `frames`, in order: those that have none are not touched.
pub(crate) fn make_edits<M: Memory>(frames: &[Outgoing], memory: &mut M) {
    for (place, Outgoing { frame, len, edit }) in frames.iter().enumerate() {
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
