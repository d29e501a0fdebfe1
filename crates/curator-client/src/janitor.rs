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

/// What is pending, for everybody to see.
#[derive(Debug)]
struct Ledger {
    entries: Mutex<Entries>,
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    pending: BTreeMap<u64, PendingDelete>,
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

    /// How many deletes are not done yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        *self.ledger.count.borrow()
    }

    /// The deletes that are not done yet, oldest first.
    #[must_use]
    pub fn pending_deletes(&self) -> Vec<PendingDelete> {
        self.ledger.lock().pending.values().cloned().collect()
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
        let id = self.ledger.add(path);
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

    fn add(&self, path: String) -> u64 {
        let mut entries = self.lock();
        let id = entries.next;
        entries.next += 1;
        entries.pending.insert(id, PendingDelete { path, last_error: None });
        self.count.send_replace(entries.pending.len());
        id
    }

    fn note(&self, id: u64, error: &Error) {
        if let Some(entry) = self.lock().pending.get_mut(&id) {
            entry.last_error = Some(error.clone());
        }
    }

    /// Nobody will work on what is left.
    fn clear(&self) {
        let mut entries = self.lock();
        for PendingDelete { path, last_error } in std::mem::take(&mut entries.pending).into_values() {
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
        self.count.send_replace(entries.pending.len());
    }
}

/// The janitor's end of the hand-over.
pub(crate) struct JanitorQueue {
    jobs: mpsc::UnboundedReceiver<(u64, Job)>,
    ledger: Arc<Ledger>,
}

/// How many deletes are under way at once. The others wait in the queue.
const AT_ONCE: usize = 64;

type Work = Pin<Box<dyn Future<Output = u64> + Send>>;

impl JanitorQueue {
    /// Works until the task is aborted: the supervisor does that at the end.
    pub(crate) async fn work(mut self, shared: Arc<Shared>) {
        let mut under_way: FuturesUnordered<Work> = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some(done) = under_way.next(), if !under_way.is_empty() => self.ledger.remove(done),
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
async fn finish(shared: Arc<Shared>, ledger: Arc<Ledger>, id: u64, mut job: Job) -> u64 {
    let mut retrier = Retrier::with_policy(&shared, Arc::new(Persistently)).even_while_closing();
    while let Err(error) = attempt(&shared, &mut job).await {
        ledger.note(id, &error);
        if job.session_is_over() {
            break;
        }
        if let Err(error) = retrier.pause(error).await {
            tracing::warn!(%error, "a node could not be deleted and is left to its session");
            break;
        }
    }
    id
}

async fn attempt(shared: &Shared, job: &mut Job) -> Result<()> {
    match job {
        Job::Path(path) => gone(shared.session_even_while_closing().await?.delete(path, None).await),
        Job::Owned { session, path, sent, .. } => {
            let request = sent.take().unwrap_or_else(|| session.delete(path, None));
            gone(request.await)
        }
        Job::Sought { session, finder } => {
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

/// That there is no such node is what a delete wants.
pub(crate) fn gone(result: Result<()>) -> Result<()> {
    match result {
        Err(Error::NoNode { .. }) => Ok(()),
        result => result,
    }
}

impl Job {
    fn session_is_over(&self) -> bool {
        match self {
            Self::Path(_) => false,
            Self::Owned { session, .. } | Self::Sought { session, .. } => session.end().is_some(),
        }
    }
}
