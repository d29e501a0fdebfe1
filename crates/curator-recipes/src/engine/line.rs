//! Limits how many contenders of one client are in a queue at the same time; the others wait in a
//! local line, in order of arrival.
//!
//! Each contender lists the directory when it arrives, and again when it gets near the head of the
//! queue. With thousands of contenders in one client, each would read a list of thousands of names,
//! and the session would be lost. So only 16 contenders are in the queue, enough for the next one
//! to be ready when a holder releases; the others wait here and send no request.
//!
//! The line hardly delays a contender. If the contenders ahead wait in the queue, this contender
//! would wait there too. If they do not have to wait, such as readers of a free lock, they pass
//! through the queue sixteen at a time.

#![expect(clippy::disallowed_types, reason = "looks up one line at a time")]

use std::sync::{Arc, Weak};

use curator_client::{CuratorClient, ZPath};
use dashmap::DashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The maximum number of contenders of one client in one queue. A contender needs three pipelines
/// until it is ready to own the lock; sixteen contenders hide that latency.
const MAX_IN_QUEUE: usize = 16;

/// The lines of one client.
#[derive(Debug, Default)]
struct Lines {
    lines: DashMap<Key, Weak<Line>>,
}

/// Identifies contenders for the same queues with the same kind of node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    dirs: Arc<[ZPath]>,
    kind: String,
}

/// The line for the queues of one lock. All locks of one client on the same path share it.
#[derive(Debug)]
pub(crate) struct Line {
    /// The holder of the only permit enters next. It releases the permit once its create has been
    /// sent, so nodes are created in the order of the line.
    admission: Arc<Semaphore>,
    /// Limits the contenders in the queue.
    places: Arc<Semaphore>,
    lines: Arc<Lines>,
    key: Key,
}

/// Permits one contender to be in the queue. Dropping the permit lets another contender enter.
#[derive(Debug)]
#[must_use = "the next contender enters when the permit is dropped"]
pub(crate) struct QueuePermit {
    _place: Option<OwnedSemaphorePermit>,
    admission: Option<OwnedSemaphorePermit>,
}

impl Line {
    /// Returns the line of `client` for nodes of this `kind` in the queues of `dirs`.
    pub(crate) fn get_or_create(
        client: &CuratorClient,
        dirs: Arc<[ZPath]>,
        kind: String,
    ) -> Arc<Self> {
        let lines = client.extension::<Lines>();
        let key = Key { dirs, kind };
        let mut entry = lines.lines.entry(key.clone()).or_default();
        if let Some(line) = entry.upgrade() {
            return line;
        }
        let line = Arc::new(Self {
            admission: Arc::new(Semaphore::new(1)),
            places: Arc::new(Semaphore::new(MAX_IN_QUEUE)),
            lines: Arc::clone(&lines),
            key,
        });
        *entry = Arc::downgrade(&line);
        line
    }

    /// Waits for the caller's turn.
    pub(crate) async fn enter(&self) -> QueuePermit {
        // These semaphores are never closed.
        let admission = Arc::clone(&self.admission).acquire_owned().await.ok();
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        QueuePermit {
            _place: place,
            admission,
        }
    }
}

impl QueuePermit {
    /// Makes a permit that bypasses the line: for a lock without a line, or for an acquire that
    /// must not wait. Such an acquire overtakes no contender in the line: if there are any, others
    /// are in the queue, so it finds them ahead and leaves; for leases, once too few are left.
    pub(crate) fn without_line() -> Self {
        Self {
            _place: None,
            admission: None,
        }
    }

    /// Records that the create has been sent: the next contender may enter.
    pub(crate) fn sent(&mut self) {
        self.admission = None;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Another line may have been registered under this key by now.
        self.lines
            .lines
            .remove_if(&self.key, |_, line| line.strong_count() == 0);
    }
}
