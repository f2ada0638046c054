//! The text of the scenario: the switch, a host on each port, and the traffic of each interval.

use std::fmt::Write as _;

use switch::SwitchSettings;
use switch::settings::WIRE_OVERHEAD_BYTES;

use super::counters::{Counters, Interval, OfferedFlow, PortRow};

/// The least rate of a traffic, in bit/s.
const LEAST_BPS: f64 = 1e6;
/// The lengths that frames of a scenario may have.
const FRAME_BYTES: (f64, f64) = (64.0, 9216.0);

/// A scenario, and what it has.
#[derive(Debug)]
pub struct Text {
    pub text: String,
    pub ports: usize,
    pub flows: usize,
}

/// Builds the scenario; `burst` is the size of messages at random times.
///
/// # Errors
/// The speed of a port is not known, or nothing was offered.
pub fn text(
    counters: &[Counters],
    intervals: &[Interval],
    settings: &SwitchSettings,
    burst: Option<u64>,
) -> Result<Text, String> {
    let is_there = |port: &&PortRow| port.up && settings.ports.iter().any(|known| known.name == port.name);
    let ports: Vec<&PortRow> =
        counters.last().into_iter().flat_map(|reading| &reading.ports).filter(is_there).collect();
    let end_ns = intervals.last().map_or(0, |interval| interval.stop_ns);
    let mut text = format!(
        "# What a switch was offered, by its counters: `sluice twin` wrote this.\n\n\
         title    = \"twin\"\nduration = \"{end_ns}ns\"\n\n[switch.switch]\nconfig = \"switch.toml\"\n"
    );
    // Hosts have numbers: names of ports may have dots, and differ in nothing else.
    let host =
        |port: &str| ports.iter().position(|known| known.name == port).map(|at| format!("host{}", at + 1));
    for port in &ports {
        let (name, host) = (&port.name, host(&port.name).unwrap_or_default());
        let _ = write!(
            text,
            "\n# On port {name}.\n[host.{host}]\n\n[[link]]\nends = [\"{host}\", \"switch.{name}\"]\n"
        );
        text += &speed(port, settings)?;
    }
    let mut flows = 0;
    for (number, interval) in intervals.iter().enumerate() {
        for flow in &interval.flows {
            let (Some(sender), Some(receiver)) = (host(&flow.from), host(&flow.to)) else { continue };
            let hosts = [sender, receiver];
            let stops = if intervals.len() > 1 { Some(number + 1) } else { None };
            let Some(lines) = traffic(flow, hosts, flows + 1, (interval, stops), burst) else { continue };
            text += &lines;
            flows += 1;
        }
    }
    if flows == 0 {
        return Err("no port was offered 1 Mbit/s for another: there is nothing to simulate".to_owned());
    }
    text += "\n[[expect]]\nno_drop_lost = 0\n";
    Ok(Text { text, ports: ports.len(), flows })
}

/// Returns the line with the speed of a port's link, if its configuration has none.
fn speed(port: &PortRow, settings: &SwitchSettings) -> Result<String, String> {
    if settings.ports.iter().any(|known| known.name == port.name && known.speed_bps.is_some()) {
        return Ok(String::new());
    }
    match port.link.as_ref().map(|link| link.link_speed_bps).filter(|bps| *bps > 0) {
        Some(bps) => Ok(format!("speed = {bps}\n")),
        None => Err(format!(
            "neither the configuration nor the driver says how fast port {} is: write its speed into the \
             configuration",
            port.name
        )),
    }
}

/// Returns the traffic of a flow; `None` if it is too slow. `part` is the number of the interval,
/// if there are several.
fn traffic(
    flow: &OfferedFlow,
    [sender, receiver]: [String; 2],
    number: usize,
    (interval, part): (&Interval, Option<usize>),
    burst: Option<u64>,
) -> Option<String> {
    let OfferedFlow { from, to, priority, frames, bytes } = flow;
    let seconds = (interval.stop_ns - interval.start_ns) as f64 / 1e9;
    let bps = (bytes + frames * f64::from(WIRE_OVERHEAD_BYTES)) * 8.0 / seconds;
    if bps < LEAST_BPS {
        return None;
    }
    let frame_bytes = (bytes / frames).clamp(FRAME_BYTES.0, FRAME_BYTES.1);
    let of_part = part.map_or_else(String::new, |part| format!(", interval {part}"));
    let mut text = format!(
        "\n# From {from} to {to}{of_part}.\n[[traffic]]\nname        = \"flow-{number}\"\n\
         from        = \"{sender}\"\nto          = \"{receiver}\"\npriority    = {priority}\n\
         frame_bytes = {frame_bytes:.0}\nrate        = {bps:.0}\n"
    );
    if part.is_some() {
        let _ = write!(
            text,
            "start       = \"{}ns\"\nstop        = \"{}ns\"\n",
            interval.start_ns, interval.stop_ns
        );
    }
    if let Some(burst) = burst {
        let _ = write!(text, "pattern     = \"poisson\"\nbytes       = {burst}\n");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::super::counters::{intervals, tests};
    use super::*;
    use sim::Simulation;

    const CONFIG: &str =
        "[port.a]\ninterface = \"a\"\n[port.b]\ninterface = \"b\"\n[port.c]\ninterface = \"c\"\n";

    fn build(burst: Option<u64>) -> Text {
        let (readings, settings) = (tests::readings(), tests::settings());
        text(&readings, &intervals(&readings, &settings).unwrap(), &settings, burst).unwrap()
    }

    /// The simulated switch receives what the real one did: 400 frames in a millisecond, three
    /// quarters of them for `b`.
    #[test]
    fn the_scenario_offers_what_was_offered() {
        let found = build(None);
        assert_eq!((found.ports, found.flows), (3, 2));
        let scenario = sim::scenario::parse("twin.toml", &found.text, &mut |_| Ok(CONFIG.to_owned()));
        let scenario = scenario.unwrap_or_else(|mistakes| panic!("{}\n{mistakes:?}", found.text));
        assert_eq!(scenario.duration_ns, 3_000_000);
        let mut simulation = Simulation::new(&scenario);
        simulation.run_until(scenario.duration_ns, &mut |_| {});
        let outcome = simulation.finish();
        let received: Vec<u64> = outcome.traffic.iter().map(|traffic| traffic.received_frames).collect();
        assert!(received[0].abs_diff(300) <= 1 && received[1].abs_diff(100) <= 1, "{received:?}");
        assert!(outcome.holds());
    }

    /// Names of ports that would be the same ones of hosts or flows if they were parts of them.
    #[test]
    fn names_of_ports_do_not_collide() {
        let names = ["eth0.100", "eth0_100", "host-3", "a-b", "a", "b-c", "c"];
        let names = names.map(str::to_owned).into_iter().chain(["x".repeat(64)]).collect::<Vec<_>>();
        let table =
            |(number, name): (usize, &String)| format!("[port.\"{name}\"]\ninterface = \"i{number}\"\n");
        let config: String = names.iter().enumerate().map(table).collect();
        let settings = config::parse("x.toml", &config).unwrap().switch;
        let row = |name: &String| serde_json::json!({"name": name, "up": true, "link": {"link_speed_bps": 10_000_000_000_u64}});
        let ports: Vec<_> = names.iter().map(row).collect();
        let reading = serde_json::json!({"at_ns": 1, "ports": ports, "groups": [], "queues": []});
        let reading: Counters = serde_json::from_value(reading).unwrap();
        let flow = |(from, to): (&str, &String)| OfferedFlow {
            from: from.to_owned(),
            to: to.clone(),
            priority: 3,
            frames: 1000.0,
            bytes: 1e6,
        };
        // Also from `a-b` to `c`, and from `a` to `b-c`.
        let pairs = names.iter().flat_map(|from| names.iter().map(move |to| (from.as_str(), to)));
        let flows: Vec<OfferedFlow> = pairs.filter(|(from, to)| from != to).map(flow).collect();
        let interval = Interval { start_ns: 0, stop_ns: 1_000_000, flows };
        let found = text(&[reading], &[interval], &settings, None).unwrap();
        let parsed = sim::scenario::parse("twin.toml", &found.text, &mut |_| Ok(config.clone()));
        let parsed = parsed.unwrap_or_else(|mistakes| panic!("{}\n{mistakes:?}", found.text));
        assert_eq!((parsed.links.len(), parsed.traffic.len()), (8, 56));
        assert!(found.text.contains("# On port eth0.100.\n[host.host1]\n"), "{}", found.text);
        assert!(found.text.contains("# From a-b to c.\n"), "{}", found.text);
    }

    #[test]
    fn bursts_are_messages() {
        let scenario =
            sim::scenario::parse("twin.toml", &build(Some(64_000)).text, &mut |_| Ok(CONFIG.to_owned()));
        let pattern = scenario.unwrap().traffic[0].pattern;
        assert_eq!(pattern, sim::scenario::Pattern::Poisson { bytes: 64_000 });
    }

    #[test]
    fn an_unknown_speed_and_no_traffic_are_refused() {
        let (mut readings, settings) = (tests::readings(), tests::settings());
        let of = intervals(&readings, &settings).unwrap();
        let nothing = text(&readings, &of[1..], &settings, None).unwrap_err();
        assert!(nothing.starts_with("no port was offered 1 Mbit/s"), "{nothing}");
        readings.last_mut().unwrap().ports[1].link = None;
        let unknown = text(&readings, &of, &settings, None).unwrap_err();
        assert!(unknown.contains("how fast port b is"), "{unknown}");
    }
}
