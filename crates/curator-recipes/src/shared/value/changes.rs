//! The current and later values of a shared value, as a stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use curator_client::{Error as ClientError, Session, Watch};
use futures_core::Stream;
use futures_util::stream::{self, StreamExt as _};

use super::{Result, SharedValue, SharedValueError, VersionedValue};
use crate::engine::follow::{Followed, Follower};

/// The current and later values of a [`SharedValue`]; made by [`SharedValue::changes`].
///
/// A [`Stream`]; [`next`](Self::next) works without the trait. The first item is the current value. After each event
/// the node is read again with one request, so the stream yields the latest value, not every change.
///
/// It continues through lost connections and lost sessions, of any length, and yields no error for them. It ends when
/// the client closes.
///
/// # Errors
///
/// [`SharedValueError::Invalid`] while the node's data cannot be decoded; the stream continues with the next change.
/// Any other error, such as a missing permission, is one that a retry cannot help, and ends the stream.
///
/// # Cancel safety
///
/// Nothing is lost when the future of `next` is dropped. Dropping the stream drops the watch.
#[must_use = "nothing is read before the stream is polled"]
pub struct ValueChanges<T> {
    values: Pin<Box<dyn Stream<Item = Result<VersionedValue<T>>> + Send>>,
}

/// The state between two items.
struct Following<T> {
    values: Follower<Watched<T>>,
    /// The data and version of the last yielded value.
    last: Option<(Vec<u8>, i32)>,
}

/// A value, followed in the client's current session.
struct Watched<T> {
    value: SharedValue<T>,
    watch: Option<Watch>,
}

impl<T: Send + Sync + 'static> Followed for Watched<T> {
    /// The data and its version.
    type State = (Vec<u8>, i32);

    async fn changed(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.fired().await;
        }
        self.watch = None;
    }

    async fn read(&mut self) -> curator_client::Result<Self::State> {
        let session = self.value.inner.client.session().await?;
        let (data, stat, watch) = self.value.read_in(&session, &Session::watch_data).await?;
        self.watch = Some(watch);
        Ok((data, stat.version))
    }
}

impl<T: Send + Sync + 'static> ValueChanges<T> {
    pub(super) fn of(value: &SharedValue<T>) -> Self {
        let values = Follower::new(&value.inner.client, Watched { value: value.clone(), watch: None });
        let following = Following { values, last: None };
        let step = |following: Option<Following<T>>| async move { following?.next().await };
        Self { values: Box::pin(stream::unfold(Some(following), step).fuse()) }
    }

    /// Waits for the next value. Returns `None` once the client is closed.
    ///
    /// # Errors
    ///
    /// Those of the [stream](ValueChanges#errors).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<VersionedValue<T>>> {
        self.values.next().await
    }
}

impl<T> Stream for ValueChanges<T> {
    type Item = Result<VersionedValue<T>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.values.as_mut().poll_next(cx)
    }
}

impl<T> std::fmt::Debug for ValueChanges<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueChanges").finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Following<T> {
    /// The next item, and the state after it; `None` when the client closes.
    async fn next(mut self) -> Option<(Result<VersionedValue<T>>, Option<Self>)> {
        let client = self.values.node.value.inner.client.clone();
        let item = tokio::select! {
            biased;
            error = client.closing() => Err(error.into()),
            item = self.item() => item,
        };
        match item {
            Err(SharedValueError::Client(ClientError::Closed)) => None,
            Err(error @ SharedValueError::Client(_)) => Some((Err(error), None)),
            item => Some((item, Some(self))),
        }
    }

    async fn item(&mut self) -> Result<VersionedValue<T>> {
        loop {
            let (data, version) = self.values.next().await?;
            let value = self.values.node.value.decode(&data, version);
            let read = Some((data, version));
            // An interrupted watch does not mean that the value has changed.
            if value.is_err() || read != self.last {
                self.last = read.filter(|_| value.is_ok());
                return value;
            }
        }
    }
}
