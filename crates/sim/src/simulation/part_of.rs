//! Which nodes belong to the part of a network that is simulated here.

use crate::scenario::Scenario;

/// A part as its own nodes see it.
#[derive(Debug)]
pub(crate) struct PartOf {
    /// By node.
    pub(crate) part_of: Vec<usize>,
    pub(crate) own: usize,
    pub(crate) count: usize,
}

impl PartOf {
    /// The whole network as one part.
    pub(crate) fn whole(scenario: &Scenario) -> Self {
        Self { part_of: vec![0; scenario.nodes.len()], own: 0, count: 1 }
    }

    /// The number of parts.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// True if a node belongs to this part.
    #[inline]
    pub(crate) fn owns(&self, node: usize) -> bool {
        self.part_of[node] == self.own
    }

    /// Returns the part of a node; `None` if it is this one.
    #[inline]
    pub(crate) fn other(&self, node: usize) -> Option<usize> {
        (!self.owns(node)).then_some(self.part_of[node])
    }
}
