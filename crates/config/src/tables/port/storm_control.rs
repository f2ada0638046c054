//! Storm control of a port: `broadcast_limit_pps`, `multicast_limit_pps`,
//! `unknown_unicast_limit_pps`.
//!
//! A limit is a number of frames per second, or "off", which overrides a limit of
//! `[port-defaults]`.

use switch::forwarding::storm_control::MAX_LIMIT_PPS;
use switch::frame::meta::FloodType;
use switch::settings::FloodLimits;
use toml::de::DeValue;

use crate::read::diagnostics::Diagnostics;
use crate::read::overrides::Overrides;
use crate::read::table_reader::{Setting, TableReader};
use crate::spec::{SettingSpec, ValueSpec, either};

/// A limit of a port.
pub(crate) const fn limit(name: &'static str) -> SettingSpec {
    either(name, &[ValueSpec::Number(1, MAX_LIMIT_PPS as i64), ValueSpec::Choice(|| vec!["off"])])
}

/// The limits in the table of a port, or of the defaults.
#[derive(Debug, Default)]
pub(crate) struct FloodLimitTable {
    limits: [Option<Setting<Option<u32>>>; 3],
}

impl FloodLimitTable {
    /// Reads a port's settings of these names.
    pub(crate) fn read(port: &mut TableReader, report: &mut Diagnostics) -> Self {
        Self { limits: FloodType::FLOODED.map(|cast| read_limit(port, cast.limit_setting_name(), report)) }
    }
}

fn read_limit(port: &mut TableReader, name: &str, report: &mut Diagnostics) -> Option<Setting<Option<u32>>> {
    let item = port.item(name)?;
    match item.value() {
        DeValue::Integer(_) => {
            let pps = item.number(report)?;
            Some(Setting { value: Some(pps.value), location: pps.location })
        }
        DeValue::String(text) if text == "off" => Some(Setting { value: None, location: item.location }),
        _ => {
            let cure = format!("write frames a second, a whole number from 1 to {MAX_LIMIT_PPS}, or \"off\"");
            item.wrong_type(&cure, report)
        }
    }
}

impl Overrides<'_, FloodLimitTable> {
    /// Returns the effective limits of the port.
    pub(crate) fn settings(self) -> FloodLimits {
        std::array::from_fn(|location| self.value(|table| &table.limits[location], None))
    }
}
