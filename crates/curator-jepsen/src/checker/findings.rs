//! The result of a check: violations, and numbers for the report.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
pub use curator_results::faults::{CacheTally, CounterTally, ServiceTally, Tally};

use crate::history::{CACHE, CACHE_SLOW, CounterKind, HoldId, SERVICE, SHARDS};
use crate::peer::Peer;
use crate::work::{LockKind, Part, Variant};

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

/// A rule that was broken. The table in [`checker`](super) defines each rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
#[non_exhaustive]
pub enum Kind {
    /// More of a resource is certainly claimed than its capacity.
    Exclusivity,
    /// A hold claims a part of a resource that is still promised to others.
    Promise,
    /// A later hold has the same token as an earlier one, or a smaller token.
    Token,
    /// A waiter was overtaken.
    Fifo,
    /// A re-entry without an earlier hold, or a new acquire by an owner that held the lock.
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
    /// An event of a cache is inconsistent with earlier events.
    Replay,
    /// A cache reported an older state than before.
    Backwards,
    /// While all clients paused their writes, a cache differed from the servers.
    Differs,
    /// While all clients paused their writes, the replay of a stream differed from its cache.
    StreamDiffers,
    /// A cache is not current long after an outage.
    Stale,
    /// A cache lacks a write whose reply arrived before `caught_up` was called.
    NotCaughtUp,
    /// A counter lost an acknowledged increment.
    CountLost,
    /// A counter is greater than the increments that can have been applied.
    CountedTwice,
    /// Two increments returned the same value.
    SameValue,
    /// A cache reported the removal of an instance while its session was alive.
    Flicker,
    /// A cache contained an instance long after its session had ended.
    DeadInstance,
    /// Nobody has served a shard for a minute after a strike.
    Unserved,
    /// The history contradicts itself.
    Malformed,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No variant is skipped, so each has a name.
        self.to_possible_value().map_or(Ok(()), |value| {
            f.write_str(&value.get_name().replace('-', " "))
        })
    }
}

/// One violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule that was broken.
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
    /// Whether the violation can follow from a client that relies on its session for longer than
    /// the servers keep it, without any other fault. A transaction and a store that compares tokens
    /// refuse the writes of such a client.
    #[must_use]
    pub fn follows_from_slow_clocks(&self) -> bool {
        match self.kind {
            // `Token` and `Fifo`: of two simultaneous holders, the holder with the smaller token
            // may re-enter after the other hold has ended.
            Kind::Exclusivity | Kind::Promise | Kind::Token | Kind::Fifo => true,
            Kind::LostUpdate | Kind::ReadChanged => variant(&self.part) == Variant::Guarded,
            _ => false,
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// The time of the first event.
    pub began: u64,
    /// The numbers of each part, by its key.
    pub parts: BTreeMap<String, Tally>,
    /// Violations by our recipes, and malformed histories, in the order of time.
    pub violations: Vec<Violation>,
    /// Violations by the recipes of peers.
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

/// The effect of a strike on the caches of one kind, in all processes: from the start of the strike
/// until the start of the next one, or the end of the run. Before the first strike, the nemesis is
/// `none`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheAftermath {
    /// The name of the nemesis; both names if two struck together.
    pub nemesis: String,
    /// Which caches, or which of their consumers.
    pub part: String,
    /// The numbers of these caches.
    pub tally: CacheTally,
}

/// The effect of a strike on the leaders of one part: from the start of the strike until the start
/// of the next one, or the end of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aftermath {
    /// The name of the nemesis; both names if two struck together.
    pub nemesis: String,
    /// The key of the part.
    pub part: String,
    /// Terms that have begun.
    pub terms: u64,
    /// Terms that began while another leader certainly led.
    pub overlaps: u64,
    /// Terms that began while another leader had not yet noticed that an operator had deleted its
    /// node.
    pub without_node: u64,
    /// The longest interval without a certain leader.
    pub leaderless: Duration,
}

impl Findings {
    pub(crate) fn new(
        began: u64,
        mut parts: BTreeMap<String, Tally>,
        mut found: Vec<Violation>,
        without_node: &[Violation],
        leaders: Vec<Aftermath>,
        caches: Vec<CacheAftermath>,
    ) -> Self {
        found.sort_by(|one, other| {
            (one.at, one.kind, &one.detail).cmp(&(other.at, other.kind, &other.detail))
        });
        for violation in &found {
            if matches!(violation.kind, Kind::Exclusivity | Kind::Promise) {
                parts.entry(violation.part.clone()).or_default().held_twice += 1;
            }
        }
        for violation in without_node {
            parts
                .entry(violation.part.clone())
                .or_default()
                .held_without_node += 1;
        }
        let (violations, of_peers) = found
            .into_iter()
            .partition(|violation| violation.kind == Kind::Malformed || is_ours(&violation.part));
        Self {
            began,
            parts,
            violations,
            of_peers,
            leaders,
            caches,
            ..Self::default()
        }
    }
}

/// The part with this key; `None` for a peer's part, whose violations are counted, but do not fail
/// the run.
pub(crate) fn part(key: &str) -> Option<Part> {
    let (lock, variant) = key.rsplit_once('-')?;
    Some(Part {
        lock: LockKind::from_str(lock, false).ok()?,
        variant: Variant::from_str(variant, false).ok()?,
    })
}

/// Whether a violation in the part with this key fails the run: in our locks, our cache, our
/// counters, our service or our shards.
pub(crate) fn is_ours(key: &str) -> bool {
    part(key).is_some()
        || [CACHE, CACHE_SLOW, SERVICE, SHARDS].contains(&key)
        || CounterKind::of(key).is_some()
}

/// The kind of leader of a part, without its variant; `None` if the part has a lock.
pub(crate) fn leaders(key: &str) -> Option<String> {
    match part(key) {
        Some(part) => part.lock.is_of_leaders().then(|| part.lock.to_string()),
        None => Peer::CuratorLeaders
            .keys()
            .iter()
            .find(|known| **known == key)
            .map(ToString::to_string),
    }
}

/// How the writes of a part are guarded. The parts of peers are `Plain`.
pub(crate) fn variant(key: &str) -> Variant {
    if key == SHARDS {
        return Variant::Token;
    }
    part(key).map_or(Variant::Plain, |part| part.variant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_our_parts_are_parsed_and_keys_of_peers_are_not() {
        for &lock in LockKind::value_variants() {
            for &variant in Variant::value_variants() {
                let our_part = Part { lock, variant };
                assert_eq!(part(&our_part.key()), Some(our_part));
            }
        }
        for peer in Peer::value_variants()
            .iter()
            .flat_map(|peer| peer.keys())
            .copied()
            .chain(["", "plain", "mutex"])
        {
            assert_eq!(part(peer), None, "{peer}");
        }
    }

    #[test]
    fn leader_recipes_are_recognized_in_every_variant() {
        let leaders = |key| leaders(key).unwrap_or_default();
        assert_eq!(
            [leaders("leader-latch-plain"), leaders("leader-latch-token")],
            ["leader-latch", "leader-latch"]
        );
        assert_eq!(
            [leaders("curator-latch-session"), leaders("mutex-plain")],
            ["curator-latch-session", ""]
        );
    }
}
