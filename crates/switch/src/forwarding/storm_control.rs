//! Storm control: limits on the broadcast, multicast and unknown unicast frames per second that a
//! port accepts.
//!
//! Rule: a frame that goes to every port is a broadcast, a multicast (any other group address), or
//! a unicast to a destination that is not in the FDB. Each port counts the three types separately,
//! in and out. Where a port has a limit for one of them, that many frames a second are accepted and
//! flooded. The rest is dropped and counted by type (and by priority, including no-drop ones: an
//! operator who sets a limit wants that). A port that was quiet may catch up by what the limit
//! passes in [`BURST_NS`], at least one frame. The source address is learned anyway. An event
//! reports the first drop at once, and then once a second while drops last. Source:
//! docs/behavior.md, "Flood limits"; other switches call this storm control, or broadcast,
//! multicast and unknown-unicast suppression. It is a token bucket like [`crate::token_bucket`],
//! but of frames instead of bytes.

use crate::frame::meta::FloodType;
use crate::frame::meta::FrameMeta;
use crate::monitor::counters::{DropReason, PortSnapshot};
use crate::monitor::event::Event;
use crate::monitor::throttle::{EVENT_NS, Throttle};
use crate::settings::FloodLimits;
use crate::settings::Rate;
use crate::time::{Instant, Nanos};
use crate::token_bucket::TokenBucket;
use serde::{Deserialize, Serialize};

/// Time for which a quiet port accumulates credit.
pub const BURST_NS: Nanos = 100_000_000;
/// Maximum limit, in frames a second.
pub const MAX_LIMIT_PPS: u32 = 1_000_000_000;

/// Flood limits of a port, and counters of its received flooded frames.
#[derive(Debug, Serialize, Deserialize)]
pub struct StormControl {
    counters: [FloodCounter; 3],
}

/// Limit and counter of one type of flooded frames.
#[derive(Debug, Serialize, Deserialize)]
struct FloodCounter {
    received_frames: u64,
    limit: Option<TokenBucket>,
    unreported: UnreportedDrops,
    throttle: Throttle,
}

/// Dropped frames that no event has reported.
#[derive(Debug, Default, Serialize, Deserialize)]
struct UnreportedDrops {
    frames: u64,
    no_drop_frames: u64,
}

impl StormControl {
    /// Makes the state of a port without received frames.
    pub fn new(limits: &FloodLimits) -> Self {
        let kind = |limit: Option<u32>| FloodCounter {
            received_frames: 0,
            limit: limit.map(|pps| TokenBucket::new(Some(rate(pps)), 0)),
            unreported: UnreportedDrops::default(),
            throttle: Throttle::default(),
        };
        Self { counters: limits.map(kind) }
    }

    /// Sets other limits, from the next frame on.
    pub(crate) fn reconfigure(&mut self, limits: &FloodLimits) {
        for (kind, limit) in self.counters.iter_mut().zip(limits) {
            match (&mut kind.limit, limit) {
                (Some(shaper), Some(pps)) => shaper.set_rate(Some(rate(*pps)), 0),
                (shaper, limit) => *shaper = limit.map(|pps| TokenBucket::new(Some(rate(pps)), 0)),
            }
        }
    }

    /// Counts a received frame to be flooded. Returns the drop reason if it exceeds its limit.
    #[expect(clippy::indexing_slicing, reason = "by kind, an enumeration")]
    pub(crate) fn admit(&mut self, charge: &FrameMeta, is_no_drop: bool, now: Instant) -> Option<DropReason> {
        let kind = &mut self.counters[charge.flood_type.index()?];
        kind.received_frames += 1;
        let shaper = kind.limit.as_mut()?;
        if shaper.is_free(now) {
            shaper.take(1, now);
            return None;
        }
        kind.unreported.frames += 1;
        kind.unreported.no_drop_frames += u64::from(is_no_drop);
        Some(drop_reason(charge.flood_type))
    }

    /// Returns an event about drops that `port` must report now, one type at a time; `Err` if drops
    /// must be reported later.
    pub(crate) fn take_event(&mut self, port: usize, now: Instant) -> Result<Option<Event>, ()> {
        let mut later = false;
        for (kind, cast) in self.counters.iter_mut().zip(FloodType::FLOODED) {
            if kind.unreported.frames == 0 {
                continue;
            }
            if kind.throttle.pass(EVENT_NS, now) {
                let UnreportedDrops { frames, no_drop_frames } = std::mem::take(&mut kind.unreported);
                return Ok(Some(Event::FloodLimit { port, cast, frames, no_drop_frames }));
            }
            later = true;
        }
        if later { Err(()) } else { Ok(None) }
    }

    /// Fills in the received frames.
    pub(crate) fn snapshot(&self, out: &mut PortSnapshot) {
        let [broadcast, multicast, unknown] = self.counters.each_ref().map(|kind| kind.received_frames);
        out.received_broadcast_frames = broadcast;
        out.received_multicast_frames = multicast;
        out.received_unknown_unicast_frames = unknown;
    }
}

/// Returns frames a second as the rate of a link on which each frame is one byte long.
fn rate(pps: u32) -> Rate {
    // The frame that arrives when the bucket is empty is passed with the next second's: the burst
    // is one less.
    let burst_frames = (u64::from(pps) * BURST_NS / 1_000_000_000).max(1);
    Rate { bps: 8 * u64::from(pps), burst_bytes: Some(burst_frames - 1) }
}

/// Returns the drop reason of a flooded frame that exceeds its limit.
fn drop_reason(cast: FloodType) -> DropReason {
    match cast {
        FloodType::Broadcast => DropReason::BroadcastLimit,
        FloodType::Multicast => DropReason::MulticastLimit,
        FloodType::Known | FloodType::UnknownUnicast => DropReason::UnknownUnicastLimit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn charge(cast: FloodType) -> FrameMeta {
        FrameMeta { flood_type: cast, ..FrameMeta::default() }
    }

    /// Returns how many of `frames` simultaneous frames pass.
    fn passed(meter: &mut StormControl, cast: FloodType, frames: usize, now: Instant) -> usize {
        (0..frames).filter(|_| meter.admit(&charge(cast), false, now).is_none()).count()
    }

    /// At first, and after any quiet time, a tenth of a second's frames pass; then the exact rate.
    #[test]
    #[cfg_attr(miri, ignore = "statistics of hundreds of thousands of steps")]
    fn a_limit_lets_its_rate_through_and_a_burst() {
        for (pps, burst) in [(1, 1), (10, 1), (20, 2), (1000, 100), (123_456, 12_345)] {
            let mut meter = StormControl::new(&[Some(pps), None, None]);
            let mut now = Instant(7);
            assert_eq!(
                passed(&mut meter, FloodType::Broadcast, 20_000, now),
                burst,
                "{pps} a second: the burst"
            );
            let in_ten_seconds: usize = (0..10_000)
                .map(|_| {
                    now = now + MS;
                    passed(&mut meter, FloodType::Broadcast, 500, now)
                })
                .sum();
            let off = in_ten_seconds.abs_diff(10 * pps as usize);
            assert!(off <= 1, "{pps} a second: {in_ten_seconds} in ten"); // times are whole nanoseconds
            now = now + 3600 * 1000 * MS;
            assert_eq!(
                passed(&mut meter, FloodType::Broadcast, 20_000, now),
                burst,
                "{pps} a second: after an hour"
            );
        }
    }

    #[test]
    fn flood_types_are_counted_separately() {
        let mut meter = StormControl::new(&[Some(10), None, Some(20)]);
        let at_once = FloodType::FLOODED.map(|cast| passed(&mut meter, cast, 50, Instant(0)));
        assert_eq!(at_once, [1, 50, 2]);
        let mut seen = PortSnapshot::default();
        meter.snapshot(&mut seen);
        let received = [
            seen.received_broadcast_frames,
            seen.received_multicast_frames,
            seen.received_unknown_unicast_frames,
        ];
        assert_eq!(received, [50; 3], "also those that were dropped");
        assert_eq!(meter.admit(&charge(FloodType::Known), false, Instant(0)), None);
    }

    #[test]
    fn an_event_is_immediate_and_then_once_a_second() {
        let mut meter = StormControl::new(&[Some(1), Some(1), None]);
        let reported = |cast, frames, no_drop_frames| {
            Ok(Some(Event::FloodLimit { port: 4, cast, frames, no_drop_frames }))
        };
        assert_eq!(meter.take_event(4, Instant(0)), Ok(None));
        passed(&mut meter, FloodType::Broadcast, 4, Instant(0));
        passed(&mut meter, FloodType::Multicast, 3, Instant(0));
        assert_eq!(meter.take_event(4, Instant(0)), reported(FloodType::Broadcast, 3, 0));
        assert_eq!(meter.take_event(4, Instant(0)), reported(FloodType::Multicast, 2, 0));
        assert_eq!(meter.take_event(4, Instant(0)), Ok(None));
        meter.admit(&charge(FloodType::Broadcast), true, Instant(1));
        assert_eq!(meter.take_event(4, Instant(EVENT_NS - 1)), Err(()), "there is something to tell");
        assert_eq!(meter.take_event(4, Instant(EVENT_NS)), reported(FloodType::Broadcast, 1, 1));
        assert_eq!(meter.take_event(4, Instant(9 * EVENT_NS)), Ok(None));
    }

    /// Frames that passed a limit count under the next one.
    #[test]
    fn another_limit_holds_from_the_next_frame_on() {
        let mut meter = StormControl::new(&[None; 3]);
        assert_eq!(passed(&mut meter, FloodType::Broadcast, 500, Instant(0)), 500);
        meter.reconfigure(&[Some(100), None, None]);
        assert_eq!(passed(&mut meter, FloodType::Broadcast, 500, Instant(0)), 10);
        meter.reconfigure(&[Some(1000), None, None]);
        assert!(passed(&mut meter, FloodType::Broadcast, 500, Instant(0)) <= 100);
        meter.reconfigure(&[None; 3]);
        assert_eq!(passed(&mut meter, FloodType::Broadcast, 500, Instant(0)), 500);
    }
}
