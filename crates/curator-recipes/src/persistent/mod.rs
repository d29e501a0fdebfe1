//! A node that is kept in existence.

mod builder;
mod claims;
mod contents;
mod error;
mod keeper;
mod kept;
mod state;

use std::sync::Arc;
use std::time::Duration;

use curator_client::source::watch;
use curator_client::{CreateMode, Deadline, Error as ClientError, RecipeSupport as _, ZPath};

pub use self::builder::PersistentNodeBuilder;
pub use self::error::PersistentNodeError;
pub use self::state::PersistentNodeState;
use self::state::{Command, Report};
use crate::debug::debug_line;
use crate::engine::task::RecipeTask;
use crate::latest::Latest;

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
/// - A node of another owner is neither used, nor written, nor deleted: the [state](Self::state)
///   names its owner, and the persistent node creates its node once the other one is deleted. So of
///   several processes with the same path, one has the node, and the others wait. Only
///   [`adopt_existing`](PersistentNodeBuilder::adopt_existing) takes over a node.
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
/// The servers compare versions of data, not nodes. If, between a read of the node and the request
/// that replaces, writes or deletes it, another client deletes the node and creates one with the
/// same version, that request affects the new node. A write that is on its way when the session is
/// lost can also arrive after the replacement of the node, which then has the older data until this
/// persistent node has written its latest again: it recognizes the data of its last 16 writes
/// without a reply, each once.
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
        let present = |state: &PersistentNodeState| match state {
            PersistentNodeState::Present { path } => Some(path.clone()),
            _ => None,
        };
        self.until(&self.states, present).await
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

    /// Like [`created`](Self::created), but waits at most `timeout`. With zero, it checks the state
    /// once. After a timeout, the node is still created later.
    ///
    /// Curator's `waitForInitialCreate`.
    ///
    /// # Errors
    ///
    /// The errors of `created`; at the timeout, the cause:
    /// [`ForeignOwner`](PersistentNodeError::ForeignOwner),
    /// [`Refused`](PersistentNodeError::Refused), or
    /// [`NotCreated`](PersistentNodeError::NotCreated).
    ///
    /// # Cancel safety
    ///
    /// The same as `created`.
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
    /// then keeps its previous data, which it also gets when it is created again. If a later call
    /// replaced the data before it was written, the error is that of the later data. Also the
    /// errors of [`created`](Self::created).
    ///
    /// # Cancel safety
    ///
    /// The call itself sets the data, even if the future is dropped.
    pub fn set_data(&self, data: impl AsRef<[u8]>) -> impl Future<Output = Result<()>> + Send {
        let mut number = 0;
        self.task.command(&self.commands, |command| {
            command.data = data.as_ref().into();
            command.number += 1;
            number = command.number;
        });
        async move {
            let done = |report: &Report| match &report.refused {
                _ if report.applied >= number => Some(Ok(())),
                Some((refused, error)) if *refused >= number => Some(Err(error.clone().into())),
                _ => None,
            };
            self.until(&self.reports, done).await?
        }
    }

    /// Deletes the node, unless it belongs to another owner, and stops keeping it, for all clones.
    /// Returns when the node is deleted, when its session has ended (the servers then delete the
    /// node), or after the client's close timeout. A second call is harmless.
    ///
    /// # Errors
    ///
    /// [`DeletePending`](PersistentNodeError::DeletePending) at the timeout;
    /// [`DeleteRefused`](PersistentNodeError::DeleteRefused), also from later calls, which do not
    /// try again. [`Client`](PersistentNodeError::Client) if the client's runtime has ended, the
    /// process was forked, or the client is closed and the node is not ephemeral: then the node may
    /// stay. [`Panicked`](PersistentNodeError::Panicked).
    ///
    /// # Cancel safety
    ///
    /// Once polled, the command is executed even if the future is dropped.
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
