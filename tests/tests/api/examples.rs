//! The example files under `config/`: each one starts on interfaces with its names, carries traffic
//! between its first two ports, and gives no warnings.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use testbed::{Endpoint, Testbed, conservation, idle};
use tests::frames;

fn files() -> Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[test]
fn every_example_runs() -> Result<()> {
    let files = files()?;
    assert!(files.len() >= 7, "{files:?}");
    for file in files {
        println!("{}", file.display());
        let text = std::fs::read_to_string(&file)?;
        let config = config::parse(&file.display().to_string(), &text)?;
        let bed = Testbed::new()?;
        let switch = bed.switch("switch")?;
        let hosts: Vec<Endpoint> =
            config.interfaces.iter().map(|name| bed.sluice_host(&switch, name)).collect::<Result<_>>()?;
        let daemon = bed.daemon(&switch, &text).with_context(|| format!("{}", file.display()))?;
        let [a, b] = [&hosts[0], &hosts[1]];
        for (from, to) in [(a, b), (b, a)] {
            from.namespace.ip(&format!("addr add {}/24 dev {}", from.ipv4(), Endpoint::INTERFACE))?;
            let entry = format!("{} lladdr {} dev {}", to.ipv4(), to.mac(), Endpoint::INTERFACE);
            from.namespace.ip(&format!("neigh replace {entry} nud permanent"))?;
        }
        let from = a.namespace.enter(|| UdpSocket::bind((a.ipv4().as_str(), 0)))??;
        let to = b.namespace.enter(|| UdpSocket::bind((b.ipv4().as_str(), 4000)))??;
        for n in 0..100_u8 {
            from.send_to(&[n; 1000], (b.ipv4().as_str(), 4000))?;
            let mut datagram = [0; 2000];
            assert_eq!((to.recv(&mut datagram)?, datagram[0]), (1000, n));
        }
        let now = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
        assert_eq!(now.ports.iter().map(|port| frames(port.received)).sum::<u64>(), 100);
        conservation(&now, &[])?;
        daemon.stop()?;
    }
    Ok(())
}
