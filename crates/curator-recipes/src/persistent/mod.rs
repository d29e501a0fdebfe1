//! A node that is kept in existence.

mod claims;
mod keeper;
mod kept;
mod state;

use std::sync::Arc;
use std::time::Duration;

use curator_client::source::watch;
use curator_client::{
    Acl, CreateMode, CuratorClient, Deadline, Error as ClientError, InvalidPath, NodePath, Outcome,
    ZPath, debug_as_text, debug_line,
};

pub use self::state::PersistentNodeState;
use self::state::{Command, Report};
use crate::changes::Latest;
use crate::task::{RecipeTask, TaskError};

type Result<T> = std::result::Result<T, PersistentNodeError>;

/// A node that is kept in existence until it is closed: through lost connections, lost sessions,
/// and deletion by other clients.
///
/// Curator's `PersistentNode`. A background task on the client's runtime keeps it; the user need
/// not poll anything.
///
/// ```no_run
/// use curator_recipes::PersistentNode;
/// use curator_recipes::client::CuratorClient;
///
/// # async fn example() -> Result<(), curator_recipes::PersistentNodeError> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let node = PersistentNode::builder(&client, "/workers/worker-7")?.data("10.0.0.7:8080").start();
/// let path = node.created().await?;
/// println!("{path} exists, and is kept");
/// node.set_data("10.0.0.7:8081").await?;
/// // Deletes it.
/// node.close().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - The node is created as soon as the server permits it, and again whenever it is missing, with
///   the latest data. Missing parents are created as containers.
/// - Another owner's node is never used, written or deleted, except with
///   [`adopt_existing`](PersistentNodeBuilder::adopt_existing): the [state](Self::state) names its
///   owner, and the persistent node creates its own node once the other one is deleted. So of
///   several processes with the same path, one has the node, and the others wait.
/// - After a lost session, an ephemeral node of the old session is replaced in one transaction if
///   the servers still have it, so that it always exists for other clients.
/// - [Data](Self::set_data) is written even after an outage of any length, and again if the servers
///   have lost it because they were restored from an older copy.
/// - [Closing](Self::close) deletes the node, even if its create is in flight, but not a node of
///   another owner.
///
/// # Caveats
///
/// Data that another client writes to the node stays until the next [`set_data`](Self::set_data),
/// or until the node is created again.
///
/// The servers compare only versions, which restart when a node is created again. This persistent
/// node reads the node, and then sends a request that replaces, writes or deletes it. If in between
/// another client deletes the node and creates one with the same version, the request affects the
/// new node.
///
/// A write in flight when the session is lost can arrive after the node was replaced. The node then
/// has older data until this persistent node writes the latest data again: it recognizes the data
/// of its last 16 writes without a reply, each once.
///
/// To create a sequential node in a directory that was deleted and created again, the client may
/// have to skip numbers that other nodes have. It does so by creating and deleting nodes in the
/// directory, which needs the permission to delete.
///
/// If the reply to a create is lost, an ephemeral node is recognized by its session, and a
/// protected one by its name. Any other node counts as foreign, because its creator is not known:
/// use [`with_protection`](PersistentNodeBuilder::with_protection) or, unless the node is
/// sequential, [`adopt_existing`](PersistentNodeBuilder::adopt_existing).
///
/// If the client closes before the persistent node, a node that is not ephemeral stays.
///
/// Clones are handles to one node. It is deleted in the background when the last handle is dropped.
#[derive(Clone)]
pub struct PersistentNode {
    mode: CreateMode,
    commands: Arc<watch::Sender<Command>>,
    states: watch::Receiver<PersistentNodeState>,
    reports: watch::Receiver<Report>,
    task: RecipeTask<PersistentNodeError>,
}

debug_line!(PersistentNode, |node| path: node.path(), mode: node.mode, state: *node.states.borrow(), connection: node.task.client.connection_state());

impl PersistentNode {
    /// The configured path on the server, including chroot and namespace, without protection prefix
    /// and sequence number.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        &self.task.path
    }

    /// The path of the node on the server, while it is believed to exist; during an outage, the
    /// last known path.
    ///
    /// Curator's `getActualPath`.
    #[must_use]
    pub fn actual_path(&self) -> Option<ZPath> {
        self.reports.borrow().node.clone()
    }

    /// The state of the node, and its changes.
    ///
    /// When the node is no longer kept, the state is [`Closed`](PersistentNodeState::Closed), and
    /// once it is deleted, [`changed`](Latest::changed) fails. In a forked child it no longer
    /// changes.
    #[must_use]
    pub fn state(&self) -> Latest<PersistentNodeState> {
        Latest::new(&self.states)
    }

    /// Why the last attempt to read, create or adopt the node has failed. `None` while it exists,
    /// or belongs to another owner.
    #[must_use]
    pub fn last_error(&self) -> Option<PersistentNodeError> {
        self.reports.borrow().error.clone()
    }

    /// Waits until the node exists and belongs to this persistent node, and returns its path.
    /// Returns immediately if it exists now.
    ///
    /// # Errors
    ///
    /// [`Closed`](PersistentNodeError::Closed) when this persistent node is closed;
    /// [`Client`](PersistentNodeError::Client) when the client is closed, or has ended;
    /// [`Panicked`](PersistentNodeError::Panicked). No other errors: the wait continues through
    /// outages, refusals and foreign owners, which the [state](Self::state) reports.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped: the node is still created.
    pub async fn created(&self) -> Result<ZPath> {
        self.until(&self.states, |state| match state {
            PersistentNodeState::Present { path } => Some(path.clone()),
            _ => None,
        })
        .await
    }

    /// Waits for a state or a report, until this persistent node or its client is closed.
    async fn until<V, T>(
        &self,
        values: &watch::Receiver<V>,
        find: impl FnMut(&V) -> Option<T>,
    ) -> Result<T> {
        let mut commands = self.commands.subscribe();
        tokio::select! {
            biased;
            // Checked first: after the client has closed, the last state is outdated.
            error = self.task.client.closing() => Err(error.into()),
            found = self.task.until(values, find) => found,
            _ = commands.wait_for(|command| command.is_closing) => {
                Err(PersistentNodeError::Closed { path: self.task.path.clone() })
            }
        }
    }

    /// Like [`created`](Self::created), but waits at most `timeout`; if it is zero, checks the
    /// state once. After a timeout, the node is still created later.
    ///
    /// Curator's `waitForInitialCreate`.
    ///
    /// # Errors
    ///
    /// See `created`. At the timeout, the cause:
    /// [`ForeignOwner`](PersistentNodeError::ForeignOwner),
    /// [`Refused`](PersistentNodeError::Refused), or
    /// [`NotCreated`](PersistentNodeError::NotCreated).
    ///
    /// # Cancel safety
    ///
    /// See `created`.
    pub async fn created_timeout(&self, timeout: Duration) -> Result<ZPath> {
        let deadline = Deadline::after(timeout);
        tokio::select! {
            biased;
            created = self.created() => created,
            () = self.task.client.sleep_until(deadline) => Err(self.not_created(timeout)),
        }
    }

    /// Why the node does not exist.
    fn not_created(&self, after: Duration) -> PersistentNodeError {
        match self.states.borrow().clone() {
            PersistentNodeState::Foreign { path, owner } => {
                PersistentNodeError::ForeignOwner { path, owner, after }
            }
            PersistentNodeState::Refused { error: cause } => PersistentNodeError::Refused {
                path: self.task.path.clone(),
                after,
                cause,
            },
            _ => {
                let cause = self.task.client.check_connected().err();
                PersistentNodeError::NotCreated {
                    path: self.task.path.clone(),
                    after,
                    cause,
                }
            }
        }
    }

    /// Sets the data of the node, and returns when the node has it, or has data that was set later
    /// by the same persistent node. Waits for the node if it does not exist. Can be called at any
    /// time, even before the node is created or while the connection is down.
    ///
    /// Curator's `setData` fails before the node is created, and does not wait.
    ///
    /// # Errors
    ///
    /// [`Client`](PersistentNodeError::Client) when the server refuses to write the data: the node
    /// then keeps its previous data, even when it is created again. If a later call replaces the
    /// data before it is written, the result is that of the later call. For other errors, see
    /// [`created`](Self::created).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not cancel the write: the call requests it before it returns the
    /// future.
    pub fn set_data(&self, data: impl AsRef<[u8]>) -> impl Future<Output = Result<()>> + Send {
        let mut number = 0;
        self.task.command(&self.commands, |command| {
            command.data = data.as_ref().into();
            command.number += 1;
            number = command.number;
        });
        async move {
            self.until(&self.reports, |report| {
                if report.applied >= number {
                    return Some(Ok(()));
                }
                match &report.refused {
                    Some((refused, error)) if *refused >= number => Some(Err(error.clone().into())),
                    _ => None,
                }
            })
            .await?
        }
    }

    /// Deletes the node, unless it belongs to another owner, and stops keeping it, for all clones.
    /// Returns when the node is deleted, when its session has ended (the servers then delete the
    /// node), or after the client's close timeout. A second call is harmless.
    ///
    /// # Errors
    ///
    /// - [`DeletePending`](PersistentNodeError::DeletePending) at the timeout.
    /// - [`DeleteRefused`](PersistentNodeError::DeleteRefused) if the server refuses the delete.
    ///   Later calls return the same error, and do not try again.
    /// - [`Client`](PersistentNodeError::Client) if the client's runtime has ended, the process was
    ///   forked, or the client is closed and the node is not ephemeral. The node may then stay.
    /// - [`Panicked`](PersistentNodeError::Panicked).
    ///
    /// # Cancel safety
    ///
    /// Once the future was polled, the node is deleted even if the future is dropped.
    pub async fn close(&self) -> Result<()> {
        self.task
            .command(&self.commands, |command| command.is_closing = true);
        let after = self.task.client.close_timeout();
        let deadline = Deadline::after(after);
        let closed = tokio::select! {
            biased;
            left = self.task.until(&self.reports, |report| report.left.clone()) => left.flatten(),
            () = self.task.client.sleep_until(deadline) => {
                return Err(PersistentNodeError::DeletePending { path: self.actual_path().unwrap_or_else(|| self.task.path.clone()), after });
            }
        };
        match closed {
            Err(PersistentNodeError::Closed { .. }) => Ok(()),
            Err(PersistentNodeError::Client(ClientError::Closed)) if self.mode.is_ephemeral() => {
                Ok(())
            }
            closed => closed,
        }
    }
}

/// Configures and starts a [`PersistentNode`].
#[derive(Clone)]
#[must_use = "nothing happens before `start`"]
pub struct PersistentNodeBuilder {
    client: CuratorClient,
    path: ZPath,
    mode: CreateMode,
    data: Arc<[u8]>,
    acl: Option<Arc<[Acl]>>,
    is_protected: bool,
    adopts: bool,
}

debug_line!(PersistentNodeBuilder, |builder| path: builder.path, mode: builder.mode);

impl PersistentNode {
    /// Configures the node at `path`. Nothing is sent before
    /// [`start`](PersistentNodeBuilder::start).
    ///
    /// # Errors
    ///
    /// When the path is invalid, or the root.
    pub fn builder(client: &CuratorClient, path: impl NodePath) -> Result<PersistentNodeBuilder> {
        let path = client.resolve(path)?;
        if path.is_root() {
            let reason = "the root always exists".to_owned();
            return Err(ClientError::InvalidRequest {
                operation: "create",
                path,
                reason,
            }
            .into());
        }
        Ok(PersistentNodeBuilder {
            client: client.clone(),
            path,
            mode: CreateMode::Ephemeral,
            data: Arc::from([]),
            acl: None,
            is_protected: false,
            adopts: false,
        })
    }
}

impl PersistentNodeBuilder {
    /// Sets the kind of node. Defaults to [`CreateMode::Ephemeral`].
    ///
    /// The number of a sequential node is assigned once: when the node is created again, it has the
    /// same name, or the next number if another client's node has that name. That happens after the
    /// directory was deleted and created again, because the server then counts from 0 again.
    pub fn mode(self, mode: CreateMode) -> Self {
        Self { mode, ..self }
    }

    /// Sets the data of the node. Defaults to none. Curator's default is the client's address.
    pub fn data(self, data: impl AsRef<[u8]>) -> Self {
        Self {
            data: data.as_ref().into(),
            ..self
        }
    }

    /// Adds the prefix `_c_<uuid>-` to the name, the same one each time that the node is created.
    /// So the node can be found if the reply to its create is lost, and no other client has a node
    /// with this name.
    pub fn with_protection(self) -> Self {
        Self {
            is_protected: true,
            ..self
        }
    }

    /// Sets the ACL of the node. Defaults to the ACL of the client's
    /// [`AclProvider`](curator_client::AclProvider) for its path, or else to the client's default
    /// ACL.
    ///
    /// It must permit this client to read the node, because the node is watched. Otherwise the node
    /// is created, and its [state](PersistentNode::state) is
    /// [`Refused`](PersistentNodeState::Refused).
    pub fn acl(self, acl: impl Into<Arc<[Acl]>>) -> Self {
        Self {
            acl: Some(acl.into()),
            ..self
        }
    }

    /// Takes over an existing node, whenever there is one at the path: sets its data, and deletes
    /// it at close. The node keeps its mode and its ACL. Use this if a process may find the node of
    /// its last run.
    ///
    /// With a sequential mode, takes over only a node that has this persistent node's number and
    /// may result from a create whose reply was lost. If another node has the number, this
    /// persistent node takes another number.
    ///
    /// An ephemeral node is never taken over, because it is deleted with another session. No effect
    /// with ephemeral modes, or together with [`with_protection`](Self::with_protection).
    pub fn adopt_existing(self) -> Self {
        Self {
            adopts: true,
            ..self
        }
    }
}

/// An error of a [`PersistentNode`](crate::PersistentNode).
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PersistentNodeError {
    /// An error of the client.
    #[error(transparent)]
    Client(#[from] curator_client::Error),
    /// At the deadline, another owner had a node at the path. The persistent node waits until it is
    /// deleted.
    #[error("{path} was not created within {after:?}: the node belongs to {}", owner_text(*owner))]
    ForeignOwner {
        /// The node.
        path: ZPath,
        /// The session that it belongs to; 0 if it is not ephemeral.
        owner: i64,
        /// How long the call waited.
        after: Duration,
    },
    /// At the deadline, the server refused to create, read or adopt the node. The request is
    /// retried, in case the cause is repaired.
    #[error("{path} was not created within {after:?}: {cause}")]
    Refused {
        /// The node, without the number of a sequential one.
        path: ZPath,
        /// How long the call waited.
        after: Duration,
        /// Why.
        #[source]
        cause: curator_client::Error,
    },
    /// At the deadline, the node was not known to exist: there was no connection, or the create was
    /// still in flight.
    #[error("{path} was not created within {after:?}{}", cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default())]
    NotCreated {
        /// The node, without the number of a sequential one.
        path: ZPath,
        /// How long the call waited.
        after: Duration,
        /// Why there was no connection, if there was none.
        #[source]
        cause: Option<curator_client::Error>,
    },
    /// The node was not deleted within the client's close timeout. The deletion continues in the
    /// background while the client is open.
    #[error("{path} was not deleted within {after:?}; the deletion continues in the background")]
    DeletePending {
        /// The node, without a sequence number that is not known.
        path: ZPath,
        /// The client's close timeout.
        after: Duration,
    },
    /// The server refused to delete the node, for example because of its parent's ACL or its
    /// children. The node stays; an ephemeral one until its session ends.
    #[error("{path} cannot be deleted: {cause}")]
    DeleteRefused {
        /// The node.
        path: ZPath,
        /// Why.
        #[source]
        cause: curator_client::Error,
    },
    /// The persistent node was closed.
    #[error("the persistent node {path} is closed")]
    Closed {
        /// The node, as configured.
        path: ZPath,
    },
    /// The task of the persistent node has panicked, in user code (an ACL provider), or because of
    /// a bug.
    #[error("the task of the persistent node {path} has panicked: {message}")]
    Panicked {
        /// The node, as configured.
        path: ZPath,
        /// The panic's message.
        message: String,
    },
}

debug_as_text!(PersistentNodeError);

/// The owner of a node, as text.
fn owner_text(owner: i64) -> String {
    match owner {
        0 => "another client (it is not ephemeral)".to_owned(),
        session => format!("session {session:#x}"),
    }
}

impl PersistentNodeError {
    /// Whether the call can succeed if repeated unchanged.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Client(error) => error.is_retryable(),
            Self::ForeignOwner { .. } | Self::NotCreated { .. } => true,
            _ => false,
        }
    }

    /// Whether the cause is that this program has closed the client, or the persistent node.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(
            self,
            Self::Client(curator_client::Error::Closed) | Self::Closed { .. }
        )
    }

    /// Whether the requested change may have been applied, or may be applied later: the node is
    /// kept until it is closed, and a request may have been in flight when the persistent node or
    /// its client ended.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Client(
                curator_client::Error::Closed | curator_client::Error::ClientEnded { .. },
            ) => Outcome::Unknown,
            Self::Client(error) => error.outcome(),
            Self::DeleteRefused { .. } => Outcome::NotApplied,
            _ => Outcome::Unknown,
        }
    }
}

impl From<InvalidPath> for PersistentNodeError {
    fn from(error: InvalidPath) -> Self {
        Self::Client(error.into())
    }
}

impl TaskError for PersistentNodeError {
    fn panicked(path: ZPath, message: String) -> Self {
        Self::Panicked { path, message }
    }
}
