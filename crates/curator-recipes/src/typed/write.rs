//! Writes the entries of a typed cache: creates, sets and deletes nodes by version.

use curator_client::{
    CreateMode, CuratorClient, Error as ClientError, NodeSpec, Outcome, Request, Session, Stat,
    ZPath,
};

use super::{EntryError, EntryVersion, TypedCache};
use crate::shared::ANY_VERSION;

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

type ClientResult<T> = Result<T, ClientError>;

impl<T: Send + Sync + 'static> TypedCache<T> {
    /// Creates or sets the entry called `name`, if it has the expected version: an
    /// [`ExpectedVersion`], or the [version](super::TypedEntry::version) of the entry. Returns the new
    /// version.
    ///
    /// Returns when the servers have confirmed the write. [`get`](Self::get) may not have it yet:
    /// see [`caught_up`](Self::caught_up).
    ///
    /// An entry is created as a persistent node; missing parents as containers, which the servers
    /// delete after their last child. An unconditional write sends one request if the entry exists,
    /// and a write by version a `sync` and a read, then the write. The caveats of [`EntryVersion`]
    /// apply.
    ///
    /// # Errors
    ///
    /// - [`Conflict`](EntryError::Conflict): the entry does not have the expected version.
    /// - [`OutcomeUnknown`](EntryError::OutcomeUnknown): the reply was lost. Only
    ///   [`ExpectedVersion::Any`] is retried, and can overwrite what another client has written
    ///   since the first attempt.
    /// - [`Overwritten`](EntryError::Overwritten).
    /// - Errors of the client, such as an invalid name.
    ///
    /// # Cancel safety
    ///
    /// The write may be applied even if the future is dropped.
    pub async fn put(
        &self,
        name: &str,
        value: &T,
        expected: impl Into<ExpectedVersion> + Send,
    ) -> Result<EntryVersion, EntryError> {
        let client = &self.client;
        let path = &self.entry_path(name)?;
        let node = &NodeSpec {
            path: path.clone(),
            data: self.codec.encode(value).into(),
            mode: CreateMode::Persistent,
            acl: client.acl_for(path),
        };
        let expected = expected.into();
        let stat = match expected {
            ExpectedVersion::Any => {
                let put = |session| async move { put_any(client, &session, node).await };
                client.retry_write(put).await.map(Some)
            }
            ExpectedVersion::Absent => {
                let create = |session| async move { create(client, &session, node).await };
                client.retry(create).await
            }
            ExpectedVersion::Is(version) => {
                let set = |session: &Session, version| session.set_data(path, &node.data, version);
                if_unchanged(client, path, version, set).await
            }
        };
        let is_repeated = expected == ExpectedVersion::Any;
        let stat = settled(path, stat, is_repeated)?;
        match expected {
            ExpectedVersion::Is(EntryVersion { czxid, .. }) if czxid != stat.czxid => {
                Err(EntryError::Overwritten { path: path.clone() })
            }
            _ => Ok(EntryVersion::of(&stat)),
        }
    }

    /// Deletes the entry called `name`, if it has this version. Sends a `sync` and a read, then the
    /// delete. The caveats of [`EntryVersion`] apply.
    ///
    /// To delete an entry with any version, use
    /// [`CuratorClient::delete`](curator_client::CuratorClient::delete).
    ///
    /// # Errors
    ///
    /// - [`Conflict`](EntryError::Conflict): the entry is missing or has another version.
    /// - [`OutcomeUnknown`](EntryError::OutcomeUnknown): the reply was lost. The request is not
    ///   retried: a retry could delete an entry that another client has created since.
    /// - Errors of the client, such as an invalid name, or
    ///   [`NotEmpty`](curator_client::Error::NotEmpty).
    ///
    /// # Cancel safety
    ///
    /// The delete may be applied even if the future is dropped.
    pub async fn delete(&self, name: &str, version: EntryVersion) -> Result<(), EntryError> {
        let path = &self.entry_path(name)?;
        let delete = |session: &Session, version| session.delete(path, version);
        let deleted = if_unchanged(&self.client, path, version, delete).await;
        settled(path, deleted, false)
    }
}

/// Creates or sets the node, whatever its version.
async fn put_any(client: &CuratorClient, session: &Session, node: &NodeSpec) -> ClientResult<Stat> {
    let set = || session.set_data(&node.path, &node.data, None);
    match set().await {
        Err(ClientError::NoNode { .. }) => {}
        set => return set,
    }
    match client.create_with_containers(session, node).await {
        // Another client has created the node.
        Err(ClientError::NodeExists { .. }) => match set().await {
            // And deleted it.
            Err(ClientError::NoNode { operation, path }) => {
                Err(ClientError::KeepsChanging { operation, path })
            }
            set => set,
        },
        created => Ok(created?.stat),
    }
}

/// Creates the node; `None` if there is one.
async fn create(
    client: &CuratorClient,
    session: &Session,
    node: &NodeSpec,
) -> ClientResult<Option<Stat>> {
    match client.create_with_containers(session, node).await {
        Ok(created) => Ok(Some(created.stat)),
        Err(ClientError::NodeExists { .. }) => Ok(None),
        Err(error) => Err(not_repeatable(&node.path, error)),
    }
}

/// Sends `write` for the node at `path`, at most once, if the node has this version; `None` if it
/// does not.
async fn if_unchanged<R>(
    client: &CuratorClient,
    path: &ZPath,
    expected: EntryVersion,
    write: impl Fn(&Session, Option<i32>) -> Request<R>,
) -> ClientResult<Option<R>> {
    if expected.version == ANY_VERSION {
        return Err(ClientError::InvalidRequest {
            operation: "write",
            path: path.clone(),
            reason: "servers treat the version -1 as any version: write unconditionally".to_owned(),
        });
    }
    let write = &write;
    let attempt = |session: Session| async move {
        // Sent together. The `sync` comes first, so that the server is up to date.
        let synced = session.sync(path);
        let found = session.exists(path);
        synced.await?;
        if found.await?.map(|stat| EntryVersion::of(&stat)) != Some(expected) {
            return Ok(None);
        }
        match write(&session, Some(expected.version)).await {
            Ok(written) => Ok(Some(written)),
            Err(ClientError::BadVersion { .. } | ClientError::NoNode { .. }) => Ok(None),
            Err(error) => Err(not_repeatable(path, error)),
        }
    };
    client.retry(attempt).await
}

/// The error that ends the retries if the request may have been applied.
fn not_repeatable(path: &ZPath, error: ClientError) -> ClientError {
    match error.outcome() {
        Outcome::Unknown => ClientError::Ambiguous {
            path: path.clone(),
            cause: Box::new(error),
        },
        Outcome::NotApplied => error,
    }
}

/// The result of a write: `None` is a conflict.
fn settled<R>(
    path: &ZPath,
    written: ClientResult<Option<R>>,
    is_repeated: bool,
) -> Result<R, EntryError> {
    let path = path.clone();
    match written {
        Ok(Some(written)) => Ok(written),
        Ok(None) => Err(EntryError::Conflict { path }),
        // Of a write that is not repeated, any other error is one of the reads before it.
        Err(cause @ ClientError::Ambiguous { .. }) => {
            Err(EntryError::OutcomeUnknown { path, cause })
        }
        Err(cause) if is_repeated && cause.outcome() == Outcome::Unknown => {
            Err(EntryError::OutcomeUnknown { path, cause })
        }
        Err(cause) => Err(cause.into()),
    }
}
