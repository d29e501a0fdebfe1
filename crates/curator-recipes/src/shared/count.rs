//! A number that all processes share.

mod changes;
mod error;

use std::sync::Arc;

use curator_client::{
    CreateMode, Created, CuratorClient, NodePath, NodeSpec, RecipeSupport as _, Request, Session, Watch, ZPath,
};
use curator_protocol::Limit;
use futures_util::future::{BoxFuture, FutureExt as _};

pub use self::changes::CountChanges;
pub use self::error::SharedCountError;
use crate::debug::debug_line;
use crate::engine::limit::LimitNode;

type Result<T> = std::result::Result<T, SharedCountError>;

/// A number that all processes share: an `i32` in the data of one persistent node.
///
/// Curator's `SharedCount`, and compatible with it: Java and Rust programs can share one path. The node's data is the four
/// bytes of the number, the most significant first. Clones are the same count.
///
/// ```no_run
/// use curator_recipes::SharedCount;
/// use curator_recipes::client::CuratorClient;
///
/// # async fn example() -> Result<(), curator_recipes::Error> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let count = SharedCount::new(&client, "/counts/workers", 0)?;
/// // Increment it, even if others change it at the same time.
/// loop {
///     let before = count.versioned().await?;
///     if count.compare_and_set(&before, before.value + 1).await? {
///         break;
///     }
/// }
/// // Follow the changes, until the client closes.
/// let mut changes = count.changes();
/// while let Some(now) = changes.next().await {
///     println!("{} workers", now?.value);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - The node exists after the first successful [`get`](Self::get), [`versioned`](Self::versioned), [`watch`](Self::watch)
///   or [`set`](Self::set), and stays when all clients are gone. If several processes find it missing, one creates it.
///   Missing parents become containers, as in Curator.
/// - Of several [`compare_and_set`](Self::compare_and_set) that follow the same read, at most one changes the number.
///
/// # Caveats
///
/// Like all reads of ZooKeeper, a read can be older than what another client has written: call [`CuratorClient::sync`]
/// before it where that matters. Versions start over when someone deletes the node, so a `compare_and_set` across a deletion
/// can replace a different number that happens to have the same version.
///
/// Unlike Curator's, it has no `start`, and keeps no copy up to date in the background: each call asks the server. What a
/// listener does there, [`changes`](Self::changes) does here.
#[derive(Clone)]
pub struct SharedCount {
    inner: Arc<Inner>,
}

debug_line!(SharedCount, |count| path: count.path(), connection: count.inner.client.connection_state());

#[derive(Debug)]
struct Inner {
    client: CuratorClient,
    /// The full path on the server.
    path: ZPath,
    seed: i32,
}

/// A number and its version, which [`SharedCount::compare_and_set`] compares.
///
/// Curator's `VersionedValue<Integer>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct VersionedCount {
    /// The number.
    pub value: i32,
    /// The version of the node: how often it has been set since its creation, even to the same number.
    pub version: i32,
}

impl SharedCount {
    /// Creates a handle to the count at `path`; its initial value is `seed`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn new(client: &CuratorClient, path: impl NodePath, seed: i32) -> Result<Self> {
        let path = client.resolve(path)?;
        Ok(Self { inner: Arc::new(Inner { client: client.clone(), path, seed }) })
    }

    /// The node's full path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        &self.inner.path
    }

    /// The number that the node is created with.
    #[must_use]
    pub fn seed(&self) -> i32 {
        self.inner.seed
    }

    /// Returns the number. Creates the node with the seed if it is missing. One request, if it is not.
    ///
    /// # Errors
    ///
    /// [`SharedCountError::Invalid`] when the node's data is not such a number, and those of the client when its retry
    /// policy gives up.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may still create the node.
    pub async fn get(&self) -> Result<i32> {
        Ok(self.versioned().await?.value)
    }

    /// Like [`get`](Self::get), with the version of the node.
    ///
    /// # Errors
    ///
    /// The same as [`get`](Self::get).
    ///
    /// # Cancel safety
    ///
    /// The same as [`get`](Self::get).
    pub async fn versioned(&self) -> Result<VersionedCount> {
        let (data, stat) = self.read(Session::get_data).await?;
        self.parse(&data, stat.version)
    }

    /// Like [`versioned`](Self::versioned), and sets a one-shot watch for the next change or the deletion of the node.
    ///
    /// Between the event and the next call the number may change more than once: you see the latest, not every change.
    ///
    /// # Errors
    ///
    /// The same as [`get`](Self::get).
    ///
    /// # Cancel safety
    ///
    /// The same as [`get`](Self::get); no watch is left behind.
    pub async fn watch(&self) -> Result<(VersionedCount, Watch)> {
        let (data, stat, watch) = self.read(Session::watch_data).await?;
        Ok((self.parse(&data, stat.version)?, watch))
    }

    /// The current value, and then the latest one after each change, until the client closes. Nothing is sent before the
    /// stream is polled.
    ///
    /// It creates the node if it is missing, like [`get`](Self::get).
    pub fn changes(&self) -> CountChanges {
        CountChanges::of(self)
    }

    /// Sets the number, whatever it was, and whatever data the node had. Creates the node if it is missing. One request,
    /// if it is not.
    ///
    /// # Errors
    ///
    /// Those of the client when its retry policy gives up. As with [`CuratorClient::set_data`] without a version, a call
    /// with an unknown outcome is tried again, and can overwrite what someone else has set since the first try.
    ///
    /// # Cancel safety
    ///
    /// A dropped change may still be applied.
    pub async fn set(&self, value: i32) -> Result<()> {
        let (path, data) = (&self.inner.path, encode(value));
        let set = self.inner.client.retry(|session| async move {
            match session.set_data(path, &data, None).await {
                Err(curator_client::Error::NoNode { .. }) => {}
                set => return set.map(drop),
            }
            match self.create(&session, value).await {
                // Someone else was first, with another number.
                Err(curator_client::Error::NodeExists { .. }) => session.set_data(path, &data, None).await.map(drop),
                created => created.map(drop),
            }
        });
        Ok(set.await?)
    }

    /// Sets the number if the node still has the version of `previous`; returns `false` if it does not, or is gone. One
    /// request.
    ///
    /// Curator's `trySetCount`.
    ///
    /// # Errors
    ///
    /// Those of the client. An unknown outcome is [`Ambiguous`](curator_client::Error::Ambiguous) and is not retried, as the
    /// second try could not tell our own change from someone else's: read the number.
    ///
    /// # Cancel safety
    ///
    /// A dropped change may still be applied.
    pub async fn compare_and_set(&self, previous: &VersionedCount, value: i32) -> Result<bool> {
        let Inner { client, path, .. } = &*self.inner;
        match client.set_data(path, encode(value), Some(previous.version)).await {
            Ok(_) => Ok(true),
            Err(curator_client::Error::BadVersion { .. } | curator_client::Error::NoNode { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the node, which is created if it is missing.
    async fn read<T>(&self, read: impl Fn(&Session, &ZPath) -> Request<T>) -> Result<T> {
        let read = &read;
        Ok(self.inner.client.retry(|session| async move { self.read_in(&session, read).await }).await?)
    }

    /// As [`read`](Self::read), in one session. Retries nothing.
    async fn read_in<T>(
        &self,
        session: &Session,
        read: &impl Fn(&Session, &ZPath) -> Request<T>,
    ) -> curator_client::Result<T> {
        let path = &self.inner.path;
        match read(session, path).await {
            Err(curator_client::Error::NoNode { .. }) => {}
            found => return found,
        }
        self.create_with_seed(session).await?;
        read(session, path).await
    }

    /// Creates the node with the seed, if it does not exist. Retries nothing.
    async fn create_with_seed(&self, session: &Session) -> curator_client::Result<()> {
        match self.create(session, self.inner.seed).await {
            // Created by someone else, or by an earlier try of ours whose answer was lost.
            Ok(_) | Err(curator_client::Error::NodeExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, session: &Session, value: i32) -> curator_client::Result<Created> {
        let Inner { client, path, .. } = &*self.inner;
        let node = NodeSpec {
            path: path.clone(),
            data: encode(value).into(),
            mode: CreateMode::Persistent,
            acl: client.acl_for(path),
        };
        client.create_with_containers(session, &node).await
    }

    /// Parses what was read from the node.
    ///
    /// # Errors
    ///
    /// [`SharedCountError::Invalid`].
    fn parse(&self, data: &[u8], version: i32) -> Result<VersionedCount> {
        match decode(data) {
            Some(value) => Ok(VersionedCount { value, version }),
            None => Err(SharedCountError::Invalid { path: self.inner.path.clone(), size: data.len() }),
        }
    }
}

impl LimitNode for SharedCount {
    fn path(&self) -> &ZPath {
        self.path()
    }

    fn create_if_missing(&self, session: &Session) -> BoxFuture<'static, curator_client::Result<()>> {
        let (count, session) = (self.clone(), session.clone());
        async move { count.create_with_seed(&session).await }.boxed()
    }

    fn limit(&self, data: &[u8], version: i32) -> crate::error::Result<Limit> {
        let VersionedCount { value, version } = self.parse(data, version)?;
        // No lease below zero.
        Ok(Limit { leases: usize::try_from(value).unwrap_or(0), version: Some(version) })
    }
}

/// As Java's `ByteBuffer.putInt` writes it.
fn encode(value: i32) -> [u8; 4] {
    value.to_be_bytes()
}

fn decode(data: &[u8]) -> Option<i32> {
    data.try_into().ok().map(i32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_java() {
        assert_eq!(encode(1), [0, 0, 0, 1]);
        assert_eq!(encode(-2), [0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(encode(0x0102_0304), [1, 2, 3, 4]);
    }

    proptest! {
        #[test]
        fn every_number_is_read_as_it_was_written(value: i32) {
            prop_assert_eq!(decode(&encode(value)), Some(value));
        }

        #[test]
        fn four_bytes_are_a_number_and_nothing_else_is(data: Vec<u8>) {
            prop_assert_eq!(decode(&data).is_some(), data.len() == 4);
        }
    }
}
