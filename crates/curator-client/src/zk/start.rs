//! Sends a request before its future is polled by the caller.

use std::future::{Future, ready};
use std::panic::AssertUnwindSafe;

use futures_util::{FutureExt as _, TryFutureExt as _};
use zookeeper_client::Error as ZkError;

use crate::transport::{Answer, RequestError};

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
    let caught = AssertUnwindSafe(future).catch_unwind();
    let undecodable = || RequestError::Lost("the reply cannot be decoded".to_owned());
    let mut future = caught
        .map(move |answer| answer.unwrap_or_else(|_| Err(undecodable())))
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

    use super::*;

    #[tokio::test]
    async fn a_panic_in_zookeeper_client_becomes_an_error() {
        let answer: Result<(), _> = start(async { panic!("on purpose") }).await;
        assert!(matches!(answer, Err(RequestError::Lost(_))), "{answer:?}");
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
