//! Reads and watches the head of a queue, for a client that is not in the queue.

use curator_client::{CuratorClient, Error as ClientError, Session, Watch, WatchEvent, ZPath};
use curator_protocol::StandardLockInternalsDriver;

use crate::engine::follow::fired;
use crate::error::Result;
use crate::lock::Participant;
use crate::lock::participants::{Listed, Numbers};

/// Reads the first node of a queue, and watches only that node: no other node can be first before
/// it is deleted.
///
/// A read is never older than an earlier read, even in a new session: a session counts as connected
/// only once a server has replied to its probe, and a server that lags behind cannot reply to a
/// probe.
pub(super) struct QueueHead {
    client: CuratorClient,
    dir: ZPath,
    driver: StandardLockInternalsDriver,
    /// The first two nodes of the last list, without those known to be deleted. Nodes that are
    /// created later are behind them.
    first: Vec<Listed>,
    watch: Option<(Session, Watch)>,
}

impl QueueHead {
    pub(super) fn new(
        client: &CuratorClient,
        dir: ZPath,
        driver: StandardLockInternalsDriver,
    ) -> Self {
        Self {
            client: client.clone(),
            dir,
            driver,
            first: Vec::new(),
            watch: None,
        }
    }

    /// Waits until the watch has fired, or its session is over; returns immediately if no watch is
    /// set.
    pub(super) async fn changed(&mut self) {
        if fired(&mut self.watch).await == Some(WatchEvent::Deleted) && !self.first.is_empty() {
            self.first.remove(0);
        }
    }

    /// Reads the first participant, and sets a watch.
    ///
    /// Sends one request if the head is the same, or is the node after the last head; otherwise,
    /// lists the queue and reads the head.
    pub(super) async fn read(&mut self) -> Result<Option<Participant>> {
        let session = self.client.session().await?;
        loop {
            while let Some(head) = self.first.first_mut() {
                match session.watch_data(&head.path).await {
                    Ok((data, stat, watch)) => {
                        self.watch = Some((session, watch));
                        head.owns = true;
                        return Ok(Some(head.participant(data, &stat)));
                    }
                    Err(ClientError::NoNode { .. }) => drop(self.first.remove(0)),
                    Err(error) => return Err(error.into()),
                }
            }
            if let Some(children) = unless_missing(session.get_children(&self.dir).await)? {
                self.keep_first(children)?;
                if !self.first.is_empty() {
                    continue;
                }
            }
            if let Some(watch) = self.watch_empty_queue(&session).await? {
                self.watch = Some((session, watch));
                return Ok(None);
            }
        }
    }

    fn keep_first(&mut self, children: Vec<String>) -> Result<()> {
        self.first = Listed::of(&self.dir, children, &self.driver, Numbers::Order)?;
        self.first.truncate(2);
        Ok(())
    }

    /// Returns a watch that fires when a participant joins; `None` if one has joined already.
    async fn watch_empty_queue(&mut self, session: &Session) -> Result<Option<Watch>> {
        let Some((children, watch)) = unless_missing(session.watch_children(&self.dir).await)?
        else {
            let (stat, watch) = session.watch_exists(&self.dir).await?;
            return Ok(stat.is_none().then_some(watch));
        };
        self.keep_first(children)?;
        Ok(self.first.is_empty().then_some(watch))
    }
}

/// The reply about a node; `None` if there is no such node.
fn unless_missing<T>(answer: curator_client::Result<T>) -> Result<Option<T>> {
    match answer {
        Err(ClientError::NoNode { .. }) => Ok(None),
        answer => Ok(Some(answer?)),
    }
}
