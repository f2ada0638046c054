//! TCP between two ordinary hosts: a request, and a response that must arrive as it was sent.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Result, ensure};
use testbed::{Endpoint, PATIENCE};

/// Bytes of the response to a request of a few bytes.
const BYTES: usize = 2_000_000;
const PORT: u16 = 8000;

/// Lets A fetch from B, at this address, what a web server would send, and checks that it is what B
/// sent.
pub fn fetch(a: &Endpoint, b: &Endpoint, address: IpAddr) -> Result<()> {
    let content: Vec<u8> = (0..BYTES).map(|n| (n / 7) as u8).collect();
    let listener = b.namespace.enter(|| TcpListener::bind((address, PORT)))??;
    let sent = content.clone();
    let server = std::thread::spawn(move || -> Result<()> {
        let (mut client, _) = listener.accept()?;
        client.set_read_timeout(Some(PATIENCE))?;
        client.set_write_timeout(Some(PATIENCE))?;
        let mut question = [0; 5];
        client.read_exact(&mut question)?;
        ensure!(&question == b"GET /", "{question:?}");
        client.write_all(&sent)?;
        Ok(client.shutdown(Shutdown::Write)?)
    });
    let to = SocketAddr::new(address, PORT);
    let mut client = a.namespace.enter(|| TcpStream::connect_timeout(&to, Duration::from_secs(10)))??;
    client.set_read_timeout(Some(PATIENCE))?;
    client.write_all(b"GET /")?;
    let mut arrived = Vec::new();
    client.read_to_end(&mut arrived)?;
    server.join().map_err(|_| anyhow::anyhow!("the server panicked"))??;
    ensure!(arrived == content, "{} of {BYTES} bytes, or others", arrived.len());
    Ok(())
}
