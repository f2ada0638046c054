//! The text of the scenario: the switch, a host on each port, and the traffic of each interval.

use std::fmt::Write as _;

use switch::SwitchSettings;
use switch::settings::WIRE_OVERHEAD_BYTES;

use super::counters::{Counters, Interval, OfferedFlow, PortRow};
/// The longest name in a scenario.
const NAME_BYTES: usize = 64;
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
    for port in &ports {
        let (name, host) = (&port.name, host(&port.name, settings));
        let _ = write!(text, "\n[host.{host}]\n\n[[link]]\nends = [\"{host}\", \"switch.{name}\"]\n");
        text += &speed(port, settings)?;
    }
    let mut flows = 0;
    for (number, interval) in intervals.iter().enumerate() {
        let is_linked = |name: &String| ports.iter().any(|port| port.name == *name);
        for flow in interval.flows.iter().filter(|flow| is_linked(&flow.from) && is_linked(&flow.to)) {
            let hosts = [&flow.from, &flow.to].map(|port| host(port, settings));
            let part = (number, intervals.len());
            let Some(lines) = traffic(flow, hosts, (flows, interval, part), burst) else { continue };
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

/// Returns the name of the host on a port: a dot would be one of its ports.
fn host(port: &str, settings: &SwitchSettings) -> String {
    let name = format!("host-{}", port.replace('.', "_"));
    let number = settings.ports.iter().position(|known| known.name == port).unwrap_or(0);
    if name.len() > NAME_BYTES { format!("host-{number}") } else { name }
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

/// Returns the traffic of a flow; `None` if it is too slow.
fn traffic(
    flow: &OfferedFlow,
    [sender, receiver]: [String; 2],
    (known, interval, (number, intervals)): (usize, &Interval, (usize, usize)),
    burst: Option<u64>,
) -> Option<String> {
    let OfferedFlow { from, to, priority, frames, bytes } = flow;
    let seconds = (interval.stop_ns - interval.start_ns) as f64 / 1e9;
    let bps = (bytes + frames * f64::from(WIRE_OVERHEAD_BYTES)) * 8.0 / seconds;
    if bps < LEAST_BPS {
        return None;
    }
    let frame_bytes = (bytes / frames).clamp(FRAME_BYTES.0, FRAME_BYTES.1);
    let part = if intervals > 1 { format!("-{}", number + 1) } else { String::new() };
    let name = format!("{from}-{to}-{priority}{part}");
    let name = if name.len() > NAME_BYTES { format!("flow-{}", known + 1) } else { name };
    let mut text = format!(
        "\n[[traffic]]\nname        = \"{name}\"\nfrom        = \"{sender}\"\n\
         to          = \"{receiver}\"\npriority    = {priority}\nframe_bytes = {frame_bytes:.0}\n\
         rate        = {bps:.0}\n"
    );
    if intervals > 1 {
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

    #[test]
    fn names_are_those_of_a_scenario() {
        let mut settings = tests::settings();
        settings.ports[1].name = "x".repeat(64);
        assert_eq!(host("eth0.100", &settings), "host-eth0_100");
        assert_eq!(host(&"x".repeat(64), &settings), "host-1");
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
