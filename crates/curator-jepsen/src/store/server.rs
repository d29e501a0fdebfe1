//! The server side of the store protocol.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::sets::Sets;
use crate::store_protocol::Answer;

/// The pause after an error of `accept`, for example because no file descriptors are left.
const PAUSE: Duration = Duration::from_millis(50);

/// A store that listens on a port. Dropping it ends its tasks; a request that has arrived before
/// may still be applied.
#[derive(Debug)]
pub struct Store {
    address: SocketAddr,
    sets: Arc<Sets>,
    /// The task that accepts connections, which owns the tasks of the connections. Dropping it ends
    /// all of them.
    serving: JoinSet<()>,
}

impl Store {
    /// Starts an empty store on a free port of this machine, on the current runtime.
    ///
    /// # Errors
    ///
    /// When no port can be opened.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, sets) = (listener.local_addr()?, Arc::default());
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&sets)));
        Ok(Self {
            address,
            sets,
            serving,
        })
    }

    /// The address on which the store listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The elements of each set as they are now, in the order in which they were written.
    #[must_use]
    pub fn sets(&self) -> BTreeMap<String, Vec<String>> {
        self.sets.all()
    }

    /// Closes all connections, and returns the final sets.
    ///
    /// # Cancel safety
    ///
    /// A dropped future closes the connections as well.
    pub async fn stop(mut self) -> BTreeMap<String, Vec<String>> {
        self.serving.shutdown().await;
        self.sets()
    }
}

async fn serve(listener: TcpListener, sets: Arc<Sets>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(converse(stream, Arc::clone(&sets)))),
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Replies to the requests of one client until it disconnects. Ignores errors of the connection,
/// which the client reports.
async fn converse(stream: TcpStream, sets: Arc<Sets>) {
    // Otherwise small replies may be delayed by 40 ms.
    drop(stream.set_nodelay(true));
    let (input, mut output) = stream.into_split();
    let mut lines = BufReader::new(input);
    let mut line = String::new();
    // A line without a line end is incomplete, because the connection was closed.
    while lines.read_line(&mut line).await.is_ok() && line.ends_with('\n') {
        let answer = match serde_json::from_str(&line) {
            Ok(request) => sets.apply(request),
            Err(error) => Answer::Invalid {
                why: error.to_string(),
            },
        };
        let Ok(mut answer) = serde_json::to_vec(&answer) else {
            return;
        };
        answer.push(b'\n');
        if output.write_all(&answer).await.is_err() {
            return;
        }
        line.clear();
    }
}
