//! Runs work under a guard, which ends it when the lock is lost.

use std::pin::Pin;
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use tokio::time::{sleep, timeout};

use super::held::Held;
use crate::work::{Part, Variant, Work};

/// How long a check whether a node exists may take.
const LOOK: Duration = Duration::from_millis(500);

/// For how many session timeouts a holder whose node is gone waits for its guard to report that. More than a guard may
/// take, so that the checker finds one that never does.
const PATIENCE: u32 = 5;

/// Runs the work under a hold: in the guarded variant under the guard, in the others without it.
#[derive(Debug, Clone)]
pub(super) struct Guarded {
    is_guarded: bool,
    client: CuratorClient,
    patience: Duration,
}

impl Guarded {
    pub(super) fn new(work: &Work, part: Part, client: &CuratorClient) -> Self {
        let patience = Duration::from_millis(work.session_timeout_ms).saturating_mul(PATIENCE);
        Self { is_guarded: part.variant == Variant::Guarded, client: client.clone(), patience }
    }

    /// Runs some work. In the guarded variant, drops the work when the lock is lost.
    ///
    /// A hold is short, and would usually end before the guard has to report a deleted node. So a hold whose node is
    /// gone lasts until the guard reports that, or for several session timeouts. It does not block any waiter.
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
                if let Ok(Ok(None)) = timeout(LOOK, self.client.check_exists(node)).await {
                    sleep(self.patience).await;
                    return;
                }
            }
        }))
    }
}
