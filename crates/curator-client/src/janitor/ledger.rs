//! Records the janitor's deletes that are not done yet, and logs refused and unfinished ones.

mod refused;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use self::refused::Refusals;
use self::refused::Refused;
use crate::error::Error;
use crate::meter::{Begun, ClientMeter};
use crate::path::ZPath;
use crate::session::Session;
use crate::source;
use crate::source::watch;
use crate::text::Truncated;

/// A delete that is not done yet.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PendingDelete {
    /// The node. If [`is_prefix`](Self::is_prefix), its directory and the beginning of its name.
    pub path: ZPath,
    /// Whether only the beginning of the node's name is known, because the reply to its create has
    /// not arrived.
    pub is_prefix: bool,
    /// Why the last attempt failed. `None` during the first attempt.
    pub last_error: Option<Error>,
    /// Whether the server refuses the delete, so that retrying is pointless: the node stays, or, if
    /// it is ephemeral, stays until its session ends.
    pub is_refused: bool,
}

impl fmt::Display for PendingDelete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.is_prefix { "…" } else { "" };
        write!(f, "{}{end}", self.path)
    }
}

/// The maximum number of deletes that are logged at `warn`: refused ones in one interval, and
/// unfinished ones when the client ends.
const MOST_LOGGED: usize = 10;

/// The interval in which at most `MOST_LOGGED` refused deletes are logged at `warn`. It begins with
/// the first of them.
const INTERVAL: Duration = Duration::from_secs(60);

/// The deletes that are pending or refused, by id.
#[derive(Debug)]
pub(super) struct Ledger {
    /// The client's name, for the log.
    client: Arc<str>,
    meter: Arc<ClientMeter>,
    entries: Mutex<Entries>,
    /// The number of pending deletes.
    count: watch::Sender<usize>,
    /// Notified whenever the server refuses a delete.
    refusals: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    /// The deletes that are neither done nor refused.
    pending: BTreeMap<u64, Entry>,
    refused: Refused,
    lines: RefusalLines,
}

/// Limits the lines about refused deletes at `warn`. Every refused delete gets a line, at `warn` or
/// `debug`, because every node may block a different lock.
#[derive(Debug, Default)]
struct RefusalLines {
    /// The number of deletes refused in this interval.
    count: usize,
    interval_end: Option<Instant>,
}

/// How a refused delete is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefusalLine {
    /// At `warn`.
    Node,
    /// At `warn`, as the last one in this interval.
    Limit,
    /// At `debug`.
    Debug,
}

impl RefusalLines {
    /// Returns the line for the next delete. If a new interval begins, also returns the number of
    /// deletes that only `debug` named in the previous interval.
    fn next(&mut self, now: Instant) -> (RefusalLine, usize) {
        let is_new = self.interval_end.is_none_or(|end| now >= end);
        let more = if is_new {
            std::mem::take(&mut self.count).saturating_sub(MOST_LOGGED + 1)
        } else {
            0
        };
        if is_new {
            self.interval_end = Some(now + INTERVAL);
        }
        self.count += 1;
        let line = match self.count {
            ..=MOST_LOGGED => RefusalLine::Node,
            count if count == MOST_LOGGED + 1 => RefusalLine::Limit,
            _ => RefusalLine::Debug,
        };
        (line, more)
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) delete: PendingDelete,
    /// The session whose end removes the node.
    pub(super) session: Option<Session>,
    begun: Begun,
}

impl Ledger {
    pub(super) fn new(client: &Arc<str>, meter: &Arc<ClientMeter>) -> Self {
        let count = watch::Sender::new(0);
        let refusals = watch::Sender::new(());
        let client = Arc::clone(client);
        let meter = Arc::clone(meter);
        Self {
            client,
            meter,
            entries: Mutex::default(),
            count,
            refusals,
        }
    }

    pub(super) fn client(&self) -> Arc<str> {
        Arc::clone(&self.client)
    }

    /// The number of deletes that are neither done nor refused.
    pub(super) fn pending(&self) -> usize {
        *self.count.borrow()
    }

    /// All deletes, oldest first, except refused ones whose session has ended.
    pub(super) fn deletes(&self) -> Vec<PendingDelete> {
        let mut entries = self.lock();
        entries.refused.prune();
        let pending = entries
            .pending
            .iter()
            .map(|(id, entry)| (*id, &entry.delete));
        let mut deletes: Vec<_> = pending.chain(entries.refused.iter()).collect();
        deletes.sort_unstable_by_key(|(id, _)| *id);
        deletes
            .into_iter()
            .map(|(_, delete)| delete.clone())
            .collect()
    }

    pub(super) fn forget_refused(&self, session: &Session, path: &ZPath) {
        self.lock().refused.forget(session, path);
    }

    pub(super) async fn idle(&self) {
        // The sender lives in `self`, so the channel cannot be closed while this waits.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    pub(super) async fn gone_below(&self, dir: &ZPath) -> Vec<PendingDelete> {
        let is_below =
            |delete: &PendingDelete| delete.path != *dir && delete.path.is_at_or_below(dir);
        let mut count = self.count.subscribe();
        let mut ids: Vec<u64> = self
            .lock()
            .pending
            .iter()
            .filter(|(_, entry)| is_below(&entry.delete))
            .map(|(id, _)| *id)
            .collect();
        loop {
            count.mark_unchanged();
            // Not in a predicate of `wait_for`, which holds the lock of the count: `publish_count`
            // takes these two locks in the opposite order, so this could deadlock.
            {
                let entries = self.lock();
                ids.retain(|id| entries.pending.contains_key(id));
            }
            if ids.is_empty() {
                break;
            }
            // The sender lives in `self`, so the channel cannot be closed while this waits.
            let _ = count.changed().await;
        }
        let mut entries = self.lock();
        entries.refused.prune();
        entries
            .refused
            .of_sessions()
            .filter(|delete| is_below(delete))
            .cloned()
            .collect()
    }

    /// Adds a delete of this node. It ends with the `session`, if there is one.
    pub(super) fn add(&self, path: &ZPath, session: Option<&Session>) -> u64 {
        self.add_delete(path.clone(), false, session)
    }

    /// Adds a delete of a node whose full name is unknown: `path` ends with the beginning of the
    /// name.
    pub(super) fn add_prefix(&self, path: ZPath, session: &Session) -> u64 {
        self.add_delete(path, true, Some(session))
    }

    fn add_delete(&self, path: ZPath, is_prefix: bool, session: Option<&Session>) -> u64 {
        let mut entries = self.lock();
        let id = entries.next;
        entries.next += 1;
        let entry = Entry {
            delete: PendingDelete {
                path,
                is_prefix,
                last_error: None,
                is_refused: false,
            },
            session: session.cloned(),
            begun: Begun::now(),
        };
        entries.pending.insert(id, entry);
        self.publish_count(&entries);
        id
    }

    /// Adds the delete of a node that the server has refused.
    pub(super) fn add_refused(&self, session: &Session, path: &ZPath, error: &Error) {
        let id = self.add(path, Some(session));
        self.refused(id, error);
    }

    /// Records that the server refuses the delete.
    pub(super) fn refused(&self, id: u64, error: &Error) {
        self.set_last_error(id, error);
        self.mark_refused(id);
    }

    pub(super) fn set_last_error(&self, id: u64, error: &Error) {
        if let Some(entry) = self.lock().pending.get_mut(&id) {
            entry.delete.last_error = Some(error.clone());
        }
    }

    pub(super) fn mark_refused(&self, id: u64) {
        let mut entries = self.lock();
        let Some(mut entry) = entries.pending.remove(&id) else {
            return;
        };
        entry.delete.is_refused = true;
        let delete = entry.delete.clone();
        let is_owned = entry.session.is_some();
        entries.refused.add(id, entry);
        self.publish_count(&entries);
        let (line, more) = entries.lines.next(source::now());
        // Unlocked before logging: a log subscriber may read this ledger.
        drop(entries);
        let path = Truncated(&delete);
        let error = delete.last_error.as_ref();
        let error = error.map(Truncated).map(tracing::field::display);
        let client = &*self.client;
        if more > 0 {
            tracing::warn!(client, more, "more nodes could not be deleted");
        }
        match line {
            RefusalLine::Node if is_owned => {
                tracing::warn!(client, %path, error, "cannot delete a node; it stays until its session ends");
            }
            RefusalLine::Node => {
                tracing::warn!(client, %path, error, "cannot delete a node; it stays");
            }
            RefusalLine::Limit => {
                tracing::warn!(client, %path, error, "cannot delete more nodes; for a minute, only `debug` names them");
            }
            RefusalLine::Debug => {
                tracing::debug!(client, %path, error, "cannot delete another node");
            }
        }
        self.refusals.send_replace(());
    }

    /// Ends the remaining deletes, and logs them: the janitor has ended.
    pub(super) fn clear(&self) {
        let mut entries = self.lock();
        let Entries {
            pending, refused, ..
        } = std::mem::take(&mut *entries);
        self.publish_count(&entries);
        // Unlocked before logging, as in `mark_refused`.
        drop(entries);
        let pending = pending.values().map(|entry| &entry.delete);
        let mut left = pending.chain(refused.iter().map(|(_, delete)| delete));
        for delete in left.by_ref().take(MOST_LOGGED) {
            let client = &*self.client;
            let path = Truncated(delete);
            let last_error = delete.last_error.as_ref();
            let last_error = last_error.map(Truncated).map(tracing::field::display);
            tracing::warn!(
                client,
                %path,
                last_error,
                "not deleted before the client closed; an ephemeral node is removed when its session ends"
            );
        }
        let more = left.count();
        if more > 0 {
            tracing::warn!(
                client = &*self.client,
                more,
                "more nodes were not deleted before the client closed"
            );
        }
    }

    pub(super) fn remove(&self, id: u64) {
        let mut entries = self.lock();
        entries.pending.remove(&id);
        self.publish_count(&entries);
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish_count(&self, entries: &Entries) {
        let oldest = entries.pending.values().next().map(|entry| entry.begun);
        self.meter.pending(entries.pending.len(), oldest);
        self.count.send_replace(entries.pending.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refused_delete_is_logged_up_to_ten_a_minute_and_then_their_number() {
        let start = Instant::now();
        let mut lines = RefusalLines::default();
        let logged: Vec<_> = (0..15).map(|_| lines.next(start)).collect();
        let expected = [
            vec![RefusalLine::Node; 10],
            vec![RefusalLine::Limit],
            vec![RefusalLine::Debug; 4],
        ]
        .concat();
        assert_eq!(
            logged,
            expected
                .into_iter()
                .map(|line| (line, 0))
                .collect::<Vec<_>>()
        );
        assert_eq!(lines.next(start + INTERVAL), (RefusalLine::Node, 4));
        assert_eq!(lines.next(start + 2 * INTERVAL), (RefusalLine::Node, 0));
    }
}
