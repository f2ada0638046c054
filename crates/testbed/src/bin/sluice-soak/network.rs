//! The network of the soak: the daemon and its configuration, the hosts of a round, the collector.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testbed::{ANNOUNCEMENT_QUEUE, Daemon, Endpoint, Host, Namespace, PATIENCE, Process, Testbed, binary};

/// The port that negotiates, for lossy frames.
const NEGOTIATING: &str = "d";
/// The port that reloads add and remove.
pub const SPARE: &str = "f";
/// The port whose interface flaps. Nobody is behind it.
pub const FLAPPING: &str = "g";
/// The threshold that reloads change.
const XOFF_CELLS: u64 = 4096;

/// Everything that lasts for the whole soak. Hosts a and b send to c, whose port is too slow for
/// them (no-drop), to d (lossy), and a little to e, which storms (no-drop).
pub struct Network {
    pub daemon: Daemon,
    pub collector: Option<Process>,
    pub hosts: [Endpoint; 5],
    pub switch: Namespace,
    bed: Testbed,
    percent: u64,
}

impl Network {
    /// Creates the network, for this much of the usual traffic.
    pub fn new(percent: u64, beside_others: bool) -> Result<Self> {
        let bed = if beside_others { Testbed::beside_others() } else { Testbed::new() }?;
        let switch = bed.switch("switch")?;
        let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(|name| bed.sluice_host(&switch, name));
        let hosts = [a?, b?, c?, d?, e?];
        for name in [SPARE, FLAPPING] {
            bed.sluice_host(&switch, name)?;
        }
        let daemon = bed.daemon(&switch, &config(percent))?;
        let mut network = Self { daemon, collector: None, hosts, switch, bed, percent };
        network.start_collector()?;
        Ok(network)
    }

    /// Starts a collector in place of the one that died.
    pub fn start_collector(&mut self) -> Result<()> {
        let file: PathBuf = self.bed.dir().join("collected.json");
        let mut command = self.switch.command(binary("sluice")?);
        command.args(["collector", "--listen", "127.0.0.1:50050", "--format", "none", "--output"]);
        // What it collects is of no interest, so the file stays small.
        command.arg(&file).args(["--rotate-mib", "1", "--keep", "0"]);
        let mut process = Process::start("sluice collector", &mut command)?;
        process.wait_for("it listens", |line| line.contains("collecting on").then_some(()))?;
        self.collector = Some(process);
        Ok(())
    }

    /// Starts the hosts of a round: a and b send for this long.
    pub fn start_hosts(&self, seconds: u64) -> Result<Vec<Host>> {
        let [a, b, c, d, e] = &self.hosts;
        let flow = |to: &Endpoint, priority: u8, rate: u64| {
            format!("to={},priority={priority},size=1000,rate={rate}k", to.mac())
        };
        let (slow, duration) = (format!("{}M", self.percent), format!("{seconds}s"));
        let sends = ["--speed", "1G", "--no-drop", "3", "--duration", &duration];
        let to_slow = |and: Option<String>| {
            [flow(c, 3, self.rate(80)), flow(d, 0, self.rate(40))]
                .into_iter()
                .chain(and)
                .collect::<Vec<String>>()
        };
        let storms = ["--no-drop", "3", "--storm", "3", "--duration", "1s", "--wait", "--linger", "600s"];
        Ok(vec![
            self.bed.host(c, &[], &["--speed", &slow, "--no-drop", "3"])?,
            self.bed.host(d, &[], &["--no-drop", "3", "--dcbx", "willing"])?,
            self.bed.host(e, &[], &storms)?,
            self.bed.host(a, &to_slow(Some(flow(e, 3, self.rate(2)))), &sends)?,
            self.bed.host(b, &to_slow(None), &sends)?,
        ])
    }

    /// Returns this many Mbit/s of the usual traffic as kbit/s of this soak's.
    fn rate(&self, usual: u64) -> u64 {
        usual * 10 * self.percent
    }

    /// Returns a command line of `sluice` for the daemon.
    pub fn sluice(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(binary("sluice")?);
        command.args(arguments).arg("--socket").arg(self.daemon.socket());
        Ok(command)
    }

    /// Writes the file with another threshold, and with or without the spare port, and reloads it.
    pub fn reload(&self, cells_less: u64, with_spare: bool) -> Result<()> {
        let file = self.daemon.config();
        let text = std::fs::read_to_string(file)?;
        let mut kept: String = text.split_inclusive('\n').filter(|line| !line.contains("# spare")).collect();
        let old = kept.lines().find(|line| line.starts_with("xoff = ")).context("a threshold")?.to_owned();
        let new = format!("xoff = {{ static_cells = {} }}", XOFF_CELLS - cells_less);
        kept = kept.replace(&old, &new);
        if with_spare {
            kept += &format!("[port.{SPARE}] # spare\ninterface = \"{SPARE}\" # spare\n");
        }
        std::fs::write(file, kept)?;
        output(self.sluice(&["reload"])?).map(drop)
    }

    /// Lets the negotiating port ask for other priorities, as a willing end or not.
    pub fn renegotiate(&self, with_4: bool, willing: bool) -> Result<()> {
        let no_drop = if with_4 { "[3, 4]" } else { "[3]" };
        let no_drop = format!("port.{NEGOTIATING}.pfc.no_drop={no_drop}");
        let willing = format!("port.{NEGOTIATING}.dcbx.willing={willing}");
        output(self.sluice(&["set", &no_drop, &willing])?).map(drop)
    }

    /// Starts to record, for this time.
    pub fn record(&self, time: Duration) -> Result<Process> {
        let mut command = self.sluice(&["record", "--duration", &format!("{}ms", time.as_millis())])?;
        Process::start("sluice record", command.arg(self.recording()))
    }

    /// Replays what was recorded: every frame that left, every event, and the whole state each
    /// second. Returns the frames that were received in it.
    pub fn replay(&self, mut recorder: Process) -> Result<u64> {
        ensure!(recorder.wait(PATIENCE)?.success(), "{}", recorder.log());
        let mut command = Command::new(binary("sluice")?);
        command.args(["replay", "--json"]).arg(self.recording());
        let json: serde_json::Value = serde_json::from_str(&output(command)?)?;
        std::fs::remove_file(self.recording())?;
        json["received_frames"].as_u64().context("received_frames")
    }

    fn recording(&self) -> PathBuf {
        self.bed.dir().join("round.sluice")
    }

    /// Ends the daemon, which must account for every frame.
    pub fn end(self) -> Result<()> {
        let totals = self.daemon.stop()?;
        ensure!(totals.contains("every frame is accounted for"), "{totals}");
        Ok(())
    }
}

/// Runs a command, which must succeed, and returns its output.
fn output(mut command: Command) -> Result<String> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn config(percent: u64) -> String {
    let mut config = format!(
        r#"[switch]
name = "soak"

[dataplane]
spare_ports = 1

[buffer]
headroom_cells = 49152

[port-defaults]
lldp = "off"
port_priority = {ANNOUNCEMENT_QUEUE}
speed = "1G"

[port-defaults.pfc]
mode = "on"
no_drop = [3]

[port-defaults.pfc.priority.3]
xoff = {{ static_cells = {XOFF_CELLS} }}
xon_offset_cells = 2048
headroom_cells = 16384

[alarm]
drop = {{ enabled = true }}

[telemetry.sensor-group.numbers]
paths = ["buffermonitor/bufferusages", "buffermonitor/pfcstatistics", "buffermonitor/egressdrops"]

[telemetry.sensor-group.events]
paths = ["sluice/events"]

[telemetry.destination-group.soak]
collectors = ["127.0.0.1:50050"]

[telemetry.subscription.soak]
sensors = [{{ group = "numbers", interval_s = 1 }}, {{ group = "events" }}]
destinations = ["soak"]
"#
    );
    let slow = format!("speed = \"{percent}M\"\nburst_bytes = 625000\n");
    for name in ["a", "b", "c", "d", "e", FLAPPING] {
        config += &format!("\n[port.{name}]\ninterface = \"{name}\"\n");
        config += match name {
            "d" => "lldp = \"both\"\npfc.mode = \"auto\"\npfc.no_drop = [3]\ndcbx = { willing = false }\n",
            "c" => &slow,
            "e" => {
                "[port.e.pfc.watchdog]\nprecision = \"high\"\naction = \"drop\"\npriority.3 = { interval = 10, restore_delay = 5 }\n"
            }
            _ => "",
        };
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_valid_with_any_traffic() {
        for percent in [5, 20, 100, 500] {
            let config = config::parse("soak.toml", &config(percent)).unwrap();
            assert_eq!(config.switch.ports.len(), 6, "{percent} %");
        }
    }
}
