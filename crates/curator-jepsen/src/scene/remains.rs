//! What is there though nobody needs it any more.

use tokio::time::{Instant, sleep};

use super::{LockNode, POLL, RunError, SESSION_TIMEOUT, SLACK, Scene};

/// Nodes and watches that should not be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remains {
    /// The nodes of our locks that belong to a session. The conductor's own makes none.
    pub(crate) nodes: Vec<LockNode>,
    /// The watches on all servers, of all sessions, those on children too; `None` if a server did not tell.
    pub(crate) watches: Option<u64>,
}

impl Scene {
    /// To be called when nobody uses a lock: counts until there is nothing, but no longer than it can take until the session of
    /// a process that was killed is over.
    pub(super) async fn remains(&self) -> Result<Remains, RunError> {
        let end = Instant::now() + SESSION_TIMEOUT + SLACK;
        loop {
            let (nodes, watches) = (self.lock_nodes().await?, self.watches().await);
            if (nodes.is_empty() && watches == Some(0)) || Instant::now() > end {
                return Ok(Remains { nodes, watches });
            }
            sleep(POLL).await;
        }
    }

    async fn watches(&self) -> Option<u64> {
        let mut count = 0;
        for member in self.cluster.members() {
            count += member.total_watch_count().await.ok()?;
        }
        Some(count)
    }
}
