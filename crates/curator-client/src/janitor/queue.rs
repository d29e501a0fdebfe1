//! The janitor's task: what was handed over, until it is done.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;

use super::ledger::Ledger;
use crate::error::{Error, Result};
use crate::node::find::NodeFinder;
use crate::path::ZPath;
use crate::retrier::Retrier;
use crate::retry_policy::Unlimited;
use crate::session::{Request, Session};
use crate::sessions::Sessions;
use crate::timer::Timer;

/// What is to be done, with the entries of the ledger that it is for.
pub(super) enum Job {
    One(u64, Delete),
    /// Nodes of one session, in one transaction that is on its way. The baggage is dropped when all is done.
    Together {
        session: Session,
        nodes: Vec<(u64, Delete)>,
        sent: Request<()>,
        _baggage: Baggage,
    },
}

/// What one entry of the ledger is about.
pub(super) enum Delete {
    /// A node of any session, until it is gone.
    Path(ZPath),
    /// A node of this session. The first request may be on its way already; the baggage is dropped when all is done. With
    /// a finder, only the answer to its create has told its name: if there is none of that name, it is looked for.
    Owned { session: Session, path: ZPath, finder: Option<NodeFinder>, sent: Option<Request<()>>, _baggage: Baggage },
    /// A node of this session whose number is not known: its create may or may not have been applied.
    Find { session: Session, finder: NodeFinder },
}

/// What a try has come to.
enum Progress {
    Done,
    /// There is no node of that name. This is what remains to be done.
    NotFound(Delete),
}

pub(super) type Baggage = Option<Box<dyn Send>>;

impl Job {
    /// The entries of the ledger.
    pub(super) fn ids(&self) -> Vec<u64> {
        match self {
            Self::One(id, _) => vec![*id],
            Self::Together { nodes, .. } => nodes.iter().map(|(id, _)| *id).collect(),
        }
    }
}

impl Delete {
    pub(super) fn session(&self) -> Option<&Session> {
        match self {
            Self::Path(_) => None,
            Self::Owned { session, .. } | Self::Find { session, .. } => Some(session),
        }
    }

    /// There is no node of the name that it was told: what remains to be done, if the name may have been wrong.
    fn if_not_found(&mut self) -> Option<Self> {
        match self {
            Self::Owned { session, finder, .. } => {
                finder.take().map(|finder| Self::Find { session: session.clone(), finder })
            }
            Self::Path(_) | Self::Find { .. } => None,
        }
    }
}

/// The janitor's end of the hand-over.
pub(crate) struct JanitorQueue {
    pub(super) jobs: mpsc::UnboundedReceiver<Job>,
    pub(super) ledger: Arc<Ledger>,
}

/// How many deletes are under way at once. The others wait in the queue.
const AT_ONCE: usize = 64;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl JanitorQueue {
    /// Works until the task is aborted: the supervisor does that at the end.
    pub(crate) async fn work(mut self, sessions: Arc<Sessions>, timer: Timer) {
        let worker = Arc::new(Worker { sessions, timer, ledger: Arc::clone(&self.ledger) });
        let mut under_way: FuturesUnordered<Work> = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
                Some(job) = self.jobs.recv(), if under_way.len() < AT_ONCE => {
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
        // What belongs to the session ends with it. Who hands something over from now on finds the channel closed.
        self.jobs.close();
        self.ledger.clear();
    }
}

/// What is needed for a delete.
struct Worker {
    sessions: Arc<Sessions>,
    timer: Timer,
    ledger: Arc<Ledger>,
}

impl Worker {
    async fn finish(&self, job: Job) {
        match job {
            Job::One(id, delete) => self.finish_one(id, delete).await,
            Job::Together { session, nodes, sent, _baggage } => {
                let rest = match sent.await {
                    Ok(()) => {
                        nodes.into_iter().for_each(|(id, _)| self.ledger.remove(id));
                        return;
                    }
                    Err(error) => self.after_failure(&session, nodes, error).await,
                };
                // All in one pipeline.
                join_all(rest.into_iter().map(|(id, delete)| self.finish_one(id, delete))).await;
            }
        }
    }

    /// What is left of several deletes that failed together, once it is time to try them one by one.
    async fn after_failure(
        &self,
        session: &Session,
        mut nodes: Vec<(u64, Delete)>,
        error: Error,
    ) -> Vec<(u64, Delete)> {
        if let Error::TransactionFailed { index, cause } = &error
            && matches!(**cause, Error::NoNode { .. })
            && let Some((id, delete)) = nodes.get_mut(*index)
        {
            match delete.if_not_found() {
                Some(find) => *delete = find,
                None => {
                    self.ledger.remove(*id);
                    nodes.remove(*index);
                }
            }
        }
        nodes.iter().for_each(|(id, _)| self.ledger.note(*id, &error));
        if session.end().is_none() {
            // What cannot be retried is over at once: one node's refusal says nothing of the others.
            let _ = self.retrier().pause(error).await;
        }
        nodes
    }

    /// Tries until the node is gone, the session is over, or the server says "never".
    async fn finish_one(&self, id: u64, mut delete: Delete) {
        let mut retrier = self.retrier();
        loop {
            let error = match self.attempt(&mut delete).await {
                Ok(Progress::Done) => break,
                Ok(Progress::NotFound(rest)) => {
                    delete = rest;
                    continue;
                }
                Err(error) => error,
            };
            self.ledger.note(id, &error);
            if delete.session().is_some_and(|session| session.end().is_some()) {
                break;
            }
            if retrier.pause(error).await.is_err() {
                self.ledger.give_up(id);
                return;
            }
        }
        self.ledger.remove(id);
    }

    async fn attempt(&self, delete: &mut Delete) -> Result<Progress> {
        let deleted = match delete {
            Delete::Path(path) => self.sessions.connected_even_while_closing().await?.delete(path, None).await,
            Delete::Owned { session, path, sent, .. } => match sent.take() {
                Some(sent) => sent.await,
                None => {
                    wait_for_connection(session).await;
                    session.delete(path, None).await
                }
            },
            Delete::Find { session, finder } => self.delete_found(session, finder).await,
        };
        match deleted {
            // That there is no such node is what a delete wants, if that was its name.
            Err(Error::NoNode { .. }) => Ok(delete.if_not_found().map_or(Progress::Done, Progress::NotFound)),
            deleted => deleted.map(|()| Progress::Done),
        }
    }

    /// Deletes what is found. What the server refuses is given up by its name.
    async fn delete_found(&self, session: &Session, finder: &NodeFinder) -> Result<()> {
        wait_for_connection(session).await;
        let found = finder.find(session).await?;
        // All in one pipeline.
        let requests: Vec<_> = found.iter().map(|node| session.delete(&node.path, None)).collect();
        let mut refused = Vec::new();
        for (node, request) in found.iter().zip(requests) {
            match request.await {
                Ok(()) | Err(Error::NoNode { .. }) => {}
                Err(error) if error.is_retryable() || session.end().is_some() => return Err(error),
                Err(error) => refused.push((node, error)),
            }
        }
        for (node, error) in refused {
            let id = self.ledger.add(node.path.to_string(), Some(session.clone()));
            self.ledger.note(id, &error);
            self.ledger.give_up(id);
        }
        Ok(())
    }

    /// A closing client waits for the deletes.
    fn retrier(&self) -> Retrier {
        Retrier::new(Arc::new(Unlimited), &self.timer)
    }
}

/// If the session ends first, the requests say so.
async fn wait_for_connection(session: &Session) {
    let _ = session.connected().await;
}
