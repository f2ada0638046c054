//! Tests of the rules of `bpf/nic_rules.h`: each runs alone in the kernel (BPF_PROG_TEST_RUN) and
//! is compared with the switch's own.

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use switch::Instant;
use wire::MacAddr;
use wire::bitset::Set8;
use wire::pause::{Control, FRAME_BYTES, Pause, Pfc, decode};

use crate::abi::{Reader, Writer};
use crate::settings::{QdiscDiscipline, Settings, Trust};

/// `struct world` of tests/rules.bpf.c.
#[derive(Debug, Clone, PartialEq, Eq)]
struct World {
    settings: Settings,
    pause: [u64; 6],
    credit: [i64; 8],
    free_ns: u64,
    turn: u32,
    now: u64,
    result: i64,
    tci: i32,
    skb_priority: u32,
    ready: u32,
    bytes: u32,
    mtu_bytes: u32,
    quanta: u32,
    flag: bool,
    frame: [u8; 40],
    pfc_quanta: [u16; 8],
    pfc_enable: u8,
}

impl World {
    fn new(settings: Settings) -> Self {
        Self {
            settings,
            pause: [0; 6],
            credit: [0; 8],
            free_ns: 0,
            turn: 0,
            now: 0,
            result: -1,
            tci: -1,
            skb_priority: 0,
            ready: 0,
            bytes: 0,
            mtu_bytes: 1514,
            quanta: 0,
            flag: false,
            frame: [0; 40],
            pfc_quanta: [0; 8],
            pfc_enable: 0,
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes(&self.settings.to_bytes(1, false));
        for value in self.pause.into_iter().chain(self.credit.map(|credit| credit as u64)) {
            out.u64(value);
        }
        out.u64(self.free_ns).u32(self.turn).u32(0).u64(self.now).u64(self.result as u64);
        out.u32(self.tci as u32).u32(self.skb_priority).u32(self.ready).u32(self.bytes);
        out.u32(self.mtu_bytes).u32(self.quanta).u32(u32::from(self.flag)).u32(0).bytes(&self.frame);
        for value in self.pfc_quanta {
            out.bytes(&value.to_ne_bytes());
        }
        out.bytes(&[self.pfc_enable]);
        out.done()
    }

    /// Takes over the fields that a rule may have changed.
    fn update(&mut self, bytes: &[u8]) -> Option<()> {
        let mut from = Reader::new(bytes);
        from.skip(112)?;
        for value in &mut self.pause {
            *value = from.u64()?;
        }
        for value in &mut self.credit {
            *value = from.u64()? as i64;
        }
        self.free_ns = from.u64()?;
        self.turn = u32::from_ne_bytes(from.bytes()?);
        from.skip(12)?;
        self.result = from.u64()? as i64;
        from.skip(32 + 40)?;
        for value in &mut self.pfc_quanta {
            *value = u16::from_ne_bytes(from.bytes()?);
        }
        [self.pfc_enable] = from.bytes()?;
        Some(())
    }
}

/// The loaded rules.
struct Rules(Object);

impl Rules {
    fn load() -> Self {
        static OBJECT: &[u8] = include_bytes!(env!("NIC_RULES_BPF"));
        Self(
            ObjectBuilder::default()
                .open_memory(OBJECT)
                .unwrap()
                .load()
                .expect("root, and a kernel with BPF"),
        )
    }

    /// Runs the rule `name` on `world`; returns its result.
    fn run(&self, name: &str, world: &mut World) -> i64 {
        let map = self.0.maps().find(|map| map.name() == "world").unwrap();
        map.update(&0u32.to_ne_bytes(), &world.to_bytes(), MapFlags::ANY).unwrap();
        let program = self.0.progs_mut().find(|program| program.name() == name).expect(name);
        program.test_run(ProgramInput { data_in: Some(&[0; 64]), ..ProgramInput::default() }).unwrap();
        let after = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
        world.update(&after).expect("the same structure");
        world.result
    }
}

const SPEED: u64 = 1_000_000_000;
const PFC: i64 = 0;
const PAUSE: i64 = 1;
const MALFORMED: i64 = 2;

fn world() -> World {
    World::new(Settings::new(SPEED))
}

/// Every frame that the switch's decoder reads is read with the same result, also cut off at every
/// length.
#[test]
fn control_frames_are_read_as_the_switch_reads_them() {
    let rules = Rules::load();
    let pfc = Pfc { enable: 0b1010_1001, quanta: [1, 0, 0x1234, 65_535, 5, 6, 7, 0x8000] };
    let (mut of_pfc, mut of_pause) = ([0; FRAME_BYTES], [0; FRAME_BYTES]);
    pfc.encode(MacAddr([2; 6]), &mut of_pfc);
    Pause { quanta: 9 }.encode(MacAddr([2; 6]), &mut of_pause);
    let mut reserved = of_pfc;
    reserved[16] = 0xff; // the high byte of the vector
    let mut unknown = of_pfc;
    unknown[15] = 2;
    for frame in [of_pfc, of_pause, reserved, unknown] {
        for len in 14..=34 {
            let mut world = World { bytes: len as u32, ..world() };
            world.frame[..len].copy_from_slice(&frame[..len]);
            let message = rules.run("control", &mut world);
            let expected = match decode(&frame[..len]) {
                Ok(Control::Pfc(of_switch)) => {
                    assert_eq!((world.pfc_enable, world.pfc_quanta), (of_switch.enable, of_switch.quanta));
                    PFC
                }
                Ok(Control::Pause { .. }) => PAUSE,
                Ok(Control::Unknown { .. }) | Err(_) => MALFORMED,
            };
            assert_eq!(message, expected, "{len} bytes of {frame:02x?}");
        }
    }
    // The switch accepts any address on its port; a host only the one of MAC control.
    let mut foreign = World { bytes: 34, ..world() };
    foreign.frame[..34].copy_from_slice(&of_pfc[..34]);
    foreign.frame[5] = 2;
    assert_eq!(rules.run("control", &mut foreign), MALFORMED);
}

/// XOFF and XON at a thousand random times give the same pauses, ends, durations and counts as in
/// the switch.
#[test]
fn pauses_are_those_of_the_switch() {
    let rules = Rules::load();
    for (speed, honored) in
        [(SPEED, true), (10_000_000_000, true), (100_000_000, true), (3, true), (SPEED, false)]
    {
        let mut world = World { flag: honored, ..World::new(Settings::new(SPEED)) };
        world.settings.speed_bps = speed;
        let mut switch =
            switch::pfc::rx::PfcRxState::new(Set8::from_bits(if honored { 1 << 3 } else { 0 }), speed);
        let mut random = 12345u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % below
        };
        let longest = switch::pfc::rx::quanta_ns(65_535, speed);
        for _ in 0..1000 {
            world.now += 1 + next(longest);
            world.quanta = [0, 1, next(65_536) as u32, 65_535][next(4) as usize];
            let before = !switch.paused(Instant(world.now)).is_empty();
            let end_before = switch.next_end();
            let mut pfc = Pfc { enable: 1 << 3, ..Pfc::default() };
            pfc.quanta[3] = world.quanta as u16;
            switch.apply(&pfc, Instant(world.now));
            let earlier = rules.run("received", &mut world) != 0;

            let now = Instant(world.now);
            let is_paused = !switch.paused(now).is_empty();
            let end_after = if is_paused { switch.next_end() } else { now };
            assert_eq!(world.pause[0] > world.now, is_paused, "{world:?}");
            if is_paused {
                assert_eq!(Instant(world.pause[0]), switch.next_end(), "{world:?}");
            }
            assert_eq!(earlier, before && end_after < end_before, "{world:?}");
            let (episodes, paused_ns) = switch.history(now);
            let running = if is_paused { world.now - world.pause[1] } else { 0 };
            assert_eq!((world.pause[3], world.pause[2] + running), (episodes[3], paused_ns[3]), "{world:?}");
            let count = switch.count();
            assert_eq!(
                (world.pause[4], world.pause[5]),
                (count.xoff_frames[3], count.xon_frames[3]),
                "{world:?}"
            );
        }
    }
}

/// The start of a frame: tags, outermost first, then an ethertype and the first two bytes after it.
fn head(tags: &[(u16, u16)], ethertype: u16, ip: [u8; 2]) -> [u8; 40] {
    let mut frame = [0; 40];
    let mut at = 12;
    for (tpid, tci) in tags {
        frame[at..at + 2].copy_from_slice(&tpid.to_be_bytes());
        frame[at + 2..at + 4].copy_from_slice(&tci.to_be_bytes());
        at += 4;
    }
    frame[at..at + 2].copy_from_slice(&ethertype.to_be_bytes());
    frame[at + 2..at + 4].copy_from_slice(&ip);
    frame
}

/// Every DSCP and PCP after no, one and two tags is classified as the switch classifies the frame
/// that it receives. The outermost tag may be in the metadata of the frame.
#[test]
fn priorities_are_those_of_the_switch() {
    use switch::buffer::cell::CellSize;
    use switch::settings::{ClassifySettings, Trust as SwitchTrust};
    use switch::{FrameId, RxDesc, RxFrame};
    let rules = Rules::load();
    for (trust, of_switch) in [(Trust::Dot1p, SwitchTrust::Dot1p), (Trust::Dscp, SwitchTrust::Dscp)] {
        let mut settings = Settings { trust, port_priority: 6, ..Settings::new(SPEED) };
        settings.dscp_to_dot1p[26] = 3;
        settings.dscp_to_dot1p[46] = 0;
        let classifier = switch::forwarding::classifier::Classifier::new(&ClassifySettings {
            trust: of_switch,
            port_priority: 6,
            dscp_to_dot1p: settings.dscp_to_dot1p,
            ..ClassifySettings::default()
        });
        for dscp in 0..64u8 {
            let (pcp, inner) = (u16::from(dscp % 8), u16::from(7 - dscp % 8));
            let tags = [(0x88a8, pcp << 13 | 100), (0x8100, inner << 13 | 0x1000 | 7)];
            let v4 = (0x0800, [0x45, dscp << 2 | 1]);
            let v6 = (0x86dd, [0x60 | dscp >> 2, dscp << 6 | 0x2f]);
            let wrong = (0x0800, [0x65, dscp << 2]); // says IPv6 under the ethertype of IPv4
            for (ethertype, ip) in [v4, v6, wrong, (0x0806, [0, 1])] {
                for count in 0..=2 {
                    let whole = head(&tags[..count], ethertype, ip);
                    let received = RxDesc::new(FrameId::new(0), whole.len() as u16);
                    let parsed = RxFrame::parse(received, &whole, 0, &classifier, CellSize::new(256));
                    let expected = i64::from(parsed.class().priority);
                    let mut inside = World { frame: whole, ..World::new(settings.clone()) };
                    assert_eq!(rules.run("priority", &mut inside), expected, "{inside:?}");
                    if count > 0 {
                        let rest = head(&tags[1..count], ethertype, ip);
                        let tci = i32::from(tags[0].1);
                        let mut beside = World { frame: rest, tci, ..World::new(settings.clone()) };
                        assert_eq!(rules.run("priority", &mut beside), expected, "{beside:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_priority_of_a_socket_counts_up_to_7() {
    let rules = Rules::load();
    for (skb_priority, expected) in [(0, 0), (3, 3), (7, 7), (8, 5), (0x1_0003, 5)] {
        let settings = Settings { trust: Trust::Priority, port_priority: 5, ..Settings::new(SPEED) };
        let mut world = World { skb_priority, ..World::new(settings) };
        assert_eq!(rules.run("priority", &mut world), expected, "{skb_priority}");
    }
}

/// Serves `ready` queues, which always have frames of these sizes, until they have sent some
/// megabytes; returns the bytes of each.
fn serve(rules: &Rules, world: &mut World, sizes: [u32; 8], frames: usize) -> [u64; 8] {
    let mut sent = [0; 8];
    for _ in 0..frames {
        let queue = rules.run("next", world) as usize;
        assert!(world.ready & (1 << queue) != 0, "queue {queue} may not send: {world:?}");
        world.bytes = sizes[queue];
        rules.run("sent", world);
        sent[queue] += u64::from(sizes[queue]);
    }
    sent
}

/// With frames of 64 bytes or 64 kB, each queue gets the same bytes: the difference is at most a
/// quantum and the longest frame.
#[test]
fn round_robin_is_fair_in_bytes() {
    let rules = Rules::load();
    for sizes in
        [[1514; 8], [64, 1514, 500, 9000, 64, 1000, 1514, 200], [65_000, 1514, 60_000, 64_000, 64, 9, 9, 9]]
    {
        let mut world = World { ready: 0b0000_1111, ..world() };
        let sent = serve(&rules, &mut world, sizes, 4000);
        let of_ready = &sent[..4];
        let (least, most) = (of_ready.iter().min().unwrap(), of_ready.iter().max().unwrap());
        assert!(*least > 0 && most - least <= 65_000 + 1518, "{sizes:?}: {sent:?}");
        assert_eq!(sent[4..], [0; 4], "queues that may not send");
    }
}

/// A queue that could not send for a while has accumulated no deficit credit.
#[test]
fn a_paused_queue_saves_no_turns_up() {
    let rules = Rules::load();
    let mut world = World { ready: 0b01, ..world() };
    serve(&rules, &mut world, [1000; 8], 500);
    world.ready = 0b11;
    let sent = serve(&rules, &mut world, [1000; 8], 500);
    assert!(sent[0].abs_diff(sent[1]) <= 2518, "{sent:?}");
}

#[test]
fn an_empty_queue_keeps_what_it_owes_and_no_credit() {
    let rules = Rules::load();
    for (credit, bytes, is_empty, after) in
        [(1000, 400, true, 0), (1000, 400, false, 600), (1000, 1400, true, -400), (0, 5, false, -5)]
    {
        let mut world = World { result: 2, bytes, flag: is_empty, ..world() };
        world.credit[2] = credit;
        rules.run("sent", &mut world);
        assert_eq!(world.credit[2], after, "{credit} {bytes} {is_empty}");
    }
}

#[test]
fn strict_takes_the_highest_priority_that_may_send() {
    let rules = Rules::load();
    for (ready, queue) in [(0xff, 7), (0b0111_1111, 6), (0b1001, 3), (0b10, 1), (1, 0)] {
        let settings = Settings { order: QdiscDiscipline::Strict, ..Settings::new(SPEED) };
        let mut world = World { ready, ..World::new(settings) };
        assert_eq!(rules.run("next", &mut world), queue, "{ready:08b}");
    }
}

/// The paced rate equals the port speed to the nanosecond, overhead included, and a late sender
/// catches up by at most the burst. A frame of 1000 bytes at 1 Gbit/s takes 8192 ns with its 24
/// bytes of overhead. 3000 bytes in three segments: 3 × 24.
#[test]
fn the_line_has_the_speed_of_the_port() {
    let rules = Rules::load();
    let burst = Settings::new(SPEED).burst_ns();
    for (free, now, bytes, mtu, expected) in [
        (0, 1_000_000, 1000, 1514, 1_000_000 - burst + 8192),
        (1_000_000, 1_000_000, 1000, 1514, 1_000_000 + 8192),
        (999_000, 1_000_000, 1000, 1514, 999_000 + 8192),
        (500, 1_000_000, 1000, 1514, 1_000_000 - burst + 8192),
        (1_000_000, 1_000_000, 3000, 1000, 1_000_000 + 24_576),
        (1_000_000, 1_000_000, 3001, 1000, 1_000_000 + 24_776),
    ] {
        let mut world = World { free_ns: free, now, bytes, mtu_bytes: mtu, result: 0, ..world() };
        rules.run("sent", &mut world);
        assert_eq!(world.free_ns, expected, "{free} {now} {bytes} {mtu}");
    }
}
