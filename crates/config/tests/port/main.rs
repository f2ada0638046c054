//! Settings of ports: VLANs, and vhost-user sockets.

mod vhost;
mod vlan;
