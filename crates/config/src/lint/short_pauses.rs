//! Checks that a poll loop can keep the pauses of its ports' peers.
//!
//! Rule: XOFF is refreshed after a third of the pause time. While a loop is stalled its guard
//! refreshes it, which takes [`GUARD_REFRESH_NS`] to notice the stall. A pause time of less than
//! three times that can end before anybody refreshes it, and the peer sends into a full buffer. So
//! a daemon refuses it. Where no number of quanta is enough, since the peer counts them too fast,
//! it warns. Source: docs/behavior.md, "PFC sent".

use switch::PortSettings;
use switch::pfc::rx::quanta_ns;
use switch::pfc::tx::{GUARD_REFRESH_NS, PfcTiming};

use crate::lint::headroom_duration::spell_time;
use crate::read::diagnostics::Diagnostics;
use crate::tables::ports::Port;

/// A port whose pauses are too short.
struct ShortPause {
    /// What is wrong.
    what: String,
    /// The quanta that are enough; `None` if 65535 are not.
    enough_quanta: Option<u16>,
}

/// Returns what is wrong with the pauses that a port sends; `None` if they are long enough, or none
/// are sent.
fn short_pause(port: &PortSettings) -> Option<ShortPause> {
    let sends = port.flow_control.sends() || port.pfc.tx && port.pfc.no_drop != 0;
    let refresh_ns = PfcTiming::from_settings(port).refresh_ns();
    if !sends || refresh_ns >= GUARD_REFRESH_NS {
        return None;
    }
    let mut longest = port.clone();
    longest.pfc.pause_quanta = u16::MAX;
    let longest_ns = PfcTiming::from_settings(&longest).refresh_ns();
    // Rounded up, so that the number that is named is accepted.
    let enough = (u64::from(u16::MAX) * (GUARD_REFRESH_NS + 1)).div_ceil(longest_ns.max(1));
    let fastest_bps = port.pause_speed_bps().max(port.link_speed_bps.unwrap_or(0));
    let pause_ns = quanta_ns(port.pfc.pause_quanta, fastest_bps);
    let what = format!(
        "{} quanta pause a peer for {}, and a loop that stalls can keep no pause under {}",
        port.pfc.pause_quanta,
        spell_time(pause_ns),
        spell_time(3 * GUARD_REFRESH_NS)
    );
    Some(ShortPause { what, enough_quanta: u16::try_from(enough).ok() })
}

/// Reports pause times that a loop cannot keep and that could be longer.
pub(crate) fn refuse(ports: &[Port], report: &mut Diagnostics) {
    for port in ports {
        if let Some(ShortPause { what, enough_quanta: Some(quanta) }) = short_pause(&port.settings) {
            let time = port.tables().pfc().setting(|table| &table.pause_quanta);
            let location = time.map_or(&port.location, |time| &time.location);
            report.add(location, what, format!("write pause_time = {quanta} or more; 65535 is the default"));
        }
    }
}

/// Returns a warning about a port whose pauses are too short for a loop to keep; `None` if they are
/// long enough. The speed of the link counts, which the file need not have.
pub fn short_pause_warning(port: &PortSettings) -> Option<String> {
    let ShortPause { what, enough_quanta } = short_pause(port)?;
    let cure = match enough_quanta {
        Some(quanta) => format!("`pause_time = {quanta}` in [port.{}.pfc] is enough", port.name),
        None => {
            "no pause_time is enough at this speed: headroom must hold what comes during a stall".to_owned()
        }
    };
    Some(format!("port {}: {what}; {cure}", port.name))
}
