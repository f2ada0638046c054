//! Profiles of the file, those that are there by default, and which priority and queue of a port
//! has which: for displays. The settings that follow from them are in the ports.
//!
//! Source: docs/references.md, "Inspur white paper" (6: `show qos queue-profile`, `show qos
//! buffer-profile`, and the bindings).

use switch::settings::{Guaranteed, PRIORITIES, Threshold, WredSettings};

use crate::read::diagnostics::SettingSpan;
use crate::read::table_reader::Setting;
use crate::tables::buffer::Buffer;
use crate::tables::builtin_profiles;
use crate::tables::congestion::Congestion;
use crate::tables::port::thresholds::{GroupTable, QueueTable};
use crate::tables::ports::Port;

/// All profiles, and the bindings of each port.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profiles {
    /// Buffer profiles: of egress, then of ingress; of each the built-in ones first.
    pub buffer: Vec<BufferProfile>,
    /// Queue profiles by name.
    pub queue: Vec<QueueProfile>,
    /// WRED tables by name.
    pub wred: Vec<WredTable>,
    /// Bindings by port number.
    pub bindings: Vec<Bindings>,
}

/// Thresholds with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct BufferProfile {
    /// As bound by ports.
    pub name: String,
    /// True if it is not in the file.
    pub is_built_in: bool,
    /// Cells set aside for each group or queue.
    pub reserved_cells: u32,
    /// Limit of the shared cells.
    pub shared: Threshold,
    /// What only priorities have, at ingress.
    pub ingress: Option<IngressThresholds>,
}

/// Thresholds that only a profile of ingress has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IngressThresholds {
    /// Headroom cells.
    pub xoff_cells: u32,
    /// XON at this use.
    pub xon_cells: u32,
    /// XON this much below the limit.
    pub xon_offset_cells: u32,
}

/// Early drops and marks with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueProfile {
    /// As bound by ports.
    pub name: String,
    /// True if it is not in the file.
    pub is_built_in: bool,
    /// `None`: tail drop only.
    pub wred: Option<WredSettings>,
}

/// Early drops and marks of the queues of a port.
#[derive(Debug, Clone, PartialEq)]
pub struct WredTable {
    /// As bound by ports.
    pub name: String,
    /// The queues that it has; the others of a port have the default values.
    pub queues: Vec<(usize, WredSettings)>,
}

/// Names of the profiles that a port binds, by priority or queue.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bindings {
    /// Ingress profiles, by priority.
    pub ingress: [Option<String>; PRIORITIES],
    /// Egress profiles, by queue.
    pub egress: [Option<String>; PRIORITIES],
    /// Queue profiles, by queue.
    pub queue: [Option<String>; PRIORITIES],
    /// The WRED table of the port.
    pub wred: Option<String>,
}

impl Profiles {
    /// Collects the profiles; a built-in one is as if it were written at `location`.
    pub(crate) fn of(
        buffer: &Buffer,
        congestion: &Congestion,
        ports: &[Port],
        location: &SettingSpan,
    ) -> Self {
        let cell_bytes = buffer.settings.cell_bytes;
        let built_in = |name: &&str| !buffer.egress_profiles.contains_key(*name);
        let egress = builtin_profiles::EGRESS.iter().copied().filter(built_in).filter_map(|name| {
            Some(of_queue(name, &builtin_profiles::egress(name, cell_bytes, location)?, true))
        });
        let mut of_queues: Vec<_> = egress.collect();
        of_queues.extend(buffer.egress_profiles.iter().map(|(name, table)| of_queue(name, table, false)));
        let built_in = |name: &&str| !buffer.ingress_profiles.contains_key(*name);
        let ingress = builtin_profiles::INGRESS.iter().copied().filter(built_in).filter_map(|name| {
            Some(of_group(name, &builtin_profiles::ingress(name, cell_bytes, location)?, true))
        });
        let mut of_groups: Vec<_> = ingress.collect();
        of_groups.extend(buffer.ingress_profiles.iter().map(|(name, table)| of_group(name, table, false)));
        let azure = Some(builtin_profiles::azure_lossless(cell_bytes));
        let queue = congestion.profiles().iter().map(|(name, wred)| QueueProfile {
            name: name.clone(),
            is_built_in: name == builtin_profiles::QUEUE && *wred == azure,
            wred: *wred,
        });
        of_queues.append(&mut of_groups);
        let wred = congestion.tables().map(|(name, queues)| WredTable { name: name.clone(), queues });
        Self {
            buffer: of_queues,
            queue: queue.collect(),
            wred: wred.collect(),
            bindings: ports.iter().map(bindings).collect(),
        }
    }
}

fn cells(setting: &Option<Setting<u32>>) -> u32 {
    setting.as_ref().map_or(0, |setting| setting.value)
}

fn shared(setting: &Option<Setting<Threshold>>) -> Threshold {
    setting.as_ref().map_or(Threshold::Static(0), |setting| setting.value)
}

fn of_queue(name: &str, table: &QueueTable, is_built_in: bool) -> BufferProfile {
    let reserved_cells = match &table.guaranteed {
        Some(Setting { value: Guaranteed::Cells(cells), .. }) => *cells,
        _ => 0,
    };
    let shared = shared(&table.shared);
    BufferProfile { name: name.to_owned(), is_built_in, reserved_cells, shared, ingress: None }
}

fn of_group(name: &str, table: &GroupTable, is_built_in: bool) -> BufferProfile {
    let ingress = IngressThresholds {
        xoff_cells: cells(&table.headroom_cells),
        xon_cells: cells(&table.resume_cells),
        xon_offset_cells: cells(&table.xon_offset_cells),
    };
    BufferProfile {
        name: name.to_owned(),
        is_built_in,
        reserved_cells: cells(&table.reserved_cells),
        shared: shared(&table.xoff),
        ingress: Some(ingress),
    }
}

/// Returns the names that a port, or the defaults for it, binds.
fn bindings(port: &Port) -> Bindings {
    let tables = port.tables();
    Bindings {
        ingress: std::array::from_fn(|priority| {
            tables.group(priority).look_up(|table| table.profile_name.clone())
        }),
        egress: std::array::from_fn(|queue| tables.queue(queue).look_up(|table| table.profile_name.clone())),
        queue: std::array::from_fn(|queue| {
            tables.congestion().look_up(|binding| binding.profile_name(queue).cloned())
        }),
        wred: tables.congestion().look_up(|binding| binding.table_name().cloned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A profile of the file, bound by a port; another bound by the defaults, and not where the
    /// port binds its own.
    #[test]
    fn names_of_the_file_and_of_the_defaults() {
        let text = "[port-defaults]\nwred = \"early\"\npfc = { mode = \"on\", no_drop = [3, 4] }\n[port-defaults.buffer]\n\
            ingress.priority.3 = { profile = \"ingress_lossless_profile\" }\n\
            ingress.priority.4 = { profile = \"ingress_lossless_profile\" }\n\
            [buffer.ingress.profile.mine]\nreserved_cells = 8\nshared = { static_cells = 76 }\nxoff_cells = 768\n\
            [queue-profile.gentle]\naction = \"ecn\"\n[wred.early.queue.6]\necn = true\n\
            [port.a]\ninterface = \"a\"\nqueue_profile = { gentle = [3], AZURE_LOSSLESS = [5] }\n\
            buffer.ingress.priority.4 = { profile = \"mine\" }\nbuffer.egress.queue.1 = { profile = \"egress_lossy_profile\" }\n";
        let config = crate::parse("x.toml", text).unwrap();
        let Profiles { buffer, queue, wred, bindings } = &config.profiles;
        let [WredTable { name, queues }] = &wred[..] else { panic!("{wred:?}") };
        assert_eq!((name.as_str(), queues.len(), queues[0].0, queues[0].1.ecn), ("early", 1, 6, true));
        assert_eq!(bindings[0].wred.as_deref(), Some("early"));
        let names: Vec<_> =
            buffer.iter().map(|profile| (profile.name.as_str(), profile.is_built_in)).collect();
        let built_in = |name| (name, true);
        assert_eq!(
            names,
            [
                built_in("egress_lossless_profile"),
                built_in("egress_lossy_profile"),
                built_in("ingress_lossless_profile"),
                built_in("ingress_lossy_profile"),
                ("mine", false)
            ]
        );
        assert_eq!((buffer[4].reserved_cells, buffer[4].shared), (8, Threshold::Static(76)));
        assert_eq!(buffer[4].ingress.unwrap().xoff_cells, 768);
        let names: Vec<_> =
            queue.iter().map(|profile| (profile.name.as_str(), profile.is_built_in)).collect();
        assert_eq!(names, [("AZURE_LOSSLESS", true), ("gentle", false)]);
        let of = |names: &[Option<String>; PRIORITIES]| {
            names.each_ref().map(|name| name.as_deref().unwrap_or("-").to_owned())
        };
        let Bindings { ingress, egress, queue, .. } = &bindings[0];
        assert_eq!(of(ingress)[3..5], ["ingress_lossless_profile", "mine"]);
        assert_eq!(of(egress)[..3], ["-", "egress_lossy_profile", "-"]);
        assert_eq!(of(queue)[3..6], ["gentle", "-", "AZURE_LOSSLESS"]);
    }
}
