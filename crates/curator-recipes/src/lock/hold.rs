//! A lock that is held: what all guards of one owner share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curator_client::node::find::NodeFinder;
use curator_client::{CuratorClient, Deadline, Outcome, Session, TransactionOperation, Turn, ZPath};
use tokio::sync::watch;

use super::own_node::{Deleted, OwnNode, OwnWatch, watch_own_nodes};
use crate::error::{Error, LockLost, LossReason, Result};
use crate::fencing::FencingToken;

/// The nodes that own, in one session: one for each queue.
#[derive(Debug)]
pub(crate) struct Hold {
    client: CuratorClient,
    session: Session,
    /// Never empty.
    nodes: Vec<ZPath>,
    /// The same, as they are watched.
    own: Vec<OwnNode>,
    /// What else a node may be called, if only the answer to its create has told its name.
    finder: Option<NodeFinder>,
    token: FencingToken,
    /// Whether somebody has asked for the lock back, as far as that was looked at.
    revoked: Arc<watch::Sender<bool>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How many guards there are. At zero the nodes are being deleted, and the hold cannot be entered again.
    guards: usize,
    /// Comes when somebody has deleted a node. `None` while nobody has waited for that.
    deleted: Option<Deleted>,
}

/// What is to be held.
pub(crate) struct Owned {
    pub(crate) token: FencingToken,
    pub(crate) first: (ZPath, Option<OwnWatch>),
    pub(crate) others: Vec<(ZPath, Option<OwnWatch>)>,
    /// What else a node may be called, if no list has shown it: see [`Owned::told`].
    pub(crate) finder: Option<NodeFinder>,
}

impl Owned {
    /// One node, not watched yet.
    pub(crate) fn node(path: ZPath, token: FencingToken) -> Self {
        Self { token, first: (path, None), others: Vec::new(), finder: None }
    }

    /// As [`node`](Self::node), by nothing but the answer to its create. An answer can be wrong: if there is no such node
    /// when it is to be deleted, what `finder` describes is looked for and deleted.
    pub(crate) fn told(path: ZPath, token: FencingToken, finder: NodeFinder) -> Self {
        Self { finder: Some(finder), ..Self::node(path, token) }
    }
}

impl Hold {
    /// A hold with one guard.
    pub(crate) fn new(client: &CuratorClient, session: &Session, owned: Owned) -> Self {
        let Owned { token, first, others, finder } = owned;
        let revoked = Arc::new(watch::Sender::new(false));
        let watched = std::iter::once(first).chain(others);
        let own: Vec<_> = watched.map(|(path, own)| OwnNode::new(path, own, &revoked)).collect();
        let nodes = own.iter().map(|node| node.path().clone()).collect();
        let state = Mutex::new(State { guards: 1, deleted: None });
        Self { client: client.clone(), session: session.clone(), nodes, own, finder, token, revoked, state }
    }

    pub(crate) fn nodes(&self) -> &[ZPath] {
        &self.nodes
    }

    /// The first node.
    pub(crate) fn path(&self) -> &ZPath {
        &self.nodes[0]
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.token
    }

    pub(crate) fn client(&self) -> &CuratorClient {
        &self.client
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Adds a guard, unless the hold is lost or being released.
    pub(crate) fn enter(&self) -> bool {
        let lost = self.loss().is_some();
        let mut state = self.lock();
        let enter = state.guards > 0 && !lost;
        state.guards += usize::from(enter);
        enter
    }

    /// Takes a guard away: whether it was the last.
    pub(crate) fn leave(&self) -> bool {
        let mut state = self.lock();
        state.guards = state.guards.saturating_sub(1);
        state.guards == 0
    }

    /// Takes the only guard away, if there is but one.
    pub(crate) fn leave_if_last(&self) -> bool {
        let mut state = self.lock();
        let is_last = state.guards == 1;
        state.guards -= usize::from(is_last);
        is_last
    }

    pub(crate) fn depth(&self) -> usize {
        self.lock().guards
    }

    /// Why the lock is lost, as far as that is known. Reads the clock, and sends nothing.
    pub(crate) fn loss(&self) -> Option<LockLost> {
        if let Some(lost) = self.session_loss() {
            return Some(lost);
        }
        let deleted = self.own.iter().find(|node| node.is_deleted())?;
        Some(LockLost { path: deleted.path().clone(), reason: LossReason::NodeDeleted })
    }

    /// Why the session is lost, if it is. Reads the clock.
    pub(crate) fn session_loss(&self) -> Option<LockLost> {
        let end = self.session.end()?;
        Some(LockLost { path: self.path().clone(), reason: LossReason::SessionLost(end) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deleted(&self) -> Deleted {
        let watching = || watch_own_nodes(&self.client, &self.session, &self.own, &self.revoked);
        self.lock().deleted.get_or_insert_with(watching).clone()
    }

    /// Waits until the lock is lost.
    pub(crate) async fn lost(&self) -> LockLost {
        let deleted = self.deleted();
        tokio::select! {
            biased;
            lost = self.session_lost() => lost,
            path = deleted => LockLost { path, reason: LossReason::NodeDeleted },
        }
    }

    /// Waits until the session is lost. Needs no request.
    pub(crate) async fn session_lost(&self) -> LockLost {
        let end = self.session.ended().await;
        LockLost { path: self.path().clone(), reason: LossReason::SessionLost(end) }
    }

    /// Whether somebody has asked for the lock back, as far as that was looked at.
    pub(crate) fn is_revoked(&self) -> bool {
        *self.revoked.borrow()
    }

    /// Somebody has asked for the lock back before it was held, at a node that is none of the hold's.
    pub(crate) fn note_revocation(&self) {
        self.revoked.send_replace(true);
    }

    /// One of the nodes was found to be gone.
    pub(crate) fn note_deletion(&self, path: &ZPath) {
        self.own.iter().filter(|node| node.path() == path).for_each(OwnNode::note_deletion);
    }

    /// Waits until somebody asks for the lock back.
    pub(crate) async fn revocation_requested(&self) -> Result<(), LockLost> {
        let mut revoked = self.revoked.subscribe();
        tokio::select! {
            biased;
            lost = self.lost() => Err(lost),
            // The sender lives in `self`.
            _ = revoked.wait_for(|revoked| *revoked) => Ok(()),
        }
    }

    /// Deletes the nodes, as often as the client's retry policy allows. Whatever becomes of one, the others are deleted.
    pub(crate) async fn delete(&self) -> Result<()> {
        let known_loss = self.loss();
        if let Some(lost) = &known_loss {
            let others_remain = lost.reason == LossReason::NodeDeleted && self.nodes.len() > 1;
            if lost.reason == LossReason::NodeDeleted {
                self.look_for_mislaid();
            }
            if !others_remain {
                return Err(lost.clone().into());
            }
        }
        let mut retrier = self.client.retrier();
        let mut left: Vec<&ZPath> = self.nodes.iter().collect();
        let mut failures = Vec::new();
        let mut in_doubt = false;
        while !left.is_empty() {
            let turn = self.turn().await;
            let Err((index, error)) = self.send_deletes(&left).await else { break };
            drop(turn);
            if let Some(lost) = self.session_loss() {
                return Err(lost.into());
            }
            in_doubt |= error.outcome() == Outcome::Unknown;
            if error.is_retryable() {
                if let Err(cause) = retrier.pause(error).await {
                    failures.push(Error::ReleasePending { path: left[0].clone(), cause });
                    break;
                }
                continue;
            }
            // Nothing was deleted yet: the others go with the next try.
            let path = left.remove(index.min(left.len() - 1)).clone();
            if matches!(error, curator_client::Error::NoNode { .. }) {
                self.look_for_mislaid();
            }
            match error {
                curator_client::Error::NoNode { .. } if in_doubt => {}
                curator_client::Error::NoNode { .. } => {
                    failures.push(LockLost { path, reason: LossReason::NodeDeleted }.into());
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
    fn look_for_mislaid(&self) {
        if let Some(finder) = &self.finder {
            self.client.janitor().find_and_delete(&self.session, finder.clone());
        }
    }

    /// In one request. The error has the place of the node that it is about.
    async fn send_deletes(&self, nodes: &[&ZPath]) -> Result<(), (usize, curator_client::Error)> {
        if let [path] = nodes {
            return self.session.delete(path, None).await.map_err(|error| (0, error));
        }
        let operations =
            nodes.iter().map(|path| TransactionOperation::Delete { path: (*path).clone(), version: None }).collect();
        match self.session.transact(operations).await {
            Ok(_) => Ok(()),
            Err(curator_client::Error::TransactionFailed { index, cause }) => Err((index, *cause)),
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

    /// Leaves the deletes to the client. Sends them at once; needs no runtime.
    pub(crate) fn delete_in_background(self: Arc<Self>) {
        let janitor = self.client.janitor().clone();
        let session = self.session.clone();
        let nodes = self.nodes.iter().map(|path| (path.clone(), self.finder.clone())).collect();
        // The watches on the own nodes go with the hold, and must not go before the nodes: they would cost requests.
        janitor.delete_owned_or_find(&session, nodes, Some(Box::new(self)));
    }
}
