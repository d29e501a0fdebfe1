//! The nodes of a hold: a release deletes them and reports the result, a drop deletes them in the
//! background.

use std::mem;

use curator_client::{CuratorClient, Deadline, Deleted, Deletion, Session, ZPath};

use super::log::deletes_sent;
use super::watched_node::WatchedNode;
use crate::error::{Error, LockLost, LossReason, Result};

/// The nodes of a hold. Dropping this deletes them in the background.
#[derive(Debug)]
pub(crate) struct LockNodes {
    pub(super) client: CuratorClient,
    pub(super) deletion: Deletion,
    /// The watches on the nodes. Dropping them before the nodes are deleted would send extra
    /// requests.
    pub(super) watched: Vec<WatchedNode>,
}

impl LockNodes {
    pub(crate) fn new(client: &CuratorClient, session: &Session, paths: Vec<ZPath>) -> Self {
        Self {
            client: client.clone(),
            deletion: Deletion::new(session, paths),
            watched: Vec::new(),
        }
    }

    /// Forgets all nodes, so that nothing is deleted: they do not exist, or end with the session.
    pub(crate) fn forget_all(mut self) {
        self.deletion.forget_all();
    }

    /// Deletes the nodes, with as many attempts as the client's retry policy allows. If one delete
    /// fails, the other nodes are still deleted. Deletes that are not finished here continue in the
    /// background, as after a drop.
    ///
    /// `known_loss` is the earlier loss of the lock, if any.
    pub(crate) async fn release(mut self, known_loss: Option<LockLost>) -> Result<()> {
        let (first, several) = match self.deletion.left() {
            [] => (None, false),
            [first, others @ ..] => (Some(first.clone()), !others.is_empty()),
        };
        if let Some(lost) = &known_loss
            && !(several && lost.reason == LossReason::NodeDeleted)
        {
            self.forget_all();
            return Err(lost.clone().into());
        }
        let session = self.deletion.session().clone();
        let mut retrier = None;
        let mut failures = Vec::new();
        while !self.deletion.left().is_empty() {
            if !session.is_connected() {
                reconnected(&self.client, &session).await;
            }
            deletes_sent(self.deletion.left().len());
            let attempt = self.deletion.attempt(|path, deleted| match deleted {
                Deleted::Gone => {}
                Deleted::Missing => failures.push(Error::from(LockLost {
                    path: path.clone(),
                    reason: LossReason::NodeDeleted,
                })),
                Deleted::Refused(cause) => {
                    // Other contenders of this client fail instead of waiting for the node.
                    self.client.janitor().refused(&session, path, &cause);
                    failures.push(Error::ReleaseRefused {
                        path: path.clone(),
                        cause,
                    });
                }
            });
            let Err(error) = attempt.await else { break };
            if let Some(end) = session.end()
                && let Some(path) = &first
            {
                self.deletion.forget_all();
                return Err(LockLost {
                    path: path.clone(),
                    reason: LossReason::SessionLost(end),
                }
                .into());
            }
            let path = self.deletion.left()[0].clone();
            if !error.is_retryable() {
                failures.push(Error::ReleaseRefused { path, cause: error });
                break;
            }
            let retrier = retrier.get_or_insert_with(|| self.client.retrier());
            if let Err(cause) = retrier.pause(error).await {
                failures.push(Error::ReleasePending { path, cause });
                break;
            }
        }
        // After a lost reply, a missing node counts as deleted by this release. But the node of the
        // known loss was missing before, so that loss is still reported.
        if let Some(lost) = known_loss
            && !failures
                .iter()
                .any(|failure| matches!(failure, Error::Lost(_)))
        {
            failures.push(lost.into());
        }
        Error::from_releases(failures)
    }
}

impl Drop for LockNodes {
    fn drop(&mut self) {
        let nothing = Deletion::new(self.deletion.session(), Vec::new());
        let deletion = mem::replace(&mut self.deletion, nothing);
        let watched = Box::new(mem::take(&mut self.watched));
        self.client.janitor().finish(deletion, Some(watched));
    }
}

/// Waits for a connection, at most the session timeout; after that, the request itself returns the
/// error.
///
/// A release does not wait for a request turn, because other clients wait for the lock.
async fn reconnected(client: &CuratorClient, session: &Session) {
    let deadline = Deadline::after(session.timeout());
    tokio::select! {
        biased;
        _ = client.closing() => {}
        _ = session.connected() => {}
        () = client.sleep_until(deadline) => {}
    }
}
