//! Delays the close of a lost session until the next session has replaced its nodes.

use std::fmt;

use super::Session;
use crate::source::watch;

/// Delays the close of a lost session. See [`Session::delay_close`](super::Session::delay_close).
#[must_use = "the session is closed without delay after this is dropped"]
pub struct CloseDelay {
    delays: watch::Sender<usize>,
}

impl fmt::Debug for CloseDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloseDelay").finish_non_exhaustive()
    }
}

impl Drop for CloseDelay {
    fn drop(&mut self) {
        self.delays.send_modify(|delays| *delays -= 1);
    }
}

impl Session {
    /// Delays the close of this session on the servers, should it be lost, until the result is
    /// dropped: so the next session can replace a node of this one while that node still exists.
    /// The delay ends at most a third of the session timeout after the next session was opened, and
    /// at most a session timeout after the loss.
    ///
    /// Without a delay, the client closes a lost session as soon as it reaches a server, so that
    /// other clients need not wait until the servers delete its nodes.
    pub fn delay_close(&self) -> CloseDelay {
        let delays = self.inner.close_delays.clone();
        delays.send_modify(|delays| *delays += 1);
        CloseDelay { delays }
    }

    /// Waits until nothing delays the close.
    pub(crate) async fn close_permitted(&self) {
        // The sender lives in `self`, so the channel cannot be closed.
        let _ = self
            .inner
            .close_delays
            .subscribe()
            .wait_for(|delays| *delays == 0)
            .await;
    }
}
