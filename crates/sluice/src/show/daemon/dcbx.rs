//! `sluice show dcbx`: what the ports negotiate: local, peer's and operational configuration side
//! by side, and why they are as they are.

use control::v1::{Dcbx, Snapshot};
use schemars::JsonSchema;
use serde::Serialize;

use crate::show::format;

/// Row of a port in JSON.
#[derive(Serialize, JsonSchema)]
pub struct PortRow<'a> {
    port: &'a str,
    pfc_mode: &'a str,
    #[serde(flatten)]
    dcbx: &'a Dcbx,
}

/// Returns the ports that negotiate.
pub fn rows(snapshot: &Snapshot) -> Vec<PortRow<'_>> {
    let ports = snapshot.ports.iter();
    let row = ports.filter_map(|port| {
        Some(PortRow { port: &port.name, pfc_mode: &port.pfc_mode, dcbx: port.dcbx.as_ref()? })
    });
    row.collect()
}

/// Formats a table of the features, and a line for each that is not agreed on.
pub fn table(snapshot: &Snapshot) -> String {
    let headings = ["Port", "Version", "Feature", "Willing", "Local", "Peer", "Operational", "State"];
    let mut table = format::table(&headings, 8);
    let mut reasons = Vec::new();
    for PortRow { port, dcbx, .. } in rows(snapshot) {
        for feature in &dcbx.features {
            let mark = |willing: Option<bool>| match willing {
                Some(true) => "yes",
                Some(false) => "no",
                None => "?",
            };
            let peer_willing = if feature.peer.is_some() { mark(feature.peer_willing) } else { "-" };
            table.add_row([
                port,
                &dcbx.version,
                &feature.name,
                &format!("{}/{peer_willing}", mark(Some(feature.willing))),
                &feature.local,
                feature.peer.as_deref().unwrap_or("-"),
                &feature.operational,
                &feature.state,
            ]);
            reasons.push(format!("{port}: {}: {}", feature.name, feature.reason));
        }
        reasons.extend(dcbx.warnings.iter().map(|warning| format!("{port}: warning: {warning}")));
    }
    if reasons.is_empty() {
        return "No port negotiates: none has a table `dcbx`.".to_owned();
    }
    format!("{}\n\n{}", table.trim_fmt(), reasons.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::v1::{DcbxFeature, Port};

    #[test]
    fn features_side_by_side() {
        let feature = |name: &str, state: &str, reason: &str, values: [&str; 3]| DcbxFeature {
            name: name.to_owned(),
            state: state.to_owned(),
            reason: reason.to_owned(),
            willing: true,
            peer_willing: Some(false),
            local: values[0].to_owned(),
            peer: (!values[1].is_empty()).then(|| values[1].to_owned()),
            operational: values[2].to_owned(),
        };
        let features = vec![
            feature("PFC", "agreed", "taken over from the peer", ["-", "3,4", "3,4"]),
            feature("ETS", "agreed", "same at both ends", ["0-7:100%"; 3]),
            feature("applications", "local", "the peer does not send it", ["udp 4791:3", "", "udp 4791:3"]),
        ];
        let warnings = vec!["20 headroom cells are too few".to_owned()];
        let dcbx = Dcbx { version: "IEEE".to_owned(), peer: "present".to_owned(), features, warnings };
        let port = Port { name: "server1".to_owned(), dcbx: Some(dcbx), ..Port::default() };
        let snapshot = Snapshot { ports: vec![port, Port::default()], ..Snapshot::default() };
        insta::assert_snapshot!(table(&snapshot));
        assert_eq!(rows(&snapshot).len(), 1);
        insta::assert_snapshot!(table(&Snapshot::default()), @"No port negotiates: none has a table `dcbx`.");
    }
}
