//! Parts of configurations and of flows, shared by the tests.

use testbed::ANNOUNCEMENT_QUEUE;

/// The queue of each priority in the default map.
pub const QUEUE_OF_PRIORITY: [usize; 8] = [2, 0, 1, 3, 4, 5, 6, 7];

/// Bytes of a frame, without FCS, in the tests of rates.
pub const FRAME_BYTES: u64 = 1000;

/// Returns a rate in Mbit/s: a tenth of it in the machine of `cargo xtask vm`, whose single CPU
/// does all the work.
pub fn mbps(rate: u64) -> u64 {
    if std::env::var_os("SLUICE_RIG").is_some() { rate / 10 } else { rate }
}

/// Returns the head of a configuration: PFC in `mode` (`on` or `off`) for priority 3 on all ports.
/// Untagged frames, the announcements of `sluice host`, have their own priority.
pub fn switch_config(mode: &str) -> String {
    format!(
        "[switch]\nname = \"under-test\"\n\n[buffer]\nheadroom_cells = 32768\n\n[port-defaults]\n\
         port_priority = {ANNOUNCEMENT_QUEUE}\n\n[port-defaults.pfc]\nmode = \"{mode}\"\nno_drop = [3]\n"
    )
}

/// Returns a port on the interface of the same name, with a speed.
pub fn port_config(name: &str, speed: &str) -> String {
    format!("\n[port.{name}]\ninterface = \"{name}\"\nspeed = \"{speed}\"\n")
}

/// Returns a port that is too slow for its traffic, and that makes up for 50 ms in which the
/// machine stalled: over seconds it then carries its own speed and not the machine's.
pub fn slow_port_config(name: &str, speed_mbps: u64) -> String {
    let burst_bytes = speed_mbps * 1_000_000 / 8 / 20;
    port_config(name, &format!("{speed_mbps}M")) + &format!("burst_bytes = {burst_bytes}\n")
}

/// Returns thresholds of priority 3 on a port: XOFF at 4096 cells, XON at 2048, and headroom.
pub fn group_config(name: &str, headroom_cells: u32) -> String {
    format!(
        "\n[port.{name}.pfc.priority.3]\nxoff = {{ static_cells = 4096 }}\nxon_offset_cells = 2048\n\
         headroom_cells = {headroom_cells}\n"
    )
}

/// Headroom for what a sender may still send until a loop that stalls for tens of milliseconds on a
/// busy machine has sent XOFF: 600 Mbit/s of 1000-byte frames (4 cells each) for 55 ms.
pub const AMPLE_HEADROOM_CELLS: u32 = 16_384;

/// Returns a flow for `sluice host`, of frames of [`FRAME_BYTES`].
pub fn flow(to: &str, priority: u8, rate: &str) -> String {
    format!("to={to},priority={priority},size={FRAME_BYTES},rate={rate}")
}
