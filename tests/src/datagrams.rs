//! Frames that a kernel sends one by one, one per datagram of the test.

use std::net::UdpSocket;

use anyhow::Result;
use testbed::Endpoint;

/// Gives the silent host `from` an address and a socket to `to`, whose address it need not resolve.
pub fn datagrams(from: &Endpoint, to: &Endpoint) -> Result<UdpSocket> {
    let dev = Endpoint::INTERFACE;
    from.namespace.ip(&format!("addr add {}/24 dev {dev}", from.ipv4()))?;
    let peer = format!("{} lladdr {}", to.ipv4(), to.mac());
    from.namespace.ip(&format!("neigh replace {peer} dev {dev} nud permanent"))?;
    let socket = from.namespace.enter(|| UdpSocket::bind((from.ipv4().as_str(), 0)))??;
    socket.connect((to.ipv4().as_str(), 4000))?;
    Ok(socket)
}
