//! Deletes that are not given up: Curator's "guaranteed" deletes, and what dropped guards leave to do.

mod ledger;
mod queue;
mod refused;

use std::sync::Arc;

use tokio::sync::mpsc;

use self::ledger::Ledger;
pub use self::ledger::PendingDelete;
pub(crate) use self::queue::JanitorQueue;
use self::queue::{Baggage, Delete, Job};
pub use self::refused::Refusals;
use crate::node::find::NodeFinder;
use crate::path::ZPath;
use crate::session::Session;

/// Takes over deletes that must not be forgotten.
///
/// Handing one over needs no runtime and waits for nothing, so a `Drop` can do it. The work is done by a task of the
/// client that lives as long as the client; [`CuratorClient::close`](crate::CuratorClient::close) waits for it.
/// A delete that belongs to a session is over when the session is: its nodes go with it.
///
/// The idea is Curator's `FailedDeleteManager`, with a loop in place of its recursion.
#[derive(Debug, Clone)]
pub struct Janitor {
    jobs: mpsc::UnboundedSender<Job>,
    ledger: Arc<Ledger>,
}

/// A delete that is done by somebody else, or here.
#[derive(Debug)]
pub(crate) struct Promise {
    janitor: Janitor,
    id: Option<u64>,
    path: ZPath,
}

impl Promise {
    /// The node is gone, or the server will not have it deleted.
    pub(crate) fn settled(mut self) {
        if let Some(id) = self.id.take() {
            self.janitor.ledger.remove(id);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.janitor.send(Job::One(id, Delete::Path(self.path.clone())));
        }
    }
}

impl Janitor {
    pub(crate) fn new() -> (Self, JanitorQueue) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let ledger = Arc::new(Ledger::new());
        (Self { jobs: sender, ledger: Arc::clone(&ledger) }, JanitorQueue { jobs: receiver, ledger })
    }

    /// Deletes a node, whichever session it belongs to, over losses of the session.
    pub fn delete(&self, path: &ZPath) {
        self.hand_over(path.to_string(), Delete::Path(path.clone()));
    }

    /// Deletes a node of `session`. The request is sent before this returns; a runtime is not needed for that.
    pub fn delete_owned(&self, session: &Session, path: &ZPath) {
        self.delete_owned_with(session, path, None);
    }

    /// As [`delete_owned`](Self::delete_owned), and keeps `baggage` until the node is gone.
    ///
    /// For watches on the node: dropped before, they would cost a request to take them off the server.
    pub fn delete_owned_with(&self, session: &Session, path: &ZPath, baggage: Option<Box<dyn Send>>) {
        if session.end().is_some() {
            return;
        }
        self.delete_one(session, path.clone(), None, baggage);
    }

    fn delete_one(&self, session: &Session, path: ZPath, finder: Option<NodeFinder>, baggage: Baggage) {
        let sent = Some(session.delete(&path, None));
        let entry = path.to_string();
        self.hand_over(entry, Delete::Owned { session: session.clone(), path, finder, sent, _baggage: baggage });
    }

    /// Deletes several nodes of `session` in one transaction, and keeps `baggage` until all of that is done. The request
    /// is sent before this returns; a runtime is not needed for that.
    ///
    /// When the transaction fails, because one of them is gone already or for another reason, the others are deleted one
    /// by one. Each node is pending by itself, and may be given up by itself.
    pub fn delete_owned_together(&self, session: &Session, paths: Vec<ZPath>, baggage: Option<Box<dyn Send>>) {
        self.delete_owned_or_find(session, paths.into_iter().map(|path| (path, None)).collect(), baggage);
    }

    /// As [`delete_owned_together`](Self::delete_owned_together), for nodes whose names only the answer to their create has
    /// told. If there is no node of that name, the answer may have been wrong: then the nodes of `session` that the finder
    /// describes are deleted, if there is one.
    pub fn delete_owned_or_find(
        &self,
        session: &Session,
        mut nodes: Vec<(ZPath, Option<NodeFinder>)>,
        baggage: Option<Box<dyn Send>>,
    ) {
        if nodes.is_empty() || session.end().is_some() {
            return;
        }
        if nodes.len() == 1
            && let Some((path, finder)) = nodes.pop()
        {
            return self.delete_one(session, path, finder, baggage);
        }
        let paths: Vec<_> = nodes.iter().map(|(path, _)| path.clone()).collect();
        let sent = session.delete_all(&paths);
        let add = |(path, finder): (ZPath, _)| {
            let id = self.ledger.add(path.to_string(), Some(session.clone()));
            (id, Delete::Owned { session: session.clone(), path, finder, sent: None, _baggage: None })
        };
        let nodes = nodes.into_iter().map(add).collect();
        self.send(Job::Together { session: session.clone(), nodes, sent, _baggage: baggage });
    }

    /// Finds the nodes of `session` that `finder` describes, and deletes them.
    pub fn find_and_delete(&self, session: &Session, finder: NodeFinder) {
        if session.end().is_some() {
            return;
        }
        self.hand_over(finder.to_string(), Delete::Find { session: session.clone(), finder });
    }

    /// Promises a delete: if the promise is dropped before it is kept, the node is deleted here. Until then it counts as
    /// pending, so that a closing client waits for whoever has made it.
    pub(crate) fn promise(&self, path: &ZPath) -> Promise {
        Promise { janitor: self.clone(), id: Some(self.ledger.add(path.to_string(), None)), path: path.clone() }
    }

    /// How many deletes are not done yet, and not given up.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.ledger.pending()
    }

    /// The deletes that are not done yet, oldest first, and those that the server refuses: until their sessions are over;
    /// of those that belong to no session, the latest thousand.
    #[must_use]
    pub fn pending_deletes(&self) -> Vec<PendingDelete> {
        self.ledger.deletes()
    }

    /// The nodes of `session` that the server does not let this client delete, and when there are more.
    #[must_use]
    pub fn refusals(&self, session: &Session) -> Refusals {
        Refusals::new(&self.ledger, session)
    }

    /// Waits until nothing is pending.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn idle(&self) {
        self.ledger.idle().await;
    }

    fn hand_over(&self, path: String, delete: Delete) {
        let id = self.ledger.add(path, delete.session().cloned());
        self.send(Job::One(id, delete));
    }

    fn send(&self, job: Job) {
        if let Err(mpsc::error::SendError(job)) = self.jobs.send(job) {
            // The client is closed: the session, and with it the node, ends.
            job.ids().into_iter().for_each(|id| self.ledger.remove(id));
        }
    }
}
