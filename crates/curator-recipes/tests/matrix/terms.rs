//! Records the terms of all participants of an election.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curator_recipes::{LeaderLatch, Leadership};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::run::within_bound;

/// Checks that no two participants lead at the same time. Clones share the record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Terms(Arc<Mutex<Record>>);

#[derive(Debug, Default)]
struct Record {
    /// All terms that count, each with its participant.
    terms: Vec<(usize, Leadership)>,
    /// The participant whose session was ended on the server, and the zxid of a later write: its
    /// earlier terms do not count.
    ended: Option<(usize, i64)>,
    /// A description of two terms that were valid at the same time.
    overlap: Option<String>,
}

impl Terms {
    fn add(&self, who: usize, term: Leadership) {
        let mut record = self.record();
        if !record.has_ended(who, &term) {
            record.terms.push((who, term));
            record.compare();
        }
    }

    /// Records that the session of this participant ended on the server, or is about to, before the
    /// write `zxid`.
    pub(crate) fn end(&self, who: usize, zxid: i64) {
        let mut record = self.record();
        record.ended = Some((who, zxid));
        let terms = std::mem::take(&mut record.terms);
        record.terms = terms
            .into_iter()
            .filter(|(who, term)| !record.has_ended(*who, term))
            .collect();
    }

    /// Whether this term belongs to the ended session.
    pub(crate) fn has_ended(&self, who: usize, term: &Leadership) -> bool {
        self.record().has_ended(who, term)
    }

    /// Whether the session of this participant was ended on the server.
    pub(crate) fn has_ended_session(&self, who: usize) -> bool {
        self.record().ended.is_some_and(|(ended, _)| ended == who)
    }

    /// Checks all terms so far.
    ///
    /// # Panics
    ///
    /// If two participants have led at the same time.
    pub(crate) fn check(&self) {
        let overlap = {
            let mut record = self.record();
            record.compare();
            record.overlap.clone()
        };
        assert_eq!(overlap, None, "two leaders");
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn has_ended(&self, who: usize, term: &Leadership) -> bool {
        self.ended
            .is_some_and(|(ended, zxid)| who == ended && term.fencing_token().as_i64() < zxid)
    }

    /// If a term is valid before and after another is found valid, both were valid at the same
    /// time.
    fn compare(&mut self) {
        for (nth, (who, one)) in self.terms.iter().enumerate() {
            for (other_who, other) in &self.terms[nth + 1..] {
                if one.is_valid() && other.is_valid() && one.is_valid() {
                    self.overlap = Some(format!("{who} and {other_who}: {one:?}, {other:?}"));
                }
            }
        }
    }
}

/// A participant, and a task that records its terms.
#[derive(Debug)]
pub(crate) struct Participant {
    pub(crate) who: usize,
    pub(crate) latch: LeaderLatch,
    recorder: JoinHandle<()>,
}

impl Participant {
    pub(crate) fn new(who: usize, latch: LeaderLatch, terms: &Terms) -> Self {
        let recorded = latch.clone();
        let terms = terms.clone();
        let recorder = tokio::spawn(async move {
            while let Ok(term) = recorded.leadership().await {
                terms.add(who, term.clone());
                term.lost().await;
            }
        });
        Self {
            who,
            latch,
            recorder,
        }
    }

    /// Waits until the participant leads.
    pub(crate) async fn leads(&self) {
        within_bound(
            Instant::now(),
            "the participant does not lead",
            self.latch.leadership(),
        )
        .await
        .unwrap();
    }
}

/// Drops the latch; the participant leaves if no other handle exists.
impl Drop for Participant {
    fn drop(&mut self) {
        self.recorder.abort();
    }
}
