//! Counts the nodes and watches that are left at the end of a run.

use tokio::time::{Instant, sleep};

use super::{LockNode, POLL, RunError, SESSION_TIMEOUT, SLACK, Scene};

/// Nodes and watches that must not exist at this time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remains {
    /// The nodes of our locks that belong to a session. The conductor's session creates none.
    pub(crate) nodes: Vec<LockNode>,
    /// The watches on all servers, of all sessions, including those on children; `None` if a server did not reply.
    pub(crate) watches: Option<u64>,
}

impl Scene {
    /// Counts the nodes and watches repeatedly until none is left, or until the session of a killed process must have
    /// ended. Must be called while no client uses a lock.
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
