//! The client crate's session task, in our hands.
//!
//! The crate spawns one task for each session, and nothing but the server's word or the end of its own patience stops it:
//! it sleeps between two tries as long as it likes, and then takes the session's connection for itself. The crate asks its
//! thread's spawner for the task, so while a session is opened the spawner is ours.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A handle to the task of one session.
#[derive(Clone)]
pub(crate) struct SessionTask {
    shared: Arc<Shared>,
}

struct Shared {
    slot: Mutex<Slot>,
    /// Set before the work is dropped. For those who may be called by the work itself, and must not wait for the slot.
    ended: AtomicBool,
}

/// Locked while the task is polled: whoever has the lock knows that it is doing nothing.
struct Slot {
    /// `None` when the task has come to its end, or was ended.
    work: Option<Work>,
    parked: bool,
    waker: Option<Waker>,
}

impl SessionTask {
    /// The task, and the future that does its work.
    fn new(work: Work) -> (Self, Running) {
        let slot = Mutex::new(Slot { work: Some(work), parked: false, waker: None });
        let shared = Arc::new(Shared { slot, ended: AtomicBool::new(false) });
        (Self { shared: Arc::clone(&shared) }, Running(shared))
    }

    /// Stops the task. When this returns it does nothing, and it does nothing more until the result is dropped.
    pub(crate) fn park(&self) -> Parked {
        self.shared.lock().parked = true;
        Parked(Arc::clone(&self.shared))
    }

    /// Whether the task was ended by [`Parked::end`]. Takes no lock.
    pub(crate) fn has_been_ended(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire)
    }
}

/// A task that does nothing. Goes on when this is dropped.
pub(crate) struct Parked(Arc<Shared>);

impl Parked {
    /// Ends the task where it stands: its connection is dropped, nothing that it was asked for is sent any more, and the
    /// session is not closed.
    pub(crate) fn end(self) {
        self.0.ended.store(true, Ordering::Release);
        self.0.drop_work();
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        let mut slot = self.0.lock();
        slot.parked = false;
        let waker = slot.waker.take();
        drop(slot);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Does the work of a task.
struct Running(Arc<Shared>);

impl Future for Running {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut slot = self.0.lock();
        let Slot { work, parked, waker } = &mut *slot;
        let Some(running) = work else { return Poll::Ready(()) };
        if !*parked && running.as_mut().poll(cx).is_ready() {
            *work = None;
            return Poll::Ready(());
        }
        // A task that is parked is woken by the one who parked it.
        *waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Running {
    /// The end of the runtime is the end of the work, whoever has a handle.
    fn drop(&mut self) {
        self.0.drop_work();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Slot> {
        // What panicked is not polled again.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Outside the lock, as others are woken by it.
    fn drop_work(&self) {
        let work = self.lock().work.take();
        drop(work);
    }
}

/// Polls `future` with a spawner that keeps a handle to the last task that was spawned by it.
pub(crate) async fn catch_task<T>(future: impl Future<Output = T>) -> (T, Option<SessionTask>) {
    let catcher = Catcher { runtime: Handle::current(), caught: Mutex::new(None) };
    // A connect is large, and whoever waits for it should not be.
    let mut future = Box::pin(future);
    let output = std::future::poll_fn(|cx| {
        let _scope = spawns::enter(&catcher);
        future.as_mut().poll(cx)
    })
    .await;
    (output, catcher.caught.into_inner().unwrap_or_else(PoisonError::into_inner))
}

struct Catcher {
    runtime: Handle,
    caught: Mutex<Option<SessionTask>>,
}

impl spawns::Spawn for Catcher {
    fn spawn(&self, task: spawns::Task) {
        let (task, running) = SessionTask::new(Box::into_pin(task.future));
        *self.caught.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        // Its owner is the session: it ends when that is closed, or by the handle.
        drop(self.runtime.spawn(running));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::FutureExt as _;
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// A task that counts what it is sent, and what it is dropped with.
    fn counting() -> (SessionTask, Running, mpsc::UnboundedSender<()>, Arc<AtomicUsize>, oneshot::Receiver<()>) {
        let (sender, mut inbox) = mpsc::unbounded_channel();
        let (held, dropped) = oneshot::channel();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let (task, running) = SessionTask::new(Box::pin(async move {
            let _held: oneshot::Sender<()> = held;
            while inbox.recv().await.is_some() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }));
        (task, running, sender, count, dropped)
    }

    #[tokio::test]
    async fn a_parked_task_does_nothing_until_it_goes_on() {
        let (task, running, sender, count, dropped) = counting();
        let parked = task.park();
        let running = tokio::spawn(running);
        sender.send(()).unwrap();
        drop(sender);
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        assert_eq!(count.load(Ordering::Relaxed), 0);
        drop(parked);
        running.await.unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert!(dropped.await.is_err());
        assert!(!task.has_been_ended());
    }

    #[tokio::test]
    async fn a_task_that_is_ended_is_gone_at_once() {
        let (task, running, sender, count, mut dropped) = counting();
        let running = tokio::spawn(running);
        tokio::task::yield_now().await;
        task.park().end();
        assert!(task.has_been_ended());
        assert!((&mut dropped).now_or_never().unwrap().is_err());
        // Its receiver is gone, too.
        sender.send(()).unwrap_err();
        running.await.unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn the_end_of_the_runtime_ends_the_work() {
        let (task, running, _sender, _, mut dropped) = counting();
        drop(running);
        assert!((&mut dropped).now_or_never().unwrap().is_err());
        assert!(!task.has_been_ended());
    }

    #[tokio::test]
    async fn what_is_spawned_meanwhile_is_caught() {
        let (sender, receiver) = oneshot::channel();
        let ((), caught) = catch_task(async {
            // Polled more than once, as a connect is.
            tokio::task::yield_now().await;
            drop(spawns::spawn(async move { sender.send(()) }));
        })
        .await;
        assert!(caught.is_some());
        receiver.await.unwrap();
    }
}
