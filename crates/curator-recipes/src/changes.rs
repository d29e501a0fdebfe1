//! A stream of changes, for one consumer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_util::stream::{BoxStream, StreamExt as _};

use crate::forked::LeakedInChild;

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
