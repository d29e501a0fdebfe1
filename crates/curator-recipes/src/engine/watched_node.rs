//! Watches the nodes of a holder, to detect that a client has deleted one or requests the lock
//! back.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use curator_client::source::watch;
use curator_client::{CuratorClient, Error, Result, Session, Watch, WatchEvent, ZPath};
use futures_util::future::{FutureExt as _, Shared, select_all};

use super::log::HoldLog;
use crate::task::follow::{Followed, Follower};

/// A watch on one of the contender's or holder's nodes.
#[derive(Debug)]
pub(crate) struct OwnWatch {
    pub(crate) watch: Watch,
    /// Whether a client had requested the lock back when the watch was set.
    pub(crate) revocation_requested: bool,
}

impl OwnWatch {
    pub(crate) fn new(data: &[u8], watch: Watch) -> Self {
        Self {
            watch,
            revocation_requested: is_revoke_request(data),
        }
    }
}

/// Completes with the path of a deleted node. Never completes if the session ends first: watch the
/// session separately.
///
/// Shared, so that each waiter that polls it drives it for all: a waiter that stops polling does
/// not block the others.
pub(crate) type Deleted = Shared<Pin<Box<dyn Future<Output = ZPath> + Send>>>;

/// One node of a hold, and the watch on it.
///
/// The *watcher* is the future of [`watch_nodes`], which sets the watch again after each event.
/// [`is_deleted`](Self::is_deleted) checks the watch without a request, whether or not the watcher
/// is polled. Clones share the state.
#[derive(Debug, Clone)]
pub(crate) struct WatchedNode {
    path: ZPath,
    watching: Arc<Watching>,
}

#[derive(Debug)]
struct Watching {
    /// Whether there has ever been a watch, or the node was found deleted. If not, `seen` need not
    /// be locked.
    has_begun: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    watch: Option<Watch>,
    /// The event of the watch that the watcher has not taken yet.
    event: Option<WatchEvent>,
    is_deleted: bool,
    /// The waker of the watcher, while it sleeps.
    watcher: Option<Waker>,
}

impl WatchedNode {
    /// Records in `revocation` if a client had requested the lock back when the watch was set.
    pub(crate) fn new(path: ZPath, watch: Option<OwnWatch>, revocation: &Revocation) -> Self {
        if watch
            .as_ref()
            .is_some_and(|watch| watch.revocation_requested)
        {
            revocation.note();
        }
        let watch = watch.map(|own| own.watch);
        let has_begun = AtomicBool::new(watch.is_some());
        let seen = Mutex::new(Seen {
            watch,
            ..Seen::default()
        });
        Self {
            path,
            watching: Arc::new(Watching { has_begun, seen }),
        }
    }

    pub(crate) fn path(&self) -> &ZPath {
        &self.path
    }

    /// Whether the node is known to be deleted. Sends nothing, and leaves the event for the
    /// watcher.
    pub(crate) fn is_deleted(&self) -> bool {
        if !self.watching.has_begun.load(Ordering::Acquire) {
            return false;
        }
        let mut seen = self.lock();
        // The watch keeps only one waker: pass the watcher's waker, if there is one.
        let watcher = seen.watcher.clone();
        let polled = seen.poll_event(&mut Context::from_waker(
            watcher.as_ref().unwrap_or(Waker::noop()),
        ));
        let is_deleted = seen.is_deleted;
        if matches!(polled, Poll::Ready(Some(_)))
            && let Some(watcher) = seen.watcher.take()
        {
            // This poll took the event that the watcher waits for.
            drop(seen);
            watcher.wake();
        }
        is_deleted
    }

    /// Records that the node was found deleted.
    pub(crate) fn note_deletion(&self) {
        let mut seen = self.lock();
        seen.is_deleted = true;
        self.watching.has_begun.store(true, Ordering::Release);
        let watcher = seen.watcher.take();
        drop(seen);
        if let Some(watcher) = watcher {
            watcher.wake();
        }
    }

    /// Waits for the event of the watch. Returns `None` immediately if there is no watch.
    async fn event(&self) -> Option<WatchEvent> {
        poll_fn(|cx| {
            let mut seen = self.lock();
            if seen.is_deleted {
                return Poll::Ready(Some(WatchEvent::Deleted));
            }
            let event = seen.poll_event(cx);
            match event {
                Poll::Pending => seen.watcher = Some(cx.waker().clone()),
                // The watcher takes the event.
                Poll::Ready(_) => seen.event = None,
            }
            event
        })
        .await
    }

    /// Keeps the new watch on the node.
    fn watch(&self, watch: Watch) {
        self.lock().watch = Some(watch);
        self.watching.has_begun.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.watching
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// Polls for the event, which stays until the watcher has taken it; `None` if there is neither
    /// a watch nor an event.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        if self.event.is_none()
            && let Some(watch) = &mut self.watch
        {
            let Poll::Ready(event) = watch.poll_fired(cx) else {
                return Poll::Pending;
            };
            self.is_deleted |= event == WatchEvent::Deleted;
            self.watch = None;
            self.event = Some(event);
        }
        Poll::Ready(self.event)
    }
}

/// Watches the nodes of one hold. The first poll of the result sets the missing watches.
///
/// Records in `revocation` when a node's data requests the lock back. The result keeps neither the
/// client nor the hold alive, because a clone of it that is not polled may be dropped later than
/// both.
pub(crate) fn watch_nodes(
    client: &CuratorClient,
    session: &Session,
    nodes: &[WatchedNode],
    revocation: &Arc<Revocation>,
) -> Deleted {
    let watching = nodes.iter().map(|node| {
        let session = session.clone();
        let revocation = Arc::downgrade(revocation);
        let node = WatchedInSession {
            node: node.clone(),
            session,
            revocation,
            is_logged: false,
        };
        Box::pin(until_deleted(Follower::new(client, node))) as Pin<Box<_>>
    });
    let watching = select_all(watching.collect::<Vec<_>>());
    let deleted: Pin<Box<dyn Future<Output = ZPath> + Send>> =
        Box::pin(async move { watching.await.0 });
    deleted.shared()
}

async fn until_deleted(mut follower: Follower<WatchedInSession>) -> ZPath {
    loop {
        match follower.next().await {
            Ok(true) => {}
            Ok(false) => return follower.node.node.path,
            // The node can never be watched; or the client is closing, which is reported as the end
            // of the session.
            Err(_) => pending().await,
        }
    }
}

/// One node of a hold, in the hold's session.
struct WatchedInSession {
    node: WatchedNode,
    session: Session,
    revocation: Weak<Revocation>,
    /// Whether `cannot_watch` was logged since the last successful read.
    is_logged: bool,
}

impl Followed for WatchedInSession {
    /// Whether the node exists.
    type State = bool;

    async fn changed(&mut self) {
        if self.node.event().await == Some(WatchEvent::SessionEnded) {
            pending::<()>().await;
        }
    }

    async fn read(&mut self) -> Result<bool> {
        if self.node.is_deleted() {
            return Ok(false);
        }
        if self.session.connected().await.is_err() {
            pending::<()>().await;
        }
        match self.session.watch_data(&self.node.path).await {
            Ok((data, _, watch)) => {
                self.is_logged = false;
                if is_revoke_request(&data)
                    && let Some(revocation) = self.revocation.upgrade()
                {
                    revocation.note();
                }
                self.node.watch(watch);
                Ok(true)
            }
            Err(Error::NoNode { .. }) => {
                self.node.note_deletion();
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn failed(&mut self, error: &Error) {
        // A broken connection or the end of the session is logged elsewhere.
        let skips_log = self.is_logged
            || matches!(
                error,
                Error::Disconnected { .. } | Error::ConnectionLost { .. }
            );
        if !skips_log
            && self.session.end().is_none()
            && let Some(revocation) = self.revocation.upgrade()
        {
            revocation.cannot_watch(&self.node.path, error);
            self.is_logged = true;
        }
    }
}

/// The data that Curator writes to a lock's node to request the lock back.
pub(crate) const REVOKE_MESSAGE: &[u8] = b"__REVOKE__";

/// Whether a lock node's data is a revocation request.
pub(crate) fn is_revoke_request(data: &[u8]) -> bool {
    data == REVOKE_MESSAGE
}

/// Whether a client has requested the lock back.
#[derive(Debug)]
pub(crate) struct Revocation {
    revoke_requested: watch::Sender<bool>,
    log: HoldLog,
}

impl Revocation {
    pub(crate) fn new(log: HoldLog) -> Self {
        Self {
            revoke_requested: watch::Sender::new(false),
            log,
        }
    }

    pub(crate) fn is_revoke_requested(&self) -> bool {
        *self.revoke_requested.borrow()
    }

    /// Records a request to give the lock back.
    pub(crate) fn note(&self) {
        if !self.revoke_requested.send_replace(true) {
            self.log.revocation_requested();
        }
    }

    /// Waits for a request to give the lock back.
    pub(crate) async fn revoke_requested(&self) {
        // The sender lives in `self`, so the channel cannot be closed.
        let _ = self
            .revoke_requested
            .subscribe()
            .wait_for(|revoke_requested| *revoke_requested)
            .await;
    }

    /// Logs that a node cannot be watched for now.
    pub(crate) fn cannot_watch(&self, path: &ZPath, error: &Error) {
        self.log.cannot_watch(path, error);
    }
}
