//! Counts the nodes and watches that are left at the end of a run.

use tokio::time::{Instant, sleep};

use super::{POLL, SESSION_TIMEOUT, SLACK, Scene};
use crate::report::LeftoverCounts;

impl Scene {
    /// Counts the nodes and watches repeatedly until none is left, or until the session of a killed
    /// process must have ended. Must be called while no client uses a lock.
    pub(super) async fn remains(&self) -> anyhow::Result<LeftoverCounts> {
        let end = Instant::now() + SESSION_TIMEOUT + SLACK;
        loop {
            let (nodes, watches) = (self.lock_nodes().await?, self.watches().await);
            if (nodes.is_empty() && watches == Some(0)) || Instant::now() > end {
                for node in &nodes {
                    self.journal.say(&format!(
                        "{} of session {:#x} is left behind",
                        node.path, node.session
                    ));
                }
                match watches {
                    Some(0) => {}
                    Some(watches) => self
                        .journal
                        .say(&format!("{watches} watches are left behind")),
                    None => self
                        .journal
                        .say("a server did not report how many watches are left behind"),
                }
                return Ok(LeftoverCounts {
                    nodes: nodes.len(),
                    watches,
                });
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
