//! The deletes that are not done yet, for everybody to see.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::error::Error;
use crate::session::Session;

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

/// What is pending: an entry for each delete, by its id.
#[derive(Debug)]
pub(super) struct Ledger {
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

impl Ledger {
    pub(super) fn new() -> Self {
        Self { entries: Mutex::default(), count: watch::Sender::new(0) }
    }

    /// How many deletes somebody still works on.
    pub(super) fn pending(&self) -> usize {
        *self.count.borrow()
    }

    /// Oldest first. What was given up is left out when its session is over.
    pub(super) fn deletes(&self) -> Vec<PendingDelete> {
        let mut entries = self.lock();
        let over = |session: &Option<Session>| session.as_ref().is_some_and(|session| session.end().is_some());
        entries.pending.retain(|_, entry| !(entry.delete.given_up && over(&entry.session)));
        entries.pending.values().map(|entry| entry.delete.clone()).collect()
    }

    pub(super) async fn idle(&self) {
        // The sender lives in `self`, so the channel cannot be closed while this waits.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    pub(super) fn add(&self, path: String, session: Option<Session>) -> u64 {
        let mut entries = self.lock();
        let id = entries.next;
        entries.next += 1;
        let delete = PendingDelete { path, last_error: None, given_up: false };
        entries.pending.insert(id, Entry { delete, session });
        self.count(&entries);
        id
    }

    pub(super) fn note(&self, id: u64, error: &Error) {
        if let Some(entry) = self.lock().pending.get_mut(&id) {
            entry.delete.last_error = Some(error.clone());
        }
    }

    pub(super) fn give_up(&self, id: u64) {
        let mut entries = self.lock();
        if let Some(Entry { delete, .. }) = entries.pending.get_mut(&id) {
            delete.given_up = true;
            let error = delete.last_error.as_ref().map(tracing::field::display);
            tracing::warn!(path = delete.path, error, "a node cannot be deleted, and stays until its session is over");
        }
        self.count(&entries);
    }

    /// Nobody will work on what is left.
    pub(super) fn clear(&self) {
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

    pub(super) fn remove(&self, id: u64) {
        let mut entries = self.lock();
        entries.pending.remove(&id);
        self.count(&entries);
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, entries: &Entries) {
        self.count.send_replace(entries.pending.values().filter(|entry| !entry.delete.given_up).count());
    }
}
