//! Counters of an interface that honors PFC. They are read from the maps of the program at its
//! ingress: nothing is pinned.

use nix::time::{ClockId, clock_gettime};

use crate::abi::Reader;
use crate::bpf_object::{attached_program, value_of};
use crate::error::Error;
use crate::netlink::{RootQdisc, RtNetlink};
use crate::settings::{PRIORITIES, Settings};

/// Counters of one priority of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Priority {
    /// Frames that were sent to the interface (GSO: before segmentation).
    pub sent_frames: u64,
    /// Bytes of these frames on the link, without FCS.
    pub sent_bytes: u64,
    /// Frames held now.
    pub held_frames: u64,
    /// Bytes of the held frames on the link.
    pub held_bytes: u64,
    /// Kernel memory of the held frames.
    pub held_memory_bytes: u64,
    /// Peak of the kernel memory of held frames.
    pub held_peak_memory_bytes: u64,
    /// Frames dropped because the limit was reached.
    pub dropped_frames: u64,
    /// Bytes of the dropped frames.
    pub dropped_bytes: u64,
    /// True if the priority is paused at the moment.
    pub is_paused: bool,
    /// Remaining pause time if no further PFC frame arrives.
    pub pause_left_ns: u64,
    /// Total time paused, the present pause included.
    pub paused_ns: u64,
    /// Pauses begun.
    pub episodes: u64,
    /// XOFFs received, refreshes included.
    pub xoff_frames: u64,
    /// XONs received.
    pub xon_frames: u64,
}

/// Received MAC control frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PfcRxCounters {
    /// Valid PFC frames.
    pub pfc_frames: u64,
    /// PAUSE frames for the whole link, which are not honored.
    pub pause_frames: u64,
    /// Frames for another address, with another opcode, or too short.
    pub malformed_frames: u64,
    /// Times the qdisc had to be woken because a pause ended early.
    pub kicks: u64,
}

/// State of an interface that honors PFC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Name of the interface.
    pub device: String,
    /// True if the qdisc is in place. Without it no pause is honored, and `sluice nic attach`
    /// repairs it.
    pub has_qdisc: bool,
    /// The settings that it was attached with.
    pub settings: Settings,
    /// When the counters were read, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Received MAC control frames.
    pub received: PfcRxCounters,
    /// Counters by priority.
    pub priorities: [Priority; PRIORITIES],
}

/// Returns the interfaces of this namespace that have our program or qdisc.
///
/// # Errors
/// The kernel refuses the request.
pub fn attached() -> Result<Vec<String>, Error> {
    let links = RtNetlink::connect()?;
    let mut found = Vec::new();
    for interface in links.all()? {
        if links.qdiscs(interface.index)?.root == RootQdisc::Ours
            || attached_program(interface.index).is_some()
        {
            found.push(interface.name);
        }
    }
    Ok(found)
}

/// Returns the counters of `device`.
///
/// # Errors
/// There is no such interface, or it has no program of ours, or reading is not permitted.
pub fn status(device: &str) -> Result<Status, Error> {
    let links = RtNetlink::connect()?;
    let ifindex = links.find(device)?.index;
    let has_qdisc = links.qdiscs(ifindex)?.root == RootQdisc::Ours;
    let Some(program) = attached_program(ifindex) else {
        return Err(Error::NotAttached { device: device.to_owned() });
    };
    let unknown = || Error::system("reading what is counted", "attached by another version of Sluice");
    let settings = value_of(&program, "nic_settings")?;
    let (settings, _) = Settings::from_bytes(&settings).ok_or_else(unknown)?;
    let (state, pauses) = (value_of(&program, "nic_state")?, value_of(&program, "nic_pauses")?);
    let at_ns = now_ns()?;
    let received = read_received(&value_of(&program, "nic_received")?).ok_or_else(unknown)?;
    let mut priorities = read_priorities(&state, &pauses, at_ns).ok_or_else(unknown)?;
    for (priority, of) in priorities.iter_mut().enumerate() {
        // What is not agreed on any more holds nothing.
        of.is_paused &= settings.no_drop & (1 << priority) != 0;
    }
    Ok(Status { device: device.to_owned(), has_qdisc, settings, at_ns, received, priorities })
}

/// Returns the time of the clock that the programs read.
fn now_ns() -> Result<u64, Error> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    let now = now.map_err(|error| Error::system("reading the clock", error))?;
    Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// Decodes `struct received_frames`.
fn read_received(bytes: &[u8]) -> Option<PfcRxCounters> {
    let mut from = Reader::new(bytes);
    Some(PfcRxCounters {
        pfc_frames: from.u64()?,
        pause_frames: from.u64()?,
        malformed_frames: from.u64()?,
        kicks: from.u64()?,
    })
}

/// Decodes `struct state` and `struct pauses`.
fn read_priorities(state: &[u8], pauses: &[u8], now_ns: u64) -> Option<[Priority; PRIORITIES]> {
    let (mut state, mut pauses) = (Reader::new(state), Reader::new(pauses));
    pauses.skip(8)?; // the lock
    let mut all = [Priority::default(); PRIORITIES];
    for priority in &mut all {
        let (head, tail) = (state.u64()?, state.u64()?);
        priority.held_frames = tail.wrapping_sub(head);
        priority.held_bytes = state.u64()?;
        priority.held_memory_bytes = state.u64()?;
        priority.held_peak_memory_bytes = state.u64()?;
        priority.sent_frames = state.u64()?;
        priority.sent_bytes = state.u64()?;
        priority.dropped_frames = state.u64()?;
        priority.dropped_bytes = state.u64()?;

        let (until_ns, since_ns) = (pauses.u64()?, pauses.u64()?);
        priority.paused_ns = pauses.u64()?;
        if until_ns != 0 {
            // The end of a pause that expires is not recorded until the next PFC frame is received.
            priority.paused_ns += now_ns.min(until_ns).saturating_sub(since_ns);
            priority.pause_left_ns = until_ns.saturating_sub(now_ns);
            priority.is_paused = until_ns > now_ns;
        }
        priority.episodes = pauses.u64()?;
        priority.xoff_frames = pauses.u64()?;
        priority.xon_frames = pauses.u64()?;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Writer;

    /// Priority p has sent 10 p frames, and so on; priority 3 is paused until 1000, priority 4 was
    /// until 400.
    #[test]
    fn every_counter_has_its_offset() {
        let (mut state, mut pauses) = (Writer::default(), Writer::default());
        pauses.u64(0);
        for p in 0..8u64 {
            for value in [p, 3 * p, 20 + p, 30 + p, 40 + p, 50 + p, 60 + p, 70 + p, 80 + p] {
                state.u64(value);
            }
            let until = [0, 0, 0, 1000, 400, 0, 0, 0][p as usize];
            for value in [until, 300, 7, 100 + p, 110 + p, 120 + p] {
                pauses.u64(value);
            }
        }
        let (state, pauses) = (state.done(), pauses.done());
        let read = read_priorities(&state, &pauses, 500).expect("whole structures");
        let of_3 = Priority {
            held_frames: 6,
            held_bytes: 23,
            held_memory_bytes: 33,
            held_peak_memory_bytes: 43,
            sent_frames: 53,
            sent_bytes: 63,
            dropped_frames: 73,
            dropped_bytes: 83,
            is_paused: true,
            pause_left_ns: 500,
            paused_ns: 207,
            episodes: 103,
            xoff_frames: 113,
            xon_frames: 123,
        };
        assert_eq!(read[3], of_3);
        let over = (read[4].is_paused, read[4].pause_left_ns, read[4].paused_ns);
        assert_eq!(over, (false, 0, 107), "a pause that ended by itself lasted until its end");
        assert_eq!((read[7].is_paused, read[7].paused_ns, read[7].xon_frames), (false, 7, 127));
        assert_eq!(read_priorities(&state[..500], &pauses, 0), None, "cut off");
    }
}
