//! Compares the caches with the servers: the clients write nothing meanwhile.

use std::sync::atomic::Ordering;

use tokio::time::{Instant, sleep};

use super::{Client, PATIENCE, POLL, Progress, RunError, SESSION_TIMEOUT, SLACK, Scene};
use crate::history::{CACHE, CacheSeen, What};
use crate::peer::Peer;
use crate::work::{AGAIN, LOOK, QUIET};
use crate::worker::cached_nodes;

impl Scene {
    /// To be called when all clients have come back from what was done to them. Has them pause, asks each process with a cache what
    /// that contains, and reads the nodes from the servers. The checker compares them.
    ///
    /// Peers have no way to say that they have caught up: they get a session timeout, and a little more.
    pub(crate) async fn look(&self) -> Result<(), RunError> {
        let Some(looks) = &self.looks else { return Ok(()) };
        let look = looks.fetch_add(1, Ordering::Relaxed);
        let ours: Vec<&Client> = self.ours().collect();
        let peers = self.clients.iter().filter(|client| client.peer().is_some_and(Peer::is_cache));
        let peers: Vec<&Client> = peers.collect();
        ours.iter().for_each(|client| client.tell(&format!("{QUIET}{look}")));
        self.wait_for(&ours, "pause", |progress, client| progress.is_quiet(client, look)).await?;
        if !peers.is_empty() {
            self.pass(SESSION_TIMEOUT + SLACK).await?;
        }
        let all: Vec<&Client> = ours.iter().chain(&peers).copied().collect();
        all.iter().for_each(|client| client.tell(&format!("{LOOK}{look}")));
        self.wait_for(&all, "say what their caches contain", |progress, client| progress.has_looked(client, look))
            .await?;
        let nodes = self.ask("the nodes that caches copy", async || cached_nodes(&self.operator).await).await?;
        let asked = all.iter().map(|client| client.number()).collect();
        self.journal.write(What::Cache { part: CACHE.to_owned(), seen: CacheSeen::Tree { look, asked, nodes } })?;
        ours.iter().for_each(|client| client.tell(AGAIN));
        Ok(())
    }

    /// Waits for these clients, no longer than a minute: the checker finds who is missing.
    async fn wait_for(
        &self,
        clients: &[&Client],
        what: &str,
        has: impl Fn(&Progress, u32) -> bool,
    ) -> Result<(), RunError> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.check()?;
            let mut waiting: Vec<u32> = clients.iter().map(|client| client.number()).collect();
            {
                let mut progress = self.journal.progress();
                progress.read();
                waiting.retain(|client| !has(&progress, *client));
            }
            if waiting.is_empty() {
                return Ok(());
            }
            if Instant::now() > end {
                let names: Vec<_> = waiting.iter().map(|client| format!("w{client}")).collect();
                self.journal.say(&format!("these did not {what}: {}", names.join(", ")));
                return Ok(());
            }
            sleep(POLL).await;
        }
    }
}
