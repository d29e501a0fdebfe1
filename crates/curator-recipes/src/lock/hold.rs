//! A lock that is held: what all guards of one owner share.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use curator_client::{CuratorClient, Deadline, Outcome, Session, Watch, WatchEvent, ZPath};
use futures_util::future::{FutureExt as _, Shared};

use crate::error::{Error, LockLost, LossReason, Result};
use crate::fencing_token::FencingToken;

/// One node that owns, in one session.
#[derive(Debug)]
pub(crate) struct Hold {
    client: CuratorClient,
    session: Session,
    path: ZPath,
    token: FencingToken,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How many guards there are. At zero the node is being deleted, and the hold cannot be entered again.
    guards: usize,
    /// Comes when somebody has deleted the node. `None` while nobody has asked.
    deleted: Option<Deleted>,
}

/// Shared, so that whoever polls it drives it for all: one who asks and then looks elsewhere blinds nobody.
type Deleted = Shared<Pin<Box<dyn Future<Output = ()> + Send>>>;

impl Hold {
    /// A hold with one guard.
    pub(crate) fn new(
        client: &CuratorClient,
        session: &Session,
        path: ZPath,
        token: FencingToken,
        own: Option<Watch>,
    ) -> Self {
        let deleted = own.map(|watch| node_deleted(client, session, &path, Some(watch)));
        Self {
            client: client.clone(),
            session: session.clone(),
            path,
            token,
            state: Mutex::new(State { guards: 1, deleted }),
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

    pub(crate) fn depth(&self) -> usize {
        self.lock().guards
    }

    /// Why the lock is lost, as far as that is known. Reads the clock.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        if let Some(end) = self.session.end() {
            return Some(LossReason::SessionLost(end));
        }
        let mut deleted = self.lock().deleted.clone()?;
        let seen = deleted.poll_unpin(&mut Context::from_waker(Waker::noop()));
        (seen == Poll::Ready(())).then_some(LossReason::NodeDeleted)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_lost(&self, reason: LossReason) -> LockLost {
        LockLost { path: self.path.clone(), reason }
    }

    /// Waits until the lock is lost.
    pub(crate) async fn lost(&self) -> LockLost {
        let watching = || node_deleted(&self.client, &self.session, &self.path, None);
        let deleted = self.lock().deleted.get_or_insert_with(watching).clone();
        let reason = tokio::select! {
            biased;
            end = self.session.ended() => LossReason::SessionLost(end),
            () = deleted => LossReason::NodeDeleted,
        };
        self.lock_lost(reason)
    }

    /// Deletes the node, as often as the client's retry policy allows.
    pub(crate) async fn delete(&self) -> Result<()> {
        if let Some(reason) = self.loss() {
            return Err(self.lock_lost(reason).into());
        }
        let mut retrier = self.client.retrier();
        let mut in_doubt = false;
        loop {
            self.wait_for_connection().await;
            let error = match self.session.delete(&self.path, None).await {
                Ok(()) => return Ok(()),
                Err(curator_client::Error::NoNode { .. }) if in_doubt => return Ok(()),
                Err(curator_client::Error::NoNode { .. }) => {
                    return Err(self.lock_lost(LossReason::NodeDeleted).into());
                }
                Err(error) => error,
            };
            if let Some(end) = self.session.end() {
                return Err(self.lock_lost(LossReason::SessionLost(end)).into());
            }
            in_doubt |= error.outcome() == Outcome::Unknown;
            let path = self.path.clone();
            if !error.is_retryable() {
                return Err(Error::ReleaseRefused { path, cause: error });
            }
            if let Err(cause) = retrier.pause(error).await {
                return Err(Error::ReleasePending { path, cause });
            }
        }
    }

    /// No longer than the session timeout; then the request says what is wrong.
    async fn wait_for_connection(&self) {
        let deadline = Deadline::after(self.session.timeout());
        tokio::select! {
            biased;
            () = self.client.closing() => {}
            _ = self.session.connected() => {}
            () = self.client.sleep_until(deadline) => {}
        }
    }

    /// Leaves the delete to the client. Sends it at once; needs no runtime.
    pub(crate) fn delete_in_background(self: Arc<Self>) {
        let janitor = self.client.janitor().clone();
        let (session, path) = (self.session.clone(), self.path.clone());
        // The watch on the own node goes with the hold, and must not go before the node: it would cost a request.
        janitor.delete_owned_with(&session, &path, Some(Box::new(self)));
    }
}

/// Comes when the node is deleted; never when the session ends first, which is to be watched beside it.
fn node_deleted(client: &CuratorClient, session: &Session, path: &ZPath, watch: Option<Watch>) -> Deleted {
    let (client, session, path) = (client.clone(), session.clone(), path.clone());
    let watching: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        let mut own = watch;
        let mut retrier = client.persistent_retrier();
        loop {
            if let Some(mut watch) = own.take() {
                match watch.fired().await {
                    WatchEvent::Deleted => return,
                    WatchEvent::SessionEnded => pending().await,
                    // The data was changed, and a one-shot watch is used up by that.
                    _ => {}
                }
            }
            if session.connected().await.is_err() {
                pending::<()>().await;
            }
            match session.watch_data(&path).await {
                Ok((_, _, watch)) => {
                    retrier.reset();
                    own = Some(watch);
                }
                Err(curator_client::Error::NoNode { .. }) => return,
                Err(error) => {
                    tracing::debug!(%error, %path, "cannot watch a lock's own node");
                    // Nor will it ever, or the client closes, which is told as the end of the session.
                    if !error.is_retryable() || retrier.again().await.is_err() {
                        pending::<()>().await;
                    }
                }
            }
        }
    });
    watching.shared()
}
