//! `tls` of a destination group: encryption of the connections to its collectors, and optional
//! authentication of both ends.
//!
//! Rule: paths are relative to the file that names them. A client certificate and its key must be
//! set together.
//! Source: docs/monitoring/telemetry.md, "TLS".

use std::net::IpAddr;
use std::path::PathBuf;

use crate::read::diagnostics::Diagnostics;
use crate::read::parse::is_host;
use crate::read::suggest::quoted;
use crate::read::table_reader::{Setting, TableReader};
use crate::spec::{TableSpec, text};

pub(crate) const TLS: TableSpec = &[
    text("ca", "ca.pem")
        .otherwise("those that the system trusts", "Certificates of the trusted authorities."),
    text("certificate", "switch.pem").about("Certificate of the switch; needs its key."),
    text("key", "switch.key").about("Private key of the certificate."),
    text("server_name", "collector.example")
        .otherwise("the collector's host name", "The name in the collectors' certificates."),
];

/// How collectors authenticate, and how the switch does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// Certificates of the trusted authorities; `None` for those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The expected name in the collectors' certificates; `None` for their host name in the file.
    pub server_name: Option<String>,
    /// Client certificate of the switch.
    pub identity: Option<TlsIdentity>,
}

/// A certificate and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsIdentity {
    /// The certificate, and the intermediate certificates up to its authority.
    pub certificate: PathBuf,
    /// File of the private key.
    pub key: PathBuf,
}

/// Reads `tls`; returns `None` if there is none.
pub(crate) fn read(group: &mut TableReader, report: &mut Diagnostics) -> Option<Tls> {
    let mut section = group.section("tls", report)?;
    let ca = path(&mut section, "ca", "ca.pem", report);
    let certificate = path(&mut section, "certificate", "switch.pem", report);
    let key = path(&mut section, "key", "switch.key", report);
    let server_name = section.string("server_name", report).and_then(|name| {
        let legal = name.value.parse::<IpAddr>().is_ok() || is_host(name.value);
        if !legal {
            let what = format!("{} cannot be the name in a certificate", quoted(name.value));
            report.add(&name.location, what, "write a host name or an address, as in \"collector.example\"");
        }
        legal.then(|| name.value.to_owned())
    });
    section.finish(report);
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => {
            Some(TlsIdentity { certificate: certificate.value, key: key.value })
        }
        (Some(alone), None) => {
            report.add(
                &alone.location,
                "a certificate without its key",
                "write key = \"…\", the file of its key",
            );
            None
        }
        (None, Some(alone)) => {
            let cure = "write certificate = \"…\", the file of its certificate";
            report.add(&alone.location, "a key without its certificate", cure);
            None
        }
        (None, None) => None,
    };
    Some(Tls { ca: ca.map(|ca| ca.value), server_name, identity })
}

fn path(
    section: &mut TableReader,
    name: &'static str,
    example: &str,
    report: &mut Diagnostics,
) -> Option<Setting<PathBuf>> {
    let Setting { value, location } = section.string(name, report)?;
    if value.is_empty() || value.contains('\0') {
        report.add(&location, "no file", format!("write the path of a PEM file, as in \"{example}\""));
        return None;
    }
    Some(Setting { value: PathBuf::from(value), location })
}
