//! Writes the entries of a typed cache: creates, sets and deletes nodes by version.

use curator_client::{Error as ClientError, Outcome, Request, Session, Stat, ZPath};

use super::TypedCache;
use crate::error::{ValueError, is_conflict};
use crate::shared::ANY_VERSION;

/// Identifies a state of an entry: the node, by the zxid of its creation, and the number of writes
/// since.
///
/// # Caveats
///
/// ZooKeeper compares only the number of writes, which restarts when an entry is deleted and
/// created again. So [`put`](TypedCache::put) and [`delete`](TypedCache::delete) of a version first
/// read the node from an up-to-date server, and send nothing if it is another one. If other clients
/// delete the node, create it again and write it until it has the same number, all between this
/// read and the write, a `put` replaces a value that it does not know: it then returns
/// [`Overwritten`](ValueError::Overwritten). A `delete` cannot detect that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[expect(
    clippy::exhaustive_structs,
    reason = "identifies a state of a node; callers may store it and write it in full"
)]
pub struct EntryVersion {
    /// The zxid of the node's creation (`czxid`).
    pub czxid: i64,
    /// The number of writes since the creation.
    pub version: i32,
}

impl EntryVersion {
    pub(super) fn of(stat: &Stat) -> Self {
        let Stat { czxid, version, .. } = *stat;
        Self { czxid, version }
    }
}

/// What [`TypedCache::put`] requires of the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExpectedVersion {
    /// Nothing: the entry is created if it is missing, and overwritten otherwise.
    Any,
    /// There is no entry: it is created.
    Absent,
    /// The entry has this version.
    Is(EntryVersion),
}

impl From<EntryVersion> for ExpectedVersion {
    fn from(version: EntryVersion) -> Self {
        Self::Is(version)
    }
}

impl<T: Send + Sync + 'static> TypedCache<T> {
    /// Creates or sets the entry called `name`, if it has the expected version: an
    /// [`ExpectedVersion`], or the [version](super::TypedEntry::version) of the entry. Returns the new
    /// version.
    ///
    /// Returns when the servers have confirmed the write. [`get`](Self::get) may not have it yet:
    /// see [`caught_up`](crate::CuratorCache::caught_up).
    ///
    /// An entry is created as a persistent node; missing parents as containers, which the servers
    /// delete after their last child. An unconditional write sends one request if the entry exists,
    /// and a write by version a `sync` and a read, then the write. The caveats of [`EntryVersion`]
    /// apply.
    ///
    /// # Errors
    ///
    /// - [`Conflict`](ValueError::Conflict): the entry does not have the expected version.
    /// - [`OutcomeUnknown`](ValueError::OutcomeUnknown): the reply was lost. Only
    ///   [`ExpectedVersion::Any`] is retried, and can overwrite what another client has written
    ///   since the first attempt.
    /// - [`Overwritten`](ValueError::Overwritten), [`ReadFailed`](ValueError::ReadFailed),
    ///   [`VersionExhausted`](ValueError::VersionExhausted).
    /// - [`Client`](ValueError::Client), such as an invalid name. Nothing was changed.
    ///
    /// # Cancel safety
    ///
    /// The write may be applied even if the future is dropped.
    pub async fn put(
        &self,
        name: &str,
        value: &T,
        expected: impl Into<ExpectedVersion> + Send,
    ) -> Result<EntryVersion, ValueError> {
        let path = &self.cache.path().child(name)?;
        let data = &self.codec.encode(value);
        let client = self.cache.client();
        let create = client.create().creating_parent_containers();
        let stat = match expected.into() {
            ExpectedVersion::Any => {
                let put = async {
                    let put = create.or_set_data().for_path_with_stat(path, data).await;
                    Ok(put?.stat)
                };
                let put = match client.set_data(path, data, None).await {
                    Err(ClientError::NoNode { .. }) => put.await,
                    // An attempt whose reply was lost stays in doubt.
                    Err(ClientError::RetryFailed { in_doubt, cause })
                        if matches!(*cause, ClientError::NoNode { .. }) =>
                    {
                        let put = put.await.map_err(Box::new);
                        put.map_err(|cause| ClientError::RetryFailed { in_doubt, cause })
                    }
                    set => set,
                };
                put.map_err(|cause| failed(path, cause, true))?
            }
            ExpectedVersion::Absent => {
                let created = create.for_path_with_stat(path, data).await;
                created.map_err(|cause| failed(path, cause, false))?.stat
            }
            ExpectedVersion::Is(expected) => {
                let set = |session: &Session, version| session.set_data(path, data, version);
                let stat = self.if_unchanged(path, expected, set).await?;
                if stat.czxid != expected.czxid {
                    return Err(ValueError::Overwritten { path: path.clone() });
                }
                stat
            }
        };
        Ok(EntryVersion::of(&stat))
    }

    /// Deletes the entry called `name`, if it has this version. Sends a `sync` and a read, then the
    /// delete. The caveats of [`EntryVersion`] apply.
    ///
    /// To delete an entry with any version, use
    /// [`CuratorClient::delete`](curator_client::CuratorClient::delete).
    ///
    /// # Errors
    ///
    /// - [`Conflict`](ValueError::Conflict): the entry is missing or has another version.
    /// - [`OutcomeUnknown`](ValueError::OutcomeUnknown): the reply was lost. The request is not
    ///   retried: a retry could delete an entry that another client has created since.
    /// - [`ReadFailed`](ValueError::ReadFailed),
    ///   [`VersionExhausted`](ValueError::VersionExhausted).
    /// - [`Client`](ValueError::Client), such as an invalid name, or
    ///   [`NotEmpty`](curator_client::Error::NotEmpty). Nothing was changed.
    ///
    /// # Cancel safety
    ///
    /// The delete may be applied even if the future is dropped.
    pub async fn delete(&self, name: &str, version: EntryVersion) -> Result<(), ValueError> {
        let path = &self.cache.path().child(name)?;
        let delete = |session: &Session, version| session.delete(path, version);
        self.if_unchanged(path, version, delete).await
    }

    /// Sends `write` for the node at `path`, at most once, if the node has this version. Each
    /// attempt reads the version: during an outage, the node may be created again. So neither
    /// `set_data` of the client, which would read once, nor its `delete`, which repeats a delete
    /// whose reply is lost, is of use here.
    async fn if_unchanged<R>(
        &self,
        path: &ZPath,
        expected: EntryVersion,
        write: impl Fn(&Session, Option<i32>) -> Request<R>,
    ) -> Result<R, ValueError> {
        if expected.version == ANY_VERSION {
            return Err(ValueError::VersionExhausted { path: path.clone() });
        }
        let write = &write;
        let attempt = |session: Session| async move {
            // Sent together. The `sync` comes first, so that the server is up to date.
            let synced = session.sync(path);
            let found = session.exists(path);
            synced.await?;
            if found.await?.as_ref().map(EntryVersion::of) != Some(expected) {
                let (operation, path) = ("write", path.clone());
                return Err(ClientError::BadVersion { operation, path });
            }
            let written = write(&session, Some(expected.version)).await;
            written.map_err(|error| error.of_unrepeatable(path))
        };
        let written = self.cache.client().retry(attempt).await;
        written.map_err(|cause| failed(path, cause, false))
    }
}

/// The error of a write. If the write is not repeated, an unknown outcome of it is an
/// [`Ambiguous`](ClientError::Ambiguous), and any other error is one of the reads before it.
fn failed(path: &ZPath, cause: ClientError, is_repeated: bool) -> ValueError {
    let path = path.clone();
    match cause {
        _ if is_conflict(&cause) => ValueError::Conflict { path },
        ClientError::Ambiguous { .. } => ValueError::OutcomeUnknown { path, cause },
        _ if cause.outcome() == Outcome::NotApplied => ValueError::Client(cause),
        _ if is_repeated => ValueError::OutcomeUnknown { path, cause },
        _ => ValueError::ReadFailed { path, cause },
    }
}
