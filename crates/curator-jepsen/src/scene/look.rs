//! Compares the caches with the servers, while the clients pause their writes.

use std::sync::atomic::Ordering;

use tokio::time::{Instant, sleep};

use super::{Client, Followed, POLL, SESSION_TIMEOUT, SLACK, Scene, WAIT_LIMIT};
use crate::history::{CACHE, CacheSeen, What};
use crate::peer::Peer;
use crate::work::{AGAIN, LOOK, QUIET};
use crate::worker::cached_nodes;

impl Scene {
    /// Makes our clients pause their writes, requests the content of each cache, and reads the
    /// nodes from the servers. The checker compares them. Must be called after all clients have
    /// recovered from the last fault.
    ///
    /// Peers cannot report that they have caught up, so the conductor waits for a little more than
    /// a session timeout before it requests their content.
    pub(crate) async fn look(&self) -> anyhow::Result<()> {
        let Some(looks) = &self.looks else {
            return Ok(());
        };
        let look = looks.fetch_add(1, Ordering::Relaxed);
        let ours: Vec<&Client> = self.ours().collect();
        let peers = self
            .clients
            .iter()
            .filter(|client| client.peer().is_some_and(Peer::is_cache));
        let peers: Vec<&Client> = peers.collect();
        ours.iter()
            .for_each(|client| client.send_line(&format!("{QUIET}{look}")));
        self.wait_for(&ours, "pause their writes", |followed| {
            followed.quiet == Some(look)
        })
        .await?;
        if !peers.is_empty() {
            self.wait_and_check(SESSION_TIMEOUT + SLACK).await?;
        }
        let all: Vec<&Client> = ours.iter().chain(&peers).copied().collect();
        all.iter()
            .for_each(|client| client.send_line(&format!("{LOOK}{look}")));
        self.wait_for(&all, "report the content of their caches", |followed| {
            followed.looked == Some(look)
        })
        .await?;
        let nodes = self
            .request("the nodes that caches copy", async || {
                cached_nodes(&self.operator).await
            })
            .await?;
        let asked = all.iter().map(|client| client.number()).collect();
        self.journal.write(What::Cache {
            part: CACHE.to_owned(),
            seen: CacheSeen::Tree { look, asked, nodes },
        })?;
        ours.iter().for_each(|client| client.send_line(AGAIN));
        Ok(())
    }

    /// Waits until this holds for the histories of these clients, for at most a minute. Returns the
    /// numbers of the others. A missing snapshot is not an error here, as the checker reports it.
    pub(super) async fn wait_for(
        &self,
        clients: &[&Client],
        what: &str,
        holds: impl Fn(&Followed) -> bool,
    ) -> anyhow::Result<Vec<u32>> {
        let end = Instant::now() + WAIT_LIMIT;
        loop {
            self.check()?;
            let mut waiting: Vec<u32> = clients.iter().map(|client| client.number()).collect();
            {
                let mut progress = self.journal.progress();
                progress.read();
                waiting.retain(|client| !progress.followed(*client).is_some_and(&holds));
            }
            if waiting.is_empty() || Instant::now() > end {
                for client in &waiting {
                    self.journal.say(&format!("w{client} did not {what}"));
                }
                return Ok(waiting);
            }
            sleep(POLL).await;
        }
    }
}
