//! What was found in a run.

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
    /// Of which process.
    pub worker: u32,
    /// In which of its lives.
    pub life: u32,
    /// Which one.
    pub hold: HoldId,
}

impl fmt::Display for HoldKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hold {} of w{}.{}", self.hold, self.worker, self.life)
    }
}

/// Which rule is broken. The table in [`checker`](super) says what each means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// More is certainly claimed than there is.
    Exclusivity,
    /// Something is claimed that is still promised to others.
    Promise,
    /// A later hold has no greater token.
    Token,
    /// A contender was overtaken.
    Fifo,
    /// An owner has re-entered what it did not hold, or has not re-entered what it held.
    Reentry,
    /// A lost lock was valid again.
    Revived,
    /// A guard was valid long after its node had been deleted.
    UnnoticedDelete,
    /// An acknowledged element is gone.
    LostUpdate,
    /// A refused element is there.
    RefusedWrite,
    /// A set has changed under a reader.
    ReadChanged,
    /// An event of a cache does not fit those before it.
    Replay,
    /// A cache has reported an older state than before.
    Backwards,
    /// After quiet, a cache differs from the servers.
    Differs,
    /// After quiet, the replay of a stream differs from its cache.
    StreamDiffers,
    /// A cache is not current long after an outage.
    Stale,
    /// A cache lacks what its client has written.
    NotCaughtUp,
    /// A counter has lost an acknowledged increment.
    CountLost,
    /// A counter is greater than it can be.
    CountedTwice,
    /// Two increments have the same value after them.
    SameValue,
    /// An instance was seen to go, though its session lived on.
    Flicker,
    /// An instance was seen long after its session had ended.
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

/// A rule that was broken once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub kind: Kind,
    /// In which part of the work; empty if that is not known.
    pub part: String,
    /// When, in nanoseconds on the clock of the history.
    pub at: u64,
    /// Which holds have to do with it, the latest first.
    pub holds: Vec<HoldKey>,
    /// What exactly, for humans.
    pub detail: String,
}

impl Violation {
    /// Whether this follows if a client believes in its session for longer than the servers do, and in nothing else that is
    /// wrong. Whatever a client believes, no transaction and no store that compares tokens lets it write.
    #[must_use]
    pub fn follows_from_slow_clocks(&self) -> bool {
        match self.kind {
            // Token and fifo: of two that hold at the same time, the one with the smaller token may enter again, after
            // the other has ended.
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
    /// Acquires that have returned a guard, without re-entries and downgrades.
    pub acquires: u64,
    /// Re-entries.
    pub reentries: u64,
    /// Acquires that have returned no guard.
    pub not_acquired: u64,
    /// Writes that the store has confirmed.
    pub acknowledged: u64,
    /// Confirmed writes that were gone in the end.
    pub lost: u64,
    /// Of these, those that a late write explains whose process the run had stopped. This and the next two are counted for
    /// the guarded variant only.
    pub stopped: u64,
    /// Those that another late write explains: its process did not get to run in time, though nobody had stopped it.
    pub late: u64,
    /// Those that a write explains that came after an operator's delete of the lock's node.
    pub deleted: u64,
    /// Writes that the store, or the lock's transaction, has refused.
    pub refused: u64,
    /// Writes that the client has not sent, because it had seen that its lock was lost.
    pub not_sent: u64,
    /// Writes without an answer.
    pub unknown: u64,
    /// Reads that were compared with an earlier one of the same set, under the same hold, certainly held.
    pub reread: u64,
    /// Those that were different.
    pub changed: u64,
    /// Holds that were found lost before their promise was over, though nobody had deleted a node of theirs.
    pub lost_early: u64,
    /// How often a hold has begun while others certainly had, or had been promised, what it claims.
    pub held_twice: u64,
    /// How often one has begun while others had not yet noticed that an operator had deleted their nodes.
    pub held_without_node: u64,
}

impl Tally {
    /// How much of what was acknowledged is lost, in percent. `None` if nothing was.
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

/// What was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The time of the first event.
    pub began: u64,
    /// The numbers of each part, by its key.
    pub parts: BTreeMap<String, Tally>,
    /// What was broken by our locks, or by the tester, in the order of time.
    pub violations: Vec<Violation>,
    /// What was broken by the locks of peers.
    pub of_peers: Vec<Violation>,
    /// What came of each strike for the leaders of each part.
    pub leaders: Vec<Aftermath>,
    /// What came of each strike for the caches.
    pub caches: Vec<CacheAftermath>,
    /// The numbers of each counter, by its key.
    pub counters: BTreeMap<String, CounterTally>,
    /// The numbers of each service.
    pub services: BTreeMap<String, ServiceTally>,
}

/// The numbers of one service, as all of our clients have seen it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServiceTally {
    /// Instances that have come, once for each client that has seen it.
    pub inserted: u64,
    /// Instances that have gone.
    pub removed: u64,
    /// Of these, those whose session lived on.
    pub flickers: u64,
    /// How often a cache that was current was asked for its instances.
    pub looks: u64,
    /// How often it had one whose session had certainly ended too long ago.
    pub dead: u64,
    /// For how long an instance was seen after the certain end of its session, in nanoseconds, at most.
    pub longest: u64,
}

/// The numbers of one counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterTally {
    /// Increments that were acknowledged.
    pub acknowledged: u64,
    /// Those that were certainly not applied, as the client says.
    pub refused: u64,
    /// Those of which the client says that it does not know.
    pub unknown: u64,
    /// Those without an answer: their process was killed, or told to finish.
    pub cut_off: u64,
    /// The value at the end.
    pub value: i64,
    /// By how much that is less than what was acknowledged.
    pub lost: u64,
    /// By how much it is greater than the increments that can have been applied.
    pub twice: u64,
    /// Acknowledged increments whose value another one has too.
    pub same_value: u64,
}

/// What came of a strike for the caches of one kind, in all processes, from before it began until before the next one did, or the
/// end. Before the first strike, the nemesis is `none`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheAftermath {
    /// The name of the nemesis; of two at once, both.
    pub nemesis: String,
    /// Which caches, or which consumers of them.
    pub part: String,
    /// Events of their streams.
    pub events: usize,
    /// How often a stream has skipped events.
    pub resyncs: usize,
    /// How often the content of a cache was compared with the servers.
    pub looks: usize,
    /// How often the content of a cache differed from the servers.
    pub differing: usize,
    /// In how many nodes.
    pub nodes: usize,
    /// How often the replay of a stream differed from the content of its cache.
    pub streams: usize,
    /// How often a cache has not answered, or was not current.
    pub silent: usize,
    /// States that were older than one reported before.
    pub backwards: usize,
    /// Events that did not fit those before them.
    pub misfits: usize,
}

/// What came of a strike for the leaders of one part, from before it began until before the next one did, or the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aftermath {
    /// The name of the nemesis; of two at once, both.
    pub nemesis: String,
    /// The key of the part.
    pub part: String,
    /// Terms that have begun.
    pub terms: u64,
    /// Of these, those that have begun while another leader certainly led.
    pub overlaps: u64,
    /// Those that have begun while another leader had not yet noticed that an operator had deleted its node.
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
