//! A held lock, shared by all guards of one owner.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use curator_client::source::watch;
use curator_client::{CuratorClient, HeldNode, Session, ZPath};
use futures_util::future::try_join_all;
use tracing::Span;

use super::attempts::Attempts;
use super::log::{AcquireLog, HoldLog};
use super::release::LockNodes;
use super::watched_node::{Deleted, OwnWatch, Revocation, WatchedNode, watch_nodes};
use crate::error::{LockLost, LossReason, Result};
use crate::fencing::FencingToken;
use crate::owner::OwnerId;
use crate::wait::Wait;

/// A held lock: its nodes in one session, one for each queue.
#[derive(Debug)]
pub(crate) struct Hold {
    client: CuratorClient,
    session: Session,
    /// Never empty.
    paths: Vec<ZPath>,
    watched: Vec<WatchedNode>,
    token: FencingToken,
    revocation: Arc<Revocation>,
    /// Why the lock is no longer held: lost or released, whichever was recorded first. `None` while
    /// it is held.
    ended: watch::Sender<Option<LockLost>>,
    log: HoldLog,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How many guards there are.
    guards: usize,
    /// `None` once the last guard is gone: the nodes are being deleted, and the owner cannot
    /// re-enter.
    nodes: Option<LockNodes>,
    /// Completes when a node has been deleted. `None` until it is first needed.
    deleted: Option<Deleted>,
    /// Makes the session check the nodes after each reconnect, until the last guard is gone.
    held: Vec<HeldNode>,
}

/// What enters or leaves a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldUser {
    Guard,
    /// The lock's own code, for a short time. Not logged.
    Lock,
}

impl Hold {
    /// Makes a hold with one guard. `watches` contains the existing watches on the nodes.
    pub(crate) fn new(
        mut nodes: LockNodes,
        token: FencingToken,
        watches: impl IntoIterator<Item = Option<OwnWatch>>,
        log: &AcquireLog<'_>,
        owner: &OwnerId,
    ) -> Self {
        let client = nodes.client.clone();
        let session = nodes.deletion.session().clone();
        let paths = nodes.deletion.left().to_vec();
        let log = HoldLog::start(log, owner, &session, &paths, token);
        let revocation = Arc::new(Revocation::new(log.clone()));
        let watches = watches.into_iter().chain(std::iter::repeat_with(|| None));
        let watched: Vec<_> = paths
            .iter()
            .cloned()
            .zip(watches)
            .map(|(path, own)| WatchedNode::new(path, own, &revocation))
            .collect();
        nodes.watched.clone_from(&watched);
        let held = watched
            .iter()
            .map(|node| {
                let found_missing = node.clone();
                session.hold_node(node.path(), move || found_missing.note_deletion())
            })
            .collect();
        let state = Mutex::new(State {
            guards: 1,
            held,
            nodes: Some(nodes),
            deleted: None,
        });
        Self {
            client,
            session,
            paths,
            watched,
            token,
            revocation,
            ended: watch::Sender::new(None),
            log,
            state,
        }
    }

    /// Whether the nodes still exist. Call this if the session has reconnected since the nodes were
    /// last seen: the session checks held nodes after a reconnect, but possibly before this hold
    /// was made.
    ///
    /// Returns `true` if the session ends first. With [`Wait::No`], neither waits for a connection
    /// nor retries.
    pub(crate) async fn is_there(&self, wait: Wait, attempts: &mut Attempts<'_>) -> Result<bool> {
        while wait == Wait::No || self.session.connected().await.is_ok() {
            let requests: Vec<_> = self
                .paths
                .iter()
                .map(|path| self.session.exists(path))
                .collect();
            match try_join_all(requests).await {
                Ok(found) => return Ok(found.iter().all(Option::is_some)),
                Err(error) if wait == Wait::No => return Err(attempts.without_retry(error)),
                Err(error) => attempts.pause(error).await?,
            }
        }
        Ok(true)
    }

    pub(crate) fn paths(&self) -> &[ZPath] {
        &self.paths
    }

    /// The path of the first node.
    pub(crate) fn path(&self) -> &ZPath {
        &self.paths[0]
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.token
    }

    /// The owner that acquired the lock.
    pub(crate) fn owner(&self) -> &OwnerId {
        &self.log.owner
    }

    pub(crate) fn client(&self) -> &CuratorClient {
        &self.client
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The span of the hold's log events.
    pub(crate) fn span(&self) -> &Span {
        &self.log.span
    }

    /// Adds a guard, unless the hold is lost or being released.
    pub(crate) fn enter(&self, user: HoldUser) -> bool {
        let lost = self.loss().is_some();
        let mut state = self.lock();
        let enter = state.nodes.is_some() && !lost;
        state.guards += usize::from(enter);
        let guards = state.guards;
        drop(state);
        if enter && user == HoldUser::Guard {
            self.log.reentered(guards);
        }
        enter
    }

    /// Removes a guard. If it was the last, returns the nodes; dropping them deletes them.
    pub(crate) fn leave(&self, user: HoldUser) -> Option<LockNodes> {
        let mut state = self.lock();
        state.guards = state.guards.saturating_sub(1);
        let guards = state.guards;
        if guards > 0 {
            drop(state);
            if user == HoldUser::Guard {
                self.log.left(guards);
            }
            return None;
        }
        let nodes = state.nodes.take();
        let held = mem::take(&mut state.held);
        drop(state);
        drop(held);
        self.note_release(nodes)
    }

    /// Like [`leave`](Self::leave) if there is only one guard; otherwise does nothing.
    pub(crate) fn leave_if_last(&self) -> Option<LockNodes> {
        let mut state = self.lock();
        if state.guards > 1 {
            return None;
        }
        state.guards = 0;
        let nodes = state.nodes.take();
        let held = mem::take(&mut state.held);
        drop(state);
        drop(held);
        self.note_release(nodes)
    }

    /// Whether there are guards, and the lock is not known to be lost.
    pub(crate) fn is_held(&self) -> bool {
        let guards = self.lock().guards;
        guards > 0 && self.loss().is_none()
    }

    /// Why the lock is lost, or `None` if no loss is known. Reads the clock, and does not wait.
    pub(crate) fn loss(&self) -> Option<LockLost> {
        let deleted = self
            .watched
            .iter()
            .find(|node| node.is_deleted())
            .map(|node| {
                // After the first deletion, this client deletes the other nodes: report the first
                // one.
                let first = self
                    .ended
                    .borrow()
                    .clone()
                    .filter(|end| end.reason == LossReason::NodeDeleted);
                first.unwrap_or_else(|| LockLost {
                    path: node.path().clone(),
                    reason: LossReason::NodeDeleted,
                })
            });
        // Read the clock last, so that the result is not stale when the caller gets it.
        let lost = self.session_loss().or(deleted)?;
        self.note_end(&lost);
        Some(lost)
    }

    /// Why the lock is no longer held, by loss or by release; `None` if neither is known. Reads the
    /// clock.
    pub(crate) fn end(&self) -> Option<LockLost> {
        let lost = self.loss();
        self.ended.borrow().clone().or(lost)
    }

    /// Why the session is lost, if it is. Reads the clock.
    pub(crate) fn session_loss(&self) -> Option<LockLost> {
        let end = self.session.end()?;
        Some(LockLost {
            path: self.path().clone(),
            reason: LossReason::SessionLost(end),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deleted(&self) -> Deleted {
        self.lock()
            .deleted
            .get_or_insert_with(|| {
                watch_nodes(&self.client, &self.session, &self.watched, &self.revocation)
            })
            .clone()
    }

    /// Records why the lock is no longer held, unless that is recorded already, and wakes the
    /// waiting futures.
    fn note_end(&self, end: &LockLost) {
        let is_first = self.ended.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert_with(|| end.clone());
            is_first
        });
        if is_first {
            self.log.ended(end);
            self.delete_left(end);
        }
    }

    /// Deletes the remaining nodes of a lost lock in the background, even if there are guards: an
    /// owner that keeps a guard and acquires the lock again would otherwise wait for its own nodes.
    fn delete_left(&self, end: &LockLost) {
        // A single node is already deleted, and the servers delete the nodes of an ended session.
        if end.reason != LossReason::NodeDeleted || self.paths.len() < 2 {
            return;
        }
        let no_nodes = LockNodes::new(&self.client, &self.session, Vec::new());
        let left = self
            .lock()
            .nodes
            .as_mut()
            .map(|nodes| mem::replace(nodes, no_nodes));
        if let Some(mut left) = left {
            // The nodes are deleted in one transaction, which would fail for a deleted node.
            self.watched
                .iter()
                .filter(|node| node.is_deleted())
                .for_each(|node| left.deletion.forget(node.path()));
        }
    }

    /// Records the release by the last guard, unless the lock is already lost.
    fn note_release(&self, nodes: Option<LockNodes>) -> Option<LockNodes> {
        if nodes.is_some() && self.loss().is_none() {
            self.note_end(&LockLost {
                path: self.path().clone(),
                reason: LossReason::Released,
            });
        }
        nodes
    }

    /// Waits until the lock is lost. The future does not keep the hold alive.
    fn losing(&self) -> impl Future<Output = LockLost> + Send + use<> {
        let session = self.session.clone();
        let deleted = self.deleted();
        let path = self.path().clone();
        async move {
            tokio::select! {
                biased;
                end = session.ended() => LockLost { path, reason: LossReason::SessionLost(end) },
                path = deleted => LockLost { path, reason: LossReason::NodeDeleted },
            }
        }
    }

    /// Waits until the lock is lost.
    async fn lost(&self) -> LockLost {
        let lost = self.losing().await;
        self.note_end(&lost);
        lost
    }

    /// Waits until the session is lost. Sends nothing.
    pub(crate) async fn session_lost(&self) -> LockLost {
        let end = self.session.ended().await;
        LockLost {
            path: self.path().clone(),
            reason: LossReason::SessionLost(end),
        }
    }

    /// Whether a client is known to have requested the lock back.
    pub(crate) fn is_revoked(&self) -> bool {
        self.revocation.is_revoke_requested()
    }

    /// Records a revocation request that a client wrote to a node outside this hold, before the
    /// lock was held.
    pub(crate) fn note_revocation(&self) {
        self.revocation.note();
    }

    /// Records that one of the nodes was found deleted.
    pub(crate) fn note_deletion(&self, path: &ZPath) {
        self.watched
            .iter()
            .filter(|node| node.path() == path)
            .for_each(WatchedNode::note_deletion);
    }

    /// Waits until a client requests the lock back.
    pub(crate) async fn revocation_requested(&self) -> Result<(), LockLost> {
        tokio::select! {
            biased;
            lost = self.lost() => Err(lost),
            () = self.revocation.revoke_requested() => Ok(()),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.ended.borrow().is_none() {
            self.log.unused();
        }
    }
}

/// Signals that a hold has ended, by loss or by release. Keeps neither the lock nor the hold alive.
#[derive(Debug, Clone)]
pub(crate) struct HoldEnd {
    hold: Weak<Hold>,
    ended: watch::Receiver<Option<LockLost>>,
    /// The path of the first node.
    path: ZPath,
}

impl HoldEnd {
    pub(crate) fn new(hold: &Arc<Hold>) -> Self {
        Self {
            hold: Arc::downgrade(hold),
            ended: hold.ended.subscribe(),
            path: hold.path().clone(),
        }
    }

    /// Why the lock is no longer held; `None` if it is not known to have ended. Reads the clock,
    /// and sends nothing.
    pub(crate) fn known(&self) -> Option<LockLost> {
        let recorded = self.ended.borrow().clone();
        recorded.or_else(|| match self.hold.upgrade() {
            Some(hold) => hold.loss(),
            None => Some(self.recorded()),
        })
    }

    /// Waits until the lock is no longer held, and returns why.
    pub(crate) async fn wait(mut self) -> LockLost {
        let Some(losing) = self.hold.upgrade().map(|hold| hold.losing()) else {
            return self.recorded();
        };
        tokio::select! {
            biased;
            // An error means that the hold was dropped.
            _ = self.ended.wait_for(Option::is_some) => {}
            lost = losing => {
                // If the hold was dropped or has ended otherwise, its end is recorded already.
                if let Some(hold) = self.hold.upgrade() {
                    hold.note_end(&lost);
                }
            }
        }
        self.recorded()
    }

    /// Why the lock is no longer held. Call this only after the hold has ended.
    fn recorded(&self) -> LockLost {
        self.ended.borrow().clone().unwrap_or_else(|| LockLost {
            path: self.path.clone(),
            reason: LossReason::Released,
        })
    }
}
