//! Polls a future on the thread that wakes it.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::soon;

/// Polls the future once, and again in each of its wake-ups, on the thread that wakes it, before
/// that thread continues. So a future that is woken by one change sees which other changes were
/// published before. Returns the result.
///
/// Must not be used if the waking thread holds a lock that the future takes.
pub(crate) async fn in_wake<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    let (result_tx, result_rx) = oneshot::channel();
    let future = async move {
        let _ = result_tx.send(future.await);
    };
    // Otherwise the polls would use tokio's budget of the task that wakes this future.
    let future: BoxFuture<'static, ()> = Box::pin(tokio::task::coop::unconstrained(future));
    Arc::new(InWake {
        future: Mutex::new(Some(future)),
        is_due: AtomicBool::new(false),
    })
    .wake();
    soon(result_rx).await.expect("the future was dropped")
}

struct InWake {
    future: Mutex<Option<BoxFuture<'static, ()>>>,
    is_due: AtomicBool,
}

impl Wake for InWake {
    fn wake(self: Arc<Self>) {
        self.is_due.store(true, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self));
        while self.is_due.load(Ordering::SeqCst) {
            // The thread that holds the lock is polling; it sees `is_due` and polls again.
            let Ok(mut future) = self.future.try_lock() else {
                return;
            };
            self.is_due.store(false, Ordering::SeqCst);
            if let Some(polled) = future.as_mut()
                && polled
                    .as_mut()
                    .poll(&mut Context::from_waker(&waker))
                    .is_ready()
            {
                *future = None;
            }
        }
    }
}
