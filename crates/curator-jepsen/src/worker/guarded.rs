//! Runs work under a guard, which drops the work when the lock is lost.

use std::pin::Pin;
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use tokio::time::{sleep, timeout};

use super::held::Held;
use crate::work::{Part, Variant, Work};

/// How long a check whether a node exists may take.
const CHECK_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a holder whose node was deleted waits for its guard to report the loss, in session
/// timeouts. Longer than a guard may take, so that the checker finds a guard that does not report
/// it.
const LOSS_TIMEOUTS: u32 = 5;

/// Runs the work under a hold: in the guarded variant with the guard's `run`, in other variants
/// without it.
#[derive(Debug, Clone)]
pub(super) struct Guarded {
    is_guarded: bool,
    client: CuratorClient,
    loss_timeout: Duration,
}

impl Guarded {
    pub(super) fn new(work: &Work, part: Part, client: &CuratorClient) -> Self {
        let loss_timeout =
            Duration::from_millis(work.session_timeout_ms).saturating_mul(LOSS_TIMEOUTS);
        Self {
            is_guarded: part.variant == Variant::Guarded,
            client: client.clone(),
            loss_timeout,
        }
    }

    /// Runs some work. In the guarded variant, drops the work when the lock is lost.
    ///
    /// A hold is short, and would usually end before the guard has to report a deleted node. So in
    /// the guarded variant, a hold whose node was deleted lasts until the guard reports the loss,
    /// or for several session timeouts. This does not block waiters.
    pub(super) fn run<'a>(
        &'a self,
        held: &'a Held,
        work: impl Future<Output = ()> + Send + 'a,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        if !self.is_guarded {
            return Box::pin(work);
        }
        Box::pin(held.run(async {
            work.await;
            for node in held.nodes() {
                if let Ok(Ok(None)) = timeout(CHECK_TIMEOUT, self.client.check_exists(node)).await {
                    sleep(self.loss_timeout).await;
                    return;
                }
            }
        }))
    }
}
