//! Polls futures outside of tasks: a request once at its call, and a connection by its waker.

use std::future::{Future, ready};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use futures_util::{FutureExt as _, TryFutureExt as _};
use zookeeper_client::Error as ZkError;

use crate::transport::{Answer, RequestError};

/// Runs a future without a separate task or thread: waking it polls it inline, on the thread that
/// wakes it.
///
/// Used for the side of a connection that `zookeeper-client` runs, whose work takes microseconds
/// and is the same on any thread. The thread that makes a request also writes it, and the thread
/// that finds out that replies have arrived also reads them. A task would have to be woken on
/// another thread first, and each of these hand-overs takes longer than the work itself.
///
/// The future must not block, and must not panic. One thread polls it at a time: a thread that
/// wakes it during a poll leaves the work to the polling thread.
pub(super) struct InPlace {
    state: AtomicU8,
    /// `None` when the future has completed. Locked by the thread that has claimed the right to
    /// poll.
    future: Mutex<Option<Work>>,
}

/// The work of a connection, without a result.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// No thread polls.
const IDLE: u8 = 0;
/// A thread polls, or is about to.
const CLAIMED: u8 = 1;
/// The polling thread must poll once more: there was a wake since its poll began.
const AGAIN: u8 = 2;
const DONE: u8 = 3;

impl InPlace {
    /// Does not poll `work`; the first call of [`run`](Self::run) does.
    pub(super) fn new(work: Work) -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU8::new(IDLE),
            future: Mutex::new(Some(work)),
        })
    }

    /// Polls the future now, unless another thread is polling it: that thread then polls it again.
    pub(super) fn run(self: &Arc<Self>) {
        // Written even if the value does not change: only then does the polling thread see the data
        // that was written before this wake.
        let before = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| match state {
                IDLE => Some(CLAIMED),
                DONE => None,
                _ => Some(AGAIN),
            });
        if before == Ok(IDLE) {
            self.poll();
        }
    }

    /// Calls `wakes`, which may wake the future many times, and afterwards polls it once if it was
    /// woken.
    ///
    /// If another thread is polling at this moment, that thread may poll several times.
    pub(super) fn together<T>(self: &Arc<Self>, wakes: impl FnOnce() -> T) -> T {
        let has_claimed = self
            .state
            .compare_exchange(IDLE, CLAIMED, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        // Released even if `wakes` panics: no other thread can poll while this thread holds the
        // claim.
        let _claim = has_claimed.then(|| Claim(self));
        wakes()
    }

    /// Polls until there was no further wake. The caller must have claimed the right to poll.
    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut cx = Context::from_waker(&waker);
        loop {
            // A swap and not a store, because a store could be reordered after the reads of the
            // poll.
            self.state.swap(CLAIMED, Ordering::AcqRel);
            let mut future = self.lock();
            let is_done = future
                .as_mut()
                .is_none_or(|future| future.as_mut().poll(&mut cx).is_ready());
            if is_done {
                let finished = future.take();
                drop(future);
                self.state.store(DONE, Ordering::Release);
                // Dropped last, because the drop wakes other tasks.
                return drop(finished);
            }
            drop(future);
            if self.give_back() {
                return;
            }
        }
    }

    /// Releases the right to poll, unless there was a wake.
    fn give_back(&self) -> bool {
        self.state
            .compare_exchange(CLAIMED, IDLE, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Work>> {
        self.future.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for InPlace {
    fn wake(self: Arc<Self>) {
        self.run();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.run();
    }
}

/// The claimed right to poll.
struct Claim<'a>(&'a Arc<InPlace>);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.0.give_back() {
            self.0.poll();
        }
    }
}

/// Polls `future` once, which sends its request.
///
/// `zookeeper-client` enqueues a request when its method is called, and a session is first in,
/// first out: calls made one after another are sent in order, pipelined. Some of its futures borrow
/// the client, so a future that owns its client must be an `async` block, which sends only at its
/// first poll. This function makes that first poll.
///
/// Dropping the future does not cancel the request.
///
/// A panic is turned into an error. `zookeeper-client` assumes that the reply to `getData` contains
/// a stat, and that the path in the reply to a create is not empty. A working server never sends
/// another reply, but such a reply must not make the caller's task panic. The panic hook still sees
/// the panic; with `panic = "abort"`, the process ends.
pub(super) fn start<T: Send + 'static>(
    future: impl Future<Output = Result<T, ZkError>> + Send + 'static,
) -> Answer<T> {
    start_translated(future.err_into())
}

/// Like [`start`], for a future that has translated its errors.
pub(super) fn start_translated<T: Send + 'static>(
    future: impl Future<Output = Result<T, RequestError>> + Send + 'static,
) -> Answer<T> {
    let mut future = AssertUnwindSafe(future)
        .catch_unwind()
        .map(|answer| {
            answer.unwrap_or_else(|_| {
                Err(RequestError::Unreadable(
                    "the reply cannot be decoded".to_owned(),
                ))
            })
        })
        .boxed();
    match (&mut future).now_or_never() {
        Some(answer) => ready(answer).boxed(),
        None => future,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;

    use futures_util::future::poll_fn;

    use super::*;

    /// Work that counts its polls, and completes on request.
    struct Counting {
        work: Arc<InPlace>,
        polls: Arc<AtomicUsize>,
        complete: Arc<AtomicUsize>,
    }

    impl Counting {
        fn new(mut at_poll: impl FnMut(usize, &Waker) + Send + 'static) -> Self {
            let polls = Arc::new(AtomicUsize::new(0));
            let complete = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&polls);
            let completed = Arc::clone(&complete);
            let work = poll_fn(move |cx| {
                at_poll(counted.fetch_add(1, Ordering::SeqCst), cx.waker());
                if completed.load(Ordering::SeqCst) > 0 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            });
            Self {
                work: InPlace::new(Box::pin(work)),
                polls,
                complete,
            }
        }

        fn polls(&self) -> usize {
            self.polls.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn each_wake_polls_the_work_once_until_it_is_complete() {
        let counting = Counting::new(|_, _| {});
        assert_eq!(counting.polls(), 0);
        counting.work.run();
        Waker::from(Arc::clone(&counting.work)).wake();
        assert_eq!(counting.polls(), 2);
        counting.complete.store(1, Ordering::SeqCst);
        counting.work.run();
        // The work is dropped by now, and never polled again.
        counting.work.run();
        assert_eq!(counting.polls(), 3);
        assert!(counting.work.lock().is_none());
    }

    #[test]
    fn wakes_during_a_poll_cause_one_more_poll_after_it() {
        let counting = Counting::new(|poll, waker| {
            if poll == 0 {
                waker.wake_by_ref();
                waker.wake_by_ref();
            }
        });
        counting.work.run();
        assert_eq!(counting.polls(), 2);
    }

    #[test]
    fn wakes_within_together_cause_one_poll() {
        let counting = Counting::new(|_, _| {});
        let polls = counting.work.together(|| {
            counting.work.run();
            counting.work.together(|| counting.work.run());
            counting.polls()
        });
        assert_eq!((polls, counting.polls()), (0, 1));
        // Without a wake, the work is not polled.
        counting.work.together(|| {});
        assert_eq!(counting.polls(), 1);
    }

    #[test]
    fn work_can_be_polled_after_a_panic_within_together() {
        let counting = Counting::new(|_, _| {});
        let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
            counting.work.together(|| panic!("on purpose"));
        }));
        assert!(panicked.is_err());
        counting.work.run();
        assert_eq!(counting.polls(), 1);
    }

    /// Each thread increments the work's counter, and wakes it; at the end, the work must have seen
    /// all increments.
    #[test]
    fn no_wake_is_lost_between_threads() {
        const WAKES: usize = 20_000;
        let added = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(AtomicUsize::new(0));
        let adding = Arc::clone(&added);
        let seeing = Arc::clone(&seen);
        let counting = Counting::new(move |_, _| {
            seeing.store(adding.load(Ordering::SeqCst), Ordering::SeqCst);
        });
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let work = &counting.work;
                let added = &added;
                scope.spawn(move || {
                    for _ in 0..WAKES {
                        if thread % 2 == 0 {
                            added.fetch_add(1, Ordering::SeqCst);
                            work.run();
                        } else {
                            work.together(|| {
                                added.fetch_add(1, Ordering::SeqCst);
                                work.run();
                            });
                        }
                    }
                });
            }
        });
        assert_eq!(seen.load(Ordering::SeqCst), 4 * WAKES);
    }

    #[tokio::test]
    async fn a_panic_in_zookeeper_client_becomes_an_error() {
        let answer: Result<(), _> = start(async { panic!("on purpose") }).await;
        assert!(
            matches!(answer, Err(RequestError::Unreadable(_))),
            "{answer:?}"
        );
    }

    #[tokio::test]
    async fn start_polls_the_future_before_it_returns() {
        let polls = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let started = start({
            let polls = Arc::clone(&polls);
            async move {
                polls.fetch_add(1, Ordering::Relaxed);
                receiver.await.map_err(|_| ZkError::ClientClosed)
            }
        });
        assert_eq!(polls.load(Ordering::Relaxed), 1);
        sender.send(7).unwrap();
        assert_eq!(started.await, Ok(7));
    }
}
