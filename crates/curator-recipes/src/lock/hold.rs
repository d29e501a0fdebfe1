//! A lock that is held: what all guards of one owner share.

use std::sync::{Mutex, PoisonError};
use std::task::Context;
use std::task::Waker;

use curator_client::{CuratorClient, Outcome, Session, Watch, WatchEvent, ZPath};
use tokio::sync::{Mutex as AsyncMutex, watch};

use crate::error::{Error, LockLost, LossReason, Result};
use crate::fencing_token::FencingToken;

/// One node that owns, in one session.
#[derive(Debug)]
pub(crate) struct Hold {
    client: CuratorClient,
    session: Session,
    path: ZPath,
    token: FencingToken,
    /// How many guards there are. At zero the node is being deleted, and the hold cannot be entered again.
    guards: Mutex<usize>,
    /// The watch on the own node. One caller of `lost` at a time looks at it, the others wait for their turn.
    own: AsyncMutex<Option<Watch>>,
    deleted: watch::Sender<bool>,
}

impl Hold {
    /// A hold with one guard.
    pub(crate) fn new(
        client: &CuratorClient,
        session: &Session,
        path: ZPath,
        token: FencingToken,
        own: Option<Watch>,
    ) -> Self {
        Self {
            client: client.clone(),
            session: session.clone(),
            path,
            token,
            guards: Mutex::new(1),
            own: AsyncMutex::new(own),
            deleted: watch::Sender::new(false),
        }
    }

    pub(crate) fn path(&self) -> &ZPath {
        &self.path
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
        let mut guards = self.guards.lock().unwrap_or_else(PoisonError::into_inner);
        let enter = *guards > 0 && self.loss().is_none();
        *guards += usize::from(enter);
        enter
    }

    /// Takes a guard away: whether it was the last.
    pub(crate) fn leave(&self) -> bool {
        let mut guards = self.guards.lock().unwrap_or_else(PoisonError::into_inner);
        *guards = guards.saturating_sub(1);
        *guards == 0
    }

    pub(crate) fn depth(&self) -> usize {
        *self.guards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the lock is lost, as far as that can be known without a request. Reads the clock.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        if let Some(end) = self.session.end() {
            return Some(LossReason::SessionLost(end));
        }
        // Whoever waits for the watch has its waker in it, and holds the mutex; then it is his to look.
        if let Ok(mut own) = self.own.try_lock() {
            let fired = own.as_mut().map(|watch| watch.poll_fired(&mut Context::from_waker(Waker::noop())));
            if let Some(std::task::Poll::Ready(WatchEvent::Deleted)) = fired {
                self.deleted.send_replace(true);
            }
        }
        self.deleted.borrow().then_some(LossReason::NodeDeleted)
    }

    pub(crate) fn lock_lost(&self, reason: LossReason) -> LockLost {
        LockLost { path: self.path.clone(), reason }
    }

    /// Waits until the lock is lost.
    pub(crate) async fn lost(&self) -> LockLost {
        let mut deleted = self.deleted.subscribe();
        let reason = tokio::select! {
            biased;
            end = self.session.ended() => LossReason::SessionLost(end),
            // The sender lives in `self`.
            _ = deleted.wait_for(|deleted| *deleted) => LossReason::NodeDeleted,
            () = self.own_node_deleted() => LossReason::NodeDeleted,
        };
        self.lock_lost(reason)
    }

    /// Waits until the own node is deleted. Pends for ever when the session ends first.
    async fn own_node_deleted(&self) {
        let mut own = self.own.lock().await;
        let mut retrier = self.client.persistent_retrier();
        loop {
            let event = match own.as_mut() {
                Some(watch) => watch.fired().await,
                None => match self.session.watch_data(&self.path).await {
                    Ok((_, _, watch)) => {
                        *own = Some(watch);
                        retrier.reset();
                        continue;
                    }
                    Err(curator_client::Error::NoNode { .. }) => WatchEvent::Deleted,
                    Err(error) => {
                        tracing::debug!(%error, path = %self.path, "cannot watch a lock's own node yet");
                        if retrier.again().await.is_err() {
                            // The client closes, and that is told as the end of the session.
                            std::future::pending::<()>().await;
                        }
                        continue;
                    }
                },
            };
            match event {
                WatchEvent::Deleted => {
                    self.deleted.send_replace(true);
                    return;
                }
                WatchEvent::SessionEnded => std::future::pending().await,
                // The data was changed: a one-shot watch is used up by that.
                _ => *own = None,
            }
        }
    }

    /// Deletes the node, as often as the client's retry policy allows.
    pub(crate) async fn delete(&self) -> Result<()> {
        if let Some(reason) = self.loss() {
            return Err(self.lock_lost(reason).into());
        }
        let mut retrier = self.client.retrier();
        let mut in_doubt = false;
        loop {
            let error = match self.session.delete(&self.path, None).await {
                Ok(()) => return Ok(()),
                Err(curator_client::Error::NoNode { .. }) if in_doubt => return Ok(()),
                Err(curator_client::Error::NoNode { .. }) => {
                    self.deleted.send_replace(true);
                    return Err(self.lock_lost(LossReason::NodeDeleted).into());
                }
                Err(error) => error,
            };
            if let Some(end) = self.session.end() {
                return Err(self.lock_lost(LossReason::SessionLost(end)).into());
            }
            in_doubt |= error.outcome() == Outcome::Unknown;
            if let Err(source) = retrier.pause(error).await {
                return Err(Error::ReleasePending { path: self.path.clone(), source });
            }
        }
    }

    /// Leaves the delete to the client. Sends it at once; needs no runtime.
    pub(crate) fn delete_in_background(self: std::sync::Arc<Self>) {
        let janitor = self.client.janitor().clone();
        let (session, path) = (self.session.clone(), self.path.clone());
        // The watch on the own node goes with the hold, and must not go before the node: it would cost a request.
        janitor.delete_owned_with(&session, &path, Some(Box::new(self)));
    }
}
