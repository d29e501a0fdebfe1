//! A value that all processes share, in a node that can keep one.

mod changes;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use curator_client::{
    CreateMode, Created, CuratorClient, NodePath, NodeSpec, Outcome, Request, Session, Stat, Watch,
    ZPath, debug_line,
};
use derive_where::derive_where;

pub use self::changes::ValueChanges;
use crate::codec::ValueCodec;
use crate::error::{UnsuitableNode, ValueError};

/// The version that servers treat as any version. A node reaches it after 2^32 - 1 writes.
pub(crate) const ANY_VERSION: i32 = -1;

/// Stands for a missing node in place of its `czxid`.
const NO_NODE: i64 = 0;

pub(super) type Result<T> = std::result::Result<T, ValueError>;

/// A value that all processes share, in the data of one persistent node.
///
/// Curator's `SharedValue`; both can share a path if the [codec](ValueCodec) encodes the value in
/// the same way. For a number, use [`SharedCount`](crate::SharedCount). Clones are handles to the
/// same value.
///
/// ```no_run
/// use curator_recipes::SharedValue;
/// use curator_recipes::client::CuratorClient;
///
/// # async fn example() -> Result<(), curator_recipes::ValueError> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let text = (|text: &String| text.clone().into_bytes(), |data: &[u8]| String::from_utf8(data.to_vec()));
/// let banner = SharedValue::with_codec(&client, "/site/banner", text, "welcome".to_owned())?;
/// let before = banner.versioned().await?;
/// if !banner.compare_and_set(&before, format!("{} back", before.value)).await? {
///     println!("another process has changed it");
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - The node exists after the first successful [`get`](Self::get), [`versioned`](Self::versioned),
///   [`watch`](Self::watch) or [`set`](Self::set), and stays after all clients have closed. If
///   several processes find it missing, one creates it. Missing parents are created as containers,
///   as in Curator.
/// - An ephemeral node, and a node that another recipe has created as its directory, is rejected if
///   it can be recognized: see [`Unsuitable`](ValueError::Unsuitable).
/// - Of several [`compare_and_set`](Self::compare_and_set) calls with the same previous version, at
///   most one changes the value.
///
/// # Caveats
///
/// Like all ZooKeeper reads, a read can miss a recent write of another client: where that matters,
/// call [`CuratorClient::sync`] before it. Versions restart when the node is deleted and created
/// again, so a `compare_and_set` across a deletion can replace a different value with the same
/// version.
///
/// Unlike Curator's `SharedValue`, this has no `start`, and keeps no copy in the background: each
/// call sends a request. In place of Curator's listeners, use [`changes`](Self::changes).
#[derive_where(Clone)]
pub struct SharedValue<T> {
    pub(crate) inner: Arc<Inner<T>>,
}

debug_line!(SharedValue<T>, |value| path: value.inner.path, connection: value.inner.client.connection_state());

pub(crate) struct Inner<T> {
    pub(crate) client: CuratorClient,
    /// The full path on the server.
    pub(crate) path: ZPath,
    codec: Box<dyn ValueCodec<T>>,
    seed: T,
    /// The `czxid` of the last node that was found suitable, or was created or written by this
    /// handle. While it is [`NO_NODE`], `set` first reads the node's stat.
    checked: AtomicI64,
}

/// Whether an unconditional write has found the node or created it.
enum Written {
    Found,
    Created,
}

/// A value and its version, which [`SharedValue::compare_and_set`] compares.
///
/// Curator's `VersionedValue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[non_exhaustive]
pub struct VersionedValue<T> {
    /// The value.
    pub value: T,
    /// The version of the node: the number of writes since its creation, including writes of the
    /// same value.
    pub version: i32,
}

impl<T: Send + Sync + 'static> SharedValue<T> {
    /// Creates a handle to the value at `path`; its initial value is `seed`. Sends nothing.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn with_codec(
        client: &CuratorClient,
        path: impl NodePath,
        codec: impl ValueCodec<T>,
        seed: T,
    ) -> Result<Self> {
        let path = client.resolve(path)?;
        let client = client.clone();
        let codec = Box::new(codec);
        let checked = AtomicI64::new(NO_NODE);
        Ok(Self {
            inner: Arc::new(Inner {
                client,
                path,
                codec,
                seed,
                checked,
            }),
        })
    }

    /// The node's full path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        &self.inner.path
    }

    /// The value that the node is created with.
    #[must_use]
    pub fn seed(&self) -> &T {
        &self.inner.seed
    }

    /// Returns the value. Creates the node with the seed if it is missing. One request if the node
    /// exists.
    ///
    /// # Errors
    ///
    /// [`ValueError::Invalid`] when the node's data cannot be decoded;
    /// [`Unsuitable`](ValueError::Unsuitable); errors of the client when its retry policy permits
    /// no more retries.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may still create the node.
    pub async fn get(&self) -> Result<T> {
        Ok(self.versioned().await?.value)
    }

    /// Like [`get`](Self::get), with the version of the node.
    ///
    /// # Errors
    ///
    /// See [`get`](Self::get).
    ///
    /// # Cancel safety
    ///
    /// See [`get`](Self::get).
    pub async fn versioned(&self) -> Result<VersionedValue<T>> {
        let (data, stat) = self.read(Session::get_data).await?;
        self.check(&stat)?;
        Ok(VersionedValue {
            value: self.decode(&data)?,
            version: stat.version,
        })
    }

    /// Like [`versioned`](Self::versioned), and sets a one-shot watch for the next change or the
    /// deletion of the node.
    ///
    /// Between the event and the next call the value may change several times: the call returns
    /// only the latest value.
    ///
    /// # Errors
    ///
    /// See [`get`](Self::get).
    ///
    /// # Cancel safety
    ///
    /// See [`get`](Self::get); no watch is left behind.
    pub async fn watch(&self) -> Result<(VersionedValue<T>, Watch)> {
        let (data, stat, watch) = self.read(Session::watch_data).await?;
        self.check(&stat)?;
        Ok((
            VersionedValue {
                value: self.decode(&data)?,
                version: stat.version,
            },
            watch,
        ))
    }

    /// Returns a stream of the current value, and then the latest value after each change, until
    /// the client closes. Sends nothing before the stream is polled.
    ///
    /// It creates the node if it is missing, like [`get`](Self::get).
    pub fn changes(&self) -> ValueChanges<T> {
        changes::changes(self)
    }

    /// Sets the value unconditionally, even if the node's data is invalid. Creates the node if it
    /// is missing. One request if the node exists; two in the first call, unless this handle or a
    /// clone has read the node.
    ///
    /// # Errors
    ///
    /// - [`Unsuitable`](ValueError::Unsuitable). This can also be returned after the write: if
    ///   another client has deleted the node that this handle knew, and another recipe has created
    ///   its directory there.
    /// - [`OutcomeUnknown`](ValueError::OutcomeUnknown) when the client's retry policy permits no
    ///   retry after a lost reply.
    /// - Other errors of the client.
    ///
    /// Like [`CuratorClient::set_data`] without a version, this retries a request whose reply is
    /// lost, and can overwrite a value that another client has set since the first attempt.
    ///
    /// # Cancel safety
    ///
    /// The change may be applied even if the future is dropped.
    pub async fn set(&self, value: T) -> Result<()> {
        let known = self.check_before_set().await?;
        let path = &self.inner.path;
        let data = self.inner.codec.encode(&value);
        let data = &data;
        let set = self.inner.client.retry_write(|session| async move {
            match session.set_data(path, data, None).await {
                Err(curator_client::Error::NoNode { .. }) => {}
                set => return Ok((set?, Written::Found)),
            }
            match self.create(&session, data).await {
                // Another client has created the node with another value.
                Err(curator_client::Error::NodeExists { .. }) => {
                    Ok((session.set_data(path, data, None).await?, Written::Found))
                }
                created => Ok((created?.stat, Written::Created)),
            }
        });
        let (stat, written) = set.await.map_err(|cause| self.write_error(cause))?;
        match (known, written) {
            (Some(known), Written::Found) => self.check_written(&stat, known),
            _ => {
                self.inner.checked.store(stat.czxid, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Checks the node, unless this was done before. Returns its `czxid`, or [`NO_NODE`] if it is
    /// missing; `None` if it cannot be read.
    async fn check_before_set(&self) -> Result<Option<i64>> {
        let Inner {
            client,
            path,
            checked,
            ..
        } = &*self.inner;
        let checked = checked.load(Ordering::Relaxed);
        if checked != NO_NODE {
            return Ok(Some(checked));
        }
        match client.check_exists(path).await {
            Ok(Some(stat)) => self.check(&stat).map(|()| Some(stat.czxid)),
            Ok(None) => Ok(Some(NO_NODE)),
            // The client may still be allowed to write.
            Err(curator_client::Error::NoAuth { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Checks the node that was written, unless it is the `known` one. A write cannot require a
    /// `czxid`, so the check comes after the write.
    fn check_written(&self, stat: &Stat, known: i64) -> Result<()> {
        if stat.czxid == known {
            return Ok(());
        }
        let cause = was_unsuitable(stat, || self.may_be_empty());
        self.record_check(stat, cause, true)
    }

    /// Checks that the node can keep a value.
    pub(crate) fn check(&self, stat: &Stat) -> Result<()> {
        let cause = unsuitable(stat, || self.may_be_empty());
        self.record_check(stat, cause, false)
    }

    fn may_be_empty(&self) -> MayBeEmpty {
        if self.encode(&self.inner.seed).is_empty() {
            MayBeEmpty::Yes
        } else {
            MayBeEmpty::No
        }
    }

    /// Records the result of a check, and returns it.
    fn record_check(
        &self,
        stat: &Stat,
        cause: Option<UnsuitableNode>,
        is_written: bool,
    ) -> Result<()> {
        let Inner { path, checked, .. } = &*self.inner;
        checked.store(
            if cause.is_some() { NO_NODE } else { stat.czxid },
            Ordering::Relaxed,
        );
        match cause {
            Some(cause) => Err(ValueError::Unsuitable {
                path: path.clone(),
                cause,
                is_written,
            }),
            None => Ok(()),
        }
    }

    /// Converts the client's error of a write: to `OutcomeUnknown` if the outcome is unknown.
    pub(crate) fn write_error(&self, cause: curator_client::Error) -> ValueError {
        match cause.outcome() {
            Outcome::Unknown => ValueError::OutcomeUnknown {
                path: self.inner.path.clone(),
                cause,
            },
            Outcome::NotApplied => cause.into(),
        }
    }

    /// Sets the value if the node still has the version of `previous`; returns `false` if it has
    /// another version or was deleted. One request.
    ///
    /// Curator's `trySetValue`.
    ///
    /// # Errors
    ///
    /// [`OutcomeUnknown`](ValueError::OutcomeUnknown) when the reply is lost. The request is not
    /// retried, because a retry could not distinguish this change from another client's: read the
    /// value. [`VersionExhausted`](ValueError::VersionExhausted) when the version is -1, after
    /// 2^32 - 1 writes, because servers treat -1 as any version.
    /// [`Unsuitable`](ValueError::Unsuitable) after the write, as for [`set`](Self::set). Other
    /// errors of the client.
    ///
    /// # Cancel safety
    ///
    /// The change may be applied even if the future is dropped.
    pub async fn compare_and_set(&self, previous: &VersionedValue<T>, value: T) -> Result<bool> {
        let Inner {
            client,
            path,
            codec,
            checked,
            ..
        } = &*self.inner;
        if previous.version == ANY_VERSION {
            return Err(ValueError::VersionExhausted { path: path.clone() });
        }
        match client
            .set_data(path, codec.encode(&value), Some(previous.version))
            .await
        {
            // `previous` may come from another handle; then this handle may not know the node.
            Ok(stat) => match checked.load(Ordering::Relaxed) {
                NO_NODE => Ok(true),
                known => self.check_written(&stat, known).map(|()| true),
            },
            Err(
                curator_client::Error::BadVersion { .. } | curator_client::Error::NoNode { .. },
            ) => Ok(false),
            Err(error) => Err(self.write_error(error)),
        }
    }

    /// Reads the node, and creates it if it is missing.
    async fn read<R>(&self, read: impl Fn(&Session, &ZPath) -> Request<R>) -> Result<R> {
        let read = &read;
        Ok(self
            .inner
            .client
            .retry(|session| async move { self.read_in(&session, read).await })
            .await?)
    }

    /// Like [`read`](Self::read), in one session, without retries.
    async fn read_in<R>(
        &self,
        session: &Session,
        read: &impl Fn(&Session, &ZPath) -> Request<R>,
    ) -> curator_client::Result<R> {
        let path = &self.inner.path;
        match read(session, path).await {
            Err(curator_client::Error::NoNode { .. }) => {}
            found => return found,
        }
        self.create_with_seed(session).await?;
        read(session, path).await
    }

    /// Creates the node with the seed, if it does not exist. Retries nothing.
    pub(crate) async fn create_with_seed(&self, session: &Session) -> curator_client::Result<()> {
        match self
            .create(session, &self.inner.codec.encode(&self.inner.seed))
            .await
        {
            // The node was created by another client, or by an earlier attempt of this call whose
            // reply was lost.
            Ok(_) | Err(curator_client::Error::NodeExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, session: &Session, data: &[u8]) -> curator_client::Result<Created> {
        self.inner
            .client
            .create_with_containers(session, &self.new_node(data))
            .await
    }

    pub(crate) fn new_node(&self, data: &[u8]) -> NodeSpec {
        let Inner { client, path, .. } = &*self.inner;
        NodeSpec {
            path: path.clone(),
            data: data.into(),
            mode: CreateMode::Persistent,
            acl: client.acl_for(path),
        }
    }

    pub(crate) fn encode(&self, value: &T) -> Vec<u8> {
        self.inner.codec.encode(value)
    }

    pub(crate) fn decode(&self, data: &[u8]) -> Result<T> {
        self.inner
            .codec
            .decode(data)
            .map_err(|cause| ValueError::Invalid {
                path: self.inner.path.clone(),
                cause: cause.into(),
            })
    }
}

/// The `ephemeral_owner` of a container in the stats of ClickHouse Keeper. ZooKeeper reports 0.
const CONTAINER_OWNER: i64 = i64::MIN;

/// Whether a node without data may be a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MayBeEmpty {
    Yes,
    No,
}

/// Returns what the node is, if it cannot keep a value, because the servers delete it.
///
/// A value is created as a persistent node. But another recipe may have created its directory there
/// first, as a container, and ZooKeeper's stat does not distinguish containers from persistent
/// nodes. A directory is recognized if it was never written and has no data.
pub(crate) fn unsuitable(
    stat: &Stat,
    may_be_empty: impl FnOnce() -> MayBeEmpty,
) -> Option<UnsuitableNode> {
    let has_no_data = stat.data_length == 0 && stat.version == 0;
    match stat.ephemeral_owner {
        0 if has_no_data && stat.cversion != 0 => match may_be_empty() {
            MayBeEmpty::Yes => None,
            MayBeEmpty::No => Some(UnsuitableNode::Directory),
        },
        0 => None,
        CONTAINER_OWNER => Some(UnsuitableNode::Container),
        session => Some(UnsuitableNode::Ephemeral { session }),
    }
}

/// Returns what the node was before the write whose reply is `stat`, if it cannot keep a value.
fn was_unsuitable(
    stat: &Stat,
    may_be_empty: impl FnOnce() -> MayBeEmpty,
) -> Option<UnsuitableNode> {
    let mut before = *stat;
    before.version = stat.version.wrapping_sub(1);
    // The length of the replaced data is unknown. Assume that there was none, as in a directory.
    before.data_length = 0;
    unsuitable(&before, may_be_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(data_length: i32, version: i32, cversion: i32, ephemeral_owner: i64) -> Stat {
        let mut stat = Stat::default();
        stat.data_length = data_length;
        stat.version = version;
        stat.cversion = cversion;
        stat.ephemeral_owner = ephemeral_owner;
        stat
    }

    #[test]
    fn a_directory_is_a_node_that_had_children_but_never_data() {
        let check = |data_length, version, cversion| {
            unsuitable(&stat(data_length, version, cversion, 0), || MayBeEmpty::No)
        };
        assert_eq!(check(0, 0, 1), Some(UnsuitableNode::Directory));
        assert_eq!(check(0, 0, 0), None);
        assert_eq!(check(8, 0, 1), None);
        assert_eq!(check(0, 1, 1), None);
        assert_eq!(unsuitable(&stat(0, 0, 1, 0), || MayBeEmpty::Yes), None);
        let check_before_write =
            |version, cversion| was_unsuitable(&stat(4, version, cversion, 0), || MayBeEmpty::No);
        assert_eq!(check_before_write(1, 1), Some(UnsuitableNode::Directory));
        assert_eq!(check_before_write(1, 0), None);
        assert_eq!(check_before_write(2, 1), None);
    }

    #[test]
    fn a_container_and_an_ephemeral_node_are_recognized_by_their_owner() {
        let check = |owner| unsuitable(&stat(8, 3, 0, owner), || MayBeEmpty::Yes);
        assert_eq!(check(i64::MIN), Some(UnsuitableNode::Container));
        assert_eq!(check(7), Some(UnsuitableNode::Ephemeral { session: 7 }));
        assert_eq!(check(-7), Some(UnsuitableNode::Ephemeral { session: -7 }));
    }
}
