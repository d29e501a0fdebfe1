//! The data of lock nodes for which none is given: this machine's address.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};

/// The data of lock nodes for which none is given: what the user has said, or else this machine's address.
///
/// The address is known when the first session is.
#[derive(Debug)]
pub(crate) struct LockData {
    known: OnceLock<Arc<[u8]>>,
    unknown: Arc<[u8]>,
}

impl LockData {
    pub(crate) fn new(given: Option<Arc<[u8]>>) -> Self {
        let known = given.map(OnceLock::from).unwrap_or_default();
        Self { known, unknown: Arc::from([]) }
    }

    /// Empty as long as it is not known.
    pub(crate) fn get(&self) -> &Arc<[u8]> {
        self.known.get().unwrap_or(&self.unknown)
    }

    /// Finds out this machine's address as a server at `server` sees it, if that is wanted and not known.
    pub(crate) fn find_out(&self, server: SocketAddr) {
        if self.known.get().is_none()
            && let Ok(address) = address_towards(server)
        {
            // Only the supervisor calls this, so it has not been set meanwhile.
            let _ = self.known.set(address.to_string().into_bytes().into());
        }
    }
}

/// Nothing is sent: a datagram socket only looks up the route.
fn address_towards(server: SocketAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    Ok(socket.local_addr()?.ip())
}
