//! Orders to all clients: to pause their writes and report the content of their caches, to rest,
//! and to finish. Counts the nodes and watches that are left.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::operator::CONFIG;
use super::{Client, Followed, POLL, SESSION_TIMEOUT, SLACK, Scene, WAIT_LIMIT};
use crate::history::{CACHE, CacheSeen, What};
use crate::peer::Peer;
use crate::report::{LeftoverCounts, Leftovers};
use crate::work::{AGAIN, LOOK, QUIET, REST};
use crate::worker::cached_nodes;

/// How long the clients may take to rest (they release their locks), or to finish (they close their
/// sessions).
const END_TIMEOUT: Duration = Duration::from_secs(60);

impl Scene {
    /// Makes our clients pause their writes, requests the content of each cache, and reads the
    /// nodes from the servers. The checker compares the contents with these nodes. Must be called
    /// after all clients have recovered from the last fault.
    ///
    /// Peers cannot report that they have caught up, so the conductor waits for a little more than
    /// a session timeout before it requests the content of their caches.
    pub(crate) async fn look(&self) -> anyhow::Result<()> {
        let Some(looks) = &self.looks else {
            return Ok(());
        };
        let look = looks.fetch_add(1, Ordering::Relaxed);
        let ours: Vec<&Client> = self.ours().collect();
        let peers: Vec<&Client> = self
            .clients
            .iter()
            .filter(|client| client.peer().is_some_and(Peer::is_cache))
            .collect();
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

    /// Waits until the history of each of these clients satisfies `holds`, for at most a minute.
    /// Returns the numbers of the clients whose history does not. A missing snapshot is not an
    /// error here, as the checker reports it.
    async fn wait_for(
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
                    self.journal.print(&format!("w{client} did not {what}"));
                }
                return Ok(waiting);
            }
            sleep(POLL).await;
        }
    }

    /// Ends the peers and then our clients. Counts the remaining nodes and watches while our
    /// clients' sessions are open, and again afterwards.
    ///
    /// When a session ends, the servers delete its nodes and watches, so only the first count finds
    /// what a lock has left behind.
    pub(crate) async fn finish(&self) -> anyhow::Result<Leftovers> {
        let (ours, peers): (Vec<&Client>, Vec<&Client>) = self
            .clients
            .iter()
            .partition(|client| client.peer().is_none());
        self.look().await?;
        self.journal.write(What::Finishing)?;
        // From here on, only our clients may have watches. A peer that does not finish is logged,
        // but does not fail the run.
        if !peers.is_empty() {
            self.journal.print("requesting the peers to finish");
            self.end(&peers).await;
        }
        self.journal.print("requesting our clients to rest");
        let restless = self.rest(&ours).await?;
        let at_rest = self.remains().await?;
        self.journal.print("requesting our clients to finish");
        let mut failed = self.end(&ours).await;
        failed.extend(restless);
        failed.sort_unstable();
        failed.dedup();
        let unclosed = self.unclosed(&ours);
        let at_end = self.remains().await?;
        Ok(Leftovers {
            clients: failed.len(),
            unclosed,
            at_rest,
            at_end,
        })
    }

    /// Makes the clients rest: their work ends, but their sessions stay open. Returns the numbers
    /// of the clients that did not rest within the time limit.
    async fn rest(&self, clients: &[&Client]) -> anyhow::Result<Vec<u32>> {
        clients.iter().for_each(|client| client.send_line(REST));
        self.wait_for(clients, "rest", |followed| followed.rests)
            .await
    }

    /// Makes the clients finish. Kills the clients that do not finish within the time limit.
    /// Returns the numbers of these clients, and of the clients that did not exit with status 0.
    async fn end(&self, clients: &[&Client]) -> Vec<u32> {
        clients.iter().for_each(|client| client.close_input());
        let end = Instant::now() + END_TIMEOUT;
        while clients.iter().any(|client| client.is_alive()) && Instant::now() < end {
            sleep(POLL).await;
        }
        let unfinished: Vec<_> = clients
            .iter()
            .filter_map(|client| client.end(&self.journal))
            .collect();
        for (client, how) in &unfinished {
            self.journal
                .print(&format!("w{client} did not finish: {how}"));
        }
        unfinished.into_iter().map(|(client, _)| client).collect()
    }

    /// The number of clients whose close of the session was not confirmed, although all servers are
    /// up.
    fn unclosed(&self, clients: &[&Client]) -> usize {
        let mut progress = self.journal.progress();
        progress.read();
        let unclosed: Vec<_> = clients
            .iter()
            .map(|client| client.number())
            .filter_map(|client| Some((client, progress.followed(client)?.unclosed.clone()?)))
            .collect();
        for (client, error) in &unclosed {
            self.journal.print(&format!(
                "w{client} has ended, but the close of its session is unconfirmed: {error}"
            ));
        }
        unclosed.len()
    }

    /// Counts the nodes and watches repeatedly until none is left, or until the session of a killed
    /// process must have ended. Must be called while no client uses a lock.
    async fn remains(&self) -> anyhow::Result<LeftoverCounts> {
        let end = Instant::now() + SESSION_TIMEOUT + SLACK;
        loop {
            let nodes = self.lock_nodes().await?;
            let watches = self.watches().await;
            if (nodes.is_empty() && watches == Some(0)) || Instant::now() > end {
                for node in &nodes {
                    self.journal.print(&format!(
                        "{} of session {:#x} is left behind",
                        node.path, node.session
                    ));
                }
                match watches {
                    Some(0) => {}
                    Some(watches) => self
                        .journal
                        .print(&format!("{watches} watches are left behind")),
                    None => self
                        .journal
                        .print("a server did not report how many watches are left behind"),
                }
                return Ok(LeftoverCounts {
                    nodes: nodes.len(),
                    watches,
                });
            }
            sleep(POLL).await;
        }
    }

    /// All watches but those on the configuration of the ensemble.
    async fn watches(&self) -> Option<u64> {
        let mut count = 0;
        for member in self.cluster.read().await.members() {
            let following = member.watches_by_path().await.ok()?;
            let following = following.get(CONFIG).map_or(0, Vec::len);
            count += member
                .total_watch_count()
                .await
                .ok()?
                .saturating_sub(following as u64);
        }
        Some(count)
    }
}
