//! What the ports of a recorded switch were offered: each received frame with its port, its
//! destination and its class, and the pauses that peers requested.
//!
//! Rule: a frame is offered at the start of the iteration that received it, which is the time that
//! the switch reckons with. Its destination is the port that the FDB had for it then, whether the
//! frame was dropped or not. Frames that were lost below the switch, as in a ring that was full,
//! are not in a recording. Source: docs/simulator.md, "Twins".

use switch::frame::meta::QosClass;
use switch::{Disposition, Instant, RxFrame, Switch};
use wire::ip::Ecn;
use wire::pause::{Control, decode};

/// A data frame that a port received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedFrame {
    /// Start of the iteration that received it.
    pub at: Instant,
    /// The port that received it.
    pub from: u8,
    /// The port of its destination; `None` if it was flooded.
    pub to: Option<u8>,
    /// Length in bytes without FCS, as received.
    pub len: u16,
    /// How the switch classified it.
    pub class: QosClass,
    /// DSCP; `None` if it is not an IP packet.
    pub dscp: Option<u8>,
    /// True if its sender supports ECN.
    pub is_ect: bool,
}

/// A MAC control frame that a port received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedPause {
    /// Start of the iteration that received it.
    pub at: Instant,
    /// The port that received it.
    pub port: u8,
    /// Its content.
    pub control: Control,
}

/// The most frames that are collected, pauses included.
pub const MAX_OFFERED_FRAMES: usize = 1 << 24;

/// What was offered in a part of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offered {
    /// The data frames, in the order in which they were received.
    pub frames: Vec<OfferedFrame>,
    /// The pauses, in the order in which they were received. Of those before the part, the last PFC
    /// frames of each port, as a pause may last into the part.
    pub pauses: Vec<ReceivedPause>,
    /// Frames that no bridge forwards: invalid ones, and LLDP.
    pub not_forwarded_frames: u64,
    /// Ports whose transmission was put on hold in the part.
    pub held_ports: Vec<u8>,
    /// Nanoseconds from each iteration that received frames to the next, and the number of these
    /// frames.
    pub busy_intervals_ns: Vec<(u64, u32)>,
    /// Frames beyond [`MAX_OFFERED_FRAMES`], which were not collected.
    pub left_out_frames: u64,
    /// The part has begun: frames are collected, not only pauses.
    collects_frames: bool,
    /// Start of the last iteration, and its frames, if it received any.
    busy_since: Option<(Instant, u32)>,
}

impl Offered {
    /// Collects frames from now on.
    pub(super) fn begin_part(&mut self) {
        self.collects_frames = true;
    }

    /// Notes a frame that `switch` is about to receive on `port`, with its recorded bytes.
    pub(super) fn note(&mut self, switch: &Switch, arrival: &RxFrame, bytes: &[u8], at: Instant) {
        if !self.collects_frames {
            return self.note_early_pause(arrival, bytes, at);
        }
        if self.frames.len() + self.pauses.len() >= MAX_OFFERED_FRAMES {
            self.left_out_frames += 1;
            return;
        }
        self.busy_since.get_or_insert((at, 0)).1 += 1;
        let port = arrival.meta.in_port;
        match arrival.disposition {
            Disposition::Data => self.frames.push(OfferedFrame {
                at,
                from: port,
                to: switch.destination_of(arrival, at).map(|port| port as u8),
                len: arrival.meta.len,
                class: arrival.meta.class,
                dscp: arrival.meta.ds_field.map(|field| field.dscp(bytes)),
                is_ect: arrival.ecn != Ecn::NotEct,
            }),
            Disposition::Control => {
                let pause = decode(bytes).map(|control| ReceivedPause { at, port, control });
                self.pauses.extend(pause);
            }
            _ => self.not_forwarded_frames += 1,
        }
    }

    /// Notes a PFC frame before the part, instead of those that it supersedes.
    fn note_early_pause(&mut self, arrival: &RxFrame, bytes: &[u8], at: Instant) {
        if arrival.disposition != Disposition::Control {
            return;
        }
        let Ok(control @ Control::Pfc(pfc)) = decode(bytes) else { return };
        let port = arrival.meta.in_port;
        self.pauses.retain(|old| {
            old.port != port || !matches!(old.control, Control::Pfc(old) if old.enable & !pfc.enable == 0)
        });
        self.pauses.push(ReceivedPause { at, port, control });
    }

    /// Notes that a port's transmission is put on hold.
    pub(super) fn note_hold(&mut self, port: usize) {
        let port = port as u8;
        if self.collects_frames && !self.held_ports.contains(&port) {
            self.held_ports.push(port);
        }
    }

    /// Notes the start of an iteration.
    pub(super) fn begin_iteration(&mut self, now: Instant) {
        if let Some((since, frames)) = self.busy_since.take() {
            self.busy_intervals_ns.push((now.since(since), frames));
        }
    }
}
