//! Signals the end of a hold without keeping it alive.

use std::sync::{Arc, Weak};

use curator_client::ZPath;
use curator_client::source::watch;

use super::Hold;
use crate::error::{LockLost, LossReason};

/// Signals that a hold has ended, by loss or by release. Keeps neither the lock nor the hold alive.
#[derive(Debug, Clone)]
pub(crate) struct HoldEnd {
    hold: Weak<Hold>,
    ended: watch::Receiver<Option<LockLost>>,
    /// The path of the first node.
    path: ZPath,
}

impl HoldEnd {
    pub(crate) fn of(hold: &Arc<Hold>) -> Self {
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
            None => Some(self.over()),
        })
    }

    /// Waits until the lock is no longer held, and returns why.
    pub(crate) async fn wait(mut self) -> LockLost {
        let Some(losing) = self.hold.upgrade().map(|hold| hold.losing()) else {
            return self.over();
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
        self.over()
    }

    /// Why the lock is no longer held. Call this only after the hold has ended.
    fn over(&self) -> LockLost {
        let released = || LockLost {
            path: self.path.clone(),
            reason: LossReason::Released,
        };
        self.ended.borrow().clone().unwrap_or_else(released)
    }
}
