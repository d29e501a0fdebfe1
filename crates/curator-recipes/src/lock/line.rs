//! Where the contenders of one client wait before they enter a queue.
//!
//! Each contender lists the directory when it comes, and when it gets near the head of the queue. Thousands of one client
//! would read a list of thousands of names each, and the session would be lost over that. So a bounded number of them stand
//! in the queue, which is enough for the next to be ready when one releases; the others wait here, first come, first served,
//! and cost no request.
//!
//! Where a contender waits in the queue, one that came after it would have to wait there, too. So nobody is kept from the lock
//! by those before it in line, but for the time that it takes them to enter: readers who find the lock free enter sixteen at a
//! time.

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
    /// Who has it is the next to enter. Handed on when its node is on its way, so nodes come in the order of the line.
    door: Arc<Semaphore>,
    places: Arc<Semaphore>,
    lines: Arc<Lines>,
    key: Key,
}

/// Leave to stand in the queue, until it is dropped.
#[derive(Debug)]
#[must_use = "the next one enters when it is dropped"]
pub(crate) struct InQueue {
    _place: Option<OwnedSemaphorePermit>,
    door: Option<OwnedSemaphorePermit>,
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
        let [door, places] = [1, IN_QUEUE].map(|permits| Arc::new(Semaphore::new(permits)));
        let line = Arc::new(Self { door, places, lines: Arc::clone(&lines), key });
        *entry = Arc::downgrade(&line);
        line
    }

    /// Waits until it is our turn.
    pub(crate) async fn enter(&self) -> InQueue {
        // Nobody closes them.
        let door = Arc::clone(&self.door).acquire_owned().await.ok();
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        InQueue { _place: place, door }
    }
}

impl InQueue {
    /// For those who do not wait. They neither take a place nor mind those who stand in line: if there are any, the queue
    /// tells.
    pub(crate) fn aside() -> Self {
        Self { _place: None, door: None }
    }

    /// Our node is on its way: the next one may come after it.
    pub(crate) fn sent(&mut self) {
        self.door = None;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // By now another may have begun.
        self.lines.lines.remove_if(&self.key, |_, line| line.strong_count() == 0);
    }
}
