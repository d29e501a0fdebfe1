//! Nodes of our own, from before their create until they are gone.

use std::mem;

use curator_client::node::find::NodeFinder;
use curator_client::{
    CuratorClient, Deadline, Error as ClientError, Outcome, Session, TransactionOperation, Turn, ZPath,
};

use super::watched_node::WatchedNode;
use crate::error::{Error, LockLost, LossReason, Result};

/// The nodes of one contender, and then of its hold. Dropped, it makes sure that they go.
///
/// This is what makes every acquire cancel-safe: whichever await the future is dropped at, this is dropped with it. It knows
/// of a node *before* the create is sent. The delete is sent by the drop itself if the node's name is known. Otherwise the
/// client's janitor looks for the node first: the list that it asks for is answered after the create, because a session is
/// first in, first out. It looks for it too when there is no node of the name that the answer to the create has told: an
/// answer can be wrong, and a node that stays would block everybody for as long as the session lives.
///
/// The idea of cleaning up under the client's own care, and not the cancelled caller's, is from etcd's
/// `concurrency/mutex.go`.
#[derive(Debug)]
pub(crate) struct OwnNodes {
    pub(super) client: CuratorClient,
    pub(super) session: Session,
    /// One for each directory.
    nodes: Vec<Nodes>,
    /// The watches on them. Dropped before the nodes are gone, they would cost requests.
    pub(super) watched: Vec<WatchedNode>,
}

/// The nodes in one directory. Only leases are several.
#[derive(Debug)]
struct Nodes {
    finder: NodeFinder,
    state: State,
}

#[derive(Debug)]
pub(super) enum State {
    /// No create has been sent, or it is known to have failed.
    Idle,
    /// A create has been sent; what became of it is not known.
    Sought,
    /// By the answer to their create.
    Told(Vec<ZPath>),
    /// A list has shown them.
    Listed(Vec<ZPath>),
}

impl OwnNodes {
    /// None yet.
    pub(crate) fn new(client: &CuratorClient, session: &Session) -> Self {
        Self { client: client.clone(), session: session.clone(), nodes: Vec::new(), watched: Vec::new() }
    }

    /// Those that `finder` describes, in one directory more.
    pub(crate) fn add(&mut self, finder: NodeFinder) {
        self.nodes.push(Nodes { finder, state: State::Idle });
    }

    /// What is known now of the nodes in this directory. To be called with [`State::Sought`] before a create is sent.
    pub(super) fn set(&mut self, directory: usize, state: State) {
        self.nodes[directory].state = state;
    }

    /// There are no nodes of the paths that were told: they were deleted, or the answer was wrong, and they have others.
    pub(crate) fn mislaid(&mut self, directory: usize) {
        if let Some(Nodes { state: state @ State::Told(_), .. }) = self.nodes.get_mut(directory) {
            *state = State::Sought;
        }
    }

    /// A list has shown that all the nodes have the paths that were told.
    pub(crate) fn listed(mut self) -> Self {
        for Nodes { state, .. } in &mut self.nodes {
            if let State::Told(paths) = state {
                *state = State::Listed(mem::take(paths));
            }
        }
        self
    }

    /// Everything is gone, or belongs to another.
    pub(crate) fn forget_all(mut self) {
        self.nodes.clear();
    }

    /// Nodes that were told, each by itself.
    pub(crate) fn split(mut self, directory: usize) -> Vec<Self> {
        let Some(Nodes { finder, state: State::Told(paths) }) = self.nodes.get_mut(directory) else {
            return Vec::new();
        };
        let paths = mem::take(paths);
        // What is looked for, should the answer be wrong, is none of the others, which bear the same id.
        let finder = finder.clone().except(paths.iter().cloned());
        let alone = |path| {
            let mut nodes = Self::new(&self.client, &self.session);
            nodes.nodes.push(Nodes { finder: finder.clone(), state: State::Told(vec![path]) });
            nodes
        };
        paths.into_iter().map(alone).collect()
    }

    /// Whether `data` is that of a node of ours in this directory.
    pub(crate) fn matches_data(&self, directory: usize, data: &[u8]) -> bool {
        self.nodes.get(directory).is_some_and(|nodes| nodes.finder.matches_data(data))
    }

    /// The nodes whose names are known.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &ZPath> {
        self.nodes.iter().flat_map(|Nodes { state, .. }| match state {
            State::Idle | State::Sought => &[],
            State::Told(paths) | State::Listed(paths) => &**paths,
        })
    }
}

impl Drop for OwnNodes {
    fn drop(&mut self) {
        let mut known = Vec::new();
        for Nodes { finder, state } in self.nodes.drain(..) {
            match state {
                State::Idle => {}
                State::Sought => self.client.janitor().find_and_delete(&self.session, finder),
                State::Told(paths) => known.extend(paths.into_iter().map(|path| (path, Some(finder.clone())))),
                State::Listed(paths) => known.extend(paths.into_iter().map(|path| (path, None))),
            }
        }
        let watched = Box::new(mem::take(&mut self.watched));
        self.client.janitor().delete_owned_or_find(&self.session, known, Some(watched));
    }
}

/// Deleting them as `release` does, which says how it went.
impl OwnNodes {
    /// Deletes the nodes, as often as the client's retry policy allows. Whatever becomes of one, the others are deleted.
    /// What cannot be done here, goes on in the background, as it does when this is dropped.
    ///
    /// `known_loss` is why the lock was lost before, if it was.
    pub(crate) async fn delete(mut self, known_loss: Option<LockLost>) -> Result<()> {
        let deleted = self.delete_all(known_loss).await;
        // Else the janitor goes on, or notes at least what it cannot do.
        if deleted.as_ref().err().is_none_or(is_over) {
            self.forget_all();
        }
        deleted
    }

    async fn delete_all(&mut self, known_loss: Option<LockLost>) -> Result<()> {
        let mut left: Vec<ZPath> = self.paths().cloned().collect();
        if let Some(lost) = &known_loss {
            if lost.reason == LossReason::NodeDeleted {
                self.find_mislaid();
            }
            if lost.reason != LossReason::NodeDeleted || left.len() < 2 {
                return Err(lost.clone().into());
            }
        }
        let first = left.first().cloned();
        let mut retrier = None;
        let mut failures = Vec::new();
        let mut in_doubt = false;
        while !left.is_empty() {
            let turn = self.turn().await;
            let Err((index, error)) = self.send_deletes(&left).await else { break };
            drop(turn);
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
            // Nothing was deleted yet: the others go with the next try.
            let path = left.remove(index.min(left.len() - 1));
            match error {
                ClientError::NoNode { .. } => {
                    self.find_mislaid();
                    if !in_doubt {
                        failures.push(LockLost { path, reason: LossReason::NodeDeleted }.into());
                    }
                }
                cause => failures.push(Error::ReleaseRefused { path, cause }),
            }
        }
        // What is missing after a lost answer may be our own work; what was missing before is not.
        let is_told = |failure: &Error| matches!(failure, Error::Lost(_));
        if let Some(lost) = known_loss.filter(|_| !failures.iter().any(is_told)) {
            failures.push(lost.into());
        }
        Error::of_releases(failures)
    }

    /// A node is not where the answer to its create has said. If the answer was wrong, the janitor finds it.
    fn find_mislaid(&self) {
        for Nodes { finder, state } in &self.nodes {
            if matches!(state, State::Told(_)) {
                self.client.janitor().find_and_delete(&self.session, finder.clone());
            }
        }
    }

    /// In one request. The error has the place of the node that it is about.
    async fn send_deletes(&self, nodes: &[ZPath]) -> Result<(), (usize, ClientError)> {
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

    /// No longer than the session timeout; then the request says what is wrong.
    async fn turn(&self) -> Option<Turn> {
        let deadline = Deadline::after(self.session.timeout());
        tokio::select! {
            biased;
            () = self.client.closing() => None,
            turn = self.session.turn() => turn.ok(),
            () = self.client.sleep_until(deadline) => None,
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
