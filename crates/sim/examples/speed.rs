use sim::Simulation;
use sim::scenario::*;
fn device(ports: usize, text: &str) -> NodeKind {
    let mut t = String::from(text);
    for p in 0..ports {
        t += &format!("[port.p{p}]\ninterface = \"i{p}\"\nspeed = \"100G\"\n");
    }
    let config = config::parse("x", &t).unwrap();
    NodeKind::Switch(SwitchNode { settings: config.switch, turn_ns: 0 })
}
const TEXT: &str = "
[buffer]
cell_bytes=256
total_cells=131072
[wred.t.queue.3]
ecn = true
green = { low_cells = 100, high_cells = 1000, probability_percent = 10 }
[port-defaults]
trust=\"dot1p\"
wred=\"t\"
[port-defaults.pfc]
mode=\"on\"
no_drop=[3]
[port-defaults.pfc.priority.3]
xoff={dynamic_percent=5}
headroom_cells=432
";
fn main() {
    let a: Vec<usize> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let (leaves, spines, per, us, mode) = (a[0], a[1], a[2], a[3] as u64, a[4]);
    let mut nodes = vec![];
    let mut links = vec![];
    for l in 0..leaves {
        nodes.push(Node { name: format!("leaf{l}"), kind: device(per + spines, TEXT) });
    }
    for l in 0..spines {
        nodes.push(Node { name: format!("spine{l}"), kind: device(leaves, TEXT) });
    }
    let link = |a: End, b: End| Link {
        name: String::new(),
        ends: [a, b],
        speed_bps: 100_000_000_000,
        cable_m: 10,
        propagation_ns: 50,
        mtu_bytes: 9216,
        response_ns: 300,
        overhead_bytes: 24,
    };
    for l in 0..leaves {
        for s in 0..spines {
            links.push(link(End { node: l, port: per + s }, End { node: leaves + s, port: l }));
        }
    }
    let first = nodes.len();
    for h in 0..leaves * per {
        nodes.push(Node { name: format!("h{h}"), kind: NodeKind::Host(HostNode { no_drop: 255 }) });
        links.push(link(End { node: first + h, port: 0 }, End { node: h / per, port: h % per }));
    }
    let n = leaves * per;
    let flows: Vec<_> = match mode {
        0 => (0..n).map(|h| (first + h, first + (h + n / 2 + 1) % n)).collect(),
        _ => (1..n).map(|h| (first + h, first)).collect(),
    };
    let t = Traffic {
        name: "t".into(),
        flows,
        priority: 3,
        dscp: 24,
        frame_bytes: 1024,
        rate_bps: if mode == 0 { 60_000_000_000 } else { 100_000_000_000 },
        pattern: Pattern::Constant,
        start: Start::At(0),
        stop_ns: us * 1000,
        ecn: true,
        dcqcn: mode == 2,
    };
    let sc = Scenario {
        title: "s".into(),
        duration_ns: us * 1000,
        seed: 1,
        sample_ns: us,
        forwarding: Forwarding::ShortestPath,
        nodes,
        links,
        traffic: vec![t],
        routes: vec![],
        faults: vec![],
        expectations: vec![],
    };
    let sc = Scenario { sample_ns: us * 2, ..sc };
    let t0 = std::time::Instant::now();
    let mut s = Simulation::new(&sc);
    let t1 = std::time::Instant::now();
    s.run_until(us * 1000, &mut |_| {});
    let t2 = std::time::Instant::now();
    let hops = s.frame_hops();
    let o = s.finish();
    println!(
        "setup {:?} run {:?} hops {hops} {:.2} M/s events {}",
        t1 - t0,
        t2 - t1,
        hops as f64 / (t2 - t1).as_secs_f64() / 1e6,
        o.events
    );
    println!("{:?}", o.traffic);
    println!(
        "{:?} pauses {} xoff {}",
        o.imbalances,
        o.series.pauses.len(),
        o.switches
            .iter()
            .flat_map(|s| &s.ports)
            .flat_map(|p| &p.groups)
            .map(|g| g.xoff_episodes)
            .sum::<u64>()
    );
    let rss = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", rss.lines().find(|l| l.starts_with("VmHWM")).unwrap());
}
