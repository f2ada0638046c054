//! Frames that leave together are those that leave one by one: a switch that may send many frames
//! at once, and one that is asked for one frame after the other at the same time, send the same
//! frames in the same order, and are due again at the same time.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, mac, queue_of, settings};
use switch::settings::{
    GroupDiscipline, Rate, ScheduleSettings, SwitchSettings, Threshold, WIRE_OVERHEAD_BYTES,
};
use wire::mac::MacAddr;
use wire::pause::Pfc;
use wire::random::Random;

const SEEDS: u64 = 300;
const STEPS: usize = 120;
/// The port that sends.
const OUT: usize = 1;

fn one_of<T: Copy>(random: &mut Random, values: &[T]) -> T {
    values[random.draw() as usize % values.len()]
}

fn schedule(random: &mut Random) -> ScheduleSettings {
    let weights: [u8; 8] = std::array::from_fn(|_| one_of(random, &[1, 2, 15]));
    let ets = |discipline| {
        let mut schedule = ScheduleSettings::default_ets();
        schedule.groups.iter_mut().for_each(|group| group.inside = discipline);
        (schedule.groups[0].weight, schedule.groups[1].weight) = (weights[0].into(), weights[1].into());
        schedule
    };
    match random.draw() % 5 {
        0 => ScheduleSettings::sp_wrr(0, 0xff, 0, GroupDiscipline::WeightedByBytes(weights)),
        1 => ScheduleSettings::sp_wrr(
            0b1000_0000,
            0b0111_0000,
            0b0000_1111,
            GroupDiscipline::WeightedByFrames(weights),
        ),
        2 => ets(GroupDiscipline::Strict),
        3 => ets(GroupDiscipline::WeightedByFrames(weights)),
        _ => ets(GroupDiscipline::WeightedByBytes(weights)),
    }
}

/// Sets the speed of the port, and how much it catches up: from nothing to minutes.
fn draw_rate(settings: &mut SwitchSettings, random: &mut Random) {
    let out = &mut settings.ports[OUT];
    out.speed_bps = one_of(random, &[None, Some(1_000_000), Some(1_234_567_891), Some(400_000_000_000)]);
    out.burst_bytes = one_of(random, &[None, Some(0), Some(5_000), Some(1 << 30)]);
}

fn draw_settings(random: &mut Random) -> SwitchSettings {
    let mut settings = settings(3, 0xff, 2_000_000, 0);
    settings.ports.iter_mut().for_each(|port| port.classify.dot1p_to_queue = [0, 1, 2, 3, 4, 5, 6, 7]);
    if random.below(4) == 0 {
        settings.bridge.multicast_to_queue = Some([0, 1, 2, 3, 4, 5, 6, 7]);
    }
    let out = &mut settings.ports[OUT];
    out.schedule = schedule(random);
    out.overhead_bytes = one_of(random, &[0, WIRE_OVERHEAD_BYTES, 4_000]);
    out.in_flight_bytes = one_of(random, &[3_000, 40_000, u32::MAX]);
    out.queues = [queue_of(Threshold::Static(10_000)); 8];
    if random.below(4) == 0 {
        out.queues[2].rate = Some(Rate { bps: 50_000_000, burst_bytes: Some(3_000) });
    }
    draw_rate(&mut settings, random);
    settings
}

/// Applies one random operation to both switches.
fn disturb(labs: &mut [Lab; 2], settings: &mut SwitchSettings, random: &mut Random) {
    let draw = random.draw();
    match draw % 16 {
        0..=6 => {
            let priority = one_of(random, &[0, 2, 3, 3, 3, 5, 7]);
            let len = one_of(random, &[64, 64, 577, 1514, 9216]);
            let dst = if (draw / 16).is_multiple_of(8) { MacAddr::BROADCAST } else { mac(OUT) };
            for lab in labs {
                for _ in 0..1 + draw / 128 % 20 {
                    lab.arrive(Frame { port: 0, dst, priority, len });
                }
            }
        }
        7..=9 => labs.iter_mut().for_each(|lab| lab.now = lab.now + u64::from(draw / 16 % 40_000)),
        10 => {
            let quanta = std::array::from_fn(|_| one_of(random, &[0, 0, 3, 60_000]));
            let enable = random.draw() as u8;
            labs.iter_mut().for_each(|lab| lab.send_pfc(OUT, Pfc { enable, quanta }));
        }
        11 if (draw / 16).is_multiple_of(4) => {
            draw_rate(settings, random);
            labs.iter_mut().for_each(|lab| lab.switch.apply(settings, lab.now));
        }
        _ => labs.iter_mut().for_each(|lab| lab.complete(OUT, (draw / 16 % 60) as usize)),
    }
}

/// Returns what port 1 has with the kernel: number, queue and bytes of each frame.
fn sent(lab: &Lab) -> Vec<(usize, u8, u16)> {
    lab.with_kernel[OUT].iter().map(|sent| (sent.frame.index(), sent.queue, sent.len)).collect()
}

#[test]
fn frames_leave_together_as_they_leave_one_by_one() {
    let mut longest = 0;
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let mut settings = draw_settings(&mut random);
        let mut labs = [Lab::new(&settings), Lab::new(&settings)];
        for step in 0..STEPS {
            disturb(&mut labs, &mut settings, &mut random);
            let room = 1 + (random.draw() % 100) as usize;
            let [together, single] = &mut labs;
            let before = together.with_kernel[OUT].len();
            together.transmit(OUT, room);
            (0..room).for_each(|_| single.transmit(OUT, 1));
            assert_eq!(sent(together), sent(single), "seed {seed}, step {step}, at most {room} frames");
            let deadlines = [together, single].map(|lab| lab.switch.next_deadline(lab.now));
            assert_eq!(deadlines[0], deadlines[1], "seed {seed}, step {step}");
            longest = longest.max(labs[0].with_kernel[OUT].len() - before);
        }
    }
    assert!(longest > 50, "at most {longest} frames left together");
}
