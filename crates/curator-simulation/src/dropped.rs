//! Drops a future in the middle.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Polls a future a number of times, and then drops it if it has not completed. Returns its output,
/// or `None`.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct DropAt<F> {
    future: Option<Pin<Box<F>>>,
    polls: usize,
}

impl<F> DropAt<F> {
    /// Drops the future instead of polling it a further time after `polls` polls.
    pub fn new(future: F, polls: usize) -> Self {
        Self {
            future: Some(Box::pin(future)),
            polls,
        }
    }
}

impl<F: Future> Future for DropAt<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            self.future = None;
        }
        self.polls = self.polls.saturating_sub(1);
        match &mut self.future {
            Some(future) => future.as_mut().poll(cx).map(Some),
            None => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_future_is_polled_as_often_as_it_may_be() {
        let twice = || async {
            tokio::task::yield_now().await;
            7
        };
        assert_eq!(DropAt::new(twice(), 0).await, None);
        assert_eq!(DropAt::new(twice(), 1).await, None);
        assert_eq!(DropAt::new(twice(), 2).await, Some(7));
    }
}
