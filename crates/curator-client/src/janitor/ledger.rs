//! The deletes that are not done yet, for everybody to see.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::refused::Refused;
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

/// What is pending, and what was given up: an entry for each delete, by its id.
#[derive(Debug)]
pub(super) struct Ledger {
    entries: Mutex<Entries>,
    /// How many are pending.
    count: watch::Sender<usize>,
    /// Changes whenever a delete is given up.
    refusals: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    /// Somebody works on these.
    pending: BTreeMap<u64, Entry>,
    refused: Refused,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) delete: PendingDelete,
    /// With whose end the node goes anyway.
    pub(super) session: Option<Session>,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self { entries: Mutex::default(), count: watch::Sender::new(0), refusals: watch::Sender::new(()) }
    }

    /// How many deletes somebody still works on.
    pub(super) fn pending(&self) -> usize {
        *self.count.borrow()
    }

    /// Oldest first. What was given up is left out when its session is over.
    pub(super) fn deletes(&self) -> Vec<PendingDelete> {
        let mut entries = self.lock();
        entries.refused.prune();
        let pending = entries.pending.iter().map(|(id, entry)| (*id, &entry.delete));
        let mut deletes: Vec<_> = pending.chain(entries.refused.iter()).collect();
        deletes.sort_unstable_by_key(|(id, _)| *id);
        deletes.into_iter().map(|(_, delete)| delete.clone()).collect()
    }

    /// Those of `session` that were given up, oldest first.
    pub(super) fn refused_of(&self, session: &Session) -> Vec<PendingDelete> {
        self.lock().refused.of(session)
    }

    pub(super) fn forget_refused(&self, session: &Session, path: &str) {
        self.lock().refused.forget(session, path);
    }

    /// Changes whenever a delete is given up.
    pub(super) fn refusals(&self) -> watch::Receiver<()> {
        self.refusals.subscribe()
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
        let Some(mut entry) = entries.pending.remove(&id) else { return };
        entry.delete.given_up = true;
        let PendingDelete { path, last_error, .. } = &entry.delete;
        let error = last_error.as_ref().map(tracing::field::display);
        tracing::warn!(path, error, "a node cannot be deleted, and stays until its session is over");
        entries.refused.add(id, entry);
        self.count(&entries);
        drop(entries);
        self.refusals.send_replace(());
    }

    /// Nobody will work on what is left.
    pub(super) fn clear(&self) {
        let mut entries = self.lock();
        let Entries { pending, refused, .. } = std::mem::take(&mut *entries);
        let pending = pending.values().map(|entry| &entry.delete);
        for PendingDelete { path, last_error, .. } in pending.chain(refused.iter().map(|(_, delete)| delete)) {
            let last_error = last_error.as_ref().map(tracing::field::display);
            tracing::warn!(
                path,
                last_error,
                "not deleted before the client closed; an ephemeral node goes with its session"
            );
        }
        self.count(&entries);
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
        self.count.send_replace(entries.pending.len());
    }
}
