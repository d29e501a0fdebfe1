//! The holds and the writes of a run, and the times when each hold certainly claims its resources.
//! `mod.rs` defines the *certain time* and the *promise* of a hold.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::caches::Caches;
use super::counters::Counters;
use super::findings::{HoldKey, Tally, Violation};
use super::services::Services;
use super::strikes::Strikes;
use crate::history::{HoldId, Outcome};

/// The collected events of a whole run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// The time of the first event.
    pub(crate) began: u64,
    /// The holds, in the order of their starts.
    pub(crate) holds: Vec<Hold>,
    /// The writes to each set, in the order of their replies.
    pub(crate) writes: BTreeMap<Arc<str>, Vec<Write>>,
    pub(crate) stops: HashMap<(u32, u32), Vec<Period>>,
    /// The periods in which an active nemesis may have delayed notifications to the clients, sorted
    /// by start.
    pub(crate) disturbances: Vec<Period>,
    pub(crate) strikes: Strikes,
    pub(crate) caches: Caches,
    pub(crate) counters: Counters,
    pub(crate) services: Services,
    /// The session timeouts that the servers granted to our clients, in nanoseconds, by session.
    pub(crate) timeouts: HashMap<i64, u64>,
    /// The deletes by operators, by the session that the node belonged to.
    pub(crate) deletions: HashMap<i64, Vec<Deletion>>,
    pub(crate) tallies: BTreeMap<String, Tally>,
    pub(crate) malformed: Vec<Violation>,
    /// The holds that an operator may have ended, each with a time before the delete.
    pub(crate) struck: HashMap<HoldKey, u64>,
    /// The holds that have certainly lost a node, each with a time after the delete.
    pub(crate) deleted: HashMap<HoldKey, u64>,
}

/// One guard, from its acquire to its release.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    pub(crate) key: HoldKey,
    /// When the acquire returned; `None` if the history has no such event.
    pub(crate) acquired: Option<u64>,
    pub(crate) part: Arc<str>,
    pub(crate) owner: Arc<str>,
    pub(crate) asked: u64,
    pub(crate) session: i64,
    pub(crate) claims: Vec<Claim>,
    pub(crate) reentry: bool,
    pub(crate) continues: Option<HoldId>,
    /// A time before the last call of `is_valid()` that returned true, among the calls before the
    /// first that returned false.
    pub(crate) valid: Option<u64>,
    /// The latest promise.
    pub(crate) until: u64,
    /// When `is_valid()` first returned false.
    pub(crate) invalid: Option<u64>,
    /// A time before the last call of `is_valid()` that returned true.
    pub(crate) last_valid: u64,
    pub(crate) releasing: Option<u64>,
    pub(crate) reads: Vec<Reading>,
}

/// A [`history::Claim`](crate::history::Claim) with an interned path.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) resource: Arc<str>,
    pub(crate) weight: u32,
    pub(crate) capacity: u32,
    pub(crate) token: Option<i64>,
    pub(crate) place: Option<i64>,
}

/// A read of a set by a reader: see [`What::Read`](crate::history::What::Read).
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) set: Arc<str>,
    pub(crate) before: u64,
    pub(crate) at: u64,
    pub(crate) elements: usize,
    pub(crate) digest: u64,
}

/// A write to a set: see [`What::Wrote`](crate::history::What::Wrote).
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) key: HoldKey,
    pub(crate) part: Arc<str>,
    pub(crate) element: String,
    pub(crate) checked: u64,
    pub(crate) until: u64,
    /// A time after the reply.
    pub(crate) at: u64,
    pub(crate) outcome: Outcome,
}

/// A period in which a process was stopped, or a nemesis was active.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Period {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// A node of a lock that an operator has deleted: see
/// [`What::Deleted`](crate::history::What::Deleted).
#[derive(Debug)]
pub(crate) struct Deletion {
    pub(crate) node: String,
    pub(crate) created: i64,
    pub(crate) before: u64,
    pub(crate) at: u64,
    pub(crate) is_confirmed: bool,
}

impl Run {
    /// A time before an operator may have deleted a node of this hold; `u64::MAX` without such a
    /// delete.
    pub(crate) fn struck(&self, key: HoldKey) -> u64 {
        self.struck.get(&key).copied().unwrap_or(u64::MAX)
    }

    /// The start of each hold.
    pub(crate) fn begins(&self) -> HashMap<HoldKey, u64> {
        self.holds
            .iter()
            .map(|hold| (hold.key, hold.begin()))
            .collect()
    }

    /// Formats a time of the history as seconds since the start of the run.
    pub(crate) fn time(&self, at: u64) -> String {
        crate::history::seconds(at.saturating_sub(self.began))
    }
}

impl Hold {
    /// A time after the acquire had returned.
    pub(crate) fn begin(&self) -> u64 {
        self.acquired.unwrap_or(u64::MAX)
    }

    /// Whether the other hold belongs to the same owner.
    pub(crate) fn has_owner_of(&self, other: &Self) -> bool {
        (self.key.worker, self.key.life, &self.owner)
            == (other.key.worker, other.key.life, &other.owner)
    }

    /// Whether this is a new acquire: neither a re-entry nor a downgrade.
    pub(crate) fn is_new_acquire(&self) -> bool {
        !self.reentry && self.continues.is_none()
    }
}

impl Claim {
    /// Whether the claim excludes all other owners.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.weight >= self.capacity
    }
}

impl Write {
    /// Whether the write may have been applied after the promise of its guard had ended.
    pub(crate) fn is_late(&self) -> bool {
        self.may_be_applied() && self.until != 0 && self.at > self.until
    }

    /// Whether the write may have been applied after an operator had ended its hold.
    pub(crate) fn is_struck(&self, run: &Run) -> bool {
        self.may_be_applied() && self.at >= run.struck(self.key)
    }

    fn may_be_applied(&self) -> bool {
        matches!(self.outcome, Outcome::Acknowledged | Outcome::Unknown)
    }

    /// Whether the run stopped the process between the check and the reply.
    pub(crate) fn was_stopped(&self, run: &Run) -> bool {
        run.stops
            .get(&(self.key.worker, self.key.life))
            .is_some_and(|stops| {
                stops
                    .iter()
                    .any(|stop| stop.from <= self.at && self.checked <= stop.to)
            })
    }
}

/// One claim of a hold, with its times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span<'a> {
    pub(crate) hold: &'a Hold,
    pub(crate) claim: &'a Claim,
    /// The start of the certain time.
    pub(crate) start: u64,
    /// The end of the certain time; not before `start`.
    pub(crate) certain: u64,
    /// The end of the promise; not before `certain`.
    pub(crate) promised: u64,
    /// The end of the certain time if operators' deletes of the hold's node did not count; not
    /// before `certain`.
    pub(crate) believed: u64,
}

/// The claims on each resource, in the order of the starts.
pub(crate) fn claims_by_resource(run: &Run) -> BTreeMap<&str, Vec<Span<'_>>> {
    let begins = run.begins();
    let mut resources = BTreeMap::<_, Vec<_>>::new();
    for hold in &run.holds {
        let Some(certain) = certain(run, hold) else {
            continue;
        };
        let promised = certain.max(hold.until.min(released_or_deleted(run, hold)));
        let believed = certain.max(believed(hold).unwrap_or_default());
        // If this read hold continues a write hold, or was added to one, the owner has had at least
        // a reader's claim since the start of the write hold: a downgrade replaces the write node
        // by the read node atomically.
        let before = hold.continues.and_then(|continued| {
            begins.get(&HoldKey {
                hold: continued,
                ..hold.key
            })
        });
        let start = before.map_or(hold.begin(), |before| hold.begin().min(*before));
        if certain >= start {
            for claim in &hold.claims {
                let span = Span {
                    hold,
                    claim,
                    start,
                    certain,
                    promised,
                    believed,
                };
                resources.entry(&*claim.resource).or_default().push(span);
            }
        }
    }
    for spans in resources.values_mut() {
        spans.sort_by_key(|span| (span.start, span.hold.key));
    }
    resources
}

/// The end of the certain time of a hold. `None` if the hold was never found valid.
pub(crate) fn certain(run: &Run, hold: &Hold) -> Option<u64> {
    Some(believed(hold)?.min(run.struck(hold.key)))
}

/// Like [`certain`], but ignores an operator's delete of the node.
fn believed(hold: &Hold) -> Option<u64> {
    Some(
        hold.valid?
            .min(hold.invalid.unwrap_or(u64::MAX))
            .min(hold.releasing.unwrap_or(u64::MAX)),
    )
}

/// When the owner started to release the hold, or an operator started to delete its node, whichever
/// is earlier.
fn released_or_deleted(run: &Run, hold: &Hold) -> u64 {
    hold.releasing.unwrap_or(u64::MAX).min(run.struck(hold.key))
}
