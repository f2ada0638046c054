//! The network as far as the file could be read, for the references of routes, faults and
//! expectations.

use super::links::Links;
use super::nodes::{Devices, Nodes};

/// The objects that can be referenced.
#[derive(Clone, Copy)]
pub(super) struct Network<'n> {
    pub(super) nodes: &'n Nodes,
    pub(super) links: &'n Links,
    pub(super) devices: &'n Devices,
}
