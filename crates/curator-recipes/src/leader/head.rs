//! The head of a queue, read and watched by a client that is not in it.

use curator_client::{CuratorClient, Error as ClientError, Session, Watch, WatchEvent, ZPath};
use curator_protocol::StandardLockInternalsDriver;

use crate::engine::follow::fired;
use crate::error::Result;
use crate::lock::Participant;
use crate::lock::participants::{Listed, Numbers};

/// Reads who is first in a queue, and watches that node alone: nobody else can be first before it is deleted.
///
/// What it reads is never older than what it has read before, in a new session either: a session has a connection only
/// once a server has answered its probe, which a server that lags behind cannot.
pub(super) struct QueueHead {
    client: CuratorClient,
    dir: ZPath,
    driver: StandardLockInternalsDriver,
    /// The first two nodes of the last list, unless they are known to be deleted. Whoever joined since comes after them.
    first: Vec<Listed>,
    watch: Option<(Session, Watch)>,
}

impl QueueHead {
    pub(super) fn new(client: &CuratorClient, dir: ZPath, driver: StandardLockInternalsDriver) -> Self {
        Self { client: client.clone(), dir, driver, first: Vec::new(), watch: None }
    }

    /// Waits until the watch has fired, or its session is over; returns at once if there is none.
    pub(super) async fn changed(&mut self) {
        if fired(&mut self.watch).await == Some(WatchEvent::Deleted) && !self.first.is_empty() {
            self.first.remove(0);
        }
    }

    /// Reads who is first, and sets a watch.
    ///
    /// One request if the node after the last head is the new one, or if the head is the same; otherwise a list and the head.
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

    /// A watch that fires when someone joins; `None` if someone has.
    async fn watch_empty_queue(&mut self, session: &Session) -> Result<Option<Watch>> {
        let Some((children, watch)) = unless_missing(session.watch_children(&self.dir).await)? else {
            let (stat, watch) = session.watch_exists(&self.dir).await?;
            return Ok(stat.is_none().then_some(watch));
        };
        self.keep_first(children)?;
        Ok(self.first.is_empty().then_some(watch))
    }
}

/// The answer about a node; `None` if there is no such node.
fn unless_missing<T>(answer: curator_client::Result<T>) -> Result<Option<T>> {
    match answer {
        Err(ClientError::NoNode { .. }) => Ok(None),
        answer => Ok(Some(answer?)),
    }
}
