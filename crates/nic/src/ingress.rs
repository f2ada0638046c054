//! Tests of the ingress program alone (BPF_PROG_TEST_RUN): which frames it consumes, which it
//! passes on, what it records. The qdisc is left out, so that any kernel with BPF can run them.

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use wire::MacAddr;
use wire::pause::{FRAME_BYTES, Pause, Pfc};

use crate::abi::Reader;
use crate::settings::{Settings, replace_no_drop};

/// The verdict that passes a frame on to the stack (linux/pkt_cls.h).
const LEFT: u32 = 0;
const TAKEN: u32 = 2;

struct Ingress(Object);

impl Ingress {
    fn load(settings: &Settings) -> Self {
        static OBJECT: &[u8] = include_bytes!(env!("NIC_INGRESS_BPF"));
        let open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
        let object = open.load().expect("root, and a kernel with BPF");
        let map = object.maps().find(|map| map.name() == "nic_settings").unwrap();
        map.update(&0u32.to_ne_bytes(), &settings.to_bytes(1, false), MapFlags::ANY).unwrap();
        Self(object)
    }

    fn set_no_drop(&self, no_drop: u8) {
        let map = self.0.maps().find(|map| map.name() == "nic_settings").unwrap();
        let mut bytes = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        replace_no_drop(&mut bytes, no_drop);
        map.update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY).unwrap();
    }

    /// Returns the verdict on a frame, and the mean run time of the program over `times` runs.
    fn run(&self, frame: &[u8], times: u32) -> (u32, u64) {
        let program = self.0.progs_mut().find(|program| program.name() == "sluice_nic_pfc").unwrap();
        let input = ProgramInput { data_in: Some(frame), repeat: times, ..ProgramInput::default() };
        let output = program.test_run(input).unwrap();
        (output.return_value, u64::from(output.duration.as_nanos() as u32))
    }

    fn words(&self, map: &str) -> Vec<u64> {
        let map = self.0.maps().find(|found| found.name() == map).unwrap();
        let bytes = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        let mut from = Reader::new(&bytes);
        std::iter::from_fn(|| from.u64()).collect()
    }

    /// The counters of PFC, PAUSE, malformed frames and kicks.
    fn received(&self) -> Vec<u64> {
        self.words("nic_received")
    }

    /// The pause state of a priority: (until, since, paused, episodes, XOFF, XON).
    fn pause(&self, priority: usize) -> [u64; 6] {
        self.words("nic_pauses")[1 + 6 * priority..][..6].try_into().unwrap()
    }
}

fn pfc(enable: u8, quanta: [u16; 8]) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    Pfc { enable, quanta }.encode(MacAddr([2; 6]), &mut frame);
    frame
}

#[test]
fn control_frames_are_taken_and_others_left() {
    let ingress = Ingress::load(&Settings::new(1_000_000_000));
    let xoff = pfc(0b0001_1000, [0, 0, 0, 1000, 500, 0, 0, 0]);
    let mut ordinary = xoff;
    ordinary[12..14].copy_from_slice(&[0x08, 0x00]);
    let mut foreign = xoff;
    foreign[5] = 0x0e;
    let mut unknown = xoff;
    unknown[15] = 0x77;
    let mut pause = [0; FRAME_BYTES];
    Pause { quanta: 5 }.encode(MacAddr([2; 6]), &mut pause);
    for (frame, becomes, received) in [
        (&ordinary[..], LEFT, [0, 0, 0, 0]),
        (&xoff, TAKEN, [1, 0, 0, 0]),
        (&xoff[..34], TAKEN, [2, 0, 0, 0]),
        (&xoff[..33], TAKEN, [2, 0, 1, 0]),
        (&pause, TAKEN, [2, 1, 1, 0]),
        (&foreign, TAKEN, [2, 1, 2, 0]),
        (&unknown, TAKEN, [2, 1, 3, 0]),
    ] {
        assert_eq!(ingress.run(frame, 1).0, becomes, "{frame:02x?}");
        assert_eq!(ingress.received(), received, "{frame:02x?}");
    }
    let [until, since, paused, episodes, xoff, xon] = ingress.pause(3);
    assert_eq!((episodes, xoff, xon), (1, 2, 0));
    assert!(until > since && paused == 0, "1000 quanta of the second frame, {until} {since}");
    // Priority 4 is lossy here: its XOFFs are only counted.
    assert_eq!(ingress.pause(4), [0, 0, 0, 0, 2, 0]);
}

/// The set of no-drop priorities changes while the program runs.
#[test]
fn a_priority_that_was_agreed_on_later_is_honored_from_then_on() {
    let ingress = Ingress::load(&Settings { no_drop: 0, ..Settings::new(1_000_000_000) });
    let xoff = pfc(0b0001_1000, [0, 0, 0, 1000, 1000, 0, 0, 0]);
    ingress.run(&xoff, 1);
    assert_eq!([ingress.pause(3)[3], ingress.pause(4)[3]], [0, 0], "nothing is agreed on");
    ingress.set_no_drop(1 << 4);
    ingress.run(&xoff, 1);
    assert_eq!([ingress.pause(3)[3], ingress.pause(4)[3]], [0, 1]);
    assert_eq!([ingress.pause(3)[4], ingress.pause(4)[4]], [2, 2], "all are counted");
}

/// 1000 quanta at 1 Gbit/s end 512 µs after reception, and an XON ends them at once.
#[test]
fn a_pause_lasts_for_its_time() {
    let ingress = Ingress::load(&Settings::new(1_000_000_000));
    ingress.run(&pfc(8, [0, 0, 0, 65_535, 0, 0, 0, 0]), 1);
    let [until, since, ..] = ingress.pause(3);
    assert_eq!(until - since, 33_553_920);
    ingress.run(&pfc(8, [0; 8]), 1);
    let [until, since, paused, episodes, xoff, xon] = ingress.pause(3);
    assert_eq!((until, episodes, xoff, xon), (0, 1, 1, 1));
    assert!(paused > 0 && paused <= 33_553_920, "{since} {paused}");
}

/// Cost of a pause storm, as the mean of a million frames; every frame is counted.
#[test]
fn a_million_frames_are_received() {
    let ingress = Ingress::load(&Settings::new(1_000_000_000));
    let (_, ns) = ingress.run(&pfc(8, [0, 0, 0, 65_535, 0, 0, 0, 0]), 1_000_000);
    println!("a PFC frame takes the program {ns} ns");
    assert_eq!(ingress.received()[0], 1_000_000);
    assert_eq!(ingress.pause(3)[4], 1_000_000);
}
