//! The result of a check: violations, and numbers for the report.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use super::parts;
use crate::history::HoldId;
use crate::work::Variant;

/// A hold of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldKey {
    /// The process.
    pub worker: u32,
    /// How often that process had been started before.
    pub life: u32,
    /// The hold within the process.
    pub hold: HoldId,
}

impl fmt::Display for HoldKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hold {} of w{}.{}", self.hold, self.worker, self.life)
    }
}

/// The broken rule. The table in [`checker`](super) defines each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// More of a resource is certainly claimed than its capacity.
    Exclusivity,
    /// A hold claims what is still promised to others.
    Promise,
    /// A later hold has no greater token than an earlier one.
    Token,
    /// A waiter was overtaken.
    Fifo,
    /// A re-entry without a hold, or a fresh acquire by an owner that held the lock.
    Reentry,
    /// A lost lock was reported as valid again.
    Revived,
    /// A guard was valid long after its node had been deleted.
    UnnoticedDelete,
    /// An acknowledged element is not in the final set.
    LostUpdate,
    /// A refused element is in the final set.
    RefusedWrite,
    /// A set changed under a reader's hold.
    ReadChanged,
    /// An event of a cache is inconsistent with the earlier ones.
    Replay,
    /// A cache reported an older state than before.
    Backwards,
    /// After quiet, a cache differs from the servers.
    Differs,
    /// After quiet, the replay of a stream differs from its cache.
    StreamDiffers,
    /// A cache is not current long after an outage.
    Stale,
    /// A cache lacks a write that was answered before `caught_up` was called.
    NotCaughtUp,
    /// A counter lost an acknowledged increment.
    CountLost,
    /// A counter is greater than the increments that can have been applied.
    CountedTwice,
    /// Two increments returned the same value.
    SameValue,
    /// A cache reported an instance as gone while its session lived.
    Flicker,
    /// A cache contained an instance long after its session had ended.
    DeadInstance,
    /// The history contradicts itself.
    Malformed,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusivity => "exclusivity",
            Self::Promise => "promise",
            Self::Token => "token",
            Self::Fifo => "fifo",
            Self::Reentry => "re-entry",
            Self::Revived => "revived",
            Self::UnnoticedDelete => "unnoticed delete",
            Self::LostUpdate => "lost update",
            Self::RefusedWrite => "refused write",
            Self::ReadChanged => "read changed",
            Self::Replay => "replay",
            Self::Backwards => "backwards",
            Self::Differs => "differs",
            Self::StreamDiffers => "stream differs",
            Self::Stale => "stale",
            Self::NotCaughtUp => "not caught up",
            Self::CountLost => "count lost",
            Self::CountedTwice => "counted twice",
            Self::SameValue => "same value",
            Self::Flicker => "flicker",
            Self::DeadInstance => "dead instance",
            Self::Malformed => "malformed",
        })
    }
}

/// One violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub kind: Kind,
    /// The part of the work; empty if unknown.
    pub part: String,
    /// When, in nanoseconds on the clock of the history.
    pub at: u64,
    /// The holds involved, the latest first.
    pub holds: Vec<HoldKey>,
    /// The details, for the report.
    pub detail: String,
}

impl Violation {
    /// Whether the violation can follow from a client that relies on its session for longer than the servers keep it,
    /// without any other fault. A transaction and a store that compares tokens refuse the writes of such a client.
    #[must_use]
    pub fn follows_from_slow_clocks(&self) -> bool {
        match self.kind {
            // `Token` and `Fifo`: of two simultaneous holders, the one with the smaller token may re-enter after the
            // other has ended.
            Kind::Exclusivity | Kind::Promise | Kind::Token | Kind::Fifo => true,
            Kind::LostUpdate | Kind::ReadChanged => parts::variant(&self.part) == Variant::Guarded,
            Kind::Reentry | Kind::Revived | Kind::UnnoticedDelete | Kind::RefusedWrite | Kind::Malformed => false,
            Kind::Replay | Kind::Backwards | Kind::Differs | Kind::StreamDiffers | Kind::Stale => false,
            Kind::NotCaughtUp | Kind::CountLost | Kind::CountedTwice | Kind::SameValue => false,
            Kind::Flicker | Kind::DeadInstance => false,
        }
    }
}

/// The numbers of one part of the work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Acquires that returned a guard, without re-entries and downgrades.
    pub acquires: u64,
    /// Re-entries.
    pub reentries: u64,
    /// Acquires that returned no guard.
    pub not_acquired: u64,
    /// Writes that the store acknowledged.
    pub acknowledged: u64,
    /// Acknowledged writes that are not in the final set.
    pub lost: u64,
    /// Lost writes explained by a late write of a process that the run had stopped. This and the next two are counted
    /// for the guarded variant only.
    pub stopped: u64,
    /// Lost writes explained by another late write: its process was not scheduled in time, though the run had not
    /// stopped it.
    pub late: u64,
    /// Lost writes explained by a write after an operator's delete of the lock's node.
    pub deleted: u64,
    /// Writes that the store or the lock's transaction refused.
    pub refused: u64,
    /// Writes that the client did not send, because it had noticed that its lock was lost.
    pub not_sent: u64,
    /// Writes without an answer.
    pub unknown: u64,
    /// Reads that were compared with an earlier read of the same set under the same hold, while that was certain.
    pub reread: u64,
    /// Such reads that differed from the earlier one.
    pub changed: u64,
    /// Holds that were found lost before their promise ended, although no operator had deleted their nodes.
    pub lost_early: u64,
    /// How often a hold began while what it claims was certainly held by, or promised to, others.
    pub held_twice: u64,
    /// How often a hold began while others had not yet noticed that an operator had deleted their nodes.
    pub held_without_node: u64,
}

impl Tally {
    /// The lost part of the acknowledged writes, in percent. `None` if none was acknowledged.
    #[must_use]
    pub fn lost_percent(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "there are fewer writes than 2 to the 52nd")]
        (self.acknowledged > 0).then(|| self.lost as f64 * 100.0 / self.acknowledged as f64)
    }
}

impl AddAssign for ServiceTally {
    fn add_assign(&mut self, other: Self) {
        let Self { inserted, removed, flickers, looks, dead, longest } = other;
        self.inserted += inserted;
        self.removed += removed;
        self.flickers += flickers;
        self.looks += looks;
        self.dead += dead;
        self.longest = self.longest.max(longest);
    }
}

impl AddAssign for CounterTally {
    fn add_assign(&mut self, other: Self) {
        let Self { acknowledged, refused, unknown, cut_off, value, lost, twice, same_value } = other;
        self.acknowledged += acknowledged;
        self.refused += refused;
        self.unknown += unknown;
        self.cut_off += cut_off;
        self.value += value;
        self.lost += lost;
        self.twice += twice;
        self.same_value += same_value;
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        let Self {
            acquires,
            reentries,
            not_acquired,
            acknowledged,
            lost,
            stopped,
            late,
            deleted,
            refused,
            not_sent,
            unknown,
            reread,
            changed,
            lost_early,
            held_twice,
            held_without_node,
        } = other;
        self.acquires += acquires;
        self.reentries += reentries;
        self.not_acquired += not_acquired;
        self.acknowledged += acknowledged;
        self.lost += lost;
        self.stopped += stopped;
        self.late += late;
        self.deleted += deleted;
        self.refused += refused;
        self.not_sent += not_sent;
        self.unknown += unknown;
        self.reread += reread;
        self.changed += changed;
        self.lost_early += lost_early;
        self.held_twice += held_twice;
        self.held_without_node += held_without_node;
    }
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The time of the first event.
    pub began: u64,
    /// The numbers of each part, by its key.
    pub parts: BTreeMap<String, Tally>,
    /// Violations by our locks or by the tester, in the order of time.
    pub violations: Vec<Violation>,
    /// Violations by the locks of peers.
    pub of_peers: Vec<Violation>,
    /// The effect of each strike on the leaders of each part.
    pub leaders: Vec<Aftermath>,
    /// The effect of each strike on the caches.
    pub caches: Vec<CacheAftermath>,
    /// The numbers of each counter, by its key.
    pub counters: BTreeMap<String, CounterTally>,
    /// The numbers of each service.
    pub services: BTreeMap<String, ServiceTally>,
}

/// The numbers of one service, as all of our clients have reported them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServiceTally {
    /// Inserted instances, counted once for each client that reported them.
    pub inserted: u64,
    /// Removed instances.
    pub removed: u64,
    /// Removed instances whose session lived.
    pub flickers: u64,
    /// How often a current cache was asked for its instances.
    pub looks: u64,
    /// How often it returned an instance whose session had ended more than the bound before.
    pub dead: u64,
    /// The longest time, in nanoseconds, for which an instance was returned after the certain end of its session.
    pub longest: u64,
}

/// The numbers of one counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterTally {
    /// Increments that were acknowledged.
    pub acknowledged: u64,
    /// Increments that the client reported as not applied.
    pub refused: u64,
    /// Increments whose outcome the client reported as unknown.
    pub unknown: u64,
    /// Increments without an answer, because the process was killed or asked to finish.
    pub cut_off: u64,
    /// The counter's value at the end.
    pub value: i64,
    /// By how much the value is less than the acknowledged increments.
    pub lost: u64,
    /// By how much the value is greater than the increments that can have been applied.
    pub twice: u64,
    /// Acknowledged increments that returned the same value as another one.
    pub same_value: u64,
}

/// The effect of a strike on the caches of one kind, in all processes, from before the strike until before the next one
/// or the end. Before the first strike, the nemesis is `none`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheAftermath {
    /// The name of the nemesis; both names if two struck at once.
    pub nemesis: String,
    /// Which caches, or which of their consumers.
    pub part: String,
    /// Events of their streams.
    pub events: usize,
    /// How often a stream has skipped events.
    pub resyncs: usize,
    /// How often the content of a cache was compared with the servers.
    pub looks: usize,
    /// How often the content of a cache differed from the servers.
    pub differing: usize,
    /// The number of nodes that differed.
    pub nodes: usize,
    /// How often the replay of a stream differed from the content of its cache.
    pub streams: usize,
    /// How often a cache did not answer, or was not current.
    pub silent: usize,
    /// States that were older than an earlier reported one.
    pub backwards: usize,
    /// Events that were inconsistent with the earlier ones.
    pub misfits: usize,
}

/// The effect of a strike on the leaders of one part, from before the strike until before the next one or the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aftermath {
    /// The name of the nemesis; both names if two struck at once.
    pub nemesis: String,
    /// The key of the part.
    pub part: String,
    /// Terms that have begun.
    pub terms: u64,
    /// Terms that began while another leader certainly led.
    pub overlaps: u64,
    /// Terms that began while another leader had not yet noticed that an operator had deleted its node.
    pub without_node: u64,
    /// The longest interval without a certain leader.
    pub leaderless: Duration,
}

impl Findings {
    pub(crate) fn new(
        began: u64,
        mut parts: BTreeMap<String, Tally>,
        mut found: Vec<Violation>,
        apart: &[Violation],
        leaders: Vec<Aftermath>,
        caches: Vec<CacheAftermath>,
    ) -> Self {
        found.sort_by(|one, other| (one.at, one.kind, &one.detail).cmp(&(other.at, other.kind, &other.detail)));
        for violation in &found {
            if matches!(violation.kind, Kind::Exclusivity | Kind::Promise) {
                parts.entry(violation.part.clone()).or_default().held_twice += 1;
            }
        }
        for violation in apart {
            parts.entry(violation.part.clone()).or_default().held_without_node += 1;
        }
        let is_ours = |violation: &Violation| violation.kind == Kind::Malformed || parts::is_ours(&violation.part);
        let (violations, of_peers) = found.into_iter().partition(is_ours);
        Self { began, parts, violations, of_peers, leaders, caches, ..Self::default() }
    }
}
