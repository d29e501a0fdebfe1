//! A simulated network and clock for the clients of one thread; for test kits.
//!
//! `curator-test` provides the simulation for users, with servers, faults and seeds. This module is
//! its interface to the client. While a [`Network`] is [entered](enter) on a thread, a client that
//! is started there connects through this network instead of a socket, all clients there read
//! tokio's clock, which a test can pause, and all random numbers there come from a [seed]. So a run
//! can be repeated exactly.
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

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io};

use tokio::runtime::Handle;
use tokio::time::Instant;

/// The servers that a simulated process can reach.
pub trait Network: Send + Sync {
    /// Opens a connection to a server, as the connect string names it.
    ///
    /// The client drops the future when it has waited long enough.
    fn connect(&self, host: &str, port: u16) -> Connected;

    /// Ready unless the process is paused. While it is paused, its tasks are not polled; when it is
    /// resumed, wakes `cx`.
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
    /// Sends a frame, without its length. Does not wait; on a connection that has ended, does
    /// nothing. May wake tasks, but must not call the client, which may hold a lock.
    fn send(&self, frame: Vec<u8>);

    /// Receives the next frame, without its length. `None` when the connection has ended.
    fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>>;
}

thread_local! {
    /// The processes that are entered on this thread, each with a number. The last one is current.
    static ENTERED: RefCell<Vec<(u64, Simulated)>> = const { RefCell::new(Vec::new()) };
    static LAST_NUMBER: Cell<u64> = const { Cell::new(0) };
    /// The latest reading of the simulated clock.
    static LATEST: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A process of a simulation.
#[derive(Clone)]
pub(crate) struct Simulated {
    network: Arc<dyn Network>,
    run: Arc<Run>,
}

/// What all processes of a simulation share.
struct Run {
    /// When the first network was entered on this thread.
    start: Instant,
    /// The number of clients that were given a name.
    clients: AtomicU64,
}

/// The time at the start of a simulation, since 1970.
const START: Duration = Duration::from_secs(1_767_225_600);

/// Keeps the thread in a simulation until it is dropped. See [`enter`].
///
/// If a thread has several, they can be dropped in any order: the last one that was entered, and
/// still exists, is in effect.
#[must_use = "the thread leaves the simulation when this is dropped"]
pub struct Entered {
    number: u64,
    /// Not `Send`: the value belongs to the thread.
    _thread: PhantomData<*const ()>,
}

impl fmt::Debug for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entered").finish_non_exhaustive()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let left = ENTERED.try_with(|entered: &RefCell<Vec<(u64, Simulated)>>| {
            let mut entered = entered.borrow_mut();
            let index = entered
                .iter()
                .rposition(|(number, _)| *number == self.number)?;
            Some(entered.remove(index))
        });
        // Dropped after the borrow ends, because the drop may borrow `ENTERED` again.
        drop(left);
    }
}

/// Enters a simulation: clients that are started on this thread use `network`, and clocks and
/// random numbers are simulated. Within another simulation, replaces its network and continues its
/// time.
///
/// Call this inside a runtime whose clock is paused: the simulation uses tokio's clock. On a
/// runtime that was [started paused](tokio::runtime::Builder::start_paused), timers and their
/// rounding repeat exactly.
pub fn enter(network: Arc<dyn Network>) -> Entered {
    let run = with_current(|current| Arc::clone(&current.run)).unwrap_or_else(|| {
        LATEST.set(None);
        Arc::new(Run {
            start: read_clock(),
            clients: AtomicU64::new(0),
        })
    });
    Simulated { network, run }.enter()
}

impl Simulated {
    /// The process that is entered on this thread; `None` outside a simulation.
    pub(crate) fn current() -> Option<Self> {
        with_current(Self::clone)
    }

    fn enter(self) -> Entered {
        let number = LAST_NUMBER.get() + 1;
        LAST_NUMBER.set(number);
        // Fails on a thread whose thread-locals are being destroyed.
        let _ = ENTERED.try_with(|entered| entered.borrow_mut().push((number, self)));
        Entered {
            number,
            _thread: PhantomData,
        }
    }
}

/// Seeds this thread's random numbers: the ids of nodes, the pauses of retries, the order of
/// servers.
pub fn seed(seed: u64) {
    fastrand::seed(seed);
}

/// Whether this thread is in a simulation.
#[must_use]
pub fn is_active() -> bool {
    with_current(|_| ()).is_some()
}

/// The time since 1970 in this thread's simulation; `None` if there is none.
#[must_use]
pub fn since_1970() -> Option<Duration> {
    elapsed().map(|elapsed| START + elapsed)
}

/// The time since the start of this thread's simulation; `None` if there is none.
pub(crate) fn elapsed() -> Option<Duration> {
    with_current(|current| read_clock().saturating_duration_since(current.run.start))
}

/// The present time of this thread's simulation; `None` if there is none.
pub(crate) fn now() -> Option<std::time::Instant> {
    with_current(|_| read_clock().into_std())
}

/// The network of this thread's simulation.
pub(crate) fn network() -> Option<Arc<dyn Network>> {
    with_current(|current| Arc::clone(&current.network))
}

/// The number of the next client of this thread's simulation; `None` if there is none.
pub(crate) fn next_client() -> Option<u64> {
    with_current(|current| current.run.clients.fetch_add(1, Ordering::Relaxed) + 1)
}

/// Reads tokio's clock. Outside a runtime, for example when a value that has outlived the runtime
/// is dropped, tokio would return real time, so simulated time stands still there.
#[expect(clippy::disallowed_methods, reason = "the source in a simulation")]
fn read_clock() -> Instant {
    let now = match Handle::try_current() {
        Ok(_) => Instant::now(),
        Err(_) => LATEST
            .get()
            .unwrap_or_else(|| std::time::Instant::now().into()),
    };
    LATEST.set(Some(now));
    now
}

/// Calls `read` with the process that is entered on this thread. `None` outside a simulation, and
/// on a thread whose thread-locals are being destroyed.
fn with_current<T>(read: impl FnOnce(&Simulated) -> T) -> Option<T> {
    ENTERED
        .try_with(|entered| entered.borrow().last().map(|(_, current)| read(current)))
        .ok()
        .flatten()
}

/// A task of a simulated process. It is not polled while the process is paused; what it starts
/// belongs to the same process.
pub(crate) struct Task<F> {
    process: Option<Simulated>,
    /// `None` only during the drop.
    future: Option<Pin<Box<F>>>,
}

impl<F> Task<F> {
    /// A task of `process`; an ordinary task if that is `None`.
    pub(crate) fn new(process: Option<Simulated>, future: F) -> Self {
        Self {
            process,
            future: Some(Box::pin(future)),
        }
    }

    fn enter(&self) -> Option<Entered> {
        self.process.clone().map(Simulated::enter)
    }
}

impl<F: Future> Future for Task<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if let Some(process) = &self.process {
            ready!(process.network.poll_resumed(cx));
        }
        let _entered = self.enter();
        match &mut self.future {
            Some(future) => future.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Task<F> {
    fn drop(&mut self) {
        let _entered = self.enter();
        drop(self.future.take());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;
    use std::task::Waker;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::runtime::Spawner;
    use crate::source;
    use crate::time::{ClockInstant, Timer};

    const HOUR: Duration = Duration::from_secs(60 * 60);

    /// A process without servers, which can be paused.
    #[derive(Default)]
    struct Pausable {
        is_paused: AtomicBool,
        waiting: Mutex<Vec<Waker>>,
    }

    impl Pausable {
        fn resume(&self) {
            self.is_paused.store(false, Ordering::Relaxed);
            self.waiting.lock().unwrap().drain(..).for_each(Waker::wake);
        }
    }

    impl Network for Pausable {
        fn connect(&self, _host: &str, _port: u16) -> Connected {
            Box::pin(std::future::pending())
        }

        fn poll_resumed(&self, cx: &mut Context<'_>) -> Poll<()> {
            if !self.is_paused.load(Ordering::Relaxed) {
                return Poll::Ready(());
            }
            self.waiting.lock().unwrap().push(cx.waker().clone());
            Poll::Pending
        }
    }

    fn is_network(pausable: &Arc<Pausable>) -> bool {
        let current = network().map(|network| Arc::as_ptr(&network).cast::<()>());
        current == Some(Arc::as_ptr(pausable).cast())
    }

    #[test]
    fn outside_its_runtime_a_simulated_clock_stands_still() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let entered = runtime.block_on(async {
            let entered = enter(Arc::<Pausable>::default());
            tokio::time::sleep(HOUR).await;
            assert_eq!(
                ClockInstant::now().as_nanos(),
                u64::try_from(HOUR.as_nanos()).unwrap() + 1
            );
            entered
        });
        let clock = ClockInstant::now();
        let instant = source::now();
        assert_eq!(elapsed(), Some(HOUR));
        drop(runtime);
        assert_eq!((ClockInstant::now(), source::now()), (clock, instant));
        drop(entered);
        assert_eq!(elapsed(), None);
        assert!(ClockInstant::now().as_nanos() != clock.as_nanos() && source::now() < instant);
    }

    #[test]
    fn nothing_panics_while_the_thread_locals_of_a_thread_are_destroyed() {
        struct ReadsOnDrop;
        impl Drop for ReadsOnDrop {
            fn drop(&mut self) {
                // The thread-local of the simulation may have been destroyed before.
                let _ = (
                    ClockInstant::now(),
                    source::now(),
                    source::new_uuid(),
                    is_active(),
                    network(),
                );
                drop(enter(Arc::<Pausable>::default()));
            }
        }
        thread_local! {
            static FIRST: RefCell<Option<ReadsOnDrop>> = const { RefCell::new(None) };
            static LAST: RefCell<Option<ReadsOnDrop>> = const { RefCell::new(None) };
        }
        let thread = std::thread::spawn(|| {
            FIRST.set(Some(ReadsOnDrop));
            std::mem::forget(enter(Arc::<Pausable>::default()));
            LAST.set(Some(ReadsOnDrop));
        });
        thread.join().unwrap();
    }

    #[test]
    fn clients_are_numbered_anew_in_each_simulation() {
        assert_eq!(next_client(), None);
        for _ in 0..2 {
            let _entered = enter(Arc::<Pausable>::default());
            assert_eq!(next_client(), Some(1));
            let _other_process = enter(Arc::<Pausable>::default());
            assert_eq!(next_client(), Some(2));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_is_polled_in_its_network_and_not_while_its_process_is_paused() {
        let process = Arc::<Pausable>::default();
        let spawner = {
            let network: Arc<dyn Network> = process.clone();
            let _entered = enter(network);
            Spawner::new(Handle::current())
        };
        process.is_paused.store(true, Ordering::Relaxed);
        let (ended_tx, ended_rx) = tokio::sync::oneshot::channel();
        let in_task = Arc::clone(&process);
        spawner.spawn(async move {
            assert!(is_network(&in_task));
            Timer::new(Handle::current()).sleep(HOUR).await;
            assert_eq!(
                ClockInstant::now().as_nanos(),
                u64::try_from(3 * HOUR.as_nanos()).unwrap() + 1
            );
            ended_tx.send(is_network(&in_task)).unwrap();
        });
        let mut ended_rx = pin!(ended_rx);
        assert!(tokio::time::timeout(2 * HOUR, &mut ended_rx).await.is_err());
        process.resume();
        assert_eq!(tokio::time::timeout(2 * HOUR, ended_rx).await, Ok(Ok(true)));
        assert!(!is_active());
    }

    #[tokio::test]
    async fn a_task_is_dropped_in_its_network() {
        struct OnDrop(Arc<Pausable>);
        impl Drop for OnDrop {
            fn drop(&mut self) {
                assert!(is_network(&self.0));
            }
        }
        let process = Arc::<Pausable>::default();
        let on_drop = OnDrop(Arc::clone(&process));
        let task = {
            let _entered = enter(process);
            Task::new(Simulated::current(), async move {
                let _on_drop = on_drop;
                std::future::pending::<()>().await;
            })
        };
        let mut task = Box::pin(task);
        assert_eq!(task.as_mut().now_or_never(), None);
    }
}
