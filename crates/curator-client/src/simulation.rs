//! A simulated network and clock for the clients of one thread; for test kits.
//!
//! `curator-test` has the simulation for users: its servers, its faults, and its seeds. This module is what it needs of
//! the client: while a [`Network`] is [entered](enter) on a thread, a client that is started there connects through it
//! instead of a socket, all clients there read tokio's clock, which a test can pause, and all random numbers there come
//! from a [seed](seed). So a run can be repeated exactly.
//!
//! ```
//! use std::io;
//! use std::sync::Arc;
//!
//! use curator_client::simulation::{self, Connected, Network};
//!
//! /// A network without servers.
//! struct Nowhere;
//!
//! impl Network for Nowhere {
//!     fn connect(&self, host: &str, _port: u16) -> Connected {
//!         let refused = io::Error::new(io::ErrorKind::ConnectionRefused, format!("there is no {host}"));
//!         Box::pin(std::future::ready(Err(refused)))
//!     }
//! }
//!
//! assert!(!simulation::is_active());
//! let entered = simulation::enter(Arc::new(Nowhere));
//! assert!(simulation::is_active());
//! drop(entered);
//! assert!(!simulation::is_active());
//! ```

use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use tokio::time::Instant;

/// The servers that a simulated process can reach.
pub trait Network: Send + Sync {
    /// Opens a connection to a server, as the connect string names it.
    ///
    /// The client drops the future when it has waited long enough.
    fn connect(&self, host: &str, port: u16) -> Connected;

    /// Whether the process is paused: its tasks are not polled until it is resumed. If it is, wakes `cx` then.
    fn poll_resumed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = cx;
        Poll::Ready(())
    }
}

impl fmt::Debug for dyn Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Network")
    }
}

/// A connection that is being opened.
pub type Connected = Pin<Box<dyn Future<Output = io::Result<Box<dyn Socket>>> + Send>>;

/// A connection that carries frames, in order. Dropping it closes it.
pub trait Socket: Send + Sync {
    /// Sends a frame, without its length. Does not wait; on a connection that has ended, does nothing.
    fn send(&self, frame: Vec<u8>);

    /// Receives the next frame, without its length. `None` when the connection has ended.
    fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>>;
}

thread_local! {
    static CURRENT: RefCell<Option<Simulated>> = const { RefCell::new(None) };
}

#[derive(Clone)]
struct Simulated {
    network: Arc<dyn Network>,
    /// When the first network was entered on this thread.
    start: Instant,
}

/// The time at the start of a simulation, since 1970.
const START: Duration = Duration::from_secs(1_767_225_600);

/// A thread that is in a simulation until this is dropped. See [`enter`].
#[must_use = "the thread leaves the simulation when this is dropped"]
pub struct Entered {
    previous: Option<Simulated>,
    /// It belongs to the thread.
    _thread: PhantomData<*const ()>,
}

impl fmt::Debug for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entered").finish_non_exhaustive()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let network = CURRENT.replace(self.previous.take());
        // Outside the borrow: the drop may start anything.
        drop(network);
    }
}

/// Enters a simulation: clients that are started on this thread use `network`, and clocks and random numbers are
/// simulated. Within another simulation, replaces its network and continues its time.
pub fn enter(network: Arc<dyn Network>) -> Entered {
    let start = CURRENT.with_borrow(|current| current.as_ref().map(|current| current.start));
    let start = start.unwrap_or_else(Instant::now);
    Entered { previous: CURRENT.replace(Some(Simulated { network, start })), _thread: PhantomData }
}

/// Seeds this thread's random numbers: the ids of nodes, the pauses of retries, the order of servers.
pub fn seed(seed: u64) {
    fastrand::seed(seed);
}

/// Whether this thread is in a simulation.
#[must_use]
pub fn is_active() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// The time since 1970 in this thread's simulation; `None` if there is none.
#[must_use]
pub fn since_1970() -> Option<Duration> {
    CURRENT.with_borrow(|current| current.as_ref().map(|current| START + current.start.elapsed()))
}

/// The time since the start of this thread's simulation; `None` if there is none.
pub(crate) fn elapsed() -> Option<Duration> {
    CURRENT.with_borrow(|current| current.as_ref().map(|current| current.start.elapsed()))
}

/// The network of this thread's simulation.
pub(crate) fn network() -> Option<Arc<dyn Network>> {
    CURRENT.with_borrow(|current| current.as_ref().map(|current| Arc::clone(&current.network)))
}
