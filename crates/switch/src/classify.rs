//! Classification: which priority and which queue a received frame has.
//!
//! Rule: a port that trusts dot1p takes the PCP of the outermost tag; an untagged frame, or any frame on a port that
//! trusts nothing, has the port's own priority. The priority picks the priority group (and so what PFC pauses); the
//! map dot1p → local precedence picks the queue.
//! Source: seeds/h3c-rdma-technical-reference.txt, "Packet priority-to-queue mappings"; IEEE 802.1Q-2022 6.9.3, 8.6.6.

use crate::settings::{PRIORITIES, PortSettings, Trust};
use wire::ethernet::Tag;

/// What a frame is treated as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// 802.1p priority: the group.
    pub priority: u8,
    /// Local precedence: the queue.
    pub queue: u8,
}

/// One port's classifier.
#[derive(Debug)]
pub struct Classifier {
    trust: Trust,
    port_priority: u8,
    dot1p_to_queue: [u8; PRIORITIES],
}

impl Classifier {
    /// The classifier of a port with these settings.
    pub fn new(settings: &PortSettings) -> Self {
        Self {
            trust: settings.trust,
            port_priority: settings.port_priority & 7,
            dot1p_to_queue: settings.dot1p_to_queue.map(|queue| queue & 7),
        }
    }

    /// The class of a frame whose outermost tag is `tag`.
    #[inline]
    pub fn classify(&self, tag: Option<Tag>) -> Class {
        let priority = match (self.trust, tag) {
            (Trust::Dot1p, Some(tag)) => tag.pcp & 7,
            (Trust::Dot1p, None) | (Trust::None, _) => self.port_priority,
        };
        Class { priority, queue: self.dot1p_to_queue[usize::from(priority)] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(pcp: u8) -> Option<Tag> {
        Some(Tag { tpid: 0x8100, pcp, dei: false, vid: 1 })
    }

    /// Trust, tag, then the expected priority and queue, by the seeds' default map 2,0,1,3,4,5,6,7.
    #[test]
    fn every_trust_with_and_without_a_tag() {
        let queues = [2, 0, 1, 3, 4, 5, 6, 7];
        for pcp in 0..8 {
            let mut settings = PortSettings::new("p", None);
            settings.port_priority = 6;
            let dot1p = Classifier::new(&settings);
            settings.trust = Trust::None;
            let none = Classifier::new(&settings);
            let of_port = Class { priority: 6, queue: 6 };
            assert_eq!(dot1p.classify(tag(pcp)), Class { priority: pcp, queue: queues[usize::from(pcp)] });
            assert_eq!(dot1p.classify(None), of_port);
            assert_eq!(none.classify(tag(pcp)), of_port);
            assert_eq!(none.classify(None), of_port);
        }
    }
}
