//! Runs the task of `zookeeper-client` for one connection, and ends it when the connection breaks.
//!
//! `zookeeper-client` spawns one task for each session. Left alone, that task reconnects at its own
//! pace, keeps the requests and watches of the old connection, and does not report the timeout that
//! the next server grants. So the task is ended in the same poll that finds its connection broken,
//! before it can establish the next connection. `supervisor/resume.rs` then opens the next
//! connection.
//!
//! The task does not run on the runtime: its waker polls it inline ([`InPlace`]), on the thread of
//! a caller that makes a request, or on the thread of `async-io` when the socket is readable.
//!
//! `zookeeper-client` spawns the task through the spawner of its thread, so while a connection is
//! opened, [`catch_task`] replaces the spawner.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use zookeeper_client::{SessionState, StateWatcher};

use super::in_place::InPlace;
pub(crate) use super::in_place::Work;
use super::unfired::UnfiredWatches;
use crate::process::{InProcess, Process};
use crate::source::watch;
use crate::time::ClockInstant;
use crate::transport::LinkEnd;

/// A handle to the task of one connection.
#[derive(Clone)]
pub(crate) struct SessionTask {
    shared: Arc<Shared>,
    running: Arc<InPlace>,
}

struct Shared {
    end: watch::Sender<Option<LinkEnd>>,
    /// The number of watches that have not fired.
    watches: AtomicUsize,
    unfired: Arc<UnfiredWatches>,
    /// When the connection ends if [`keep`](SessionTask::keep) is not called again, in nanoseconds
    /// of the clock.
    kept_until: AtomicU64,
    /// The values to drop after the work. `None` once the work has ended.
    afterwards: Mutex<Option<Vec<Box<dyn Send>>>>,
    process: Process,
}

impl SessionTask {
    /// Runs `work`, the task of `zookeeper-client`; `states` reports the state of its session.
    ///
    /// The connection ends when the session is closed or lost, when a handle ends it, or at the
    /// first poll after the time until which it was last [kept](Self::keep).
    pub(crate) fn start(work: Work, states: StateWatcher, keep: Duration) -> Self {
        let task = Self::new(work, move || states.peek_state());
        task.keep(keep);
        task.running.run();
        task
    }

    fn new(work: Work, state: impl Fn() -> SessionState + Send + Unpin + 'static) -> Self {
        let shared = Arc::new(Shared {
            end: watch::Sender::new(None),
            watches: AtomicUsize::new(0),
            unfired: Arc::default(),
            kept_until: AtomicU64::new(u64::MAX),
            afterwards: Mutex::new(Some(Vec::new())),
            process: Process::current(),
        });
        let running = InPlace::new(Box::pin(Running {
            shared: Arc::clone(&shared),
            work: InProcess::new(work),
            state,
            _afterwards: Afterwards(Arc::clone(&shared)),
        }));
        Self { shared, running }
    }

    /// Calls `send`, and writes all requests that it makes in one batch.
    pub(crate) fn together<T>(&self, send: impl FnOnce() -> T) -> T {
        self.running.together(send)
    }

    /// Keeps the connection for this long from now, replacing the previous time. The first poll
    /// after that time ends the connection.
    ///
    /// `zookeeper-client` keeps a session alive for as long as the process lives. If the supervisor
    /// stops, for example because the runtime is stuck, the session would live on, and other
    /// clients would wait for its nodes forever.
    pub(crate) fn keep(&self, time: Duration) {
        self.shared
            .kept_until
            .store((ClockInstant::now() + time).as_nanos(), Ordering::Relaxed);
    }

    /// Drops the connection without closing the session. If another thread is polling the
    /// connection, the drop happens when the poll returns; until then, pending requests may still
    /// be sent.
    pub(crate) fn abort(&self, end: LinkEnd) {
        self.shared.finish(end);
        self.running.run();
    }

    /// Ends the connection like [`abort`](Self::abort), and only then drops `client`, its last
    /// handle. A connection that is still being polled would treat the drop as a request to close
    /// the session.
    pub(crate) fn abandon(&self, client: impl Send + 'static) {
        self.drop_afterwards(client);
        self.abort(LinkEnd::Lost);
    }

    /// Drops `what` after the work of the connection, so that the drop does not make
    /// `zookeeper-client` send anything.
    pub(super) fn drop_afterwards(&self, what: impl Send + 'static) {
        let mut afterwards = self.shared.afterwards();
        match &mut *afterwards {
            Some(kept) => kept.push(Box::new(what)),
            None => {
                // The drop may call this method.
                drop(afterwards);
                drop(what);
            }
        }
    }

    /// Why the connection has ended, if it has.
    pub(crate) fn end(&self) -> Option<LinkEnd> {
        self.shared.end()
    }

    /// Waits until the connection has ended.
    pub(crate) async fn ended(&self) -> LinkEnd {
        let mut end = self.shared.end.subscribe();
        // The sender lives in `self`, so the channel cannot be closed.
        let end = end
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|end| *end);
        end.unwrap_or(LinkEnd::Lost)
    }

    /// The number of watches that have not fired; 0 once the connection has ended.
    pub(crate) fn watches(&self) -> usize {
        if self.end().is_some() {
            0
        } else {
            self.shared.watches.load(Ordering::Relaxed)
        }
    }

    pub(super) fn unfired(&self) -> &Arc<UnfiredWatches> {
        &self.shared.unfired
    }

    /// Counts a watch until the result is dropped.
    pub(super) fn count_watch(&self) -> CountedWatch {
        self.shared.watches.fetch_add(1, Ordering::Relaxed);
        CountedWatch(Arc::clone(&self.shared))
    }

    /// Runs `call` while the connection cannot end.
    ///
    /// For calls that would make `zookeeper-client` panic if its task were gone. `call` must be
    /// short, must not block, and must not wake the connection: the wake polls the connection
    /// inline, and if that poll ends the connection, it waits for `call` forever.
    ///
    /// # Errors
    ///
    /// Why the connection has ended, if it has.
    pub(crate) fn while_alive<T>(&self, call: impl FnOnce() -> T) -> Result<T, LinkEnd> {
        if self.shared.process.has_forked() {
            return Err(LinkEnd::Closed);
        }
        // The end of the connection waits until this is released.
        let end = self.shared.end.borrow();
        match *end {
            None => Ok(call()),
            Some(end) => Err(end),
        }
    }
}

/// A watch that has not fired.
pub(super) struct CountedWatch(Arc<Shared>);

impl Drop for CountedWatch {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Does the work of a connection.
struct Running<S> {
    shared: Arc<Shared>,
    work: InProcess<dyn Future<Output = ()> + Send>,
    /// The session state that `zookeeper-client` reports.
    state: S,
    /// Dropped last, because it is declared last.
    _afterwards: Afterwards,
}

/// When dropped, drops the values that were kept until after the work.
struct Afterwards(Arc<Shared>);

impl Drop for Afterwards {
    fn drop(&mut self) {
        let kept = self.0.afterwards().take();
        drop(kept);
    }
}

impl<S: Fn() -> SessionState + Unpin> Future for Running<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.shared.end() {
            // After `Closed`, one more poll writes the request to close the session, unless the
            // socket is full.
            None | Some(LinkEnd::Closed) => {}
            Some(_) => return Poll::Ready(()),
        }
        // A panic would otherwise unwind into the caller whose request polls this.
        let polled = catch_unwind(AssertUnwindSafe(|| self.work.poll_unpin(cx)));
        let Ok(polled) = polled else {
            self.shared.finish(LinkEnd::Lost);
            return Poll::Ready(());
        };
        let is_kept =
            ClockInstant::now().as_nanos() < self.shared.kept_until.load(Ordering::Relaxed);
        let end = match (self.state)() {
            SessionState::SyncConnected
                if polled.is_pending() && is_kept && self.shared.end().is_none() =>
            {
                return Poll::Pending;
            }
            SessionState::Expired => LinkEnd::Expired,
            SessionState::AuthFailed => LinkEnd::AuthFailed,
            SessionState::Closed => LinkEnd::Closed,
            // A read-only server was not requested, and cannot confirm anything.
            SessionState::SyncConnected
            | SessionState::Disconnected
            | SessionState::ConnectedReadOnly => LinkEnd::Lost,
        };
        self.shared.finish(end);
        Poll::Ready(())
    }
}

impl Shared {
    fn end(&self) -> Option<LinkEnd> {
        *self.end.borrow()
    }

    fn afterwards(&self) -> MutexGuard<'_, Option<Vec<Box<dyn Send>>>> {
        self.afterwards
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Records why the connection has ended. Only the first reason is kept.
    fn finish(&self, end: LinkEnd) {
        // Recorded before the work is dropped: tasks that the drop wakes find it here.
        self.end.send_if_modified(|current| {
            let first = current.is_none();
            current.get_or_insert(end);
            first
        });
    }
}

/// Polls `future` with a spawner that keeps the last task spawned through it, without running it.
pub(crate) async fn catch_task<T>(future: impl Future<Output = T>) -> (T, Option<Work>) {
    let catcher = Catcher {
        caught: Mutex::new(None),
    };
    let mut future = pin!(future);
    let output = std::future::poll_fn(|cx| {
        let _scope = spawns::enter(&catcher);
        future.as_mut().poll(cx)
    })
    .await;
    let caught = catcher
        .caught
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    (output, caught)
}

/// A spawner that keeps the last task, without running it.
struct Catcher {
    caught: Mutex<Option<Work>>,
}

impl spawns::Spawn for Catcher {
    fn spawn(&self, task: spawns::Task) {
        *self.caught.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Box::into_pin(task.future));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// Work that counts the messages sent to it, takes the session states in them as its own, and
    /// reports its drop.
    struct Counting {
        task: SessionTask,
        sender: mpsc::UnboundedSender<SessionState>,
        count: Arc<AtomicUsize>,
        dropped: oneshot::Receiver<()>,
    }

    impl Counting {
        fn start() -> Self {
            let (sender, mut inbox) = mpsc::unbounded_channel();
            let (held, dropped) = oneshot::channel();
            let count = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&count);
            let (state, states) = watch::channel(SessionState::SyncConnected);
            let work = async move {
                let _held: oneshot::Sender<()> = held;
                while let Some(next) = inbox.recv().await {
                    counted.fetch_add(1, Ordering::Relaxed);
                    state.send_replace(next);
                    // Like a reconnect, which never completes in one poll.
                    tokio::task::yield_now().await;
                }
            };
            let task = SessionTask::new(Box::pin(work), move || *states.borrow());
            task.running.run();
            Self {
                task,
                sender,
                count,
                dropped,
            }
        }

        fn count(&self) -> usize {
            self.count.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_lost_connection_is_not_polled_again() {
        let Counting {
            task,
            sender,
            count,
            mut dropped,
        } = Counting::start();
        assert_eq!(task.while_alive(|| 7), Ok(7));
        // Both messages are sent before the next poll.
        task.together(|| {
            sender.send(SessionState::Disconnected).unwrap();
            sender.send(SessionState::SyncConnected).unwrap();
        });
        assert_eq!(
            (count.load(Ordering::Relaxed), task.end()),
            (1, Some(LinkEnd::Lost))
        );
        assert_eq!(task.while_alive(|| 7), Err(LinkEnd::Lost));
        dropped.try_recv().unwrap_err();
        assert!(sender.is_closed());
    }

    #[test]
    fn expired_auth_failed_and_closed_states_end_the_connection_with_that_cause() {
        for (state, end) in [
            (SessionState::Expired, LinkEnd::Expired),
            (SessionState::AuthFailed, LinkEnd::AuthFailed),
            (SessionState::Closed, LinkEnd::Closed),
        ] {
            let counting = Counting::start();
            counting.sender.send(state).unwrap();
            assert_eq!(counting.task.end(), Some(end));
        }
    }

    #[tokio::test]
    async fn an_aborted_connection_is_dropped_immediately() {
        let counting = Counting::start();
        counting.task.abort(LinkEnd::Lost);
        assert_eq!(counting.task.ended().await, LinkEnd::Lost);
        // The work was dropped, and its receiver with it.
        counting
            .sender
            .send(SessionState::SyncConnected)
            .unwrap_err();
        assert_eq!(counting.count(), 0);
        counting.dropped.await.unwrap_err();
    }

    /// A connection that another thread is polling, like one whose server sends faster than
    /// `zookeeper-client` reads. The poll waits until the returned function is called. It then
    /// calls `work`, and returns `Pending`.
    pub(in crate::zk) fn being_polled(
        mut work: impl FnMut() + Send + 'static,
    ) -> (SessionTask, impl FnOnce()) {
        let (entered_tx, entered_rx) = std::sync::mpsc::channel();
        let (continue_tx, continue_rx) = std::sync::mpsc::channel::<()>();
        let work = Box::pin(async move {
            entered_tx.send(()).unwrap();
            continue_rx.recv().unwrap();
            work();
            std::future::pending::<()>().await;
        });
        let task = SessionTask::new(work, || SessionState::SyncConnected);
        let polled = task.clone();
        let polling = std::thread::spawn(move || polled.running.run());
        entered_rx.recv().unwrap();
        (task, move || {
            continue_tx.send(()).unwrap();
            polling.join().unwrap();
        })
    }

    /// Checks that the second argument of `end`, which `end` drops, outlives the current poll of a
    /// connection.
    #[track_caller]
    pub(in crate::zk) fn assert_outlives_the_poll(
        when: &str,
        end: impl FnOnce(&SessionTask, oneshot::Sender<()>),
    ) {
        let (found_tx, found_rx) = std::sync::mpsc::channel();
        let (kept_tx, mut kept_rx) = oneshot::channel();
        let (task, continue_poll) =
            being_polled(move || found_tx.send(kept_rx.try_recv()).unwrap());
        end(&task, kept_tx);
        continue_poll();
        assert_eq!(
            found_rx.recv().unwrap(),
            Err(oneshot::error::TryRecvError::Empty),
            "the poll did not keep it: {when}"
        );
    }

    #[test]
    fn aborting_a_connection_during_its_poll_does_not_block() {
        let (held, dropped) = oneshot::channel::<()>();
        let (task, continue_poll) = being_polled(move || assert!(!held.is_closed()));
        let (aborted_tx, aborted_rx) = std::sync::mpsc::channel();
        let aborting = std::thread::spawn(move || {
            task.abort(LinkEnd::Lost);
            aborted_tx.send(task.end()).unwrap();
        });
        let end = aborted_rx.recv_timeout(Duration::from_secs(30));
        continue_poll();
        aborting.join().unwrap();
        assert_eq!(
            end,
            Ok(Some(LinkEnd::Lost)),
            "the abort waited for the poll"
        );
        dropped
            .blocking_recv()
            .expect_err("the aborted work was not dropped");
    }

    /// `zookeeper-client` treats the drop of its client as a request to close the session.
    #[test]
    fn an_abandoned_client_outlives_the_current_poll_of_its_connection() {
        assert_outlives_the_poll("abandoned", |task, client| {
            task.abandon(client);
            assert_eq!(task.end(), Some(LinkEnd::Lost));
        });
    }

    /// In its last poll, `zookeeper-client` writes the request to close the session.
    #[test]
    fn a_connection_that_is_closed_is_polled_once_more() {
        let counting = Counting::start();
        counting.task.together(|| {
            counting.sender.send(SessionState::SyncConnected).unwrap();
            counting.task.abort(LinkEnd::Closed);
        });
        assert_eq!(
            (counting.count(), counting.task.end()),
            (1, Some(LinkEnd::Closed))
        );
        assert!(counting.sender.is_closed());
    }

    #[test]
    fn a_connection_whose_keep_time_has_passed_is_lost() {
        let counting = Counting::start();
        counting.task.keep(Duration::from_secs(60));
        counting.sender.send(SessionState::SyncConnected).unwrap();
        assert_eq!(counting.task.end(), None);
        counting.task.keep(Duration::ZERO);
        counting.task.running.run();
        assert_eq!(counting.task.end(), Some(LinkEnd::Lost));
        assert!(counting.sender.is_closed());
    }

    #[test]
    fn work_that_panics_ends_only_its_connection() {
        let (sender, mut inbox) = mpsc::unbounded_channel::<()>();
        let work = async move {
            inbox.recv().await;
            panic!("on purpose")
        };
        let task = SessionTask::new(Box::pin(work), || SessionState::SyncConnected);
        task.running.run();
        assert_eq!(task.end(), None);
        // The second work wakes the first one during its own poll, and so polls it inline.
        let work = async move {
            sender.send(()).unwrap();
            std::future::pending::<()>().await;
        };
        let other = SessionTask::new(Box::pin(work), || SessionState::SyncConnected);
        other.running.run();
        assert_eq!((task.end(), other.end()), (Some(LinkEnd::Lost), None));
        task.running.run();
    }

    #[tokio::test]
    async fn a_task_spawned_within_catch_task_is_returned_and_not_run() {
        let (sender, mut receiver) = oneshot::channel();
        let ((), caught) = catch_task(async {
            // Polled more than once, like a connect.
            tokio::task::yield_now().await;
            drop(spawns::spawn(async move { sender.send(()) }));
            tokio::task::yield_now().await;
        })
        .await;
        receiver.try_recv().unwrap_err();
        caught.unwrap().await;
        receiver.await.unwrap();
    }
}
