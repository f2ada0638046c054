//! BUFFER_POOL, BUFFER_PROFILE, BUFFER_PG, BUFFER_QUEUE, and the groups of priorities.

use std::collections::{BTreeMap, BTreeSet};

use switch::PortSettings;

use crate::import::sonic::database::{Database, Port};
use crate::import::sonic::port::speed_bps;
use crate::init::toml_key as quoted;

const CELL_BYTES: i64 = 256;
/// The largest alpha, as an exponent of two.
const MOST_ALPHA: i64 = 3;
/// The largest static limit that a profile can have: no buffer has more cells.
const MOST_CELLS: i64 = 1 << 24;
const POOLS: &str = "BUFFER_POOL";
const PROFILES: &str = "BUFFER_PROFILE";

/// Binds profiles to the priorities and queues of ports. Returns the tables of the buffer.
pub fn import(database: &Database, ports: &mut [Port]) -> String {
    let (mut ingress, mut egress) = (BTreeSet::new(), BTreeSet::new());
    let (mut all_headroom, mut most_headroom) = (0, 0);
    for port in &mut *ports {
        for cells in bind_groups(database, port, &mut ingress) {
            (all_headroom, most_headroom) = (all_headroom + cells, most_headroom.max(cells));
        }
        bind_queues(database, port, &mut egress);
    }
    let mut text = String::new();
    for name in &ingress {
        text += &ingress_profile(database, name);
    }
    for profile in &egress {
        text += &profile.text(database);
    }
    let reserved = ingress.iter().filter_map(|name| database.number(PROFILES, name, "size"));
    let reserved_cells = cells(reserved.max().unwrap_or(0)).max(17);
    let lossless = ingress.iter().filter(|name| database.number(PROFILES, name, "xoff").is_some());
    let lossless: BTreeSet<_> = lossless.filter_map(|name| database.name(PROFILES, name, "pool")).collect();
    let fixed = 8 * reserved_cells * ports.len() as i64;
    pools(database, &lossless, fixed, all_headroom, most_headroom) + &text
}

/// Returns the cells that bytes take.
fn cells(bytes: i64) -> i64 {
    (bytes.max(0) + CELL_BYTES - 1) / CELL_BYTES
}

/// Returns `[buffer]`. The shared area is the ingress pool of lossless groups: the larger one if
/// there are several, or if no group is lossless. The fixed area holds the reservations: a lossy
/// group reserves an eighth of its port's part. The headroom pool is that of the ingress pool, or
/// else all headroom together.
fn pools(
    database: &Database,
    lossless: &BTreeSet<&str>,
    fixed: i64,
    all_headroom: i64,
    most_headroom: i64,
) -> String {
    let is_ingress = |pool: &&str| database.field(POOLS, pool, "type") == Some("ingress");
    let size_of = |pool: &str| database.number(POOLS, pool, "size").unwrap_or(0);
    let all = database.keys(POOLS);
    let shared_area = all
        .iter()
        .filter(|pool| is_ingress(pool))
        .max_by_key(|pool| (lossless.contains(**pool), size_of(pool)));
    for pool in &all {
        let _ = database.field(POOLS, pool, "mode"); // profiles have it
        if Some(pool) == shared_area {
            continue;
        }
        let why = match is_ingress(pool) {
            true => "its groups share the pool of lossless groups",
            false => "queues share the pool of ingress: their profiles limit them",
        };
        database.note(POOLS, pool, "size", why);
    }
    let size_bytes = shared_area.map_or(0, |pool| size_of(pool));
    let pool_headroom = shared_area.and_then(|pool| database.number(POOLS, pool, "xoff")).unwrap_or(0);
    let shared = cells(size_bytes).max(if size_bytes == 0 { 131_072 } else { 0 });
    let headroom = if pool_headroom > 0 { cells(pool_headroom).max(most_headroom) } else { all_headroom };
    format!(
        "[buffer]\ncell_bytes = {CELL_BYTES}\ntotal_cells = {}\nfixed_cells = {fixed}\nheadroom_cells = {headroom}\n\n",
        shared + headroom + fixed
    )
}

/// Binds the profile of each priority's group. Returns the headroom of the groups that have some.
fn bind_groups<'j>(database: &Database<'j>, port: &mut Port, used: &mut BTreeSet<&'j str>) -> Vec<i64> {
    let map = group_map(database, port);
    let speed = database.number("PORT", port.name, "speed").and_then(speed_bps);
    let by_default = PortSettings::new(port.name, speed).groups[0].headroom_cells.into();
    let mut headroom: BTreeMap<usize, i64> =
        port.no_drop.iter().map(|priority| (*priority, by_default)).collect();
    for (key, groups) in database.ranges("BUFFER_PG", port.name) {
        let Some(profile) = database.name("BUFFER_PG", key, "profile") else { continue };
        if profile == "NULL" {
            let why = "its headroom is computed on the device: `sluice headroom --fix` computes it here";
            database.note("BUFFER_PG", key, "profile", why);
            continue;
        }
        if !database.has(PROFILES, profile) {
            database.note("BUFFER_PG", key, "profile", &format!("there is no profile `{profile}`"));
            continue;
        }
        for priority in (0..8).filter(|priority| groups.contains(&map[*priority])) {
            used.insert(profile);
            headroom.insert(priority, cells(database.number(PROFILES, profile, "xoff").unwrap_or(0)));
            port.lines
                .push(format!("buffer.ingress.priority.{priority} = {{ profile = {} }}", text(profile)));
        }
    }
    headroom.into_values().collect()
}

/// Returns the group of each priority. Several in one group have groups of their own here.
fn group_map(database: &Database, port: &Port) -> [usize; 8] {
    const TABLE: &str = "TC_TO_PRIORITY_GROUP_MAP";
    let mut map = [0, 1, 2, 3, 4, 5, 6, 7];
    let of_port = |key: &&str| key.split(',').any(|name| name == port.name) || *key == "global";
    let keys = database.keys("PORT_QOS_MAP").into_iter().filter(of_port);
    let name = keys.filter_map(|key| database.name("PORT_QOS_MAP", key, "tc_to_pg_map")).next();
    let Some(name) = name else { return map };
    for (tc, group) in map.iter_mut().enumerate() {
        *group = database.map(TABLE, name, tc).unwrap_or(*group);
    }
    for group in 0..8 {
        let tcs: Vec<usize> = (0..8).filter(|tc| map[*tc] == group).collect();
        if tcs.len() > 1 {
            let why =
                format!("priorities {tcs:?} share group {group}: here each has a group, with its profile");
            database.note(TABLE, name, "", &why);
        }
    }
    map
}

fn bind_queues<'j>(database: &Database<'j>, port: &mut Port, used: &mut BTreeSet<EgressProfile<'j>>) {
    for (key, queues) in database.ranges("BUFFER_QUEUE", port.name) {
        let Some(profile) = database.name("BUFFER_QUEUE", key, "profile") else { continue };
        if !database.has(PROFILES, profile) {
            database.note("BUFFER_QUEUE", key, "profile", &format!("there is no profile `{profile}`"));
            continue;
        }
        for queue in queues {
            if queue > 7 {
                database.note("BUFFER_QUEUE", key, "", "queues are 0 to 7");
                continue;
            }
            let is_unlimited = port.is_no_drop(queue) && is_unlimited(database, profile);
            let reserved = database.number(PROFILES, profile, "size").unwrap_or(0);
            if is_unlimited && reserved == 0 {
                continue;
            }
            let profile = EgressProfile { name: profile, is_unlimited };
            port.lines
                .push(format!("buffer.egress.queue.{queue} = {{ profile = {} }}", text(&profile.name())));
            used.insert(profile);
        }
    }
}

/// True if a profile lets a queue have nearly its whole pool, as those of lossless queues do: a
/// no-drop queue then has no maximum, as without a profile, and only what the profile reserves.
fn is_unlimited(database: &Database, profile: &str) -> bool {
    let exponent = database.signed(PROFILES, profile, "dynamic_th").filter(|exponent| *exponent > MOST_ALPHA);
    if let Some(exponent) = exponent {
        let why = format!("alpha 2^{exponent} is nearly the whole pool: no-drop queues have no maximum here");
        database.note(PROFILES, profile, "dynamic_th", &why);
        let _ = database.field(PROFILES, profile, "pool"); // there is one
    }
    exponent.is_some()
}

fn text(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

/// Returns the limit in the shared area: an exponent of alpha, or bytes.
fn limit(database: &Database, profile: &str) -> String {
    let _ = database.field(PROFILES, profile, "pool"); // there is one
    if let Some(bytes) = database.number(PROFILES, profile, "static_th") {
        return format!("shared = {{ static_bytes = {} }}", bytes.clamp(CELL_BYTES, 4_000_000_000));
    }
    let exponent = database.signed(PROFILES, profile, "dynamic_th").unwrap_or(0);
    if !(-7..=MOST_ALPHA).contains(&exponent) {
        database.note(PROFILES, profile, "dynamic_th", &format!("alpha is 2^-7 to 2^3, not 2^{exponent}"));
    }
    format!("shared = {{ dynamic_th = {} }}", exponent.clamp(-7, MOST_ALPHA))
}

fn ingress_profile(database: &Database, name: &str) -> String {
    let mut text = format!("[buffer.ingress.profile.{}]\n", quoted(name));
    for (field, setting) in [
        ("size", "reserved_bytes"),
        ("xoff", "xoff_bytes"),
        ("xon", "xon_bytes"),
        ("xon_offset", "xon_offset_bytes"),
    ] {
        if let Some(bytes) = database.number(PROFILES, name, field) {
            text += &format!("{setting} = {bytes}\n");
        }
    }
    text + &limit(database, name) + "\n\n"
}

/// A profile of queues. Those without a maximum are no-drop queues: lossy queues may share it in
/// the database, and keep its limit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EgressProfile<'j> {
    /// Its name in the database.
    name: &'j str,
    is_unlimited: bool,
}

impl EgressProfile<'_> {
    /// Returns its name in the configuration.
    fn name(self) -> String {
        format!("{}{}", self.name, if self.is_unlimited { "_no_maximum" } else { "" })
    }

    fn text(self, database: &Database) -> String {
        let reserved = database.number(PROFILES, self.name, "size").unwrap_or(0);
        let limit = match self.is_unlimited {
            true => format!("shared = {{ static_cells = {MOST_CELLS} }}"),
            false => limit(database, self.name),
        };
        format!("[buffer.egress.profile.{}]\nreserved_bytes = {reserved}\n{limit}\n\n", quoted(&self.name()))
    }
}
