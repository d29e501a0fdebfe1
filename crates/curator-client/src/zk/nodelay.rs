//! `TCP_NODELAY` on the sockets of the client crate.
//!
//! The crate leaves Nagle's algorithm on, so two requests sent together often need two round trips: the second waits for
//! the acknowledgement of the first.
//!
//! Where the option cannot be set, everything still works, with up to twice the round trips.

use std::sync::Arc;
use std::time::Duration;

use super::sockets::{Action, addresses, each_to};
use crate::connect_string::ConnectString;
use crate::timer::Timer;

/// How long the lookup of names may take. The socket option is only a nicety.
const LONGEST: Duration = Duration::from_secs(1);

/// Sets the option on every connection of this process to one of `servers`. Polling the future waits for that.
///
/// A process may have many descriptors, and the names of the servers have to be looked up: that is done on a thread that
/// may block, and has been handed to it when this returns.
pub(crate) fn set_nodelay(
    client: &Arc<str>,
    servers: &ConnectString,
    timer: &Timer,
) -> impl Future<Output = ()> + Send + use<> {
    let (client, servers, timer) = (Arc::clone(client), servers.clone(), timer.clone());
    let set = tokio::task::spawn_blocking(move || match each_to(&addresses(servers.hosts()), Action::SetNodelay) {
        Ok(sockets) => tracing::trace!(client = &*client, sockets, "TCP_NODELAY set"),
        Err(error) => {
            tracing::debug!(client = &*client, %error, "cannot set TCP_NODELAY: pipelined requests may take two round trips");
        }
    });
    async move {
        tokio::select! {
            biased;
            // When the runtime is ending, no one needs the option any more.
            _ = set => {}
            () = timer.sleep(LONGEST) => {}
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn the_option_is_set_when_the_future_is_ready() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let to_server = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        assert!(!to_server.nodelay().unwrap());
        let servers = ConnectString::parse(&server.local_addr().unwrap().to_string()).unwrap();
        let timer = Timer::new(tokio::runtime::Handle::current());
        set_nodelay(&Arc::from("test"), &servers, &timer).await;
        assert!(to_server.nodelay().unwrap());
    }
}
