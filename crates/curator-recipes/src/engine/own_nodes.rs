//! Our own nodes, from before they are created until they are gone.

use std::mem;

use curator_client::{CuratorClient, Deadline, Error as ClientError, Outcome, Session, TransactionOperation, ZPath};
use curator_client::{RecipeSupport as _, node::find::NodeFinder};

use super::log::deletes_sent;
use super::watched_node::WatchedNode;
use crate::error::{Error, LockLost, LossReason, Result};

/// The nodes of one contender, and then of its hold. Dropping this makes sure that they are deleted.
///
/// This is what makes every acquire cancel-safe: whichever await the future is dropped at, this is dropped with it. It
/// knows of a node *before* the create is sent. The drop itself sends the delete if the node's name is known. Otherwise
/// the client's janitor first looks for the node: the list that it requests is answered after the create, because a
/// session is first in, first out.
///
/// The idea that the client cleans up, and not the cancelled caller, comes from etcd's `concurrency/mutex.go`.
#[derive(Debug)]
pub(crate) struct OwnNodes {
    pub(super) client: CuratorClient,
    pub(super) session: Session,
    /// The nodes in each directory.
    nodes: Vec<Nodes>,
    /// The watches on the nodes. Dropping them before the nodes are gone would cost requests.
    pub(super) watched: Vec<WatchedNode>,
}

/// The nodes in one directory. Only of leases can there be more than one.
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
    /// A create has been sent, or several; what has become of them is not known.
    MayExist,
    /// The answer to the create contained these paths.
    Answered(Vec<ZPath>),
}

impl OwnNodes {
    /// No nodes yet.
    pub(crate) fn new(client: &CuratorClient, session: &Session) -> Self {
        Self { client: client.clone(), session: session.clone(), nodes: Vec::new(), watched: Vec::new() }
    }

    /// Adds a directory, with the nodes that `finder` describes.
    pub(crate) fn add(&mut self, finder: NodeFinder) {
        self.nodes.push(Nodes { finder, state: State::Idle });
    }

    /// A create is about to be sent in this directory.
    pub(crate) fn sending(&mut self, directory: usize) {
        let state = &mut self.nodes[directory].state;
        *state = if matches!(state, State::Idle) { State::Sent } else { State::MayExist };
    }

    /// The server does not permit the create that was sent last. If there was no other, there is nothing to look for; whoever
    /// may not create may often not look either.
    pub(crate) fn denied(&mut self, directory: usize) {
        if let Some(Nodes { state: state @ State::Sent, .. }) = self.nodes.get_mut(directory) {
            *state = State::Idle;
        }
    }

    /// Sets what is known of the nodes in this directory. Before a create is sent, that is [`sending`](Self::sending).
    pub(crate) fn set(&mut self, directory: usize, state: State) {
        self.nodes[directory].state = state;
    }

    /// Whether these are the names of the nodes in this directory, as far as is known.
    pub(super) fn are_named<'n>(&self, directory: usize, names: impl Iterator<Item = &'n str>) -> bool {
        let known = self.nodes.get(directory).map(|nodes| &nodes.state);
        matches!(known, Some(State::Answered(paths)) if paths.iter().map(ZPath::name).eq(names))
    }

    /// Forgets all nodes, because they are gone or belong to another owner.
    pub(crate) fn forget_all(mut self) {
        self.nodes.clear();
    }

    /// Splits off the nodes in one directory, each on its own.
    pub(crate) fn split(mut self, directory: usize) -> Vec<Self> {
        let Some(Nodes { finder, state: State::Answered(paths) }) = self.nodes.get_mut(directory) else {
            return Vec::new();
        };
        let paths = mem::take(paths);
        let alone = |path| {
            let mut nodes = Self::new(&self.client, &self.session);
            nodes.nodes.push(Nodes { finder: finder.clone(), state: State::Answered(vec![path]) });
            nodes
        };
        paths.into_iter().map(alone).collect()
    }

    /// The nodes whose names are known.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &ZPath> {
        self.nodes.iter().flat_map(|Nodes { state, .. }| match state {
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
                State::Sent | State::MayExist => self.client.janitor().find_and_delete(&self.session, finder),
                State::Answered(paths) => known.extend(paths),
            }
        }
        let watched = Box::new(mem::take(&mut self.watched));
        self.client.janitor().delete_owned_together(&self.session, known, Some(watched));
    }
}

/// Deletion by `release`, which reports the result.
impl OwnNodes {
    /// Deletes the nodes, with as many attempts as the client's retry policy allows. If one fails, the others are
    /// deleted nevertheless. What cannot be done here continues in the background, as it does when this is dropped.
    ///
    /// `known_loss` is why the lock had already been lost, if it had.
    pub(crate) async fn delete(mut self, known_loss: Option<LockLost>) -> Result<()> {
        let deleted = self.delete_all(known_loss).await;
        // Otherwise the janitor continues, or at least records what it cannot do.
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
            let Err((index, error)) = self.send_deletes(&left).await else { break };
            if let (Some(end), Some(path)) = (self.session.end(), first.clone()) {
                return Err(LockLost { path, reason: LossReason::SessionLost(end) }.into());
            }
            in_doubt |= error.outcome() == Outcome::Unknown;
            if error.is_retryable() {
                let retrier = retrier.get_or_insert_with(|| self.client.retrier());
                if let Err(cause) = retrier.pause(error).await {
                    failures.push(Error::ReleasePending { path: left[0].clone(), cause });
                    break;
                }
                continue;
            }
            // Nothing was deleted yet: the others are deleted by the next attempt.
            let path = left.remove(index.min(left.len() - 1));
            match error {
                ClientError::NoNode { .. } if in_doubt => {}
                ClientError::NoNode { .. } => {
                    failures.push(LockLost { path, reason: LossReason::NodeDeleted }.into());
                }
                cause => failures.push(Error::ReleaseRefused { path, cause }),
            }
        }
        // If a node is missing after a lost answer, we may have deleted it ourselves; if it was missing before, we did
        // not.
        let is_reported = |failure: &Error| matches!(failure, Error::Lost(_));
        if let Some(lost) = known_loss.filter(|_| !failures.iter().any(is_reported)) {
            failures.push(lost.into());
        }
        Error::of_releases(failures)
    }

    /// Deletes the nodes in one request. The error contains the index of the node that it is about.
    async fn send_deletes(&self, nodes: &[ZPath]) -> Result<(), (usize, ClientError)> {
        deletes_sent(nodes.len());
        if let [path] = nodes {
            return self.session.delete(path, None).await.map_err(|error| (0, error));
        }
        let delete = |path: &ZPath| TransactionOperation::Delete { path: path.clone(), version: None };
        match self.session.transact(nodes.iter().map(delete).collect()).await {
            Ok(_) => Ok(()),
            Err(ClientError::TransactionFailed { index, cause }) => Err((index, *cause)),
            Err(error) => Err((0, error)),
        }
    }

    /// Waits for a connection, no longer than the session timeout; after that, the request itself reports what is wrong.
    ///
    /// A release does not wait for a turn: others wait for it.
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

/// Whether this error means that no node can be left.
fn is_over(error: &Error) -> bool {
    match error {
        Error::ReleasePending { .. } | Error::ReleaseRefused { .. } => false,
        Error::ReleasesFailed { failures } => failures.iter().all(is_over),
        _ => true,
    }
}
