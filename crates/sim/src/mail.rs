//! What a part of a network leaves for another in one window.

use crate::flow::Message;
use crate::packet::Packet;
use crate::time::Picos;

/// What one part of the network sends to another: frames, and what is announced beside them.
#[derive(Debug, Default)]
pub struct Mail {
    /// By link direction: frames with the time of their arrival.
    pub(crate) frames: Vec<(usize, Picos, Packet)>,
    /// By flow: the messages that its receiver is to expect.
    pub(crate) messages: Vec<(usize, Message)>,
    /// By end that negotiates: frames of LLDP with the time when they are read.
    pub(crate) lldp: Vec<(usize, Picos, Vec<u8>)>,
}

impl Mail {
    /// Returns when the first of it arrives; the highest number if there is nothing.
    pub(crate) fn first_at(&self) -> Picos {
        let frames = self.frames.iter().map(|(_, at, _)| *at);
        frames.chain(self.lldp.iter().map(|(_, at, _)| *at)).min().unwrap_or(Picos::MAX)
    }
}
