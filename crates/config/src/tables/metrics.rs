//! `[metrics]`: the counters of a running switch, for Prometheus and other readers of OpenMetrics,
//! and the live page for browsers.
//!
//! Rule: nothing is served unless enabled, and then on the loopback address by default. Every
//! client that reaches the address can read the metrics, without a password. Source:
//! docs/monitoring/metrics.md.

use std::net::{Ipv4Addr, SocketAddr};

use crate::read::diagnostics::Diagnostics;
use crate::read::suggest::quoted;
use crate::read::table_reader::{Setting, TableReader};
use crate::spec::{TableSpec, boolean, text};

/// Default address: the port is the one that exporters of OpenTelemetry use, too.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9464);

pub(crate) const METRICS: TableSpec = &[
    boolean("enabled").required("Serve metrics."),
    text("listen", "127.0.0.1:9464")
        .value("\"127.0.0.1:9464\"", "Address and TCP port; anyone who can reach it can read them."),
    boolean("page").value("false", "Also serve a live page for browsers."),
];

/// Settings of the metrics server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metrics {
    /// Address and TCP port.
    pub listen: SocketAddr,
    /// True if the live page is served there, too.
    pub page: bool,
}

/// Reads `[metrics]`; returns `None` if metrics are off. An address open to the network is noted in
/// `open`.
pub(crate) fn read(
    file: &mut TableReader,
    open: &mut Option<Setting<SocketAddr>>,
    report: &mut Diagnostics,
) -> Option<Metrics> {
    let mut section = file.section("metrics", report)?;
    let location = section.location.clone();
    let enabled = section.boolean("enabled", report);
    let stated = section.string("listen", report);
    let page = section.boolean("page", report).is_some_and(|page| page.value);
    section.finish(report);
    let listen = stated.and_then(|stated| {
        let Ok(value) = stated.value.parse::<SocketAddr>() else {
            let what = format!("{} is no address with a port", quoted(stated.value));
            let cure = "write an address of this machine and a port, as in \"127.0.0.1:9464\", \"[::1]:9464\" or, for all \
                        addresses, \"0.0.0.0:9464\"";
            report.add(&stated.location, what, cure);
            return None;
        };
        if value.port() == 0 {
            report.add(&stated.location, "port 0 is none", "write one from 1 to 65535, as in \"127.0.0.1:9464\"");
        }
        Some(Setting { value, location: stated.location })
    });
    match enabled {
        Some(Setting { value: true, .. }) => {}
        Some(Setting { value: false, .. }) => return None,
        None => {
            if report.is_empty() {
                report.add(
                    &location,
                    "metrics are not served",
                    "write enabled = true, too, or leave [metrics] out",
                );
            }
            return None;
        }
    }
    let metrics = Metrics { listen: listen.as_ref().map_or(LISTEN, |listen| listen.value), page };
    *open = listen.filter(|listen| !listen.value.ip().is_loopback());
    Some(metrics)
}

/// Warns of an address that other hosts may reach.
pub(crate) fn warn_of_open(open: Option<Setting<SocketAddr>>, warnings: &mut Diagnostics) {
    if let Some(Setting { value, location }) = open {
        let what = format!(
            "anyone who can reach {value} can read the metrics: access has no password and no encryption"
        );
        let cure = "write listen = \"127.0.0.1:PORT\" where the reader runs on this machine, or restrict access with a firewall";
        warnings.add(&location, what, cure);
    }
}
