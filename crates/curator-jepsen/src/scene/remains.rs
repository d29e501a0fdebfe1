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
            count += watch_count(&member.four_letter_word("mntr").await.ok()?)?;
        }
        Some(count)
    }
}

/// How many watches a server keeps, by its answer to `mntr`. Unlike `wchs` and `wchp`, that counts watches on children.
fn watch_count(mntr: &str) -> Option<u64> {
    mntr.lines().find_map(|line| line.strip_prefix("zk_watch_count\t"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_tell_of_watches_has_not_none() {
        assert_eq!(watch_count("zk_version\t3.9.5\nzk_watch_count\t12\nzk_ephemerals_count\t3\n"), Some(12));
        assert_eq!(watch_count("This ZooKeeper instance is not currently serving requests\n"), None);
    }
}
