//! Leadership: one leader among all participants, until it resigns or loses its session; and a job that only the leader runs.

mod campaign;
mod latch;
mod leadership;
mod selector;
mod state;

use curator_client::{CuratorClient, PendingDelete, ZPath};

use crate::error::{Error, Result};

pub use self::latch::{LeaderLatch, LeaderLatchBuilder};
pub use self::leadership::Leadership;
pub use self::selector::{LeaderSelector, LeaderSelectorBuilder, LeaderSelectorError};
pub use self::state::LeaderState;

/// Waits until no node that this client has given up is left below the directory, or the client closes.
///
/// # Errors
///
/// That the server does not permit the deletion of a node.
async fn left_queue(client: &CuratorClient, dir: &ZPath) -> Result<()> {
    let left = tokio::select! {
        biased;
        _ = client.closing() => return Ok(()),
        left = client.janitor().wait_until_gone_below(dir) => left,
    };
    match left {
        Err(PendingDelete { path, last_error: Some(cause), .. }) => {
            let path = ZPath::on_server(&path).unwrap_or_else(|_| dir.clone());
            Err(Error::ReleaseRefused { path, cause })
        }
        _ => Ok(()),
    }
}
