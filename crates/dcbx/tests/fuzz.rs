//! Fuzzing of the decoders of LLDP and DCBX (IEEE, CEE, CIN), and of an agent that has agreed with
//! a peer and is sent such frames.
//!
//! It begins with the frames of `tests/corpus/`, one a file in hexadecimal digits, and mutates
//! them. A frame whose answer from the decoders no other frame had is kept and mutated further:
//! the answers guide it, as coverage guides other fuzzers, without a compiler's instrumentation.
//! What it does is the same in each run of `cargo test`. `SLUICE_FUZZ_SECONDS=600` has it run
//! longer, with other numbers each time; a failure prints the frame, which then belongs to the
//! corpus. See CONTRIBUTING.md, "Fuzzing".

mod pair;

use core::time::Duration;
use dcbx::Agent;
use dcbx::settings::{AgentSettings, DcbxSettings, Version};
use dcbx::status::FeatureReason;
use pair::{ALL_VERSIONS, dcbx, seconds, settings};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;
use wire::dcbx::{Cee, Cin, Ieee};
use wire::lldp::{OrgTlv, decode};
use wire::random::Random;

/// Frames of a run of `cargo test`: about a second.
const FRAMES: u64 = 20_000;

/// The most frames that are kept.
const MAX_KEPT: usize = 4096;

fn corpus_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks_exact(2).map(byte).collect()
}

fn to_hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The frames of the corpus, in the order of their names.
fn corpus() -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(corpus_folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let frames: Vec<Vec<u8>> =
        files.iter().map(|file| from_hex(&std::fs::read_to_string(file).unwrap())).collect();
    assert!(frames.len() >= 8 && frames.iter().all(|frame| frame.len() > 20), "{files:?}");
    frames
}

/// Changes a frame in one to four places: bits, bytes, lengths, pieces of another frame.
fn mutate(frame: &mut Vec<u8>, other: &[u8], numbers: &mut Random) {
    for _ in 0..=numbers.index(4) {
        if frame.is_empty() {
            return;
        }
        let at = numbers.index(frame.len());
        match numbers.index(8) {
            0 => frame[at] ^= 1 << numbers.index(8),
            1 => frame[at] = numbers.bits() as u8,
            2 => frame[at] = [0, 1, 7, 8, 15, 100, 127, 255][numbers.index(8)],
            3 => frame.truncate(at),
            4 => drop(frame.remove(at)),
            5 => frame.insert(at, numbers.bits() as u8),
            6 => {
                let end = (at + 1 + numbers.index(40)).min(frame.len());
                let piece = frame[at..end].to_vec();
                frame.splice(at..at, piece);
            }
            _ => {
                let from = numbers.index(other.len());
                let piece = other[from..(from + 1 + numbers.index(60)).min(other.len())].to_vec();
                frame.splice(at..at, piece);
            }
        }
    }
    frame.truncate(1514);
}

/// Reads TLVs in a version: what is read can be written and read again. Returns the kind of answer.
fn version<T: PartialEq + Debug, E: Debug>(
    tlvs: &[OrgTlv],
    decode: impl Fn(&[OrgTlv]) -> Result<Option<T>, E>,
    encode: impl Fn(&T) -> Vec<OrgTlv>,
) -> String {
    match decode(tlvs) {
        Err(error) => format!("{error:?}"),
        Ok(None) => "absent".to_owned(),
        Ok(Some(value)) => {
            let again = decode(&encode(&value)).expect("what was written can be read");
            assert_eq!(again.as_ref(), Some(&value));
            "read".to_owned()
        }
    }
}

/// Decodes a frame, and returns what kind of frame it is: the answers of all decoders.
fn decoded(frame: &[u8]) -> String {
    let lldpdu = match decode(frame) {
        Err(error) => return format!("{error:?}"),
        Ok((src, lldpdu)) => {
            let again = decode(&lldpdu.encode(src).frame).expect("what was written can be read").1;
            assert_eq!(
                (&again.chassis, &again.port, again.ttl_s),
                (&lldpdu.chassis, &lldpdu.port, lldpdu.ttl_s)
            );
            lldpdu
        }
    };
    let tlvs = &lldpdu.organization;
    let ieee = version(tlvs, Ieee::decode, Ieee::encode);
    let cee = version(tlvs, Cee::decode, |it| vec![it.encode()]);
    let cin = version(tlvs, Cin::decode, |it| vec![it.encode()]);
    format!("{ieee} {cee} {cin} {}", lldpdu.ttl_s == 0)
}

fn agent(number: u8, own: DcbxSettings) -> Agent {
    let settings: AgentSettings = settings(number, Some(own));
    let mut agent = Agent::new(settings);
    agent.set_link(seconds(1), true);
    agent
}

/// An agent that has agreed with a peer, and the peer's frame.
fn agreed(own: usize, version: usize) -> (Agent, Vec<u8>) {
    let mut agent = agent(1, dcbx(ALL_VERSIONS[own], true, 1 << 3));
    let mut peer = self::agent(2, dcbx(ALL_VERSIONS[version], false, 1 << 4));
    let mut last = Vec::new();
    for step in 0..20 {
        let now = seconds(1) + Duration::from_millis(step * 300);
        for frame in agent.poll(now).frames {
            peer.receive(now, &frame);
        }
        for frame in peer.poll(now).frames {
            agent.receive(now, &frame);
            last = frame;
        }
    }
    (agent, last)
}

/// Sends a frame to an agent that has agreed on priority 4. A malformed frame changes nothing, and
/// is counted; whatever it is, everything that came of it ends with the times to live.
fn received(agent: &Agent, frame: &[u8]) {
    let mut agent = agent.clone();
    let before = agent.status().unwrap().clone();
    let counters = *agent.counters();
    let now = seconds(10);
    agent.receive(now, frame);
    let polled = agent.poll(now);
    assert!(polled.frames.len() <= 1 && polled.next.is_none_or(|next| next > now), "{polled:?}");
    let after = *agent.counters();
    assert_eq!(after.rx_frames, counters.rx_frames + 1);
    if decode(frame).is_err() {
        assert_eq!(after.rx_malformed_frames, counters.rx_malformed_frames + 1, "counted");
        assert_eq!(agent.status().unwrap(), &before, "changes nothing");
        assert!(agent.last_error().is_some(), "shown");
    }
    // A frame with the agent's own identity is counted and ignored.
    let is_own = after.rx_own_frames > counters.rx_own_frames;
    let is_of_peer = |ttl_s: u16| ttl_s > 0 && agent.neighbors().count() == 1 && !is_own;
    if let Ok((_, lldpdu)) = decode(frame)
        && is_of_peer(lldpdu.ttl_s)
        && is_malformed(before.version, &lldpdu.organization)
    {
        assert!(after.rx_malformed_dcbx > counters.rx_malformed_dcbx, "counted");
        assert_eq!(agent.operational().unwrap(), &before.operational, "changes nothing");
        assert!(matches!(agent.status().unwrap().pfc.reason, FeatureReason::Malformed(_)), "shown");
    }
    agent.poll(now + seconds(65_536));
    assert_eq!((agent.neighbors().count(), agent.operational().unwrap().no_drop), (0, 0), "forgotten");
}

/// True if the TLVs of a version are malformed.
fn is_malformed(version: Version, tlvs: &[OrgTlv]) -> bool {
    match version {
        Version::Ieee => Ieee::decode(tlvs).is_err(),
        Version::Cee => Cee::decode(tlvs).is_err(),
        Version::Cin => Cin::decode(tlvs).is_err(),
    }
}

/// The frames of the corpus are those of each version, with both ends of what may be sent.
#[test]
fn the_corpus_has_every_version() {
    let kinds: Vec<String> = corpus().iter().map(|frame| decoded(frame)).collect();
    for expected in ["read absent absent false", "absent read absent false", "absent absent read false"] {
        assert!(kinds.iter().any(|kind| kind == expected), "{expected}: {kinds:#?}");
    }
    assert!(kinds.iter().any(|kind| kind.ends_with("true")), "a shutdown frame: {kinds:#?}");
}

#[test]
fn no_frame_breaks_a_decoder_or_an_agent() {
    let limit = std::env::var("SLUICE_FUZZ_SECONDS")
        .ok()
        .map(|text| Duration::from_secs(text.parse().expect("SLUICE_FUZZ_SECONDS is a number of seconds")));
    let start = Instant::now();
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = if limit.is_some() { clock.as_nanos() as u64 } else { 1 };
    let agents: Vec<Agent> =
        (0..4).flat_map(|own| (1..4).map(move |version| agreed(own, version).0)).collect();
    let mut kept = corpus();
    kept.extend((1..4).map(|version| agreed(0, version).1));
    let mut kinds: BTreeSet<String> = kept.iter().map(|frame| decoded(frame)).collect();
    let (mut numbers, mut count) = (Random::new(seed), 0);
    while limit.map_or(count < FRAMES, |limit| start.elapsed() < limit) {
        let mut frame = kept[numbers.index(kept.len())].clone();
        let other = &kept[numbers.index(kept.len())];
        mutate(&mut frame, other, &mut numbers);
        let agent = &agents[numbers.index(agents.len())];
        let kind = catch_unwind(AssertUnwindSafe(|| {
            received(agent, &frame);
            decoded(&frame)
        }));
        let Ok(kind) = kind else { panic!("frame {}, seed {seed}", to_hex(&frame)) };
        if kinds.insert(kind) && kept.len() < MAX_KEPT {
            kept.push(frame);
        }
        count += 1;
    }
    println!("{count} frames, {} kinds of answers", kinds.len());
    assert!(kinds.len() > 60, "the mutations find what the decoders refuse: {kinds:#?}");
}

/// Writes the frames of all versions to the corpus: `cargo test -p dcbx --test fuzz -- --ignored`.
#[test]
#[ignore = "writes the corpus"]
fn write_the_corpus() {
    for (number, name) in ["auto", "ieee", "cee", "cin"].into_iter().enumerate() {
        for (willing, no_drop) in [(false, 1 << 3), (true, 0xff)] {
            let mut own = dcbx(ALL_VERSIONS[number], willing, no_drop);
            own.applications.entries.truncate(if willing { 2 } else { 1 });
            let frame = agent(2, own).poll(seconds(1)).frames.remove(0);
            let file =
                corpus_folder().join(format!("{name}-{}.hex", if willing { "willing" } else { "own" }));
            std::fs::write(file, to_hex(&frame) + "\n").unwrap();
        }
    }
    let mut leaving = agent(2, dcbx(ALL_VERSIONS[1], false, 8));
    leaving.poll(seconds(1));
    let settings = leaving.settings().clone();
    leaving.configure(seconds(2), settings.withdrawn());
    let frame = leaving.poll(seconds(2)).frames.remove(0);
    std::fs::write(corpus_folder().join("shutdown.hex"), to_hex(&frame) + "\n").unwrap();
}
