//! Tracks the nodes of a contender from before they are created until they are deleted, and deletes
//! them on drop.

use std::mem;

use curator_client::{
    CuratorClient, Deadline, Error as ClientError, Outcome, Session, TransactionOperation, ZPath,
};
use curator_client::{RecipeSupport as _, node::find::NodeFinder};

use super::log::deletes_sent;
use super::watched_node::WatchedNode;
use crate::error::{Error, LockLost, LossReason, Result};

/// The nodes of one contender, and then of its hold. Dropping this deletes them.
///
/// This makes every acquire cancel-safe: at any await point, dropping the future drops this too. A
/// node is recorded *before* its create is sent. If the node's name is known, the drop sends the
/// delete. Otherwise the client's janitor first lists the directory to find the node: a session
/// processes requests in order, so the list includes the created node.
///
/// Cleanup by the client instead of the cancelled caller follows etcd's `concurrency/mutex.go`.
#[derive(Debug)]
pub(crate) struct OwnNodes {
    pub(super) client: CuratorClient,
    pub(super) session: Session,
    /// The nodes in each directory.
    nodes: Vec<Nodes>,
    /// The watches on the nodes. Dropping them before the nodes are deleted would send extra
    /// requests.
    pub(super) watched: Vec<WatchedNode>,
}

/// The nodes in one directory: at most one, except leases.
#[derive(Debug)]
struct Nodes {
    finder: NodeFinder,
    state: State,
}

#[derive(Debug)]
pub(crate) enum State {
    /// No create has been sent, or it is known to have failed.
    Idle,
    /// The first create has been sent; its outcome is not known.
    Sent,
    /// One or more creates have been sent; their outcomes are not known.
    MayExist,
    /// The reply to the create contained these paths.
    Answered(Vec<ZPath>),
}

impl OwnNodes {
    /// Starts without any nodes.
    pub(crate) fn new(client: &CuratorClient, session: &Session) -> Self {
        Self {
            client: client.clone(),
            session: session.clone(),
            nodes: Vec::new(),
            watched: Vec::new(),
        }
    }

    /// Adds a directory, with the nodes that `finder` describes.
    pub(crate) fn add(&mut self, finder: NodeFinder) {
        self.nodes.push(Nodes {
            finder,
            state: State::Idle,
        });
    }

    /// Records that a create is about to be sent in this directory.
    pub(crate) fn sending(&mut self, directory: usize) {
        let state = &mut self.nodes[directory].state;
        *state = if matches!(state, State::Idle) {
            State::Sent
        } else {
            State::MayExist
        };
    }

    /// Records that the server denied the last create. If no other create was sent, there is no
    /// node to find; and a client that may not create nodes in a directory often may not list it
    /// either.
    pub(crate) fn denied(&mut self, directory: usize) {
        if let Some(Nodes {
            state: state @ State::Sent,
            ..
        }) = self.nodes.get_mut(directory)
        {
            *state = State::Idle;
        }
    }

    /// Sets the state of the nodes in this directory. Before a create, call
    /// [`sending`](Self::sending) instead.
    pub(crate) fn set(&mut self, directory: usize, state: State) {
        self.nodes[directory].state = state;
    }

    /// Whether these are the known names of the nodes in this directory.
    pub(super) fn are_named<'n>(
        &self,
        directory: usize,
        names: impl Iterator<Item = &'n str>,
    ) -> bool {
        let known = self.nodes.get(directory).map(|nodes| &nodes.state);
        matches!(known, Some(State::Answered(paths)) if paths.iter().map(ZPath::name).eq(names))
    }

    /// Forgets all nodes, because they are deleted or belong to another owner.
    pub(crate) fn forget_all(mut self) {
        self.nodes.clear();
    }

    /// Forgets a node, because it is deleted.
    pub(crate) fn forget(&mut self, path: &ZPath) {
        for Nodes { state, .. } in &mut self.nodes {
            if let State::Answered(paths) = state {
                paths.retain(|its| its != path);
            }
        }
    }

    /// Splits off the nodes in one directory, each into a separate `OwnNodes`.
    pub(crate) fn split(mut self, directory: usize) -> Vec<Self> {
        let Some(Nodes {
            finder,
            state: State::Answered(paths),
        }) = self.nodes.get_mut(directory)
        else {
            return Vec::new();
        };
        let paths = mem::take(paths);
        let alone = |path| {
            let mut nodes = Self::new(&self.client, &self.session);
            nodes.nodes.push(Nodes {
                finder: finder.clone(),
                state: State::Answered(vec![path]),
            });
            nodes
        };
        paths.into_iter().map(alone).collect()
    }

    /// The nodes whose names are known.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &ZPath> {
        self.nodes
            .iter()
            .flat_map(|Nodes { state, .. }| match state {
                State::Idle | State::Sent | State::MayExist => &[],
                State::Answered(paths) => &**paths,
            })
    }
}

impl Drop for OwnNodes {
    fn drop(&mut self) {
        let mut known = Vec::new();
        for Nodes { finder, state } in self.nodes.drain(..) {
            match state {
                State::Idle => {}
                State::Sent | State::MayExist => {
                    self.client.janitor().find_and_delete(&self.session, finder)
                }
                State::Answered(paths) => known.extend(paths),
            }
        }
        let watched = Box::new(mem::take(&mut self.watched));
        self.client
            .janitor()
            .delete_owned_together(&self.session, known, Some(watched));
    }
}

/// Deletion by `release`, which reports the result.
impl OwnNodes {
    /// Deletes the nodes, with as many attempts as the client's retry policy allows. If one delete
    /// fails, the other nodes are still deleted. Deletes that are not finished here continue in the
    /// background, as after a drop.
    ///
    /// `known_loss` is the earlier loss of the lock, if any.
    pub(crate) async fn delete(mut self, known_loss: Option<LockLost>) -> Result<()> {
        let deleted = self.delete_all(known_loss).await;
        // Otherwise the drop hands the nodes to the janitor, which retries or records the refusal.
        if deleted.as_ref().err().is_none_or(is_over) {
            self.forget_all();
        }
        deleted
    }

    async fn delete_all(&mut self, known_loss: Option<LockLost>) -> Result<()> {
        let mut left: Vec<ZPath> = self.paths().cloned().collect();
        if let Some(lost) = &known_loss
            && (lost.reason != LossReason::NodeDeleted || left.len() < 2)
        {
            return Err(lost.clone().into());
        }
        let first = left.first().cloned();
        let mut retrier = None;
        let mut failures = Vec::new();
        let mut in_doubt = false;
        while !left.is_empty() {
            self.connected().await;
            let Err((index, error)) = self.send_deletes(&left).await else {
                break;
            };
            if let (Some(end), Some(path)) = (self.session.end(), first.clone()) {
                return Err(LockLost {
                    path,
                    reason: LossReason::SessionLost(end),
                }
                .into());
            }
            in_doubt |= error.outcome() == Outcome::Unknown;
            if error.is_retryable() {
                let retrier = retrier.get_or_insert_with(|| self.client.retrier());
                if let Err(cause) = retrier.pause(error).await {
                    failures.push(Error::ReleasePending {
                        path: left[0].clone(),
                        cause,
                    });
                    break;
                }
                continue;
            }
            // The transaction deleted nothing; the next attempt deletes the other nodes.
            let path = left.remove(index.min(left.len() - 1));
            match error {
                ClientError::NoNode { .. } if in_doubt => {}
                ClientError::NoNode { .. } => {
                    failures.push(
                        LockLost {
                            path,
                            reason: LossReason::NodeDeleted,
                        }
                        .into(),
                    );
                }
                cause => failures.push(Error::ReleaseRefused { path, cause }),
            }
        }
        // After a lost reply, a missing node counts as deleted by this release. But the node of the
        // known loss was missing before, so that loss is still reported.
        let is_reported = |failure: &Error| matches!(failure, Error::Lost(_));
        if let Some(lost) = known_loss.filter(|_| !failures.iter().any(is_reported)) {
            failures.push(lost.into());
        }
        Error::of_releases(failures)
    }

    /// Deletes the nodes in one request. The error contains the index of the failing node.
    async fn send_deletes(&self, nodes: &[ZPath]) -> Result<(), (usize, ClientError)> {
        deletes_sent(nodes.len());
        if let [path] = nodes {
            return self
                .session
                .delete(path, None)
                .await
                .map_err(|error| (0, error));
        }
        let delete = |path: &ZPath| TransactionOperation::Delete {
            path: path.clone(),
            version: None,
        };
        match self
            .session
            .transact(nodes.iter().map(delete).collect())
            .await
        {
            Ok(_) => Ok(()),
            Err(ClientError::TransactionFailed { index, cause }) => Err((index, *cause)),
            Err(error) => Err((0, error)),
        }
    }

    /// Waits for a connection, at most the session timeout; after that, the request itself returns
    /// the error.
    ///
    /// A release does not wait for a request turn, because other clients wait for the lock.
    async fn connected(&self) {
        if self.session.is_connected() {
            return;
        }
        let deadline = Deadline::after(self.session.timeout());
        tokio::select! {
            biased;
            _ = self.client.closing() => {}
            _ = self.session.connected() => {}
            () = self.client.sleep_until(deadline) => {}
        }
    }
}

/// Whether no node can be left after this error.
fn is_over(error: &Error) -> bool {
    match error {
        Error::ReleasePending { .. } | Error::ReleaseRefused { .. } => false,
        Error::ReleasesFailed { failures } => failures.iter().all(is_over),
        _ => true,
    }
}
