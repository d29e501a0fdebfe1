//! Ends the clients of a run, and counts the nodes and watches that are left.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Client, POLL, Remains, RunError, Scene};
use crate::history::What;
use crate::work::REST;

/// How long the clients may take to rest (they release their locks), or to finish (they close their sessions).
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// The result of ending the clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    /// The number of our clients that did not rest or finish in time, or did not exit with status 0.
    pub(crate) clients: usize,
    /// The number of our clients whose close of the session was not confirmed.
    pub(crate) unclosed: usize,
    /// What was left while our clients rested, with their sessions open.
    pub(crate) at_rest: Remains,
    /// What was left after all clients had ended.
    pub(crate) at_end: Remains,
}

impl Scene {
    /// Ends the peers and then our clients. Counts the remaining nodes and watches while our clients' sessions are
    /// open, and again afterwards.
    ///
    /// When a session ends, the servers delete its nodes and watches, so only the first count finds what a lock has left
    /// behind.
    pub(crate) async fn finish(&self) -> Result<End, RunError> {
        let (ours, peers): (Vec<&Client>, Vec<&Client>) =
            self.clients.iter().partition(|client| client.peer().is_none());
        self.look().await?;
        self.journal.write(What::Finishing)?;
        // From here on, only our clients may have watches. A peer that does not finish is logged, but does not fail the
        // run.
        if !peers.is_empty() {
            self.journal.say("requesting the peers to finish");
            self.end(&peers).await;
        }
        self.journal.say("requesting our clients to rest");
        let restless = self.rest(&ours).await?;
        let at_rest = self.remains().await?;
        self.log_remains(&at_rest);
        self.journal.say("requesting our clients to finish");
        let mut failed = self.end(&ours).await;
        failed.extend(restless);
        failed.sort_unstable();
        failed.dedup();
        let unclosed = self.unclosed(&ours);
        let at_end = self.remains().await?;
        self.log_remains(&at_end);
        Ok(End { clients: failed.len(), unclosed, at_rest, at_end })
    }

    /// Makes the clients rest: their work ends, but their sessions stay open. Returns the numbers of the clients that
    /// did not rest in time.
    async fn rest(&self, clients: &[&Client]) -> Result<Vec<u32>, RunError> {
        clients.iter().for_each(|client| client.send_line(REST));
        let end = Instant::now() + END_TIMEOUT;
        loop {
            clients.iter().try_for_each(|client| client.check(&self.journal))?;
            let mut restless: Vec<u32> = clients.iter().map(|client| client.number()).collect();
            {
                let mut progress = self.journal.progress();
                progress.read();
                restless.retain(|client| !progress.rests(*client));
            }
            if restless.is_empty() || Instant::now() > end {
                for client in &restless {
                    self.journal.say(&format!("w{client} did not rest"));
                }
                return Ok(restless);
            }
            sleep(POLL).await;
        }
    }

    /// Makes the clients finish. Kills the clients that do not finish in time. Returns their numbers, and the numbers
    /// of the clients that did not exit with status 0.
    async fn end(&self, clients: &[&Client]) -> Vec<u32> {
        clients.iter().for_each(|client| client.close_input());
        let end = Instant::now() + END_TIMEOUT;
        while clients.iter().any(|client| client.is_alive()) && Instant::now() < end {
            sleep(POLL).await;
        }
        let unfinished: Vec<_> = clients.iter().filter_map(|client| client.end(&self.journal)).collect();
        for (client, how) in &unfinished {
            self.journal.say(&format!("w{client} did not finish: {how}"));
        }
        unfinished.into_iter().map(|(client, _)| client).collect()
    }

    /// The number of clients whose close of the session was not confirmed, although all servers are up.
    fn unclosed(&self, clients: &[&Client]) -> usize {
        let mut progress = self.journal.progress();
        progress.read();
        let unclosed = clients.iter().filter_map(|client| Some((client.number(), progress.unclosed(client.number())?)));
        let unclosed: Vec<_> = unclosed.collect();
        for (client, error) in &unclosed {
            self.journal.say(&format!("w{client} has ended, but the close of its session is unconfirmed: {error}"));
        }
        unclosed.len()
    }

    fn log_remains(&self, remains: &Remains) {
        for node in &remains.nodes {
            self.journal.say(&format!("{} of session {:#x} is left behind", node.path, node.session));
        }
        match remains.watches {
            Some(0) => {}
            Some(watches) => self.journal.say(&format!("{watches} watches are left behind")),
            None => self.journal.say("a server did not report how many watches are left behind"),
        }
    }
}
