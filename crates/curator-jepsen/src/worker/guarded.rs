//! Work that ends when its lock is lost.

use std::pin::Pin;
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use tokio::time::{sleep, timeout};

use super::held::Held;
use crate::work::{Part, Variant, Work};

/// How long to ask whether a node is there.
const LOOK: Duration = Duration::from_millis(500);

/// For how many session timeouts a holder whose node is gone waits for its guard to say so. It is more than a guard may
/// take, so that the checker sees one that never does.
const PATIENCE: u32 = 5;

/// Runs what is done under a hold: the guarded variant under the guard, the others as if there were none.
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

    /// Does some work. If a guard stands before it, drops the work when the lock is lost.
    ///
    /// A hold is short, and would be over before a guard that notices nothing could be told from one that does. So a hold whose
    /// node is gone lasts until the guard has noticed. Nobody waits for such a hold.
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
