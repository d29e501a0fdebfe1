//! Records whether a client has requested a holder's lock back.

use curator_client::source::watch;
use curator_client::{Error, ZPath};

use super::log::HoldLog;

/// The data that Curator writes to a lock's node to request the lock back.
pub(crate) const REVOKE_MESSAGE: &[u8] = b"__REVOKE__";

/// Whether a lock node's data is a revocation request.
pub(crate) fn is_revoke_request(data: &[u8]) -> bool {
    data == REVOKE_MESSAGE
}

/// Whether a client has requested the lock back.
#[derive(Debug)]
pub(crate) struct Revocation {
    revoke_requested: watch::Sender<bool>,
    log: HoldLog,
}

impl Revocation {
    pub(crate) fn new(log: HoldLog) -> Self {
        Self {
            revoke_requested: watch::Sender::new(false),
            log,
        }
    }

    pub(crate) fn is_revoke_requested(&self) -> bool {
        *self.revoke_requested.borrow()
    }

    /// Records a request to give the lock back.
    pub(crate) fn note(&self) {
        if !self.revoke_requested.send_replace(true) {
            self.log.revocation_requested();
        }
    }

    /// Waits for a request to give the lock back.
    pub(crate) async fn revoke_requested(&self) {
        // The sender lives in `self`, so the channel cannot be closed.
        let _ = self
            .revoke_requested
            .subscribe()
            .wait_for(|revoke_requested| *revoke_requested)
            .await;
    }

    /// Logs that a node cannot be watched for now.
    pub(crate) fn cannot_watch(&self, path: &ZPath, error: &Error) {
        self.log.cannot_watch(path, error);
    }
}
