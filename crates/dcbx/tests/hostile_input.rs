//! Whatever a peer sends, nothing panics, loops or grows, and nothing stays no-drop once the peer
//! is gone.

mod pair;

use core::time::Duration;
use dcbx::Agent;
use dcbx::settings::{AgentSettings, DcbxSettings};
use pair::{ALL_VERSIONS, dcbx, seconds, settings};
use proptest::prelude::*;

fn agent(number: u8, own: DcbxSettings) -> Agent {
    let changed: AgentSettings = settings(number, Some(own));
    let mut agent = Agent::new(changed);
    agent.set_link(seconds(1), true);
    agent
}

/// A frame of a peer that speaks a version.
fn valid_frame(version: usize, willing: bool, no_drop: u8) -> Vec<u8> {
    let mut peer = agent(2, dcbx(ALL_VERSIONS[version], willing, no_drop));
    peer.poll(seconds(1)).frames.remove(0)
}

proptest! {
    #[test]
    fn mutated_frames(
        own_version in 0..4_usize,
        willing: bool,
        frames in prop::collection::vec(
            (0..4_usize, any::<bool>(), any::<u8>(), prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4), any::<prop::sample::Index>()),
            1..30,
        ),
    ) {
        let mut agent = agent(1, dcbx(ALL_VERSIONS[own_version], willing, 1 << 3));
        let local = agent.status().unwrap().clone();
        let mut now = seconds(1);
        for (version, peer_willing, no_drop, changes, end) in frames {
            let mut frame = valid_frame(version, peer_willing, no_drop);
            for (at, byte) in changes {
                let at = at.index(frame.len());
                frame[at] ^= byte;
            }
            let whole = frame.len();
            frame.truncate(if no_drop & 1 == 0 { whole } else { end.index(whole) });
            agent.receive(now, &frame);
            let polled = agent.poll(now);
            prop_assert!(polled.next.is_none_or(|next| next > now));
            prop_assert!(polled.frames.len() <= 1);
            prop_assert!(agent.neighbors().count() <= 8);
            now += Duration::from_millis(300);
        }
        // No time to live is longer than 65535 s.
        agent.poll(now + seconds(65_536));
        prop_assert_eq!(agent.neighbors().count(), 0);
        prop_assert_eq!(agent.status().unwrap(), &local);
        prop_assert!(agent.take_events().len() <= 64);
    }
}
