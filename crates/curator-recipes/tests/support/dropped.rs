//! Polls futures a limited number of times.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Polls `future` at most `polls` times, once for each wake-up, and then drops it. Returns its
/// output if it is ready by then.
///
/// Call this in a separate task, where only the wake-ups of `future` cause polls.
pub(crate) async fn drop_after<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut polled = 0;
    poll_fn(move |cx| {
        if polled == polls {
            return Poll::Ready(None);
        }
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        // The next wake-up is at the next await point, or at the same one again.
        polled += 1;
        if polled == polls {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
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
