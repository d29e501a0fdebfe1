//! Releases what a request holds as soon as its reply has arrived, even if its future is not polled
//! then.
//!
//! One task may have thousands of futures, and poll none of them while it works on the result of
//! another. The futures hold permits for requests in flight, or turns, until the replies arrive;
//! the release of these must not wait for the next poll. The reply wakes the future's waker on the
//! thread that reads the connection; so the future is polled with a waker that first releases what
//! the request holds, and then wakes the task.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// A future that holds `H` until it is woken for the first time after a poll, completes or is
/// dropped.
pub(super) struct HoldUntilWoken<F, H: Send + 'static> {
    future: F,
    woken: Arc<Woken<H>>,
    waker: Waker,
}

struct Woken<H> {
    held: Mutex<Option<H>>,
    task: AtomicWaker,
}

impl<F: Future + Unpin, H: Send + 'static> HoldUntilWoken<F, H> {
    /// `future` must not become ready without a wake, except at its first poll.
    pub(super) fn new(future: F, held: H) -> Self {
        let woken = Arc::new(Woken {
            held: Mutex::new(Some(held)),
            task: AtomicWaker::new(),
        });
        let waker = Waker::from(Arc::clone(&woken));
        Self {
            future,
            woken,
            waker,
        }
    }
}

impl<F: Future + Unpin, H: Send + 'static> Future for HoldUntilWoken<F, H> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.woken.task.register(cx.waker());
        let this = &mut *self;
        let polled = Pin::new(&mut this.future).poll(&mut Context::from_waker(&this.waker));
        if polled.is_ready() {
            self.woken.release();
        }
        polled
    }
}

impl<F, H: Send + 'static> Drop for HoldUntilWoken<F, H> {
    fn drop(&mut self) {
        // The waker may outlive the future.
        self.woken.release();
    }
}

impl<H> Woken<H> {
    fn release(&self) {
        let held = self
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // Dropped after the lock is released: the drop may wake other tasks.
        drop(held);
    }
}

impl<H: Send + 'static> Wake for Woken<H> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.release();
        self.task.wake();
    }
}
