//! The store that workers write to: sets of strings, in the memory of the process that conducts a
//! run.
//!
//! The store behaves like a store behind a lock: it applies requests one at a time, and compares
//! fencing tokens, if they are sent. No nemesis affects it, and it loses no write. So an update is
//! lost only if a client wrote without the lock.
//!
//! Workers send requests over TCP: each request and each reply is one line of JSON. The store keeps
//! sets of strings, and for each set the highest fencing token that it has received.

mod client;

pub use self::client::{StoreClient, StoreError};

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use curator_recipes::FencingToken;
use curator_recipes::fencing::FencingChecker;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// Reads all elements of a set. A set that was never written is empty.
    Read {
        /// The name of the set.
        set: String,
        /// The reader's fencing token; the store compares and remembers it.
        token: Option<i64>,
    },
    /// Replaces a set.
    Write {
        /// The name of the set.
        set: String,
        /// The new elements.
        elements: Vec<String>,
        /// The writer's fencing token.
        token: Option<i64>,
    },
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Answer {
    /// The reply to a read.
    Elements {
        /// The elements, in the order they were added.
        elements: Vec<String>,
    },
    /// The set was written.
    Written,
    /// The token is stale: a newer holder has used the set.
    Stale,
    /// The request is malformed; nothing was changed.
    Invalid {
        /// Why the request is malformed.
        why: String,
    },
}

/// The pause after an error of `accept`, for example because no file descriptors are left.
const PAUSE: Duration = Duration::from_millis(50);

/// A store that listens on a port. Dropping the store ends its tasks; a request that has already
/// arrived may still be applied.
#[derive(Debug)]
pub struct Store {
    address: SocketAddr,
    sets: Arc<Sets>,
    /// The task that accepts connections, which owns the tasks of the connections. Dropping the set
    /// ends all of these tasks.
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
        let address = listener.local_addr()?;
        let sets = Arc::default();
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&sets)));
        Ok(Self {
            address,
            sets,
            serving,
        })
    }

    /// The address that the store listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The elements of each set as they are now, in the order they were written.
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
    // With Nagle's algorithm, small replies may be delayed by 40 ms.
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

/// All sets, by name.
#[derive(Debug, Default)]
struct Sets {
    /// One mutex for all sets, so that the token check and the following read or write are atomic.
    by_name: Mutex<BTreeMap<String, Set>>,
}

#[derive(Debug, Default)]
struct Set {
    elements: Vec<String>,
    newest: FencingChecker,
}

impl Sets {
    /// Applies the request, unless its token is stale.
    fn apply(&self, request: Request) -> Answer {
        let (Request::Read { set, token } | Request::Write { set, token, .. }) = &request;
        let token = match token.map(FencingToken::try_from).transpose() {
            Ok(token) => token,
            Err(invalid) => {
                return Answer::Invalid {
                    why: invalid.to_string(),
                };
            }
        };
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let set = by_name.entry(set.clone()).or_default();
        if token.is_some_and(|token| set.newest.admit(token).is_err()) {
            return Answer::Stale;
        }
        match request {
            Request::Read { .. } => Answer::Elements {
                elements: set.elements.clone(),
            },
            Request::Write { elements, .. } => {
                set.elements = elements;
                Answer::Written
            }
        }
    }

    /// The elements of each set that was read or written.
    fn all(&self) -> BTreeMap<String, Vec<String>> {
        self.by_name
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|(name, set)| (name.clone(), set.elements.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sets: &Sets, token: Option<i64>) -> Answer {
        sets.apply(Request::Read {
            set: "s".to_owned(),
            token,
        })
    }

    fn write(sets: &Sets, elements: &[&str], token: Option<i64>) -> Answer {
        sets.apply(Request::Write {
            set: "s".to_owned(),
            elements: elements.iter().map(|&element| element.to_owned()).collect(),
            token,
        })
    }

    fn elements(elements: &[&str]) -> Answer {
        Answer::Elements {
            elements: elements.iter().map(|&element| element.to_owned()).collect(),
        }
    }

    #[test]
    fn after_a_read_with_a_newer_token_requests_with_an_older_one_are_refused() {
        let sets = Sets::default();
        assert_eq!(read(&sets, Some(33)), elements(&[]));
        assert_eq!(read(&sets, Some(34)), elements(&[]));
        assert_eq!(write(&sets, &["late"], Some(33)), Answer::Stale);
        assert_eq!(read(&sets, Some(33)), Answer::Stale);
        assert_eq!(write(&sets, &["in time"], Some(34)), Answer::Written);
        assert_eq!(read(&sets, Some(34)), elements(&["in time"]));
    }

    #[test]
    fn each_set_keeps_a_separate_newest_token() {
        let sets = Sets::default();
        assert_eq!(read(&sets, Some(34)), elements(&[]));
        let other = Request::Write {
            set: "t".to_owned(),
            elements: Vec::new(),
            token: Some(33),
        };
        assert_eq!(sets.apply(other), Answer::Written);
    }
}
