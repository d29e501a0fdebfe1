//! Deletes that are not given up: Curator's "guaranteed" deletes, and what dropped guards leave to do.

mod ledger;
mod queue;

use std::sync::Arc;

use tokio::sync::mpsc;

use self::ledger::Ledger;
pub use self::ledger::PendingDelete;
pub(crate) use self::queue::JanitorQueue;
use self::queue::{Delete, Job};
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
        let sent = Some(session.delete(path, None));
        let delete = Delete::Owned { session: session.clone(), path: path.clone(), sent, _baggage: baggage };
        self.hand_over(path.to_string(), delete);
    }

    /// Deletes several nodes of `session` in one transaction, and keeps `baggage` until all of that is done. The request
    /// is sent before this returns; a runtime is not needed for that.
    ///
    /// When the transaction fails, because one of them is gone already or for another reason, the others are deleted one
    /// by one. Each node is pending by itself, and may be given up by itself.
    pub fn delete_owned_together(&self, session: &Session, paths: Vec<ZPath>, baggage: Option<Box<dyn Send>>) {
        if let [path] = &*paths {
            return self.delete_owned_with(session, path, baggage);
        }
        if paths.is_empty() || session.end().is_some() {
            return;
        }
        let sent = session.delete_all(&paths);
        let add = |path: ZPath| (self.ledger.add(path.to_string(), Some(session.clone())), path);
        let nodes = paths.into_iter().map(add).collect();
        self.send(Job::Together { session: session.clone(), nodes, sent, _baggage: baggage });
    }

    /// Finds the nodes of `session` that `finder` describes, and deletes them.
    pub fn find_and_delete(&self, session: &Session, finder: NodeFinder) {
        if session.end().is_some() {
            return;
        }
        self.hand_over(finder.to_string(), Delete::Sought { session: session.clone(), finder });
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

    /// The deletes that are not done yet, oldest first, and those that the server refuses, until their sessions are over.
    #[must_use]
    pub fn pending_deletes(&self) -> Vec<PendingDelete> {
        self.ledger.deletes()
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
