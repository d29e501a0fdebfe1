//! The default data of lock nodes: this machine's address.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};

/// The data of lock nodes for which the caller gives none: the data set in the builder, or else
/// this machine's address.
///
/// The address is known once the client has its first session.
#[derive(Debug)]
pub(crate) struct LockData {
    known: OnceLock<Arc<[u8]>>,
    /// Returned while the address is not known.
    empty: Arc<[u8]>,
}

impl LockData {
    pub(crate) fn new(given: Option<Arc<[u8]>>) -> Self {
        let known = given.map(OnceLock::from).unwrap_or_default();
        Self {
            known,
            empty: Arc::from([]),
        }
    }

    /// Empty while the address is unknown.
    pub(crate) fn get(&self) -> &Arc<[u8]> {
        self.known.get().unwrap_or(&self.empty)
    }

    /// Finds this machine's address towards the server at `server`, unless data was given or found
    /// before.
    pub(crate) fn find_out(&self, server: SocketAddr) {
        if self.known.get().is_none()
            && let Ok(address) = address_towards(server)
        {
            // Only the supervisor calls this, so no other thread has set it meanwhile.
            let _ = self.known.set(address.to_string().into_bytes().into());
        }
    }
}

/// Returns the local address of the route to `server`. Sends nothing: connecting a datagram socket
/// only looks up the route.
#[expect(clippy::disallowed_methods, reason = "outside of a simulation")]
fn address_towards(server: SocketAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr = if server.is_ipv4() {
        [0; 4].into()
    } else {
        [0; 16].into()
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    Ok(socket.local_addr()?.ip())
}
