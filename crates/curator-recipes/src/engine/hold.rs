//! A held lock: what all guards of one owner share.

mod end;

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curator_client::{CuratorClient, HeldNode, Session, ZPath};
use futures_util::future::try_join_all;
use tokio::sync::watch;
use tracing::Span;

pub(crate) use self::end::HoldEnd;
use super::failures::Failures;
use super::log::{AcquireLog, HoldLog};
use super::own_nodes::OwnNodes;
use super::revocation::Revocation;
use super::watched_node::{Deleted, OwnWatch, WatchedNode, watch_nodes};
use crate::error::{LockLost, LossReason, Result};
use crate::fencing::FencingToken;
use crate::owner::OwnerId;
use crate::wait::Wait;

/// The owning nodes, in one session: one for each queue.
#[derive(Debug)]
pub(crate) struct Hold {
    client: CuratorClient,
    session: Session,
    /// Never empty.
    paths: Vec<ZPath>,
    watched: Vec<WatchedNode>,
    token: FencingToken,
    revocation: Arc<Revocation>,
    /// Why the lock is no longer held, once that is known: it is lost, or released, whichever comes first.
    ended: watch::Sender<Option<LockLost>>,
    log: HoldLog,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How many guards there are.
    guards: usize,
    /// Gone with the last guard. From then on the nodes are being deleted, and the hold cannot be entered again.
    nodes: Option<OwnNodes>,
    /// Completes when someone has deleted a node. `None` until it is first awaited.
    deleted: Option<Deleted>,
    /// The nodes are looked at after each reconnect, until the last guard is gone.
    held: Vec<HeldNode>,
}

/// Who uses a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldUser {
    Guard,
    /// The lock itself, for a moment: internal, and not logged.
    Lock,
}

impl Hold {
    /// Makes a hold with one guard. Nodes that were already watched have their watches in `watches`.
    pub(crate) fn new(
        mut nodes: OwnNodes,
        token: FencingToken,
        watches: impl IntoIterator<Item = Option<OwnWatch>>,
        (log, owner): (&AcquireLog<'_>, &OwnerId),
    ) -> Self {
        let paths: Vec<_> = nodes.paths().cloned().collect();
        let log = HoldLog::owned(log, owner, &nodes.session, &paths, token);
        let revocation = Arc::new(Revocation::new(log.clone()));
        let watches = watches.into_iter().chain(std::iter::repeat_with(|| None));
        let watched = paths.iter().cloned().zip(watches).map(|(path, own)| WatchedNode::new(path, own, &revocation));
        let watched: Vec<_> = watched.collect();
        nodes.watched.clone_from(&watched);
        let (client, session) = (nodes.client.clone(), nodes.session.clone());
        let held = watched.iter().map(|node| {
            let found_missing = node.clone();
            session.hold_node(node.path(), move || found_missing.note_deletion())
        });
        let state = Mutex::new(State { guards: 1, held: held.collect(), nodes: Some(nodes), deleted: None });
        Self { client, session, paths, watched, token, revocation, ended: watch::Sender::new(None), log, state }
    }

    /// Whether the nodes, which were seen over the connection of this number, still exist. If the session has got another one
    /// before this hold was made, its look at the held nodes has not included them, so they are looked at here.
    ///
    /// If the session ends first, they may exist. With [`Wait::No`], neither waits for a connection nor tries again.
    pub(crate) async fn is_there_since(
        &self,
        connection: u64,
        wait: Wait,
        failures: &mut Failures<'_>,
    ) -> Result<bool> {
        if self.session.connections() == connection {
            return Ok(true);
        }
        while wait == Wait::No || self.session.connected().await.is_ok() {
            let looks: Vec<_> = self.paths.iter().map(|path| self.session.exists(path)).collect();
            match try_join_all(looks).await {
                Ok(found) => return Ok(found.iter().all(Option::is_some)),
                Err(error) if wait == Wait::No => return Err(failures.at_once(error)),
                Err(error) => failures.pause(error).await?,
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

    /// Who acquired it.
    pub(crate) fn owner(&self) -> &OwnerId {
        self.log.owner()
    }

    pub(crate) fn client(&self) -> &CuratorClient {
        &self.client
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The span of what is told of it.
    pub(crate) fn span(&self) -> &Span {
        self.log.span()
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
            self.log.entered_again(guards);
        }
        enter
    }

    /// Removes a guard. If it was the last, returns the nodes; dropping them deletes them.
    pub(crate) fn leave(&self, user: HoldUser) -> Option<OwnNodes> {
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
        let (nodes, held) = (state.nodes.take(), mem::take(&mut state.held));
        drop(state);
        drop(held);
        self.note_release(nodes)
    }

    /// As [`leave`](Self::leave) if there is only one guard; otherwise does nothing.
    pub(crate) fn leave_if_last(&self) -> Option<OwnNodes> {
        let mut state = self.lock();
        if state.guards > 1 {
            return None;
        }
        state.guards = 0;
        let (nodes, held) = (state.nodes.take(), mem::take(&mut state.held));
        drop(state);
        drop(held);
        self.note_release(nodes)
    }

    /// Whether there are guards, and the lock is not known to be lost.
    pub(crate) fn is_held(&self) -> bool {
        let guards = self.lock().guards;
        guards > 0 && self.loss().is_none()
    }

    /// Why the lock is lost, as far as that is known. Reads the clock, and sends nothing.
    pub(crate) fn loss(&self) -> Option<LockLost> {
        let deleted = self.watched.iter().find(|node| node.is_deleted());
        let deleted = deleted.map(|node| LockLost { path: node.path().clone(), reason: LossReason::NodeDeleted });
        // The clock is read last: what is true of it now must be true for the caller.
        let lost = self.session_loss().or(deleted)?;
        self.note_end(&lost);
        Some(lost)
    }

    /// Why the lock is no longer held, by loss or by release, as far as that is known. Reads the clock.
    pub(crate) fn end(&self) -> Option<LockLost> {
        let lost = self.loss();
        self.ended.borrow().clone().or(lost)
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
        let watching = || watch_nodes(&self.client, &self.session, &self.watched, &self.revocation);
        self.lock().deleted.get_or_insert_with(watching).clone()
    }

    /// Records why the lock is no longer held, unless that is known already. Wakes those who wait for it.
    fn note_end(&self, end: &LockLost) {
        let is_first = self.ended.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert_with(|| end.clone());
            is_first
        });
        if is_first {
            self.log.ended(end);
        }
    }

    /// Records that the last guard gives up the nodes. If the lock is lost, that came first.
    fn note_release(&self, nodes: Option<OwnNodes>) -> Option<OwnNodes> {
        if nodes.is_some() && self.loss().is_none() {
            self.note_end(&LockLost { path: self.path().clone(), reason: LossReason::Released });
        }
        nodes
    }

    /// Waits until the lock is lost. The future does not keep the hold.
    fn losing(&self) -> impl Future<Output = LockLost> + Send + use<> {
        let (session, deleted, path) = (self.session.clone(), self.deleted(), self.path().clone());
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
        LockLost { path: self.path().clone(), reason: LossReason::SessionLost(end) }
    }

    /// Whether someone is known to have asked for the lock back.
    pub(crate) fn is_revoked(&self) -> bool {
        self.revocation.is_asked()
    }

    /// Records that someone asked for the lock back before it was held, at a node that is not one of the hold's.
    pub(crate) fn note_revocation(&self) {
        self.revocation.note();
    }

    /// Records that one of the nodes was found to be gone.
    pub(crate) fn note_deletion(&self, path: &ZPath) {
        self.watched.iter().filter(|node| node.path() == path).for_each(WatchedNode::note_deletion);
    }

    /// Waits until someone asks for the lock back.
    pub(crate) async fn revocation_requested(&self) -> Result<(), LockLost> {
        tokio::select! {
            biased;
            lost = self.lost() => Err(lost),
            () = self.revocation.asked() => Ok(()),
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
