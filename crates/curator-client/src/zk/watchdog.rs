//! Closes connections whose server keeps the client crate busy without an end.
//!
//! The crate reads for as long as there is something to read, without a pause for others. So as long as a server sends faster
//! than the crate can read, the crate does not return from one poll, and the thread that polls it does nothing else. With
//! as many such servers as a runtime has threads, nothing happens on it any more: no timer, no lease, no close.
//!
//! None of these threads can help: those of the runtime, and that of `async-io`, which polls whatever its events wake. So this
//! is done by a thread of its own, one for the process, which looks at all connections twice a second. When it has seen the
//! same poll twice, it has the sockets shut down; the crate reads what they have received by then, and finds its connection
//! broken.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use super::sockets::Socket;
use crate::connect_string::HostPort;

/// How often the watchdog looks. A poll takes microseconds, and on a machine that is busy, milliseconds; one that takes this
/// long is hung up on before it has taken twice as long.
static PATROL: Patrol = Patrol::every(Duration::from_millis(500));

/// Looks at everything that is watched over, on a thread that ends when nothing is.
struct Patrol {
    interval: Duration,
    rounds: Mutex<Rounds>,
}

struct Rounds {
    watched: Vec<Weak<Watched>>,
    has_thread: bool,
}

/// Watches over the polls of one connection. Clones watch over the same connection, the last one until it is dropped.
#[derive(Clone)]
pub(super) struct Watchdog(Arc<Watched>);

/// How many looks later the sockets of all connections to the server are shut down.
const PATIENCE: u64 = 4;

struct Watched {
    /// How many polls have begun and ended: an odd number during a poll.
    polls: AtomicU64,
    /// The number at the last look.
    seen: AtomicU64,
    hang_up: Box<dyn Fn() + Send + Sync>,
}

impl Watchdog {
    /// For the connection to `server` over `socket`.
    pub(super) fn new(server: &HostPort, socket: &Arc<Socket>) -> Self {
        let (server, socket, tries) = (server.clone(), Arc::clone(socket), AtomicU64::new(0));
        Self::with(&PATROL, move || {
            // What the socket has received by then has to be read first. If that does not end, it was the wrong socket: two that
            // are opened at the same moment may be confused.
            let shut = match tries.fetch_add(1, Ordering::Relaxed) {
                0 => socket.shut_down(),
                PATIENCE => socket.shut_down_all(),
                _ => return,
            };
            match shut {
                Ok(0) => {
                    tries.fetch_sub(1, Ordering::Relaxed);
                }
                Ok(sockets) => {
                    tracing::warn!(%server, sockets, "the server sends more than can be read: hung up");
                }
                Err(error) => {
                    tracing::warn!(%server, %error, "the server sends more than can be read, and cannot be hung up on");
                }
            }
        })
    }

    fn with(patrol: &'static Patrol, hang_up: impl Fn() + Send + Sync + 'static) -> Self {
        let watched =
            Arc::new(Watched { polls: AtomicU64::new(0), seen: AtomicU64::new(0), hang_up: Box::new(hang_up) });
        patrol.add(&watched);
        Self(watched)
    }

    /// Watches over the polls of `future`, which belongs to the connection. One future of a connection at a time.
    pub(super) fn watch<F: Future + ?Sized>(
        &self,
        mut future: Pin<Box<F>>,
    ) -> impl Future<Output = F::Output> + use<F> {
        let watchdog = self.clone();
        std::future::poll_fn(move |cx| {
            let _counted = Counted::begin(&watchdog.0.polls);
            future.as_mut().poll(cx)
        })
    }
}

impl Patrol {
    const fn every(interval: Duration) -> Self {
        Self { interval, rounds: Mutex::new(Rounds { watched: Vec::new(), has_thread: false }) }
    }

    fn add(&'static self, watched: &Arc<Watched>) {
        let mut rounds = self.lock();
        rounds.watched.push(Arc::downgrade(watched));
        if !rounds.has_thread {
            // Where no thread can be started, the next connection tries again.
            let thread = thread::Builder::new().name("curator-watchdog".to_owned()).spawn(|| self.walk());
            rounds.has_thread = thread.is_ok();
        }
    }

    fn walk(&self) {
        loop {
            // Looks that were missed while the process stood still are not made up for: that would be two in one moment.
            thread::sleep(self.interval);
            let mut rounds = self.lock();
            rounds.watched.retain(|watched| watched.strong_count() > 0);
            if rounds.watched.is_empty() {
                rounds.has_thread = false;
                return;
            }
            let watched: Vec<_> = rounds.watched.iter().filter_map(Weak::upgrade).collect();
            drop(rounds);
            watched.iter().for_each(|watched| watched.look());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Rounds> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A poll, which may panic.
struct Counted<'a>(&'a AtomicU64);

impl<'a> Counted<'a> {
    fn begin(polls: &'a AtomicU64) -> Self {
        polls.fetch_add(1, Ordering::Relaxed);
        Self(polls)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Watched {
    fn look(&self) {
        let polls = self.polls.load(Ordering::Relaxed);
        let is_the_same = self.seen.swap(polls, Ordering::Relaxed) == polls;
        if is_the_same && polls % 2 == 1 {
            (self.hang_up)();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::sync::mpsc;
    use std::task::Poll;

    use futures_util::FutureExt as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    /// No look but those of the test.
    static NEVER: Patrol = Patrol::every(Duration::from_secs(86_400));

    fn watchdog(patrol: &'static Patrol) -> (Watchdog, mpsc::Receiver<()>) {
        let (sender, hung_up) = mpsc::channel();
        // A receiver that is gone has seen enough.
        let hang_up = move || {
            let _heard = sender.send(());
        };
        (Watchdog::with(patrol, hang_up), hung_up)
    }

    #[test]
    fn a_poll_that_does_not_return_is_hung_up_on() {
        static OFTEN: Patrol = Patrol::every(Duration::from_millis(10));
        let (watchdog, hung_up) = watchdog(&OFTEN);
        let stuck = poll_fn(move |_| {
            hung_up.recv_timeout(LONG).expect("it is not hung up on");
            // And once more, if that did not help.
            hung_up.recv_timeout(LONG).expect("it is not hung up on again");
            Poll::Ready(())
        });
        watchdog.watch(Box::pin(stuck)).now_or_never().expect("it is ready");
    }

    #[test]
    fn only_a_poll_that_is_seen_twice_is_hung_up_on() {
        let (watchdog, hung_up) = watchdog(&NEVER);
        let watched = Arc::clone(&watchdog.0);
        let heard = move || hung_up.try_iter().count();
        let look = move || {
            watched.look();
            heard()
        };
        // Nothing is polled.
        assert_eq!([look(), look(), look()], [0, 0, 0]);
        let long = watchdog.watch(Box::pin(async { [look(), look()] }));
        assert_eq!(long.now_or_never(), Some([0, 1]));
        // Another one each time.
        for _ in 0..3 {
            let seen = watchdog.watch(Box::pin(async { look() })).now_or_never();
            assert_eq!(seen, Some(0));
        }
        assert_eq!(look(), 0);
    }

    #[test]
    fn the_watchdog_thread_ends_with_its_last_connection() {
        static OFTEN: Patrol = Patrol::every(Duration::from_millis(1));
        // Twice: the thread starts again.
        for _ in 0..2 {
            let (watchdog, hung_up) = watchdog(&OFTEN);
            let (watched, future) = (Arc::downgrade(&watchdog.0), watchdog.watch(Box::pin(pending::<()>())));
            assert!(OFTEN.lock().has_thread);
            drop(watchdog);
            assert!(watched.upgrade().is_some());
            drop(future);
            assert_eq!(hung_up.recv_timeout(LONG).err(), Some(mpsc::RecvTimeoutError::Disconnected));
            assert!(watched.upgrade().is_none());
            let end = std::time::Instant::now() + LONG;
            while OFTEN.lock().has_thread {
                assert!(std::time::Instant::now() < end, "the thread goes on");
                thread::yield_now();
            }
        }
    }
}
