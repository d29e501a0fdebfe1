//! Polls futures a limited number of times.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Polls `future` up to `polls` times, each time that it wakes, and then drops it. Returns its output if it was ready
/// by then.
///
/// Call this in a separate task, where only the wake-ups of `future` cause polls.
pub(crate) async fn drop_after<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    drop_after_when(future, polls, || true).await
}

/// Like [`drop_after`], but counts only polls for which `counts` returns true.
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
            // The next wake-up is at the next await point, or at the same one again.
            Poll::Pending if counts() => polled += 1,
            Poll::Pending => {}
        }
        if polled == polls && counts() { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

/// Polls a future until `ready`, and returns it unfinished.
pub(crate) async fn polled_until<F: Future>(future: F, ready: impl Future) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    tokio::select! {
        biased;
        _ = &mut future => panic!("the future has finished before `ready`"),
        _ = ready => future,
    }
}
