//! Where the contenders of one client wait before they enter a queue.
//!
//! Each contender lists the directory when it comes, and when it gets near the head of the queue. Thousands of one client
//! would read a list of thousands of names each, and the session would be lost over that. So a bounded number of them stand
//! in the queue, which is enough for the next to be ready when one releases; the others wait here, first come, first served,
//! and cost no request.
//!
//! Nobody waits here who could own the lock: where a contender waits in the queue, one that came after it would have to wait
//! there, too.

use std::sync::{Arc, Weak};

use curator_client::{CuratorClient, ZPath};
use dashmap::DashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many contenders of one client stand in one queue at once.
const IN_QUEUE: usize = 16;

/// The lines of one client.
#[derive(Debug, Default)]
struct Lines {
    lines: DashMap<Key, Weak<Line>>,
}

/// Those who would stand in the same queues, with the same kind of node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    dirs: Arc<[ZPath]>,
    kind: String,
}

/// The line before the queues of one lock. All locks of one client on the same path share it.
#[derive(Debug)]
pub(crate) struct Line {
    places: Arc<Semaphore>,
    lines: Arc<Lines>,
    key: Key,
}

/// Leave to stand in the queue, until it is dropped.
#[derive(Debug)]
#[must_use = "the next one enters when it is dropped"]
pub(crate) struct InQueue {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Line {
    /// The line of `client` before the queues in `dirs`, for nodes of this `kind`.
    pub(crate) fn of(client: &CuratorClient, dirs: Arc<[ZPath]>, kind: String) -> Arc<Self> {
        let lines = client.extension::<Lines>();
        let key = Key { dirs, kind };
        let mut entry = lines.lines.entry(key.clone()).or_default();
        if let Some(line) = entry.upgrade() {
            return line;
        }
        let line = Arc::new(Self { places: Arc::new(Semaphore::new(IN_QUEUE)), lines: Arc::clone(&lines), key });
        *entry = Arc::downgrade(&line);
        line
    }

    /// At once, or not at all.
    pub(crate) fn try_enter(&self) -> Option<InQueue> {
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(InQueue { _permit: Some(permit) })
    }

    /// When it is our turn.
    pub(crate) async fn enter(&self) -> InQueue {
        // Nobody closes it.
        InQueue { _permit: Arc::clone(&self.places).acquire_owned().await.ok() }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // By now another may have begun.
        self.lines.lines.remove_if(&self.key, |_, line| line.strong_count() == 0);
    }
}
