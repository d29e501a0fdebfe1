//! The janitor's deletes that the server refuses: guaranteed deletes, and deletes of dropped
//! guards' nodes.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::sync::Arc;

use super::{Entry, Ledger, PendingDelete};
use crate::path::ZPath;
use crate::session::Session;
use crate::source::watch;

/// The maximum number of refused deletes without a session, such as guaranteed deletes, that are
/// kept. No session's end removes them, so a service whose deletes are refused repeatedly would
/// collect them without a limit. Each one was logged when it was refused.
const MAX_WITHOUT_SESSION: usize = 1_000;

/// Below this number of entries, `add` does not remove the entries of ended sessions.
const FEW: usize = 1_000;

/// The refused deletes, by id. A delete with a session is kept until the session ends. Of the
/// deletes without a session, only the latest are kept.
#[derive(Debug, Default)]
pub(super) struct Refused {
    of_sessions: BTreeMap<u64, (Session, PendingDelete)>,
    of_no_session: VecDeque<(u64, PendingDelete)>,
    /// The number of entries at which to prune next.
    prune_at: usize,
}

impl Refused {
    pub(super) fn add(
        &mut self,
        id: u64,
        Entry {
            delete, session, ..
        }: Entry,
    ) {
        match session {
            Some(session) => {
                self.of_sessions.insert(id, (session, delete));
                if self.of_sessions.len() >= self.prune_at.max(FEW) {
                    self.prune();
                    // Prune again when the number of entries has doubled.
                    self.prune_at = 2 * self.of_sessions.len();
                }
            }
            None => {
                self.of_no_session.push_back((id, delete));
                if self.of_no_session.len() > MAX_WITHOUT_SESSION {
                    self.of_no_session.pop_front();
                }
            }
        }
    }

    /// Removes the entries of ended sessions, whose nodes are gone.
    pub(super) fn prune(&mut self) {
        self.of_sessions
            .retain(|_, (session, _)| session.end().is_none());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &PendingDelete)> {
        let of_sessions = self
            .of_sessions
            .iter()
            .map(|(id, (_, delete))| (*id, delete));
        of_sessions.chain(self.of_no_session.iter().map(|(id, delete)| (*id, delete)))
    }

    pub(super) fn of_sessions(&self) -> impl Iterator<Item = &PendingDelete> {
        self.of_sessions.values().map(|(_, delete)| delete)
    }

    pub(super) fn of(&self, session: &Session) -> Vec<PendingDelete> {
        let of_session = self
            .of_sessions
            .values()
            .filter(|(owner, _)| owner.is_same(session));
        of_session.map(|(_, delete)| delete.clone()).collect()
    }

    pub(super) fn forget(&mut self, session: &Session, path: &ZPath) {
        self.of_sessions
            .retain(|_, (owner, delete)| !(owner.is_same(session) && delete.path == *path));
    }
}

/// The deletes of one session that the server refuses; made by
/// [`Janitor::refusals`](crate::Janitor::refusals).
///
/// For tasks that may be waiting for the removal of one of these nodes: this client will not delete
/// them.
#[derive(Clone)]
pub struct Refusals {
    ledger: Arc<Ledger>,
    session: Session,
    changes: watch::Receiver<()>,
}

impl std::fmt::Debug for Refusals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refusals")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl Refusals {
    pub(in crate::janitor) fn new(ledger: &Arc<Ledger>, session: &Session) -> Self {
        Self {
            ledger: Arc::clone(ledger),
            session: session.clone(),
            changes: ledger.refusals.subscribe(),
        }
    }

    /// The refused deletes, oldest first. A delete that is refused later completes the
    /// next [`changed`](Self::changed).
    pub fn current(&mut self) -> Vec<PendingDelete> {
        self.changes.mark_unchanged();
        self.ledger.lock().refused.of(&self.session)
    }

    /// Waits until a server refuses another delete of this client, in any session, after the last
    /// [`current`](Self::current).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // The sender lives in `self`, so the channel cannot be closed.
            pending::<()>().await;
        }
    }

    /// Forgets a delete whose node was found to be gone, because another client has deleted it.
    pub fn forget(&self, path: &ZPath) {
        self.ledger.forget_refused(&self.session, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::ClientMeter;

    #[test]
    fn only_the_latest_refused_deletes_without_a_session_are_kept() {
        let ledger = Ledger::new(&Arc::from("test"), &Arc::new(ClientMeter::new(None)));
        let path = |number: usize| ZPath::on_server(&format!("/{number}")).unwrap();
        for number in 0..MAX_WITHOUT_SESSION + 7 {
            let id = ledger.add(&path(number), None);
            assert_eq!(ledger.pending(), 1);
            ledger.mark_refused(id);
            assert_eq!(ledger.pending(), 0);
        }
        let left = ledger.deletes().into_iter().map(|delete| delete.path);
        assert!(left.eq((7..MAX_WITHOUT_SESSION + 7).map(path)));
    }
}
