//! Closes connections whose server sends without a pause.
//!
//! The crate `zookeeper-client` reads until there is nothing left to read. So while a server sends
//! faster than the crate reads, one poll of the crate does not return, which blocks the polling
//! thread. If there are as many such servers as the runtime has threads, they block the whole
//! runtime: timers, leases and `close`.
//!
//! A connection is polled by a thread of the runtime, or by the thread of `async-io` when its
//! socket is ready. None of these threads can make the checks, because any of them may be blocked.
//! So a separate thread, one for the process, checks all connections twice a second.
//!
//! A poll can also take long because its thread is blocked in a log line, or is not scheduled.
//! Such a poll reads nothing. So when two successive checks see the same poll, the thread observes
//! for a moment how many bytes of the connection's socket are unread: if the number both falls and
//! rises, bytes are read, and more keep arriving. After two such observations of one poll, the
//! thread shuts down the socket; the crate reads what the socket has received by then, and finds
//! its connection broken.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use super::sockets::Socket;
use crate::connect_string::HostPort;

/// The interval of the checks. A poll takes microseconds, or milliseconds on a busy machine.
static CHECK_THREAD: CheckThread = CheckThread::every(Duration::from_millis(500));

/// How often the unread bytes are counted in one observation, and the pause in between.
const SAMPLES: (u32, Duration) = (50, Duration::from_millis(2));

/// After this number of observations of one poll, the connection is shut down.
const ENOUGH: u64 = 2;

/// Checks all watched connections, on a thread that ends when there are none.
struct CheckThread {
    interval: Duration,
    state: Mutex<CheckState>,
}

struct CheckState {
    watched: Vec<Weak<Watched>>,
    has_thread: bool,
}

/// Watches the polls of one connection. Clones watch the same connection, until the last one is
/// dropped.
#[derive(Clone)]
pub(super) struct Watchdog(Arc<Watched>);

struct Watched {
    /// The number of polls begun plus the number ended: odd during a poll.
    polls: AtomicU64,
    /// The value of `polls` at the last check.
    seen: AtomicU64,
    /// How often bytes were observed to be read, and to keep arriving, while `polls` had this
    /// value.
    floods: AtomicU64,
    /// The number of bytes that the socket has received, and that were not read yet, if it is
    /// known.
    unread: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    shut_down: Box<dyn Fn() + Send + Sync>,
}

impl Watchdog {
    /// For the connection to `server` over `socket`.
    pub(super) fn new(server: &HostPort, socket: &Arc<Socket>) -> Self {
        let server = server.clone();
        let observed = Arc::clone(socket);
        let socket = Arc::clone(socket);
        Self::with(
            &CHECK_THREAD,
            move || observed.unread(),
            move || match socket.shut_down() {
                Ok(0) => {}
                Ok(sockets) => {
                    tracing::warn!(%server, sockets, "the server sends faster than the client can read: connection shut down");
                }
                Err(error) => {
                    tracing::warn!(%server, %error, "the server sends faster than the client can read, and the connection cannot be shut down");
                }
            },
        )
    }

    fn with(
        check_thread: &'static CheckThread,
        unread: impl Fn() -> Option<u64> + Send + Sync + 'static,
        shut_down: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let watched = Arc::new(Watched {
            polls: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            floods: AtomicU64::new(0),
            unread: Box::new(unread),
            shut_down: Box::new(shut_down),
        });
        check_thread.add(&watched);
        Self(watched)
    }

    /// Watches the polls of `future`, which belongs to the connection. Only one future of a
    /// connection may be watched at a time.
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
        Self {
            interval,
            state: Mutex::new(CheckState {
                watched: Vec::new(),
                has_thread: false,
            }),
        }
    }

    fn add(&'static self, watched: &Arc<Watched>) {
        let mut state = self.lock();
        state.watched.push(Arc::downgrade(watched));
        if !state.has_thread {
            // If no thread can be started, the next connection tries again.
            let thread = thread::Builder::new()
                .name("curator-watchdog".to_owned())
                .spawn(|| self.run());
            state.has_thread = thread.is_ok();
        }
    }

    fn run(&self) {
        loop {
            // Does not make up for checks that were missed while the process was stopped: two
            // checks without a pause would see the same poll twice.
            thread::sleep(self.interval);
            let mut state = self.lock();
            state.watched.retain(|watched| watched.strong_count() > 0);
            if state.watched.is_empty() {
                state.has_thread = false;
                return;
            }
            let watched: Vec<_> = state.watched.iter().filter_map(Weak::upgrade).collect();
            drop(state);
            check(&watched);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CheckState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks all connections once.
fn check(all: &[Arc<Watched>]) {
    let in_long_poll: Vec<_> = all
        .iter()
        .map(|watched| watched.is_in_long_poll())
        .collect();
    if !in_long_poll.contains(&true) {
        return;
    }
    let flows = observe(all);
    // If two connections are opened at the same moment, each may have noted the other's socket.
    // Then bytes seem to be read from the socket of a connection that is not polled, and none from
    // the socket of the connection in a long poll.
    let is_confused = in_long_poll
        .iter()
        .zip(&flows)
        .any(|(is_long, flows)| *is_long && !flows);
    for ((watched, is_long), flows) in all.iter().zip(in_long_poll).zip(flows) {
        if flows && (is_long || is_confused && !watched.is_polled()) && watched.has_flooded() {
            (watched.shut_down)();
        }
    }
}

/// Returns for each connection whether bytes are read from its socket and more keep arriving, and
/// whether no poll of it begins or ends meanwhile.
fn observe(all: &[Arc<Watched>]) -> Vec<bool> {
    struct Observed {
        unread: Option<u64>,
        has_fallen: bool,
        has_risen: bool,
    }
    let mut observed: Vec<_> = all
        .iter()
        .map(|watched| Observed {
            unread: (watched.unread)(),
            has_fallen: false,
            has_risen: false,
        })
        .collect();
    for _ in 0..SAMPLES.0 {
        thread::sleep(SAMPLES.1);
        for (watched, observed) in all.iter().zip(&mut observed) {
            let before = observed.unread;
            let now = (watched.unread)();
            observed.has_fallen |= now < before && now.is_some();
            observed.has_risen |= now > before && before.is_some();
            observed.unread = now;
        }
    }
    all.iter()
        .zip(observed)
        .map(|(watched, observed): (&Arc<Watched>, Observed)| {
            observed.has_fallen && observed.has_risen && watched.is_as_seen()
        })
        .collect()
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
    /// Whether the poll that the last check has seen continues.
    fn is_in_long_poll(&self) -> bool {
        let polls = self.polls.load(Ordering::Relaxed);
        let is_the_same = self.seen.swap(polls, Ordering::Relaxed) == polls;
        if !is_the_same {
            self.floods.store(0, Ordering::Relaxed);
        }
        is_the_same && polls % 2 == 1
    }

    /// Whether no poll has begun or ended since the check.
    fn is_as_seen(&self) -> bool {
        self.polls.load(Ordering::Relaxed) == self.seen.load(Ordering::Relaxed)
    }

    fn is_polled(&self) -> bool {
        self.seen.load(Ordering::Relaxed) % 2 == 1
    }

    /// Counts an observation. Returns whether it was observed often enough.
    fn has_flooded(&self) -> bool {
        self.floods.fetch_add(1, Ordering::Relaxed) + 1 >= ENOUGH
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::{pending, poll_fn};
    use std::sync::mpsc;
    use std::task::Poll;

    use futures_util::FutureExt as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    /// Does not check by itself: only the test calls `check`.
    static NEVER: CheckThread = CheckThread::every(Duration::from_secs(86_400));

    /// A connection whose number of unread bytes cycles through the values of `unread`.
    fn watchdog(
        check_thread: &'static CheckThread,
        unread: &[Option<u64>],
    ) -> (Watchdog, mpsc::Receiver<()>) {
        let (sender, shut_downs) = mpsc::channel();
        let unread = Mutex::new(VecDeque::from(unread.to_vec()));
        (
            Watchdog::with(
                check_thread,
                move || {
                    let mut unread = unread.lock().unwrap();
                    unread.rotate_left(1);
                    *unread.back().unwrap()
                },
                move || {
                    // Fails if the test has dropped its receiver.
                    let _sent = sender.send(());
                },
            ),
            shut_downs,
        )
    }

    /// The number of shutdowns after each of four checks during one poll of `polled`. The other
    /// connections are not polled.
    fn checks(
        polled: &Watchdog,
        others: &[&Watchdog],
        shut_downs: &mpsc::Receiver<()>,
    ) -> [usize; 4] {
        let all: Vec<_> = [&[polled], others]
            .concat()
            .iter()
            .map(|watchdog| Arc::clone(&watchdog.0))
            .collect();
        let poll = async {
            [(); 4].map(|()| {
                check(&all);
                shut_downs.try_iter().count()
            })
        };
        polled
            .watch(Box::pin(poll))
            .now_or_never()
            .expect("it is ready")
    }

    const FLOOD: [Option<u64>; 3] = [Some(9), Some(5), Some(7)];

    #[test]
    fn a_poll_into_which_bytes_keep_arriving_has_its_connection_shut_down() {
        static OFTEN: CheckThread = CheckThread::every(Duration::from_millis(10));
        let (watchdog, shut_downs) = watchdog(&OFTEN, &FLOOD);
        let stuck = poll_fn(move |_| {
            shut_downs
                .recv_timeout(LONG)
                .expect("the connection is not shut down");
            Poll::Ready(())
        });
        watchdog
            .watch(Box::pin(stuck))
            .now_or_never()
            .expect("it is ready");
    }

    #[test]
    fn only_a_long_poll_that_reads_and_receives_has_its_connection_shut_down() {
        let rising: Vec<_> = (0..10_000).map(Some).collect();
        let falling: Vec<_> = rising.iter().rev().copied().collect();
        for (unread, expected, what) in [
            // The first check only records the poll, and the second is the first observation.
            (&FLOOD[..], [0, 0, 1, 1], "bytes are read, and more arrive"),
            (&[Some(7)], [0; 4], "nothing is read, and nothing arrives"),
            (&rising, [0; 4], "nothing is read"),
            (&falling, [0; 4], "nothing arrives"),
            (&[None], [0; 4], "an unknown socket"),
        ] {
            let (watchdog, shut_downs) = watchdog(&NEVER, unread);
            assert_eq!(checks(&watchdog, &[], &shut_downs), expected, "{what}");
        }
    }

    #[test]
    fn short_polls_and_a_connection_without_a_poll_are_not_shut_down() {
        let (watchdog, shut_downs) = watchdog(&NEVER, &FLOOD);
        let check = || check(&[Arc::clone(&watchdog.0)]);
        for _ in 0..4 {
            check();
            // Another poll each time.
            watchdog
                .watch(Box::pin(async { check() }))
                .now_or_never()
                .expect("it is ready");
        }
        assert_eq!(shut_downs.try_iter().count(), 0);
    }

    #[test]
    fn of_two_confused_sockets_the_one_that_is_read_is_shut_down() {
        let (stuck, stuck_shut_downs) = watchdog(&NEVER, &[Some(0)]);
        let (other, shut_downs) = watchdog(&NEVER, &FLOOD);
        assert_eq!(checks(&stuck, &[&other], &shut_downs), [0, 0, 1, 1]);
        assert_eq!(stuck_shut_downs.try_iter().count(), 0);
        // A connection that is polled meanwhile reads from its own socket.
        let (polled, shut_downs) = watchdog(&NEVER, &FLOOD);
        let all = [Arc::clone(&stuck.0), Arc::clone(&polled.0)];
        let poll = async {
            for _ in 0..4 {
                polled
                    .watch(Box::pin(async {}))
                    .now_or_never()
                    .expect("it is ready");
                check(&all);
            }
        };
        stuck
            .watch(Box::pin(poll))
            .now_or_never()
            .expect("it is ready");
        assert_eq!(
            shut_downs.try_iter().count() + stuck_shut_downs.try_iter().count(),
            0
        );
    }

    #[test]
    fn the_watchdog_thread_ends_with_its_last_connection() {
        static OFTEN: CheckThread = CheckThread::every(Duration::from_millis(1));
        // Twice: the thread starts again.
        for _ in 0..2 {
            let (watchdog, shut_downs) = watchdog(&OFTEN, &FLOOD);
            let watched = Arc::downgrade(&watchdog.0);
            let future = watchdog.watch(Box::pin(pending::<()>()));
            assert!(OFTEN.lock().has_thread);
            drop(watchdog);
            assert!(watched.upgrade().is_some());
            drop(future);
            assert_eq!(
                shut_downs.recv_timeout(LONG).err(),
                Some(mpsc::RecvTimeoutError::Disconnected)
            );
            assert!(watched.upgrade().is_none());
            let end = std::time::Instant::now() + LONG;
            while OFTEN.lock().has_thread {
                assert!(std::time::Instant::now() < end, "the thread does not end");
                thread::yield_now();
            }
        }
    }
}
