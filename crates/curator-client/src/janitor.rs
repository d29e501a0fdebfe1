//! Carries out deletes in the background until they are done: Curator's "guaranteed" deletes, and
//! the nodes of dropped guards.

mod deletion;
mod ledger;
mod queue;

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

pub(crate) use self::deletion::delete_tree;
pub use self::deletion::{Deleted, Deletion};
use self::ledger::Ledger;
pub use self::ledger::{PendingDelete, Refusals};
pub(crate) use self::queue::JanitorQueue;
use self::queue::{CreatedNode, Delete, Job, Seen};
use crate::error::{Error, Result};
use crate::meter::ClientMeter;
use crate::node::find::NodeFinder;
use crate::path::ZPath;
use crate::session::Session;

/// Carries out deletes in the background.
///
/// Handing over a delete needs no runtime and never blocks, so a `Drop` can do it. A task of the
/// client, which lives as long as the client, carries out the deletes;
/// [`CuratorClient::close`](crate::CuratorClient::close) waits for pending deletes. A delete that
/// belongs to a session ends with that session, because the session's end removes the node.
///
/// After Curator's `FailedDeleteManager`, with a loop instead of its recursion.
#[derive(Clone)]
pub struct Janitor {
    jobs: mpsc::UnboundedSender<Job>,
    ledger: Arc<Ledger>,
}

impl std::fmt::Debug for Janitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Janitor")
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}

/// A delete that a caller carries out. If the promise is dropped unsettled, the janitor carries it
/// out.
#[derive(Debug)]
pub(crate) struct Promise {
    janitor: Janitor,
    id: Option<u64>,
    path: ZPath,
    /// Whether the nodes below are deleted too.
    is_tree: bool,
}

impl Promise {
    /// Ends the promise without a delete: the node is gone, or the server refuses to delete it.
    pub(crate) fn settled(mut self) {
        if let Some(id) = self.id.take() {
            self.janitor.ledger.remove(id);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let path = self.path.clone();
            let delete = if self.is_tree {
                Delete::Tree(path)
            } else {
                Delete::Path(path)
            };
            self.janitor.send(Job::One(id, delete));
        }
    }
}

impl Janitor {
    pub(crate) fn new(client: &Arc<str>, meter: &Arc<ClientMeter>) -> (Self, JanitorQueue) {
        let (jobs_tx, jobs_rx) = mpsc::unbounded_channel();
        let ledger = Arc::new(Ledger::new(client, meter));
        (
            Self {
                jobs: jobs_tx,
                ledger: Arc::clone(&ledger),
            },
            JanitorQueue {
                jobs: jobs_rx,
                ledger,
            },
        )
    }

    /// Deletes a node of any session, even if sessions are lost in the meantime.
    pub fn delete(&self, path: &ZPath) {
        let id = self.ledger.add(path, None);
        self.send(Job::One(id, Delete::Path(path.clone())));
    }

    /// Deletes nodes of `session`, several in one transaction. The request is sent before this
    /// returns, which needs no runtime. Each node is then listed separately, as pending or refused.
    ///
    /// Holds `keep_alive` until all nodes are deleted or refused. Use it for watches on the nodes:
    /// dropping a watch earlier would cost a request to remove it from the server.
    pub fn delete_owned(
        &self,
        session: &Session,
        nodes: Vec<ZPath>,
        keep_alive: Option<Box<dyn Send>>,
    ) {
        self.finish(Deletion::new(session, nodes), keep_alive);
    }

    /// Continues a deletion until each of its nodes is deleted or refused. Otherwise like
    /// [`delete_owned`](Self::delete_owned).
    pub fn finish(&self, mut deletion: Deletion, keep_alive: Option<Box<dyn Send>>) {
        if deletion.left().is_empty() || deletion.session().end().is_some() {
            return;
        }
        deletion.send();
        let ids = deletion
            .left()
            .iter()
            .map(|path: &ZPath| {
                (
                    path.clone(),
                    self.ledger.add(path, Some(deletion.session())),
                )
            })
            .collect();
        self.send(Job::Owned {
            deletion,
            ids,
            _keep_alive: keep_alive,
        });
    }

    /// Records a delete that the server has refused to the caller.
    pub fn refused(&self, session: &Session, path: &ZPath, error: &Error) {
        self.ledger.add_refused(session, path, error);
    }

    /// Finds the nodes of `session` that match `finder`, and deletes them.
    pub fn find_and_delete(&self, session: &Session, finder: NodeFinder) {
        if session.end().is_some() {
            return;
        }
        let id = self.ledger.add_prefix(finder.prefix(), session);
        let session = session.clone();
        self.send(Job::One(id, Delete::Find { session, finder }));
    }

    /// Deletes the node at `path` that was created by the change `czxid`, but not another node that
    /// has replaced it: each attempt first reads the node to check this. The first attempt skips
    /// the read if `seen` (the version, and the session that read it) is given, and that session
    /// still has the same connection.
    ///
    /// If a `session` is given, the node must belong to it, and the delete ends with the session.
    /// `keep_alive` is held until the node is gone. The delete is pending from this call on; the
    /// result may be dropped.
    ///
    /// # Errors
    ///
    /// The error with which the server refuses the delete; [`Error::Closed`] if the client ends
    /// before the delete is done.
    pub fn delete_created(
        &self,
        session: Option<&Session>,
        path: &ZPath,
        czxid: i64,
        seen: Option<(i32, &Session)>,
        keep_alive: Option<Box<dyn Send>>,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let (done_tx, done_rx) = oneshot::channel();
        let seen = seen.map(|(version, session)| Seen {
            version,
            session: session.clone(),
            connections: session.connections(),
        });
        let node = CreatedNode {
            session: session.cloned(),
            path: path.clone(),
            czxid,
            seen,
        };
        let id = self.ledger.add(path, session);
        let delete = Delete::Created {
            node,
            done: Some(done_tx),
            _keep_alive: keep_alive,
        };
        self.send(Job::One(id, delete));
        async move { done_rx.await.unwrap_or(Err(Error::Closed)) }
    }

    /// Promises a delete: if the promise is dropped unsettled, the janitor deletes the node. Until
    /// then the delete counts as pending, so that a closing client waits for the caller that made
    /// the promise. If `is_tree` is true, the nodes below are deleted too.
    pub(crate) fn promise(&self, path: &ZPath, is_tree: bool) -> Promise {
        let id = Some(self.ledger.add(path, None));
        Promise {
            janitor: self.clone(),
            id,
            path: path.clone(),
            is_tree,
        }
    }

    /// The number of deletes that are neither done nor refused.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.ledger.pending()
    }

    /// Lists the deletes that are not done yet, oldest first, including refused ones. A refused
    /// delete stays listed until its session ends, or, if it has no session, while it is among the
    /// latest thousand.
    #[must_use]
    pub fn pending_deletes(&self) -> Vec<PendingDelete> {
        self.ledger.deletes()
    }

    /// Subscribes to the past and future deletes of `session` that the server refuses.
    #[must_use]
    pub fn refusals(&self, session: &Session) -> Refusals {
        Refusals::new(&self.ledger, session)
    }

    /// Waits until nothing is pending.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn idle(&self) {
        self.ledger.idle().await;
    }

    /// Waits until the deletes below `dir` that are pending now are done or refused. Returns the
    /// refused deletes below `dir` whose sessions are alive, including earlier ones, oldest first.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn wait_until_gone_below(&self, dir: &ZPath) -> Vec<PendingDelete> {
        self.ledger.gone_below(dir).await
    }

    fn send(&self, job: Job) {
        if let Err(mpsc::error::SendError(job)) = self.jobs.send(job) {
            // The client has ended. An ephemeral node is removed with its session; any other node
            // stays.
            job.ids().into_iter().for_each(|id| self.ledger.remove(id));
        }
    }
}
