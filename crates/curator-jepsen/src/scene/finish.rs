//! Ends the clients of a run, and counts the nodes and watches that are left.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Client, POLL, Scene};
use crate::history::What;
use crate::report::Leftovers;
use crate::work::REST;

/// How long the clients may take to rest (they release their locks), or to finish (they close their
/// sessions).
const END_TIMEOUT: Duration = Duration::from_secs(60);

impl Scene {
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
            self.journal.say("requesting the peers to finish");
            self.end(&peers).await;
        }
        self.journal.say("requesting our clients to rest");
        let restless = self.rest(&ours).await?;
        let at_rest = self.remains().await?;
        self.journal.say("requesting our clients to finish");
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
    /// of the clients that did not rest in time.
    async fn rest(&self, clients: &[&Client]) -> anyhow::Result<Vec<u32>> {
        clients.iter().for_each(|client| client.send_line(REST));
        self.wait_for(clients, "rest", |followed| followed.rests)
            .await
    }

    /// Makes the clients finish. Kills the clients that do not finish in time. Returns their
    /// numbers, and the numbers of the clients that did not exit with status 0.
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
                .say(&format!("w{client} did not finish: {how}"));
        }
        unfinished.into_iter().map(|(client, _)| client).collect()
    }

    /// The number of clients whose close of the session was not confirmed, although all servers are
    /// up.
    fn unclosed(&self, clients: &[&Client]) -> usize {
        let mut progress = self.journal.progress();
        progress.read();
        let error = |client: u32| progress.followed(client)?.unclosed.clone();
        let unclosed = clients
            .iter()
            .filter_map(|client| Some((client.number(), error(client.number())?)));
        let unclosed: Vec<_> = unclosed.collect();
        for (client, error) in &unclosed {
            self.journal.say(&format!(
                "w{client} has ended, but the close of its session is unconfirmed: {error}"
            ));
        }
        unclosed.len()
    }
}
