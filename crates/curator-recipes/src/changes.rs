//! The state of a recipe for its users: the latest value and its changes, and changes as a stream.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use curator_client::process::LeakedInChild;
use curator_client::source::watch;
use futures_core::Stream;
use futures_util::stream::{BoxStream, StreamExt as _};

/// The latest value of a recipe's state, and its changes. A slow reader gets the latest value only.
///
/// Like a [`watch::Receiver`], but its methods return copies. A receiver lends its value, and a
/// borrowed value blocks the recipe's task: on a runtime with one thread, a `match` on a borrowed
/// state that awaits the recipe in an arm would deadlock.
///
/// ```no_run
/// # use curator_recipes::{LeaderLatch, LeaderState, Error};
/// # async fn example(latch: &LeaderLatch) -> Result<(), Error> {
/// match latch.state().get() {
///     LeaderState::Leader { .. } => latch.resign().await?,
///     state => println!("{state:?}"),
/// }
/// # Ok(())
/// # }
/// ```
///
/// Clones are independent readers of the same state.
pub struct Latest<T> {
    values: watch::Receiver<T>,
}

/// The recipe has ended: its state no longer changes. The methods of the recipe return the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the recipe has ended: its state no longer changes")]
#[non_exhaustive]
pub struct RecipeEnded;

impl<T: Clone> Latest<T> {
    pub(crate) fn new(values: &watch::Receiver<T>) -> Self {
        Self {
            values: values.clone(),
        }
    }

    /// The present value.
    #[must_use]
    pub fn get(&self) -> T {
        self.values.borrow().clone()
    }

    /// Returns the present value, and counts it as seen: [`changed`](Self::changed) then waits for
    /// the next one.
    pub fn get_and_update(&mut self) -> T {
        self.values.borrow_and_update().clone()
    }

    /// Waits until there is a value that this reader has not seen, and counts it as seen.
    ///
    /// # Errors
    ///
    /// [`RecipeEnded`] if the recipe has ended and its last value was seen.
    ///
    /// # Cancel safety
    ///
    /// No change is lost when the future is dropped.
    pub async fn changed(&mut self) -> Result<(), RecipeEnded> {
        self.values.changed().await.map_err(|_| RecipeEnded)
    }

    /// Waits until the value meets a condition, and returns it. Returns immediately if the present
    /// value does.
    ///
    /// # Errors
    ///
    /// [`RecipeEnded`] if the recipe has ended and its last value does not meet the condition.
    ///
    /// # Cancel safety
    ///
    /// No change is lost when the future is dropped.
    pub async fn wait_for(
        &mut self,
        mut condition: impl FnMut(&T) -> bool,
    ) -> Result<T, RecipeEnded> {
        loop {
            // A copy, so that the condition can call the recipe.
            let value = self.get_and_update();
            if condition(&value) {
                return Ok(value);
            }
            self.changed().await?;
        }
    }

    /// Whether there is a value that this reader has not seen.
    ///
    /// # Errors
    ///
    /// [`RecipeEnded`] if the recipe has ended, even if its last value was not seen.
    pub fn has_changed(&self) -> Result<bool, RecipeEnded> {
        self.values.has_changed().map_err(|_| RecipeEnded)
    }

    /// Counts the present value as not seen: the next [`changed`](Self::changed) returns
    /// immediately.
    pub fn mark_changed(&mut self) {
        self.values.mark_changed();
    }

    /// Counts the present value as seen.
    pub fn mark_unchanged(&mut self) {
        self.values.mark_unchanged();
    }
}

impl<T> Clone for Latest<T> {
    fn clone(&self) -> Self {
        Self {
            values: self.values.clone(),
        }
    }
}

impl<T: Clone + fmt::Debug> fmt::Debug for Latest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Latest").field(&self.get()).finish()
    }
}

/// The changes of a recipe, for one consumer.
///
/// Implements [`Stream`]; [`next`](Self::next) works without importing the trait. Each alias of
/// this type, such as [`CacheEvents`](crate::CacheEvents), documents its first items and its end.
///
/// # Cancel safety
///
/// No item is lost when the future of [`next`](Self::next) is dropped.
#[must_use = "nothing is yielded before the stream is polled"]
pub struct Changes<I> {
    items: LeakedInChild<BoxStream<'static, I>>,
}

impl<I> Changes<I> {
    /// Wraps a stream.
    pub fn new(items: impl Stream<Item = I> + Send + 'static) -> Self {
        Self {
            items: LeakedInChild::new(items.fuse().boxed()),
        }
    }

    /// Waits for the next item. Returns `None` once the stream has ended.
    ///
    /// # Cancel safety
    ///
    /// No item is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<I> {
        self.items.as_mut()?.next().await
    }
}

impl<I> Stream for Changes<I> {
    type Item = I;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<I>> {
        self.items
            .as_mut()
            .map_or(Poll::Ready(None), |items| items.as_mut().poll_next(cx))
    }
}

impl<I> fmt::Debug for Changes<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_value_that_was_read_blocks_neither_its_sender_nor_a_condition() {
        let (sender, values) = watch::channel(1);
        let mut latest = Latest::new(&values);
        let other = latest.clone();
        match latest.get() {
            1 => sender.send_replace(2),
            other => panic!("{other}"),
        };
        assert_eq!((latest.get(), latest.has_changed()), (2, Ok(true)));
        // If the condition borrowed the value, this would deadlock: the sender waits for the
        // borrow.
        let found = latest.wait_for(|value| {
            sender.send_if_modified(|sent| *sent == 2 && std::mem::replace(sent, 3) == 2);
            *value == other.get()
        });
        assert_eq!(found.now_or_never(), Some(Ok(3)));
        assert_eq!(
            (latest.has_changed(), latest.changed().now_or_never()),
            (Ok(false), None)
        );
    }

    #[test]
    fn the_last_value_is_seen_before_the_end() {
        let (sender, values) = watch::channel(1);
        let mut latest = Latest::new(&values);
        sender.send_replace(2);
        drop(sender);
        assert_eq!(latest.changed().now_or_never(), Some(Ok(())));
        assert_eq!(
            (latest.get(), latest.changed().now_or_never()),
            (2, Some(Err(RecipeEnded)))
        );
        assert_eq!(
            latest.wait_for(|value| *value == 2).now_or_never(),
            Some(Ok(2))
        );
        assert_eq!(
            latest.wait_for(|value| *value == 1).now_or_never(),
            Some(Err(RecipeEnded))
        );
        assert_eq!(latest.has_changed(), Err(RecipeEnded));
    }
}
