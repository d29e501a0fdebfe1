//! The client crate's session task, under our control.
//!
//! The crate spawns one task for each session. Left alone, that task reconnects at its own pace, keeps the requests and
//! watches of the old connection, and does not report the timeout that the next server grants. So it is never left
//! alone: it is ended in the very poll in which it finds its connection broken, before the next one can be established.
//! What happens next is up to `connection.rs`.
//!
//! The crate asks its thread's spawner to run the task, so while a connection is opened, the spawner is ours.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};

use futures_util::task::AtomicWaker;
use tokio::runtime::Handle;
use tokio::sync::watch;
use zookeeper_client::{SessionState, StateWatcher};

/// The work of a session task, as spawned by the crate.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    /// It broke. The session may continue over another one.
    Lost,
    /// The server has ended the session.
    Expired,
    /// The server has refused the session's credentials, and ended the session.
    AuthFailed,
    /// We closed the session.
    Closed,
}

/// A handle to the task of one connection.
#[derive(Clone)]
pub(crate) struct SessionTask {
    shared: Arc<Shared>,
}

struct Shared {
    /// `None` when the task is over. Locked while it is polled.
    work: Mutex<Option<Work>>,
    end: watch::Sender<Option<LinkEnd>>,
    /// Wakes the task when its work has been dropped: nothing else would.
    waker: AtomicWaker,
    /// How many watches wait for their event.
    watches: AtomicUsize,
    /// Drops the handles to the connection.
    let_go: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl SessionTask {
    /// Runs `work`, whose state `states` reports, as a task of the current runtime.
    ///
    /// The connection owns it: it ends when the connection is closed or lost, or through the handle.
    pub(crate) fn spawn(work: Work, states: StateWatcher) -> Self {
        let (task, running) = Self::new(work, move || states.peek_state());
        drop(Handle::current().spawn(running));
        task
    }

    fn new<S>(work: Work, state: S) -> (Self, Running<S>) {
        let shared = Arc::new(Shared {
            work: Mutex::new(Some(work)),
            end: watch::Sender::new(None),
            waker: AtomicWaker::new(),
            watches: AtomicUsize::new(0),
            let_go: Mutex::default(),
        });
        (Self { shared: Arc::clone(&shared) }, Running { shared, state })
    }

    /// Sets how the handles to the connection are dropped when the runtime ends under the task. The last call counts.
    pub(crate) fn let_go_by(&self, let_go: impl FnOnce() + Send + 'static) {
        *self.shared.let_go.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(let_go));
    }

    /// Ends the task as it stands: its connection is dropped, and the session is not closed. If another thread polls it at
    /// this moment, that takes effect when the poll returns; until then, it may still send pending requests.
    pub(crate) fn abort(&self, end: LinkEnd) {
        self.shared.finish(end);
    }

    /// Why the task is over, if it is.
    pub(crate) fn end(&self) -> Option<LinkEnd> {
        *self.shared.end.borrow()
    }

    /// Waits until the task is over.
    pub(crate) async fn ended(&self) -> LinkEnd {
        let mut end = self.shared.end.subscribe();
        // The sender lives in `self`, so the channel cannot be closed.
        let end = end.wait_for(Option::is_some).await.ok().and_then(|end| *end);
        end.unwrap_or(LinkEnd::Lost)
    }

    /// How many watches wait for their event. None does once the task is over.
    pub(crate) fn watches(&self) -> usize {
        if self.end().is_some() { 0 } else { self.shared.watches.load(Ordering::Relaxed) }
    }

    /// Counts a watch until the result is dropped.
    pub(super) fn count_watch(&self) -> CountedWatch {
        self.shared.watches.fetch_add(1, Ordering::Relaxed);
        CountedWatch(Arc::clone(&self.shared))
    }

    /// Runs `look` while the task cannot end.
    ///
    /// For calls in which the crate would panic if its task were gone. `look` must be short, and must not block.
    ///
    /// # Errors
    ///
    /// Why the task is over, if it is.
    pub(crate) fn while_alive<T>(&self, look: impl FnOnce() -> T) -> Result<T, LinkEnd> {
        // Ending the task waits until this is released.
        let end = self.shared.end.borrow();
        match *end {
            None => Ok(look()),
            Some(end) => Err(end),
        }
    }
}

/// A watch that waits for its event.
pub(super) struct CountedWatch(Arc<Shared>);

impl Drop for CountedWatch {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Does the work of a task.
struct Running<S> {
    shared: Arc<Shared>,
    /// What the crate reports about its connection.
    state: S,
}

impl<S: Fn() -> SessionState + Unpin> Future for Running<S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.waker.register(cx.waker());
        let mut slot = self.shared.lock();
        let Some(work) = &mut *slot else { return Poll::Ready(()) };
        let is_done = work.as_mut().poll(cx).is_ready();
        drop(slot);
        let is_aborted = self.shared.end.borrow().is_some();
        let end = match (self.state)() {
            SessionState::SyncConnected if !is_done && !is_aborted => return Poll::Pending,
            SessionState::Expired => LinkEnd::Expired,
            SessionState::AuthFailed => LinkEnd::AuthFailed,
            SessionState::Closed => LinkEnd::Closed,
            // A read-only server cannot confirm anything, and was not requested.
            SessionState::SyncConnected | SessionState::Disconnected | SessionState::ConnectedReadOnly => LinkEnd::Lost,
        };
        self.shared.finish(end);
        Poll::Ready(())
    }
}

impl<S> Drop for Running<S> {
    /// The end of the runtime ends the work, even if there are handles; there is no one left to resume the session.
    ///
    /// The session is closed if that is possible without waiting: once nobody has a handle to the connection any more, one
    /// last poll writes the request to the socket, unless that is full. It does not need the runtime, because the crate
    /// does its I/O on `async-io`.
    fn drop(&mut self) {
        // Work that has panicked must not be polled again: it would panic once more, and abort the process.
        let has_panicked = self.shared.work.is_poisoned();
        if !has_panicked && self.shared.lock().is_some() {
            let let_go = self.shared.let_go.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(let_go) = let_go {
                let_go();
            }
            if let Some(work) = &mut *self.shared.lock() {
                let _ = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
        }
        // The runtime is still there after a panic, and can resume the session.
        self.shared.finish(if has_panicked { LinkEnd::Lost } else { LinkEnd::Closed });
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Work>> {
        // Work that has panicked is only dropped.
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first reason is kept.
    fn finish(&self, end: LinkEnd) {
        // Recorded before the work is dropped: anyone woken by that finds it here.
        self.end.send_if_modified(|current| {
            let first = current.is_none();
            current.get_or_insert(end);
            first
        });
        let work = match self.work.try_lock() {
            Ok(mut work) => work.take(),
            Err(TryLockError::Poisoned(work)) => work.into_inner().take(),
            // It is being polled. Nobody can say for how long: whoever polls it finds the end recorded. Or someone else is
            // about to drop it.
            Err(TryLockError::WouldBlock) => None,
        };
        // Outside the lock, because this wakes others.
        drop(work);
        self.waker.wake();
    }
}

/// Polls `future` with a spawner that keeps the last task spawned through it, without running it.
pub(crate) async fn catch_task<T>(future: impl Future<Output = T>) -> (T, Option<Work>) {
    let catcher = Catcher { caught: Mutex::new(None) };
    let mut future = pin!(future);
    let output = std::future::poll_fn(|cx| {
        let _scope = spawns::enter(&catcher);
        future.as_mut().poll(cx)
    })
    .await;
    (output, catcher.caught.into_inner().unwrap_or_else(PoisonError::into_inner))
}

struct Catcher {
    caught: Mutex<Option<Work>>,
}

impl spawns::Spawn for Catcher {
    fn spawn(&self, task: spawns::Task) {
        *self.caught.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::into_pin(task.future));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// A task that counts what it is sent, and reports when it is dropped. It adopts the states that it is sent.
    struct Counting {
        task: SessionTask,
        running: Pin<Box<dyn Future<Output = ()> + Send>>,
        sender: mpsc::UnboundedSender<SessionState>,
        count: Arc<AtomicUsize>,
        dropped: oneshot::Receiver<()>,
    }

    fn counting() -> Counting {
        let (sender, mut inbox) = mpsc::unbounded_channel();
        let (held, dropped) = oneshot::channel();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let (state, states) = watch::channel(SessionState::SyncConnected);
        let (task, running) = SessionTask::new(
            Box::pin(async move {
                let _held: oneshot::Sender<()> = held;
                while let Some(next) = inbox.recv().await {
                    counted.fetch_add(1, Ordering::Relaxed);
                    state.send_replace(next);
                    // Like a reconnect, which never completes at once.
                    tokio::task::yield_now().await;
                }
            }),
            move || *states.borrow(),
        );
        Counting { task, running: Box::pin(running), sender, count, dropped }
    }

    #[tokio::test]
    async fn a_task_that_loses_its_connection_does_nothing_more() {
        let Counting { task, mut running, sender, count, dropped } = counting();
        assert!((&mut running).now_or_never().is_none());
        assert_eq!(task.while_alive(|| 7), Ok(7));
        sender.send(SessionState::Disconnected).unwrap();
        sender.send(SessionState::SyncConnected).unwrap();
        running.await;
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert_eq!(task.ended().await, LinkEnd::Lost);
        assert_eq!(task.while_alive(|| 7), Err(LinkEnd::Lost));
        dropped.await.unwrap_err();
    }

    #[tokio::test]
    async fn the_word_of_the_server_is_passed_on() {
        for (state, end) in [
            (SessionState::Expired, LinkEnd::Expired),
            (SessionState::AuthFailed, LinkEnd::AuthFailed),
            (SessionState::Closed, LinkEnd::Closed),
        ] {
            let Counting { task, running, sender, .. } = counting();
            sender.send(state).unwrap();
            running.await;
            assert_eq!(task.end(), Some(end));
        }
    }

    #[tokio::test]
    async fn a_task_that_is_aborted_is_gone_at_once() {
        let Counting { task, mut running, sender, count, mut dropped } = counting();
        assert!((&mut running).now_or_never().is_none());
        task.abort(LinkEnd::Lost);
        assert_eq!(task.end(), Some(LinkEnd::Lost));
        assert!((&mut dropped).now_or_never().unwrap().is_err());
        // Its receiver is gone, too.
        sender.send(SessionState::SyncConnected).unwrap_err();
        running.await;
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn the_runtime_is_rid_of_a_task_that_is_aborted() {
        let Counting { task, running, sender: _sender, count, dropped: _dropped } = counting();
        let ended = tokio::spawn(running);
        tokio::task::yield_now().await;
        // It waits. Its socket, which could wake it, is closed by the abort.
        task.abort(LinkEnd::Lost);
        let limit = Duration::from_secs(60);
        tokio::time::timeout(limit, ended).await.expect("nobody has woken it").unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_task_that_is_being_polled_is_aborted_without_waiting() {
        let (inside, entered) = std::sync::mpsc::channel();
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let (held, dropped) = oneshot::channel::<()>();
        // As long as a server sends faster than the crate reads, the crate's task does not return from one poll.
        let work = Box::pin(async move {
            let _held = held;
            inside.send(()).unwrap();
            wait.recv().unwrap();
            std::future::pending::<()>().await;
        });
        let (task, running) = SessionTask::new(work, || SessionState::SyncConnected);
        let polling = std::thread::spawn(move || Box::pin(running).now_or_never());
        entered.recv().unwrap();
        let (aborted, has_aborted) = std::sync::mpsc::channel();
        let aborting = std::thread::spawn(move || {
            task.abort(LinkEnd::Lost);
            aborted.send(task.end()).unwrap();
        });
        let end = has_aborted.recv_timeout(Duration::from_secs(30));
        go_on.send(()).unwrap();
        aborting.join().unwrap();
        assert_eq!(end, Ok(Some(LinkEnd::Lost)), "it was waited for");
        assert_eq!(polling.join().unwrap(), Some(()), "it goes on although it was aborted");
        dropped.await.unwrap_err();
    }

    #[tokio::test]
    async fn the_end_of_the_runtime_ends_the_work() {
        let Counting { task, running, sender: _sender, mut dropped, .. } = counting();
        drop(running);
        assert!((&mut dropped).now_or_never().unwrap().is_err());
        assert_eq!(task.end(), Some(LinkEnd::Closed));
    }

    #[tokio::test]
    async fn work_that_panics_ends_its_connection_and_is_not_polled_again() {
        let (task, running) =
            SessionTask::new(Box::pin(async { panic!("on purpose") }), || SessionState::SyncConnected);
        task.let_go_by(|| panic!("the session can go on over another connection"));
        assert!(tokio::spawn(running).await.unwrap_err().is_panic());
        assert_eq!(task.ended().await, LinkEnd::Lost);
    }

    #[tokio::test]
    async fn what_is_spawned_meanwhile_is_caught_and_not_run() {
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
