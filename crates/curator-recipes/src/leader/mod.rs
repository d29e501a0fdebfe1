//! Leadership: one leader among all participants, until it resigns or loses its session; and a job that only the leader runs.

mod campaign;
mod head;
mod latch;
mod leadership;
mod observer;
mod selector;
mod state;

use curator_client::{CuratorClient, PendingDelete, RecipeSupport as _, ZPath};

use crate::engine::refused::is_stuck;
use crate::error::{Error, Result};

pub use self::latch::{LeaderLatch, LeaderLatchBuilder};
pub use self::leadership::Leadership;
pub use self::observer::{LeaderObserver, ObservedLeader};
pub use self::selector::{LeaderSelector, LeaderSelectorBuilder, LeaderSelectorError};
pub use self::state::LeaderState;

/// The lock name of a latch's nodes.
const LATCH_NAME: &str = "latch-";
/// The lock name of a selector's nodes: that of a mutex.
const SELECTOR_NAME: &str = "lock-";

/// Waits until no node that this client has given up is left below the directory, or the client closes.
///
/// # Errors
///
/// That the server does not permit the deletion of a node.
async fn left_queue(client: &CuratorClient, dir: &ZPath) -> Result<()> {
    let (mut retrier, mut has_looked) = (client.persistent_retrier(), false);
    loop {
        let left = tokio::select! {
            biased;
            _ = client.closing() => return Ok(()),
            left = client.janitor().wait_until_gone_below(dir) => left,
        };
        let Err(PendingDelete { path, last_error: Some(cause), .. }) = left else { return Ok(()) };
        let Ok(path) = ZPath::on_server(&path) else { return Ok(()) };
        // It may have been permitted since.
        if let Ok(session) = client.try_session()
            && is_stuck(&path, &session, &client.janitor().refusals(&session)).await
        {
            return Err(Error::ReleaseRefused { path, cause });
        }
        // It is gone, or nobody could be asked: then a pause, at the end of which the session may be over, and the node with it.
        if std::mem::replace(&mut has_looked, true) && retrier.again().await.is_err() {
            return Ok(());
        }
    }
}
