//! The worst-case fill of an egress queue, compared with what the queue may hold.
//!
//! Rule: of all ports except the queue's own, each no-drop group whose frames may go to the queue
//! may fill it with its reserved cells, the cells up to its XOFF threshold, and its headroom,
//! before all senders have stopped. A limit of the file below that sum drops frames that ingress
//! has admitted. A pool holds what its no-drop queues hold beyond their guaranteed cells, and none
//! of that may be dropped for lack of cells in the pool. That is the sum of all such groups, less
//! the smallest guarantee of a queue, since almost all frames may wait in one queue. Source:
//! docs/behavior.md, "What cannot be lossless".

use switch::SwitchSettings;
use switch::egress::queue::QueueLimits;
use switch::egress::queue_limits::EgressLimits;
use switch::settings::{GroupSettings, POOLS, PRIORITIES, Threshold};

use crate::read::diagnostics::SettingSpan;
use crate::tables::buffer::Buffer;
use crate::tables::ports::Port;

/// Returns the worst queue for each limit of the file that the worst-case fill may exceed.
pub(crate) fn excesses<'p>(ports: &'p [Port], settings: &SwitchSettings) -> Vec<Excess<'p>> {
    let limits: Vec<EgressLimits> = EgressLimits::from_settings(settings).collect();
    let mut excesses: Vec<Excess> = Vec::new();
    for (number, port) in ports.iter().enumerate() {
        for (queue, queue_limits) in limits[number].queues.iter().enumerate() {
            let shared = port.tables().queue(queue).setting(|table| &table.shared);
            let Some(shared) = shared else { continue };
            let Some(limit) = Limit::of(queue_limits, settings) else { continue };
            let meeting = WorstCaseFill::on(number, queue, &limits, settings);
            let by = meeting.cells().saturating_sub(limit.cells());
            match excesses.iter_mut().find(|other| other.location.span == shared.location.span) {
                _ if by == 0 => {}
                Some(other) => other.add(port, queue, meeting, limit),
                None => {
                    let (location, ports) = (&shared.location, vec![port]);
                    excesses.push(Excess { location, ports, queue, meeting, limit });
                }
            }
        }
    }
    excesses
}

/// Cells of the no-drop groups that may all wait in one egress queue.
struct WorstCaseFill {
    groups: u32,
    reserved_cells: u64,
    xoff_cells: u64,
    headroom_cells: u64,
}

impl WorstCaseFill {
    /// Counts all ports except the queue's own: a frame never leaves by the port that it came in
    /// by.
    fn on(egress: usize, queue: usize, limits: &[EgressLimits], settings: &SwitchSettings) -> Self {
        Self::of(groups(limits, settings, |from, to| from != egress && to == queue), settings)
    }

    fn of(groups: Vec<GroupSettings>, settings: &SwitchSettings) -> Self {
        let pools = settings.buffer.ingress_pools();
        let mut in_pool = [0; POOLS];
        groups.iter().for_each(|group| in_pool[usize::from(group.pool)] += 1);
        let xoff_cells = |group: &GroupSettings| {
            let pool = usize::from(group.pool);
            match group.xoff {
                Threshold::Static(cells) => cells,
                Threshold::Dynamic(alpha) => alpha.steady_state_cells(pools[pool], in_pool[pool]),
            }
        };
        let sum =
            |cells: &dyn Fn(&GroupSettings) -> u32| groups.iter().map(|group| u64::from(cells(group))).sum();
        Self {
            groups: groups.len() as u32,
            reserved_cells: sum(&|group| group.reserved_cells),
            xoff_cells: sum(&xoff_cells),
            headroom_cells: sum(&|group| group.headroom_cells),
        }
    }

    fn cells(&self) -> u64 {
        self.reserved_cells + self.xoff_cells + self.headroom_cells
    }

    /// Formats how the cells add up.
    fn terms(&self) -> String {
        let Self { reserved_cells, xoff_cells, headroom_cells, .. } = self;
        format!("{reserved_cells} reserved + {xoff_cells} XOFF + {headroom_cells} headroom")
    }

    fn noun(&self) -> &'static str {
        if self.groups == 1 { "group" } else { "groups" }
    }
}

/// Returns the no-drop groups some of whose frames go where `goes` says, from a port to a queue
/// number.
fn groups(
    limits: &[EgressLimits],
    settings: &SwitchSettings,
    goes: impl Fn(usize, usize) -> bool,
) -> Vec<GroupSettings> {
    let mut groups = Vec::new();
    for (number, port) in settings.ports.iter().enumerate() {
        let fifos = limits[number].fifos_of_priorities;
        let goes_there = |p: usize| fifos[p].queues().into_iter().any(|queue| goes(number, queue));
        let there = (0..PRIORITIES).filter(|&p| port.pfc.no_drop & 1 << p != 0 && goes_there(p));
        groups.extend(there.map(|priority| port.groups[priority]));
    }
    groups
}

/// What an egress queue may hold while no other queue uses its pool.
struct Limit {
    guaranteed_cells: u64,
    shared_cells: u64,
}

impl Limit {
    /// Returns the limit of a queue; `None` if it has none.
    fn of(limits: &QueueLimits, settings: &SwitchSettings) -> Option<Self> {
        let pools = settings.buffer.egress_pools();
        let shared_cells = match limits.maximum? {
            Threshold::Static(cells) => cells,
            Threshold::Dynamic(alpha) => alpha.steady_state_cells(pools[usize::from(limits.pool)], 1),
        };
        Some(Self {
            guaranteed_cells: u64::from(limits.guaranteed_cells),
            shared_cells: u64::from(shared_cells),
        })
    }

    fn cells(&self) -> u64 {
        self.guaranteed_cells + self.shared_cells
    }
}

/// A limit of the file below the worst-case fill on these ports; the numbers are the worst.
pub(crate) struct Excess<'p> {
    pub(crate) location: &'p SettingSpan,
    pub(crate) ports: Vec<&'p Port<'p>>,
    queue: usize,
    meeting: WorstCaseFill,
    limit: Limit,
}

impl<'p> Excess<'p> {
    fn add(&mut self, port: &'p Port, queue: usize, meeting: WorstCaseFill, limit: Limit) {
        self.ports.push(port);
        if meeting.cells() + self.limit.cells() > self.meeting.cells() + limit.cells() {
            (self.queue, self.meeting, self.limit) = (queue, meeting, limit);
        }
    }

    pub(crate) fn what(&self) -> String {
        let Self { queue, meeting, limit, .. } = self;
        format!(
            "queue {queue} holds {} cells ({} guaranteed + {} shared), but {} no-drop {} may fill it with {} before all \
             senders have stopped ({})",
            limit.cells(),
            limit.guaranteed_cells,
            limit.shared_cells,
            meeting.groups,
            meeting.noun(),
            meeting.cells(),
            meeting.terms(),
        )
    }

    pub(crate) fn cure(&self) -> String {
        let shared_cells = self.meeting.cells().saturating_sub(self.limit.guaranteed_cells);
        let raise = format!("let it share {shared_cells} cells or lower the groups' XOFF and headroom");
        // A profile must have a limit.
        if self.location.setting.starts_with("buffer.") {
            raise
        } else {
            format!("{raise}; left out, a no-drop queue has no limit")
        }
    }
}

/// A pool at egress with fewer cells than ingress can admit of the no-drop queues in it.
pub(crate) struct PoolExcess<'p> {
    pub(crate) location: &'p SettingSpan,
    /// The ports with such queues.
    pub(crate) ports: Vec<&'p Port<'p>>,
    pool: usize,
    size_cells: u64,
    guaranteed_cells: u64,
    meeting: WorstCaseFill,
}

/// Returns the egress pools that may be too small for what ingress can admit of their no-drop
/// queues. Except for one frame, a queue with a dynamic maximum stays within its pool by itself.
pub(crate) fn pool_excesses<'p>(
    buffer: &'p Buffer,
    ports: &'p [Port],
    settings: &SwitchSettings,
) -> Vec<PoolExcess<'p>> {
    let limits: Vec<EgressLimits> = EgressLimits::from_settings(settings).collect();
    let sizes = settings.buffer.egress_pools();
    (0..POOLS)
        .filter_map(|pool| PoolExcess::of(pool, sizes[pool], buffer, ports, &limits, settings))
        .collect()
}

impl<'p> PoolExcess<'p> {
    fn of(
        pool: usize,
        size_cells: u32,
        buffer: &'p Buffer,
        ports: &'p [Port],
        limits: &[EgressLimits],
        settings: &SwitchSettings,
    ) -> Option<Self> {
        let is_dynamic = |queue: &QueueLimits| matches!(queue.maximum, Some(Threshold::Dynamic(_)));
        let is_in =
            |queue: &QueueLimits| queue.no_drop && usize::from(queue.pool) == pool && !is_dynamic(queue);
        let there = |to: usize, queue: usize| is_in(&limits[to].queues[queue]);
        let goes = |from: usize, queue: usize| (0..ports.len()).any(|to| to != from && there(to, queue));
        let mut meeting = WorstCaseFill::of(groups(limits, settings, goes), settings);
        // However many groups there are, they share the shared area and the headroom area.
        let shared: u64 = settings.buffer.ingress_pools().into_iter().map(u64::from).sum();
        meeting.xoff_cells = meeting.xoff_cells.min(shared);
        meeting.headroom_cells = meeting.headroom_cells.min(settings.buffer.headroom_cells.into());
        let queues = limits.iter().flat_map(|port| &port.queues).filter(|queue| is_in(queue));
        let guaranteed_cells = u64::from(queues.map(|queue| queue.guaranteed_cells).min()?);
        let size_cells = u64::from(size_cells);
        if meeting.cells() <= size_cells + guaranteed_cells {
            return None;
        }
        let has_one = |(number, _): &(usize, &Port)| (0..PRIORITIES).any(|queue| there(*number, queue));
        let ports: Vec<&Port> = ports.iter().enumerate().filter(has_one).map(|(_, port)| port).collect();
        let mapping = ports.iter().find_map(|port| {
            let pools = (0..PRIORITIES).filter_map(|q| port.tables().queue(q).setting(|table| &table.pool));
            pools.into_iter().find(|setting| usize::from(setting.value) == pool)
        });
        let total = buffer.total_cells.as_ref().map(|cells| &cells.location);
        let written =
            buffer.egress_pools[pool].location().or(mapping.map(|setting| &setting.location)).or(total);
        let location = written.unwrap_or(&ports.first()?.location);
        Some(Self { location, ports, pool, size_cells, guaranteed_cells, meeting })
    }

    pub(crate) fn what(&self) -> String {
        let Self { pool, size_cells, guaranteed_cells, meeting, .. } = self;
        format!(
            "pool {pool} at egress has {size_cells} cells, but {} no-drop {} may fill its no-drop queues with {} ({}; a queue \
             is guaranteed {guaranteed_cells}): no such frame is dropped for that, but lossy queues get nothing then",
            meeting.groups,
            meeting.noun(),
            meeting.cells(),
            meeting.terms(),
        )
    }

    pub(crate) fn cure(&self, buffer: &Buffer) -> String {
        let needed = self.meeting.cells() - self.guaranteed_cells;
        let total = u64::from(buffer.settings.total_cells);
        let size = match needed <= total {
            true => format!("write buffer.egress.pool.{}.size_cells = {needed} or more", self.pool),
            false => "raise buffer.total_cells".to_owned(),
        };
        format!("{size}, or lower the groups' XOFF and headroom")
    }
}
