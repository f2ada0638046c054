//! Builds the network of a lab: namespaces, cables, daemons. What was built is removed if a later
//! step fails.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};
use control::BlockingClient;
use control::v1::Snapshot;
use sim::Scenario;
use sim::scenario::{Node, SwitchNode};
use testbed::{Endpoint, Namespace, binary, eventually, veth};
use toml_edit::DocumentMut;

use crate::sim::input;

use super::state::{Host, Process, State, Switch};
use testbed::scenario as plan;

/// A lab that is being built, or runs. Dropping it removes everything, unless it is kept.
pub struct Lab {
    /// What there is.
    pub state: State,
    is_kept: bool,
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = self.state.remove()
        {
            eprintln!("sluice: {error:#}");
        }
    }
}

impl Lab {
    /// Takes a name for a lab.
    pub fn new(name: &str, file: &Path) -> Result<Self> {
        let folder = State::folder(name);
        State::make_folder()?;
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                bail!(
                    "lab {name} is up: remove it with `sluice lab down {name}`, or give this one another name with --name"
                )
            }
            made => made.with_context(|| format!("cannot make {}", folder.display()))?,
        }
        let file = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
        let owner = Process::of(std::process::id());
        let state = State { name: name.to_owned(), file, owner, ..State::default() };
        let lab = Self { state, is_kept: false };
        lab.state.save()?;
        Ok(lab)
    }

    /// Leaves the lab as it is.
    pub fn keep(mut self) -> Result<()> {
        self.state.owner = Process::default();
        self.state.save()?;
        self.is_kept = true;
        Ok(())
    }

    /// Makes a network namespace; `note` adds it to the state, which is saved before.
    fn namespace(&mut self, node: &str, note: impl FnOnce(&mut State, String)) -> Result<Namespace> {
        let name = format!("{}-{node}", self.state.name);
        ensure!(
            !Namespace::existing(&name).is_there(),
            "there is a network namespace {name} already: give the lab another name with --name"
        );
        note(&mut self.state, name.clone());
        self.state.save()?;
        let namespace = Namespace::create(name)?;
        // The kernel's own frames would be in the counters.
        for which in ["all", "default"] {
            namespace.sysctl(&format!("net/ipv6/conf/{which}/disable_ipv6"), "1")?;
        }
        Ok(namespace)
    }

    /// Makes the namespaces and the cables between them.
    pub fn connect(&mut self, scenario: &Scenario) -> Result<()> {
        let mut namespaces: Vec<Option<Namespace>> = vec![None; scenario.nodes.len()];
        let folder = State::folder(&self.state.name);
        for (number, node, _) in plan::switches(scenario) {
            let name = node.name.clone();
            let (socket, log) = (folder.join(format!("{name}.sock")), folder.join(format!("{name}.log")));
            namespaces[number] = Some(self.namespace(&node.name, |state, namespace| {
                state.switches.push(Switch { name, namespace, socket, log, daemon: None });
            })?);
        }
        for (at, (number, node, _)) in plan::hosts(scenario).enumerate() {
            let endpoint = endpoint(Namespace::existing(""), &node.name, at);
            let (name, mac, ipv4) = (node.name.clone(), endpoint.mac(), endpoint.ipv4());
            namespaces[number] = Some(self.namespace(&node.name, |state, namespace| {
                state.hosts.push(Host { name, namespace, mac, ipv4 });
            })?);
        }
        for link in &scenario.links {
            let end = |end: sim::scenario::LinkEnd| {
                let node = &scenario.nodes[end.node];
                let namespace = namespaces[end.node].as_ref().context("every node has a namespace")?;
                match &node.kind {
                    sim::scenario::NodeKind::Switch(switch) => {
                        let interface =
                            switch.interfaces.get(end.port).context("every port has an interface")?;
                        Ok((namespace, interface.clone(), String::new()))
                    }
                    sim::scenario::NodeKind::Host(_) => {
                        let host = self.state.hosts.iter().find(|host| host.name == node.name);
                        let mac = &host.context("every host is in the state")?.mac;
                        Ok::<_, anyhow::Error>((
                            namespace,
                            Endpoint::INTERFACE.to_owned(),
                            format!("address {mac}"),
                        ))
                    }
                }
            };
            let [a, b] = [end(link.ends[0])?, end(link.ends[1])?];
            veth((a.0, &a.1, &a.2), (b.0, &b.1, &b.2))?;
        }
        for host in &self.state.hosts {
            let namespace = Namespace::existing(&host.namespace);
            namespace.ip(&format!("addr add {}/24 dev {}", host.ipv4, Endpoint::INTERFACE))?;
        }
        Ok(())
    }

    /// Starts the daemon of each switch, and waits until all forward; `texts` are those of
    /// [`configurations`].
    pub fn start_switches(&mut self, texts: &[String]) -> Result<()> {
        for (at, text) in texts.iter().enumerate() {
            let switch = &self.state.switches[at];
            let own = State::folder(&self.state.name).join(format!("{}.toml", switch.name));
            fs::write(&own, configuration(text, &switch.socket)?)
                .with_context(|| own.display().to_string())?;
            let daemon = start(switch, &own)?;
            self.state.switches[at].daemon = Some(daemon);
            self.state.save()?;
        }
        for switch in &self.state.switches {
            let ready = || {
                let log = fs::read_to_string(&switch.log).unwrap_or_default();
                if !switch.daemon.is_some_and(Process::is_running) {
                    bail!("switch {} ended:\n{log}", switch.name);
                }
                Ok(log.contains("sluiced is ready").then_some(()))
            };
            eventually(
                &format!("switch {} is ready (its log is {})", switch.name, switch.log.display()),
                ready,
            )?;
        }
        Ok(())
    }

    /// Returns the host at this place in the scenario.
    pub fn endpoint(&self, name: &str) -> Result<Endpoint> {
        let at = self.state.hosts.iter().position(|host| host.name == name).context("a host of the lab")?;
        Ok(endpoint(Namespace::existing(&self.state.hosts[at].namespace), name, at))
    }

    /// Returns a snapshot of each switch.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>> {
        self.state.switches.iter().map(snapshot).collect()
    }
}

/// Returns the text of each switch's configuration, imported if it is one of SONiC; `folder` is
/// that of the scenario.
pub fn configurations(scenario: &Scenario, folder: &Path) -> Result<Vec<String>> {
    let text = |(_, switch, node): (usize, &Node, &SwitchNode)| {
        let file = &node.file;
        if file.is_empty() {
            let name = &switch.name;
            return Err(anyhow!("{name} has no configuration: write `config` into [network]"));
        }
        let text = input::device(folder, file);
        let text = text.map_err(|why| anyhow!("{}: {why}", folder.join(file).display()))?;
        Ok(if node.added_ports.is_empty() { text } else { format!("{text}\n{}", node.added_ports) })
    };
    plan::switches(scenario).map(text).collect()
}

pub fn snapshot(switch: &Switch) -> Result<Snapshot> {
    let taken = BlockingClient::connect(&switch.socket).and_then(|mut client| client.snapshot());
    taken.with_context(|| format!("switch {} (its log is {})", switch.name, switch.log.display()))
}

fn endpoint(namespace: Namespace, name: &str, at: usize) -> Endpoint {
    Endpoint { namespace, name: name.to_owned(), number: at as u8 + 1 }
}

/// Returns the configuration of a switch with its control socket in the lab. LLDP is off unless the
/// file mentions it: hosts do not speak it.
fn configuration(text: &str, socket: &Path) -> Result<String> {
    let mut document: DocumentMut = text.parse()?;
    let mut control = toml_edit::Table::new();
    control["socket"] = toml_edit::value(socket.display().to_string());
    document["control"] = toml_edit::Item::Table(control);
    if !text.contains("lldp") {
        let defaults = document.entry("port-defaults").or_insert_with(toml_edit::table);
        defaults["lldp"] = toml_edit::value("off");
    }
    Ok(document.to_string())
}

/// Starts the daemon of a switch, so that it outlives this process, and no Ctrl-C reaches it.
fn start(switch: &Switch, config: &Path) -> Result<Process> {
    let log = File::create(&switch.log).with_context(|| format!("cannot write {}", switch.log.display()))?;
    let program: PathBuf = binary("sluiced")?;
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &switch.namespace]).arg(program).arg("--config").arg(config);
    command.env("NO_COLOR", "1").current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let child = command.spawn().context("cannot start sluiced")?;
    let process = Process::of(child.id());
    // Reaped when it ends, as long as this process runs.
    std::thread::spawn(move || {
        let mut child = child;
        let _ = child.wait();
    });
    Ok(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CONFIG_DB becomes a configuration that the daemon reads.
    #[test]
    fn a_configuration_may_be_one_of_sonic() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("scenario.toml");
        let scenario = "duration = \"1ms\"\n[switch.s]\nconfig = \"config_db.json\"\n[host.\"h[1-2]\"]\n\
                        [[link]]\nends = [\"h[1-2]\", \"s.Ethernet[0-1]\"]\n\
                        [[traffic]]\nname = \"t\"\nfrom = \"h1\"\nto = \"h2\"\n";
        fs::write(&file, scenario).unwrap();
        let database = r#"{"PORT": {"Ethernet0": {"speed": "100000"}, "Ethernet1": {"speed": "100000"}}}"#;
        fs::write(folder.path().join("config_db.json"), database).unwrap();
        let scenario = input::read(&file, &[]).unwrap_or_else(|error| panic!("{error:?}"));
        let texts = configurations(&scenario, folder.path()).unwrap();
        let changed = configuration(&texts[0], Path::new("/run/x.sock")).unwrap();
        assert_eq!(config::parse("x", &changed).unwrap().interfaces, ["Ethernet0", "Ethernet1"]);
        fs::remove_file(folder.path().join("config_db.json")).unwrap();
        let gone = configurations(&scenario, folder.path()).unwrap_err().to_string();
        assert!(gone.contains("config_db.json: No such file"), "{gone}");
    }

    /// Each switch of a generated network has the ports of its kind.
    #[test]
    fn a_generated_network_has_configurations_with_ports() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("scenario.toml");
        let scenario = "duration = \"1ms\"\n[network]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 1\n\
                        hosts_per_leaf = 1\nconfig = \"base.toml\"\n\
                        [[traffic]]\nname = \"t\"\nfrom = \"h1\"\nto = \"h2\"\n";
        fs::write(&file, scenario).unwrap();
        fs::write(folder.path().join("base.toml"), "[port-defaults]\ntrust = \"dot1p\"").unwrap();
        let read = || input::read(&file, &[]).unwrap_or_else(|error| panic!("{error:?}"));
        let texts = configurations(&read(), folder.path()).unwrap();
        let ports = texts.iter().map(|text| config::parse("x", text).unwrap().interfaces.join(" "));
        assert_eq!(ports.collect::<Vec<_>>(), ["h1 up1", "h1 up1", "p1 p2"]);
        fs::write(&file, scenario.replace("config = \"base.toml\"", "")).unwrap();
        let none = configurations(&read(), folder.path()).unwrap_err().to_string();
        assert_eq!(none, "leaf1 has no configuration: write `config` into [network]");
    }

    #[test]
    fn the_socket_of_a_switch_is_in_the_lab() {
        let text =
            "[switch]\nname = \"x\" # own\n[control]\ngroup = \"netops\"\n[port.a]\ninterface = \"i\"\n";
        let changed = configuration(text, Path::new("/run/sluice-lab/x/sw.sock")).unwrap();
        let config = config::parse("x", &changed).unwrap();
        assert_eq!(
            (config.control.path.to_str(), config.control.group),
            (Some("/run/sluice-lab/x/sw.sock"), None)
        );
        assert!(changed.contains("# own") && changed.contains("lldp = \"off\""), "{changed}");
    }
}
