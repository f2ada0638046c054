//! The network as far as the file could be read: what routes, faults and expectations name.

use super::links::Links;
use super::nodes::{Devices, Nodes};

/// What there is to be named.
#[derive(Clone, Copy)]
pub(super) struct Network<'n> {
    pub(super) nodes: &'n Nodes,
    pub(super) links: &'n Links,
    pub(super) devices: &'n Devices,
}
