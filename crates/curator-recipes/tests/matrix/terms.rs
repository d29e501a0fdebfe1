//! Records the terms of all participants of an election.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curator_recipes::{LeaderLatch, Leadership};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::run::in_time;

/// Checks that no two participants lead at the same time. Clones share the record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Terms(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    /// All terms that count, each with its participant.
    terms: Vec<(usize, Leadership)>,
    /// The participant whose session was ended on the server, and the zxid of a later write: its
    /// earlier terms do not count.
    ended: Option<(usize, i64)>,
    /// Describes two terms that were valid at the same time.
    two: Option<String>,
}

impl Terms {
    fn note(&self, who: usize, term: Leadership) {
        let mut noted = self.noted();
        if !noted.has_ended(who, &term) {
            noted.terms.push((who, term));
            noted.compare();
        }
    }

    /// Records that the session of this participant ended on the server, or is about to, before the
    /// write `zxid`.
    pub(crate) fn end(&self, who: usize, zxid: i64) {
        let mut noted = self.noted();
        noted.ended = Some((who, zxid));
        let terms = std::mem::take(&mut noted.terms);
        noted.terms = terms
            .into_iter()
            .filter(|(who, term)| !noted.has_ended(*who, term))
            .collect();
    }

    /// Whether this term belongs to the ended session.
    pub(crate) fn has_ended(&self, who: usize, term: &Leadership) -> bool {
        self.noted().has_ended(who, term)
    }

    /// Whether the session of this participant was ended on the server.
    pub(crate) fn has_ended_session(&self, who: usize) -> bool {
        self.noted().ended.is_some_and(|(ended, _)| ended == who)
    }

    /// # Panics
    ///
    /// If two participants have led at the same time.
    pub(crate) fn check(&self) {
        let two = {
            let mut noted = self.noted();
            noted.compare();
            noted.two.clone()
        };
        assert_eq!(two, None, "two leaders");
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Noted {
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
                    self.two = Some(format!("{who} and {other_who}: {one:?}, {other:?}"));
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
    noting: JoinHandle<()>,
}

impl Participant {
    pub(crate) fn new(who: usize, latch: LeaderLatch, terms: &Terms) -> Self {
        let (noted, terms) = (latch.clone(), terms.clone());
        let noting = tokio::spawn(async move {
            while let Ok(term) = noted.leadership().await {
                terms.note(who, term.clone());
                term.lost().await;
            }
        });
        Self { who, latch, noting }
    }

    /// Waits until the participant leads.
    pub(crate) async fn leads(&self) {
        in_time(
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
        self.noting.abort();
    }
}
