//! Reads the histories of a run, and reports every event that a correct lock cannot cause.
//!
//! The workload and its main rule come from Jepsen's tests of locks (`lock-set` of its test of
//! etcd): an acknowledged element must never disappear. The checker also reads when clients held
//! which lock according to `is_valid()`, and compares that with the guarantees of the locks.
//!
//! # What a hold claims
//!
//! Each rule assumes that a hold claims its lock only for a *certain* time:
//!
//! - The certain time begins when the acquire has returned (`Acquired`, with a time read after the
//!   return), if `is_valid()` was true at least once later. A session that is alive later has been
//!   alive throughout, and a deleted node never reappears, so the hold owned the lock at every
//!   moment between.
//! - It ends before `is_valid()` last returned true: at the `before` of the last
//!   [`Valid`](crate::history::What::Valid), a time read before the call. It ends earlier if the
//!   owner started to release the lock (`Releasing`, with a time read before the release), or if an
//!   operator started to delete one of its nodes (`Deleted`).
//!
//! A process may be stopped at any point between reading a clock, calling `is_valid()`, and writing
//! the line: this can shorten the certain time, but not extend it. The holds of a killed process
//! count up to its last recorded event.
//!
//! With each `Valid`, the guard also gives a *promise*: its `valid_until()`. Until then no server
//! ends the session, so a hold that is neither released nor deleted by an operator owns the lock
//! until the latest promise, even if its process was killed. The promise counts even if the client
//! has reported the loss of the lock: the servers must keep the session. (A client that closes its
//! session releases its holds first.)
//!
//! All times are read from one clock, which all processes of the machine share and which runs while
//! they are stopped.
//!
//! # The rules
//!
//! | [`Kind`] | What is found |
//! |---|---|
//! | `Exclusivity` | at one moment, the certain claims on a resource exceed its capacity. Of an owner's holds, only the greatest counts |
//! | `Promise` | a hold certainly claims a part of a resource that was still promised to other holds |
//! | `Token` | a hold certainly ended before another began, at least one of them is exclusive, and the earlier one has the greater token; or two acquires have the same token |
//! | `Fifo` | like `Token`, but with the places in the queue, if known. In our locks the token *is* the place, so this rule finds nothing more; leases and downgraded holds have no place |
//! | `Reentry` | a re-entry by an owner without a hold, or whose hold was known to be lost, or with another token; or a new acquire by an owner that certainly held the lock. A holder of the write lock may enter the read lock |
//! | `Revived` | `is_valid()` was true after it had been false |
//! | `UnnoticedDelete` | `is_valid()` was true more than two session timeouts after an operator had deleted a node of the guard. For the guarded variant only, which watches its nodes. Time does not count while its process was stopped, or another nemesis was active |
//! | `LostUpdate` | an acknowledged element is not in the final set. In the plain variant, lost updates are only counted. In the guarded variant, lost updates that a guard cannot prevent are counted separately |
//! | `RefusedWrite` | an element that was refused or not sent is in the final set |
//! | `ReadChanged` | a reader has read two different states of a set under one certain hold. In the plain variant, changed reads are only counted; in the guarded variant, late writes and writes after an operator's delete explain them |
//! | `Malformed` | the history contradicts itself: a bug in the tester |
//!
//! A write is *late* if its reply arrived after the `valid_until()` of its last check: its process
//! was stopped between check and write, or was not scheduled. A guard cannot prevent a late write,
//! nor a write just after an operator's delete of the lock's node. Such a write, of the same
//! element or of another element of the set, explains a lost update of the guarded variant if both
//! conditions hold:
//!
//! - Its reply arrived after the check of the lost write, so it may have been applied later.
//! - Its hold had begun when the reply to the lost write arrived, so its holder may have read the
//!   set before.
//!
//! One gap remains: if a process writes late, or after an operator's delete, and is killed before
//! it records the write, the history does not contain the write that explains the lost update. A
//! delete of one of the nodes of a multi-lock counts as a delete of all of them.
//!
//! When an operator deletes the node of a holder, the next waiter acquires the lock immediately,
//! while the guard of the old holder may be valid for a moment longer. This is allowed: the certain
//! time ends before the delete. Such overlaps are counted separately.
//!
//! A guard may report a loss at any time, even before its promise ends and without an operator's
//! delete. Such early losses are not violations, but are counted: otherwise the checker would
//! accept a lock that is always lost. Only slow clocks are expected to cause them, as clients with
//! slow clocks end their sessions themselves.
//!
//! # Why a correct lock has no violations
//!
//! `Exclusivity` and `Promise`: each claim lies within the time when the hold's node existed and
//! owned the lock. `Token` and `Fifo`: if the later hold's node were the older one, it would have
//! been in the queue while the earlier hold owned the lock, and could not have been passed.
//! `Reentry`: a loss or a release counts only if it was recorded before the acquire was called.
//! `UnnoticedDelete`: see `operator.rs`. The other rules follow from what the store and the guard
//! promise.
//!
//! A lock without violations may still be incorrect: the checker does not see what happens between
//! two samples, and ignores holds that were never found valid.
//!
//! # Leaders
//!
//! The terms of leaders are holds. [`Aftermath`] also contains the longest interval without a
//! certain leader in the time of each strike, which the conductor's events `Nemesis` and
//! `Finishing` delimit. A term that was never found valid does not count, and a term that was lost
//! ends when it was last found valid. So the interval is never too short, and too long by about the
//! sampling interval.
//!
//! # Caches
//!
//! The rules for what caches report are in `caches/mod.rs`. They do not relate to holds.
//!
//! # Counters
//!
//! The rules for counters are in `counters.rs`. They do not relate to holds either.
//!
//! # Services
//!
//! The rules for registered instances are in `services.rs`.
//!
//! # Shards
//!
//! The leases of shards are holds, whose writes are of the variant token. The rule for the time after
//! a strike is in `shards.rs`.
//!
//! # Cost
//!
//! Only the holds and writes are kept in memory, not the samples of validity. They are sorted once,
//! and then checked in one pass for each rule. Streams of caches are replayed while they are read.

mod caches;
mod capacity;
mod counters;
mod findings;
mod operator;
mod order;
mod reentry;
mod run;
mod seen;
mod services;
mod sets;
mod shards;
mod strikes;
#[cfg(test)]
pub(crate) mod tests;

pub use findings::{
    Aftermath, CacheAftermath, CacheTally, CounterTally, Findings, HoldKey, Kind, ServiceTally,
    Tally, Violation,
};
pub(crate) use findings::{leaders, part};

use crate::history::Event;
use seen::Seen;
pub use sets::FinalSets;

/// Takes the events of a run one by one, so that a long run does not have to fit in memory.
#[derive(Debug, Default)]
pub struct Checker {
    seen: Seen,
}

impl Checker {
    /// A checker without events.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records an event. The events of different processes may come in any order.
    pub fn see(&mut self, event: &Event) {
        self.seen.see(event);
    }

    /// Checks all recorded events, and compares the writes with the final sets.
    #[must_use]
    pub fn finish(self, sets: &FinalSets) -> Findings {
        let mut run = self.seen.finish();
        operator::record_struck(&mut run);
        let mut found = Vec::new();
        let mut without_node = Vec::new();
        found.extend(run.malformed.iter().cloned());
        let resources = run::claims_by_resource(&run);
        for (resource, spans) in &resources {
            capacity::check(&run, resource, spans, &mut found, &mut without_node);
            order::check_order(&run, resource, spans, &mut found);
        }
        shards::check(&run, &resources, &mut found);
        let leaders = strikes::aftermaths(
            &run,
            resources.into_values().flatten(),
            &found,
            &without_node,
        );
        order::check_uniqueness(&run, &mut found);
        reentry::check_reentries(&run, &mut found);
        operator::check_notice(&run, &mut found);
        let mut parts = run.tallies.clone();
        reentry::check_losses(&run, &mut parts, &mut found);
        sets::check_writes(&run, sets, &mut parts, &mut found);
        sets::check_reads(&run, &mut parts, &mut found);
        let strikes: Vec<_> = run.strikes.finish(u64::MAX).collect();
        let caches = std::mem::take(&mut run.caches).finish(&strikes, &mut found);
        let counters = std::mem::take(&mut run.counters).finish(&mut found);
        let services = std::mem::take(&mut run.services).finish(&mut found);
        Findings {
            counters,
            services,
            ..Findings::new(run.began, parts, found, &without_node, leaders, caches)
        }
    }
}

/// Checks events that are in memory.
#[must_use]
pub fn check(events: &[Event], sets: &FinalSets) -> Findings {
    let mut checker = Checker::new();
    for event in events {
        checker.see(event);
    }
    checker.finish(sets)
}
