//! Closes connections whose server sends without a pause.
//!
//! The crate `zookeeper-client` reads until there is nothing left to read. So while a server sends faster than the
//! crate reads, one poll of the crate does not return, which blocks the polling thread. As many such servers as the
//! runtime has threads block the whole runtime: timers, leases and `close`.
//!
//! A connection is polled by a thread of the runtime, or by the thread of `async-io` when its socket is ready. None of
//! these threads can make the checks, because any of them may be blocked. So a separate thread, one for the process,
//! checks all connections twice a second. When two successive checks see the same poll, the thread shuts down the
//! connection's socket; the crate reads what the socket has received by then, and finds its connection broken.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use super::sockets::Socket;
use crate::connect_string::HostPort;

/// The interval of the checks. A poll takes microseconds, or milliseconds on a busy machine; a poll that two successive
/// checks see is ended: it has then taken between one and two intervals.
static CHECK_THREAD: CheckThread = CheckThread::every(Duration::from_millis(500));

/// Checks all watched connections, on a thread that ends when there are none.
struct CheckThread {
    interval: Duration,
    state: Mutex<CheckState>,
}

struct CheckState {
    watched: Vec<Weak<Watched>>,
    has_thread: bool,
}

/// Watches the polls of one connection. Clones watch the same connection, until the last one is dropped.
#[derive(Clone)]
pub(super) struct Watchdog(Arc<Watched>);

/// The number of further checks until the sockets of all connections to the server are shut down.
const CHECKS_UNTIL_ALL: u64 = 4;

struct Watched {
    /// The number of polls begun plus the number ended: odd during a poll.
    polls: AtomicU64,
    /// The value of `polls` at the last check.
    seen: AtomicU64,
    shut_down: Box<dyn Fn() + Send + Sync>,
}

impl Watchdog {
    /// For the connection to `server` over `socket`.
    pub(super) fn new(server: &HostPort, socket: &Arc<Socket>) -> Self {
        let (server, socket, tries) = (server.clone(), Arc::clone(socket), AtomicU64::new(0));
        Self::with(&CHECK_THREAD, move || {
            // After a shutdown, the crate still reads what the socket has received. If the poll continues after that,
            // the wrong socket was shut down: the sockets of two connections that are opened at the same moment may be
            // confused.
            let shut = match tries.fetch_add(1, Ordering::Relaxed) {
                0 => socket.shut_down(),
                CHECKS_UNTIL_ALL => socket.shut_down_all(),
                _ => return,
            };
            match shut {
                Ok(0) => {
                    tries.fetch_sub(1, Ordering::Relaxed);
                }
                Ok(sockets) => {
                    tracing::warn!(%server, sockets, "the server sends faster than the client can read: connection shut down");
                }
                Err(error) => {
                    tracing::warn!(%server, %error, "the server sends faster than the client can read, and the connection cannot be shut down");
                }
            }
        })
    }

    fn with(check_thread: &'static CheckThread, shut_down: impl Fn() + Send + Sync + 'static) -> Self {
        let watched =
            Arc::new(Watched { polls: AtomicU64::new(0), seen: AtomicU64::new(0), shut_down: Box::new(shut_down) });
        check_thread.add(&watched);
        Self(watched)
    }

    /// Watches the polls of `future`, which belongs to the connection. Only one future of a connection at a time.
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

impl CheckThread {
    const fn every(interval: Duration) -> Self {
        Self { interval, state: Mutex::new(CheckState { watched: Vec::new(), has_thread: false }) }
    }

    fn add(&'static self, watched: &Arc<Watched>) {
        let mut state = self.lock();
        state.watched.push(Arc::downgrade(watched));
        if !state.has_thread {
            // If no thread can be started, the next connection tries again.
            let thread = thread::Builder::new().name("curator-watchdog".to_owned()).spawn(|| self.run());
            state.has_thread = thread.is_ok();
        }
    }

    fn run(&self) {
        loop {
            // Checks that were missed while the process was stopped are not made up for: two checks without a pause
            // would see the same poll twice.
            thread::sleep(self.interval);
            let mut state = self.lock();
            state.watched.retain(|watched| watched.strong_count() > 0);
            if state.watched.is_empty() {
                state.has_thread = false;
                return;
            }
            let watched: Vec<_> = state.watched.iter().filter_map(Weak::upgrade).collect();
            drop(state);
            watched.iter().for_each(|watched| watched.check_poll());
        }
    }

    fn lock(&self) -> MutexGuard<'_, CheckState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts the start of a poll, and, when dropped, its end, even if the poll panics.
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
    fn check_poll(&self) {
        let polls = self.polls.load(Ordering::Relaxed);
        let is_the_same = self.seen.swap(polls, Ordering::Relaxed) == polls;
        if is_the_same && polls % 2 == 1 {
            (self.shut_down)();
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

    /// Never checks by itself, only when the test does.
    static NEVER: CheckThread = CheckThread::every(Duration::from_secs(86_400));

    fn watchdog(check_thread: &'static CheckThread) -> (Watchdog, mpsc::Receiver<()>) {
        let (sender, shut_downs) = mpsc::channel();
        // The test may have dropped its receiver.
        let shut_down = move || {
            let _sent = sender.send(());
        };
        (Watchdog::with(check_thread, shut_down), shut_downs)
    }

    #[test]
    fn a_poll_that_does_not_return_has_its_connection_shut_down_repeatedly() {
        static OFTEN: CheckThread = CheckThread::every(Duration::from_millis(10));
        let (watchdog, shut_downs) = watchdog(&OFTEN);
        let stuck = poll_fn(move |_| {
            shut_downs.recv_timeout(LONG).expect("the connection is not shut down");
            // The connection is shut down once more if the poll continues.
            shut_downs.recv_timeout(LONG).expect("the connection is not shut down again");
            Poll::Ready(())
        });
        watchdog.watch(Box::pin(stuck)).now_or_never().expect("it is ready");
    }

    #[test]
    fn only_a_poll_seen_by_two_checks_has_its_connection_shut_down() {
        let (watchdog, shut_downs) = watchdog(&NEVER);
        let watched = Arc::clone(&watchdog.0);
        let count = move || shut_downs.try_iter().count();
        let check_poll = move || {
            watched.check_poll();
            count()
        };
        // No poll is in progress.
        assert_eq!([check_poll(), check_poll(), check_poll()], [0, 0, 0]);
        let long = watchdog.watch(Box::pin(async { [check_poll(), check_poll()] }));
        assert_eq!(long.now_or_never(), Some([0, 1]));
        // Another poll each time.
        for _ in 0..3 {
            let seen = watchdog.watch(Box::pin(async { check_poll() })).now_or_never();
            assert_eq!(seen, Some(0));
        }
        assert_eq!(check_poll(), 0);
    }

    #[test]
    fn the_watchdog_thread_ends_with_its_last_connection() {
        static OFTEN: CheckThread = CheckThread::every(Duration::from_millis(1));
        // Twice: the thread starts again.
        for _ in 0..2 {
            let (watchdog, shut_downs) = watchdog(&OFTEN);
            let (watched, future) = (Arc::downgrade(&watchdog.0), watchdog.watch(Box::pin(pending::<()>())));
            assert!(OFTEN.lock().has_thread);
            drop(watchdog);
            assert!(watched.upgrade().is_some());
            drop(future);
            assert_eq!(shut_downs.recv_timeout(LONG).err(), Some(mpsc::RecvTimeoutError::Disconnected));
            assert!(watched.upgrade().is_none());
            let end = std::time::Instant::now() + LONG;
            while OFTEN.lock().has_thread {
                assert!(std::time::Instant::now() < end, "the thread does not end");
                thread::yield_now();
            }
        }
    }
}
