//! The data of lock nodes for which none is given: this machine's address.

use std::net::{IpAddr, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::connect_string::HostPort;
use crate::timer::Timer;

/// How long the lookup of the server's name may take. The address is only a nicety.
const LONGEST: Duration = Duration::from_secs(1);

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

    /// Finds out this machine's address as `server` sees it, if that is wanted and not known, within `limit`.
    pub(crate) async fn find_out(&self, server: &HostPort, timer: &Timer, limit: Duration) {
        if self.known.get().is_some() {
            return;
        }
        let address = tokio::select! {
            biased;
            address = address_towards(server) => address,
            () = timer.sleep(limit.min(LONGEST)) => None,
        };
        if let Some(address) = address {
            // Only the supervisor calls this, so nobody else has set it.
            let _ = self.known.set(address.to_string().into_bytes().into());
        }
    }
}

/// Nothing is sent: a datagram socket only looks up the route.
async fn address_towards(server: &HostPort) -> Option<IpAddr> {
    let address = *async_net::resolve((server.host(), server.port())).await.ok()?.first()?;
    let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(address).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
