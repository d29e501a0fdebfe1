//! The current and later values of a shared value, as a stream.

use curator_client::{Error as ClientError, Session, Stat, Watch};
use futures_util::stream;

use super::{Result, SharedValue, ValueError, VersionedValue};
use crate::changes::Changes;
use crate::task::follow::{Followed, Follower, fired};

/// The current and later values of a [`SharedValue`]; made by [`SharedValue::changes`].
///
/// Implements [`Stream`](futures_core::Stream); [`next`](Changes::next) works without importing the
/// trait. The first item is the current value. After each event the node is read again with one
/// request, so the stream yields the latest value, not every change.
///
/// It continues after lost connections and lost sessions, however long they last, and yields no
/// error for them. It ends when the client closes.
///
/// # Errors
///
/// [`ValueError::Invalid`] while the node's data cannot be decoded, and [`ValueError::Unsuitable`]
/// while the node cannot keep a value; the stream continues with the next change. Any other error
/// ends the stream: it is one that a retry cannot help, such as a missing permission.
///
/// # Cancel safety
///
/// Nothing is lost when the future of `next` is dropped. Dropping the stream drops the watch.
pub type ValueChanges<T> = Changes<Result<VersionedValue<T>>>;

pub(super) fn changes<T: Send + Sync + 'static>(value: &SharedValue<T>) -> ValueChanges<T> {
    let watched = Watched {
        value: value.clone(),
        watch: None,
        last: None,
    };
    let following = Some(Follower::new(&value.inner.client, watched));
    Changes::new(stream::unfold(following, |following| async move {
        next(following?).await
    }))
}

/// A value, followed in the client's current session.
struct Watched<T> {
    value: SharedValue<T>,
    watch: Option<(Session, Watch)>,
    /// The data and version of the last yielded value.
    last: Option<(Vec<u8>, i32)>,
}

impl<T: Send + Sync + 'static> Followed for Watched<T> {
    type State = (Vec<u8>, Stat);

    async fn changed(&mut self) {
        fired(&mut self.watch).await;
    }

    async fn read(&mut self) -> curator_client::Result<Self::State> {
        let session = self.value.inner.client.session().await?;
        let (data, stat, watch) = self.value.read_in(&session, &Session::watch_data).await?;
        self.watch = Some((session, watch));
        Ok((data, stat))
    }
}

type Following<T> = Follower<Watched<T>>;

/// The next item, and the state for the item after it; `None` when the client closes.
async fn next<T: Send + Sync + 'static>(
    mut following: Following<T>,
) -> Option<(Result<VersionedValue<T>>, Option<Following<T>>)> {
    let client = following.node.value.inner.client.clone();
    let item = tokio::select! {
        biased;
        error = client.closing() => Err(error.into()),
        item = item(&mut following) => item,
    };
    match item {
        Err(ValueError::Client(ClientError::Closed)) => None,
        Err(error @ ValueError::Client(_)) => Some((Err(error), None)),
        item => Some((item, Some(following))),
    }
}

async fn item<T: Send + Sync + 'static>(following: &mut Following<T>) -> Result<VersionedValue<T>> {
    loop {
        let (data, stat) = following.next().await?;
        let Watched { value, last, .. } = &mut following.node;
        let value = value.check(&stat).and_then(|()| value.decode(&data));
        let read = Some((data, stat.version));
        let version = stat.version;
        // An interrupted watch does not mean that the value has changed.
        if value.is_err() || read != *last {
            *last = if value.is_ok() { read } else { None };
            return value.map(|value| VersionedValue { value, version });
        }
    }
}
