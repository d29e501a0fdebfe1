//! Futures that are not polled to their end.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Polls `future` up to `polls` times, as often as it wakes, and then drops it. Its output if it came that far.
///
/// In a task of its own a future is polled when it wakes, and not when a neighbour does.
pub(crate) async fn drop_after<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    drop_after_when(future, polls, || true).await
}

/// The same, with only those polls counted that come when `counts` says so.
pub(crate) async fn drop_after_when<F: Future>(
    future: F,
    polls: usize,
    counts: impl Fn() -> bool,
) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut polled = 0;
    poll_fn(move |cx| {
        if polled == polls && counts() {
            return Poll::Ready(None);
        }
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => return Poll::Ready(Some(output)),
            // The next time that it wakes is the next await point, or the same one again.
            Poll::Pending if counts() => polled += 1,
            Poll::Pending => {}
        }
        if polled == polls && counts() { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

/// A future that is polled until `ready`, and then handed out, not finished.
pub(crate) async fn polled_until<F: Future>(future: F, ready: impl Future) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    tokio::select! {
        biased;
        _ = &mut future => panic!("it has finished"),
        _ = ready => future,
    }
}
