//! The janitor's task, which carries out the deletes of its queue.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};

use super::deletion::{Deleted, Deletion, delete_tree};
use super::ledger::Ledger;
use crate::error::{Error, Result};
use crate::node::find::NodeFinder;
use crate::path::ZPath;
use crate::retrier::Retrier;
use crate::retry_policy::Unlimited;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::time::Timer;

/// A job, with the ids of its ledger entries.
pub(super) enum Job {
    One(u64, Delete),
    /// Nodes of one session. `_keep_alive` is dropped when all of them are done.
    Owned {
        deletion: Deletion,
        ids: Vec<(ZPath, u64)>,
        _keep_alive: KeepAlive,
    },
}

/// The delete of one ledger entry.
pub(super) enum Delete {
    /// A node of any session, until it is gone.
    Path(ZPath),
    /// A node of any session and everything below it, until it is gone.
    Tree(ZPath),
    /// A node of this session with an unknown sequence number: its create may or may not have been
    /// applied.
    Find {
        session: Session,
        finder: NodeFinder,
    },
    /// This node, but not another one at its path. `done` gets the result; `_keep_alive` is dropped
    /// when the delete is done.
    Created {
        node: CreatedNode,
        done: Option<oneshot::Sender<Result<()>>>,
        _keep_alive: KeepAlive,
    },
}

/// A node, identified by the change that created it.
pub(super) struct CreatedNode {
    /// The session whose end removes the node, if it is ephemeral.
    pub(super) session: Option<Session>,
    pub(super) path: ZPath,
    pub(super) czxid: i64,
    /// Its version, if known.
    pub(super) seen: Option<Seen>,
}

/// The version of a node, seen over a connection.
pub(super) struct Seen {
    pub(super) version: i32,
    pub(super) session: Session,
    /// The number of connections that the session had had when the version was read.
    pub(super) connections: u64,
}

impl Seen {
    /// The version, unless the connection has ended: then another node may have replaced this one.
    fn version(self) -> Option<i32> {
        let is_same = self.session.is_connected() && self.session.connections() == self.connections;
        is_same.then_some(self.version)
    }
}

pub(super) type KeepAlive = Option<Box<dyn Send>>;

impl Job {
    /// The ids of the ledger entries.
    pub(super) fn ids(&self) -> Vec<u64> {
        match self {
            Self::One(id, _) => vec![*id],
            Self::Owned { ids, .. } => ids.iter().map(|(_, id)| *id).collect(),
        }
    }
}

impl Delete {
    pub(super) fn session(&self) -> Option<&Session> {
        match self {
            Self::Path(_) | Self::Tree(_) => None,
            Self::Find { session, .. } => Some(session),
            Self::Created { node, .. } => node.session.as_ref(),
        }
    }

    /// Reports the result to the waiting caller, if there is one.
    fn report(&mut self, result: Result<()>) {
        if let Self::Created { done, .. } = self
            && let Some(done) = done.take()
        {
            // The caller may have stopped waiting.
            let _ = done.send(result);
        }
    }
}

/// The janitor's end of the queue.
pub(crate) struct JanitorQueue {
    pub(super) jobs: mpsc::UnboundedReceiver<Job>,
    pub(super) ledger: Arc<Ledger>,
}

/// The maximum number of deletes in progress. The others wait in the queue.
const MAX_CONCURRENT: usize = 64;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl JanitorQueue {
    /// Works until the supervisor ends, which aborts this task.
    pub(crate) async fn work(mut self, sessions: Arc<Sessions>, timer: Timer) {
        let worker = Arc::new(Worker {
            sessions,
            timer,
            client: self.ledger.client(),
            ledger: Arc::clone(&self.ledger),
        });
        let mut under_way: FuturesUnordered<Work> = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                // Polled first, so that new deletes cannot starve the deletes in progress.
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
                Some(job) = self.jobs.recv(), if under_way.len() < MAX_CONCURRENT => {
                    let worker = Arc::clone(&worker);
                    under_way.push(Box::pin(async move { worker.finish(job).await }));
                }
                else => return,
            }
        }
    }
}

impl Drop for JanitorQueue {
    fn drop(&mut self) {
        // The end of a session removes its nodes. Later callers find the channel closed.
        self.jobs.close();
        self.ledger.clear();
    }
}

/// The state that all deletes share.
struct Worker {
    sessions: Arc<Sessions>,
    timer: Timer,
    client: Arc<str>,
    ledger: Arc<Ledger>,
}

impl Worker {
    async fn finish(&self, job: Job) {
        match job {
            Job::One(id, delete) => self.finish_one(id, delete).await,
            Job::Owned {
                deletion,
                ids,
                _keep_alive,
            } => self.finish_owned(deletion, ids).await,
        }
    }

    /// Tries until each node is gone or the server refuses its deletion, or the session has ended.
    async fn finish_owned(&self, mut deletion: Deletion, mut ids: Vec<(ZPath, u64)>) {
        let mut retrier = self.retrier();
        loop {
            let attempt = deletion.attempt(|node, how| {
                let Some(index) = ids.iter().position(|(path, _)| path == node) else {
                    return;
                };
                let (_, id) = ids.remove(index);
                match how {
                    Deleted::Gone | Deleted::Missing => self.ledger.remove(id),
                    Deleted::Refused(error) => self.ledger.refused(id, &error),
                }
            });
            let Err(error) = attempt.await else { return };
            for (_, id) in &ids {
                self.ledger.set_last_error(*id, &error);
            }
            if deletion.session().end().is_some() {
                // The end of the session removes the nodes.
                ids.iter().for_each(|(_, id)| self.ledger.remove(*id));
                return;
            }
            if retrier.pause(error).await.is_err() {
                ids.iter().for_each(|(_, id)| self.ledger.mark_refused(*id));
                return;
            }
            wait_for_connection(deletion.session()).await;
        }
    }

    /// Tries until the node is gone, the session has ended, or the server refuses the delete.
    async fn finish_one(&self, id: u64, mut delete: Delete) {
        let mut retrier = self.retrier();
        loop {
            let Err(error) = self.attempt(&mut delete).await else {
                break;
            };
            self.ledger.set_last_error(id, &error);
            if delete
                .session()
                .is_some_and(|session| session.end().is_some())
            {
                break;
            }
            if let Err(error) = retrier.pause(error).await {
                self.ledger.mark_refused(id);
                delete.report(Err(error));
                return;
            }
        }
        self.ledger.remove(id);
        delete.report(Ok(()));
    }

    async fn attempt(&self, delete: &mut Delete) -> Result<()> {
        let deleted = match delete {
            Delete::Path(path) => {
                self.sessions
                    .connected_even_while_closing()
                    .await?
                    .delete(path, None)
                    .await
            }
            Delete::Tree(path) => {
                let session = self.sessions.connected_even_while_closing().await?;
                delete_tree(&session, path, None).await
            }
            Delete::Find { session, finder } => self.delete_found(session, finder).await,
            Delete::Created { node, .. } => self.delete_created(node).await,
        };
        match deleted {
            // The node is gone, which is success.
            Err(Error::NoNode { .. }) => Ok(()),
            deleted => deleted,
        }
    }

    /// Deletes the nodes that are found. A delete that the server refuses is not repeated; it is
    /// listed under the path of its node.
    async fn delete_found(&self, session: &Session, finder: &NodeFinder) -> Result<()> {
        wait_for_connection(session).await;
        let found = finder.find(session).await?;
        let found = found.into_iter().map(|node| node.path).collect();
        let mut refused = Vec::new();
        Deletion::new(session, found)
            .attempt(|node, how| {
                if let Deleted::Refused(error) = how {
                    refused.push((node.clone(), error));
                }
            })
            .await?;
        // Recorded only after the whole attempt: a further attempt would find the refused nodes
        // again.
        for (node, error) in refused {
            self.ledger.add_refused(session, &node, &error);
        }
        Ok(())
    }

    /// Deletes the node if it exists. Another node at its path stays.
    async fn delete_created(&self, node: &mut CreatedNode) -> Result<()> {
        let mut seen = node.seen.take();
        let session = match &node.session {
            Some(session) => {
                wait_for_connection(session).await;
                session.clone()
            }
            None => self.sessions.connected_even_while_closing().await?,
        };
        loop {
            let version = match seen.take().and_then(Seen::version) {
                Some(version) => version,
                None => match session.exists(&node.path).await? {
                    Some(stat) if stat.czxid == node.czxid => stat.version,
                    _ => return Ok(()),
                },
            };
            match session.delete(&node.path, Some(version)).await {
                // Since the read, the node was written to, or another node has replaced it.
                Err(Error::BadVersion { .. }) => {}
                deleted => return deleted,
            }
        }
    }

    /// A retrier that continues while the client closes, because a closing client waits for the
    /// deletes.
    fn retrier(&self) -> Retrier {
        Retrier::new(Arc::new(Unlimited), &self.timer, &self.client)
    }
}

/// Also returns if the session ends first: the next request then reports that.
async fn wait_for_connection(session: &Session) {
    let _ = session.connected().await;
}
