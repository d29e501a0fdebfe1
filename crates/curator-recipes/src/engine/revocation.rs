//! Records whether a client asks a holder for its lock.

use curator_client::{Error, ZPath};
use tokio::sync::watch;

use super::log::HoldLog;

/// The data that Curator writes to a lock's node to ask for the lock back.
pub(crate) const REVOKE_MESSAGE: &[u8] = b"__REVOKE__";

/// Whether a lock node's data asks for the lock back.
pub(crate) fn is_revoke_request(data: &[u8]) -> bool {
    data == REVOKE_MESSAGE
}

/// Whether someone has asked for the lock back.
#[derive(Debug)]
pub(crate) struct Revocation {
    asked: watch::Sender<bool>,
    log: HoldLog,
}

impl Revocation {
    pub(crate) fn new(log: HoldLog) -> Self {
        Self { asked: watch::Sender::new(false), log }
    }

    pub(crate) fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    /// Records a request to give the lock back.
    pub(crate) fn note(&self) {
        if !self.asked.send_replace(true) {
            self.log.asked_back();
        }
    }

    /// Waits for such a request.
    pub(crate) async fn asked(&self) {
        // The sender lives in `self`, so the channel cannot be closed.
        let _ = self.asked.subscribe().wait_for(|asked| *asked).await;
    }

    /// A node cannot be watched for now.
    pub(crate) fn cannot_watch(&self, path: &ZPath, error: &Error) {
        self.log.cannot_watch(path, error);
    }
}
