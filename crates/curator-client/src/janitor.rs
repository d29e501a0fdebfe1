//! Deletes that are not given up: Curator's "guaranteed" deletes, and what dropped guards leave to do.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};

use crate::error::{Error, Result};
use crate::node::find::NodeFinder;
use crate::path::ZPath;
use crate::retry::{Persistently, Retrier};
use crate::session::{Request, Session};
use crate::shared::Shared;

/// A delete that is not done yet.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PendingDelete {
    /// The node; for a node whose name is not known yet, the directory and the beginning of its name.
    pub path: String,
    /// Why the last try failed. `None` while the first is under way.
    pub last_error: Option<Error>,
    /// Whether the server refuses, so that trying again is pointless: the node stays until its session is over.
    pub given_up: bool,
}

/// Takes over deletes that must not be forgotten.
///
/// Handing one over needs no runtime and waits for nothing, so a `Drop` can do it. The work is done by a task of the
/// client that lives as long as the client; [`CuratorClient::close`](crate::CuratorClient::close) waits for it.
/// A delete that belongs to a session is over when the session is: its nodes go with it.
///
/// The idea is Curator's `FailedDeleteManager`, with a loop in place of its recursion.
#[derive(Debug, Clone)]
pub struct Janitor {
    jobs: mpsc::UnboundedSender<(u64, Job)>,
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
            self.janitor.hand_over_as(id, Job::Path(self.path.clone()));
        }
    }
}

/// What is pending, for everybody to see.
#[derive(Debug)]
struct Ledger {
    entries: Mutex<Entries>,
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    pending: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    delete: PendingDelete,
    /// With whose end the node goes anyway.
    session: Option<Session>,
}

enum Job {
    /// A node of any session, until it is gone.
    Path(ZPath),
    /// A node of this session. The first request may be on its way already; the baggage is dropped when all is done.
    Owned { session: Session, path: ZPath, sent: Option<Request<()>>, _baggage: Baggage },
    /// A node of this session whose number is not known: its create may or may not have been applied.
    Sought { session: Session, finder: NodeFinder },
}

type Baggage = Option<Box<dyn Send>>;

impl Janitor {
    pub(crate) fn new() -> (Self, JanitorQueue) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let ledger = Arc::new(Ledger { entries: Mutex::default(), count: watch::Sender::new(0) });
        (Self { jobs: sender, ledger: Arc::clone(&ledger) }, JanitorQueue { jobs: receiver, ledger })
    }

    /// Deletes a node, whichever session it belongs to, over losses of the session.
    pub fn delete(&self, path: &ZPath) {
        self.hand_over(path.to_string(), Job::Path(path.clone()));
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
        let job = Job::Owned { session: session.clone(), path: path.clone(), sent, _baggage: baggage };
        self.hand_over(path.to_string(), job);
    }

    /// Finds the nodes of `session` that `finder` describes, and deletes them.
    pub fn find_and_delete(&self, session: &Session, finder: NodeFinder) {
        if session.end().is_some() {
            return;
        }
        self.hand_over(finder.to_string(), Job::Sought { session: session.clone(), finder });
    }

    /// Promises a delete: if the promise is dropped before it is kept, the node is deleted here. Until then it counts as
    /// pending, so that a closing client waits for whoever has made it.
    pub(crate) fn promise(&self, path: &ZPath) -> Promise {
        Promise { janitor: self.clone(), id: Some(self.ledger.add(path.to_string(), None)), path: path.clone() }
    }

    /// How many deletes are not done yet, and not given up.
    #[must_use]
    pub fn pending(&self) -> usize {
        *self.ledger.count.borrow()
    }

    /// The deletes that are not done yet, oldest first, and those that the server refuses, until their sessions are over.
    #[must_use]
    pub fn pending_deletes(&self) -> Vec<PendingDelete> {
        let mut entries = self.ledger.lock();
        let over = |session: &Option<Session>| session.as_ref().is_some_and(|session| session.end().is_some());
        entries.pending.retain(|_, entry| !(entry.delete.given_up && over(&entry.session)));
        entries.pending.values().map(|entry| entry.delete.clone()).collect()
    }

    /// Waits until nothing is pending.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn idle(&self) {
        // The sender lives in the ledger, so the channel cannot be closed while this waits.
        let _ = self.ledger.count.subscribe().wait_for(|count| *count == 0).await;
    }

    fn hand_over(&self, path: String, job: Job) {
        let id = self.ledger.add(path, job.session().cloned());
        self.hand_over_as(id, job);
    }

    fn hand_over_as(&self, id: u64, job: Job) {
        if self.jobs.send((id, job)).is_err() {
            // The client is closed: the session, and with it the node, ends.
            self.ledger.remove(id);
        }
    }
}

impl Ledger {
    fn lock(&self) -> std::sync::MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, path: String, session: Option<Session>) -> u64 {
        let mut entries = self.lock();
        let id = entries.next;
        entries.next += 1;
        let delete = PendingDelete { path, last_error: None, given_up: false };
        entries.pending.insert(id, Entry { delete, session });
        self.count(&entries);
        id
    }

    fn note(&self, id: u64, error: &Error) {
        if let Some(entry) = self.lock().pending.get_mut(&id) {
            entry.delete.last_error = Some(error.clone());
        }
    }

    fn give_up(&self, id: u64) {
        let mut entries = self.lock();
        if let Some(Entry { delete, .. }) = entries.pending.get_mut(&id) {
            delete.given_up = true;
            let error = delete.last_error.as_ref().map(tracing::field::display);
            tracing::warn!(path = delete.path, error, "a node cannot be deleted, and stays until its session is over");
        }
        self.count(&entries);
    }

    fn count(&self, entries: &Entries) {
        self.count.send_replace(entries.pending.values().filter(|entry| !entry.delete.given_up).count());
    }

    /// Nobody will work on what is left.
    fn clear(&self) {
        let mut entries = self.lock();
        for Entry { delete, .. } in std::mem::take(&mut entries.pending).into_values() {
            let PendingDelete { path, last_error, .. } = delete;
            let last_error = last_error.as_ref().map(tracing::field::display);
            tracing::warn!(
                path,
                last_error,
                "not deleted before the client closed; an ephemeral node goes with its session"
            );
        }
        self.count.send_replace(0);
    }

    fn remove(&self, id: u64) {
        let mut entries = self.lock();
        entries.pending.remove(&id);
        self.count(&entries);
    }
}

/// The janitor's end of the hand-over.
pub(crate) struct JanitorQueue {
    jobs: mpsc::UnboundedReceiver<(u64, Job)>,
    ledger: Arc<Ledger>,
}

/// How many deletes are under way at once. The others wait in the queue.
const AT_ONCE: usize = 64;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl JanitorQueue {
    /// Works until the task is aborted: the supervisor does that at the end.
    pub(crate) async fn work(mut self, shared: Arc<Shared>) {
        let mut under_way: FuturesUnordered<Work> = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
                Some((id, job)) = self.jobs.recv(), if under_way.len() < AT_ONCE => {
                    under_way.push(Box::pin(finish(Arc::clone(&shared), Arc::clone(&self.ledger), id, job)));
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

/// Tries until the node is gone, the session is over, or the server says "never".
async fn finish(shared: Arc<Shared>, ledger: Arc<Ledger>, id: u64, mut job: Job) {
    let mut retrier = Retrier::with_policy(&shared, Arc::new(Persistently)).even_while_closing();
    while let Err(error) = attempt(&shared, &mut job).await {
        ledger.note(id, &error);
        if job.session().is_some_and(|session| session.end().is_some()) {
            break;
        }
        if retrier.pause(error).await.is_err() {
            ledger.give_up(id);
            return;
        }
    }
    ledger.remove(id);
}

async fn attempt(shared: &Shared, job: &mut Job) -> Result<()> {
    match job {
        Job::Path(path) => gone(shared.session_even_while_closing().await?.delete(path, None).await),
        Job::Owned { session, path, sent, .. } => {
            if let Some(sent) = sent.take() {
                return gone(sent.await);
            }
            wait_for_connection(session).await;
            gone(session.delete(path, None).await)
        }
        Job::Sought { session, finder } => {
            wait_for_connection(session).await;
            let found = finder.find(session).await?;
            // All in one flight.
            let requests: Vec<_> = found.iter().map(|node| session.delete(&node.path, None)).collect();
            for request in requests {
                gone(request.await)?;
            }
            Ok(())
        }
    }
}

/// If the session ends first, the requests say so.
async fn wait_for_connection(session: &Session) {
    let _ = session.connected().await;
}

/// That there is no such node is what a delete wants.
pub(crate) fn gone(result: Result<()>) -> Result<()> {
    match result {
        Err(Error::NoNode { .. }) => Ok(()),
        result => result,
    }
}

impl Job {
    fn session(&self) -> Option<&Session> {
        match self {
            Self::Path(_) => None,
            Self::Owned { session, .. } | Self::Sought { session, .. } => Some(session),
        }
    }
}
