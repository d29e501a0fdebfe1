//! The values of a shared count, as a stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use curator_client::{Error as ClientError, Session, Watch};
use futures_core::Stream;
use futures_util::stream::{self, StreamExt as _};

use super::{Result, SharedCount, SharedCountError, VersionedCount};
use crate::engine::follow::{Followed, Follower};

/// The values of a [`SharedCount`], from now on; made by [`SharedCount::changes`].
///
/// A [`Stream`], and [`next`](Self::next) for those who need no more than that. The first item is the current value. After
/// each change the count is read again, so you see the latest value and not every change. It is one request for each event.
///
/// It goes on through lost connections and lost sessions, however long they take, and yields no error for them. It ends when
/// the client closes.
///
/// # Errors
///
/// [`SharedCountError::Invalid`] while the node's data is not such a number; the next change is awaited
/// nevertheless. Any other error, such as a missing permission, is one that a retry cannot help, and the last item.
///
/// # Cancel safety
///
/// Nothing is lost when the future of `next` is dropped. Dropping the stream takes the watch with it.
#[must_use = "nothing is read before the stream is polled"]
pub struct CountChanges {
    values: Pin<Box<dyn Stream<Item = Result<VersionedCount>> + Send>>,
}

/// What is known between two items.
struct Following {
    counts: Follower<WatchedCount>,
    /// What was yielded last.
    last: Option<VersionedCount>,
}

/// A count, in whichever session is the current one.
struct WatchedCount {
    count: SharedCount,
    watch: Option<Watch>,
}

impl Followed for WatchedCount {
    /// The data and its version.
    type State = (Vec<u8>, i32);

    async fn changed(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.fired().await;
        }
        self.watch = None;
    }

    async fn read(&mut self) -> curator_client::Result<Self::State> {
        let session = self.count.inner.client.session().await?;
        let (data, stat, watch) = self.count.read_in(&session, &Session::watch_data).await?;
        self.watch = Some(watch);
        Ok((data, stat.version))
    }
}

impl CountChanges {
    pub(super) fn of(count: &SharedCount) -> Self {
        let counts = Follower::new(&count.inner.client, WatchedCount { count: count.clone(), watch: None });
        let following = Following { counts, last: None };
        let step = |following: Option<Following>| async move { following?.next().await };
        Self { values: Box::pin(stream::unfold(Some(following), step).fuse()) }
    }

    /// Waits for the next value. Returns `None` once the client is closed.
    ///
    /// # Errors
    ///
    /// Those of the [stream](CountChanges#errors).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<VersionedCount>> {
        self.values.next().await
    }
}

impl Stream for CountChanges {
    type Item = Result<VersionedCount>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.values.as_mut().poll_next(cx)
    }
}

impl std::fmt::Debug for CountChanges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CountChanges").finish_non_exhaustive()
    }
}

impl Following {
    /// The next item, and what follows it; `None` when the client closes.
    async fn next(mut self) -> Option<(Result<VersionedCount>, Option<Self>)> {
        let client = self.counts.node.count.inner.client.clone();
        let item = tokio::select! {
            biased;
            error = client.closing() => Err(error.into()),
            item = self.item() => item,
        };
        match item {
            Err(SharedCountError::Client(ClientError::Closed)) => None,
            Err(error @ SharedCountError::Client(_)) => Some((Err(error), None)),
            item => Some((item, Some(self))),
        }
    }

    async fn item(&mut self) -> Result<VersionedCount> {
        loop {
            let (data, version) = self.counts.next().await?;
            let value = self.counts.node.count.parse(&data, version);
            // A watch that was interrupted has not seen a change.
            if value.is_err() || value.as_ref().ok() != self.last.as_ref() {
                self.last = value.as_ref().ok().copied();
                return value;
            }
        }
    }
}
