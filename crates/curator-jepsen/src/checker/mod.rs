//! Reads the histories of a run, and says what no correct lock could have done.
//!
//! A workload and a checker as in Jepsen's tests of locks (`lock-set` of its test of etcd): what was acknowledged must
//! never disappear. The checker also reads who believed that it held which lock, and compares that with what the locks
//! promise.
//!
//! # What a hold claims
//!
//! Each rule takes a hold to claim its lock for a *certain* time only:
//!
//! - It begins when the acquire has returned (`Acquired`, whose time is read after that), if `is_valid()` was true at least
//!   once later. A session that is alive later has been alive all the time, and a node has one life, so the hold owned the
//!   lock at every moment between.
//! - It ends before the last true answer: at the `before` of the last [`Valid`](crate::history::What::Valid), a time read
//!   before the question. It ends earlier where the owner was about to give the lock back (`Releasing`, read before that), or
//!   where an operator was about to delete one of its nodes (`Deleted`).
//!
//! A process may be stopped anywhere between reading a clock, asking, and writing the line: that makes the certain time
//! shorter and never longer. A process that is killed claims what its last line says.
//!
//! Besides, each true answer comes with a *promise*: the guard's `valid_until()`. Until then no server ends the session, so a
//! hold that is neither given back nor deleted by an operator owns the lock until the latest of them, whatever has become
//! of its process. A client that has found its lock lost is not excused from it: the servers must have kept the session.
//! (A client that ends its session itself gives its holds back first.)
//!
//! All times are of one clock, which all processes of the machine share and which does not stand still while they are
//! stopped.
//!
//! # The rules
//!
//! | [`Kind`] | What is found |
//! |---|---|
//! | `Exclusivity` | at one moment, more is certainly claimed of a resource than there is. Holds of one owner count once, by the greatest |
//! | `Promise` | a hold certainly claims what was still promised to others |
//! | `Token` | of two holds, one certainly ended before the other began, one is exclusive, and the earlier has the greater token; or two acquires have the same token |
//! | `Fifo` | the same with their places in the queue, where they are known. Of our locks the token *is* the place, so there this adds nothing; leases and downgraded holds have none |
//! | `Reentry` | a re-entry of an owner that held nothing, or whose hold was known to be lost, or with another token; or an owner that certainly held the lock has acquired it anew. To hold the write lock is enough to enter the read lock |
//! | `Revived` | `is_valid()` was true after it had been false |
//! | `UnnoticedDelete` | `is_valid()` was true more than two session timeouts after an operator had deleted a node of the guard. Of the guarded variant only, which watches its nodes. Neither the time for which its process was stopped counts, nor that of any other nemesis |
//! | `LostUpdate` | an acknowledged element is not in the final set. Of the plain variant they are only counted. Of the guarded one, those that a guard cannot prevent are counted apart |
//! | `RefusedWrite` | a refused element, or one that was not sent, is in the final set |
//! | `ReadChanged` | a reader has read two different sets under one hold, certainly held. Counted only for plain; for guarded excused as lost updates are |
//! | `Malformed` | the history contradicts itself: the tester is wrong |
//!
//! A write is *late* if it was answered after the `valid_until()` that its last check has seen: its process was stopped
//! between check and write, or did not get to run. A guard cannot prevent that, nor that an operator deletes the lock's node
//! just before the write. A lost update of the guarded variant is explained by such a write, of the element itself or of
//! another to the same set, if that can have erased it: it was answered after the check of the lost write, so it may have been
//! applied later; and its hold had begun when the lost write was answered, so it may have read the set before. One hole
//! remains: a process that writes late, or after an operator's delete, and is killed before it can say so, has an unannounced
//! write, which explains nothing. A delete of one of the nodes of a multi-lock counts as one of them all.
//!
//! When an operator deletes the node of a holder, the next one has the lock at once, and the old one may believe in it for a moment
//! longer. That is no violation: the certain time ends before the delete. How often it has happened is counted apart.
//!
//! A hold that is found lost before its promise is over, though nobody has deleted a node of it, is no violation: a guard may
//! give up at any time. It is counted, as a lock that is always lost would break no rule. No nemesis is a reason for it but
//! slow clocks, under which clients end their sessions themselves.
//!
//! # Why nothing is found in the history of a correct lock
//!
//! `Exclusivity` and `Promise`: each claim lies within the time for which the hold's node existed and owned the lock.
//! `Token` and `Fifo`: if the later hold's node were the older one, it would have been in the queue while the earlier hold
//! owned the lock, and could not have been passed. `Reentry`: lost and given back are only taken as such from times before
//! the acquire was asked for. `UnnoticedDelete`: see `notice.rs`. The rest follows from what the store and the guard promise.
//!
//! The converse is not true. What happens between two samples is not seen, nor are holds that were never found valid.
//!
//! # Leaders
//!
//! The terms of leaders are holds. [`Aftermath`] also contains the longest interval without a certain leader after each strike; the
//! conductor's events `Nemesis` and `Finishing` delimit it. A term that was never found valid does not count, and the last term
//! before a loss ends when it was last found valid. So the interval is never too short, and too long by about the sampling interval.
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
//! # Cost
//!
//! Only the holds and writes are kept, not the samples; everything is sorted once and swept. Streams of caches are replayed as they
//! are read.

mod caches;
mod capacity;
mod claims;
mod counters;
mod findings;
mod notice;
mod operator;
mod order;
mod parts;
mod readers;
mod reentry;
mod seen;
mod services;
mod sets;
mod strikes;
mod terms;
#[cfg(test)]
pub(crate) mod tests;
mod tokens;
mod validity;
mod write;

pub use findings::{Aftermath, CacheAftermath, CounterTally, Findings, HoldKey, Kind, ServiceTally, Tally, Violation};
pub(crate) use parts::{leaders, part};

use crate::history::Event;
use seen::Seen;
pub use sets::FinalSets;

/// Takes the events of a run one by one, so that a long run need not be in memory.
#[derive(Debug, Default)]
pub struct Checker {
    seen: Seen,
}

impl Checker {
    /// Has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes note of an event. The events of different processes may come in any order.
    pub fn see(&mut self, event: &Event) {
        self.seen.see(event);
    }

    /// Checks everything that was seen against the sets at the end.
    #[must_use]
    pub fn finish(self, sets: &FinalSets) -> Findings {
        let mut run = self.seen.finish();
        operator::strike(&mut run);
        let mut found = Vec::new();
        let mut apart = Vec::new();
        found.extend(run.malformed.iter().cloned());
        let resources = claims::by_resource(&run);
        for (resource, spans) in &resources {
            capacity::check(&run, resource, spans, &mut found, &mut apart);
            order::check(&run, resource, spans, &mut found);
        }
        let leaders = terms::aftermaths(&run, resources.into_values().flatten(), &found, &apart);
        tokens::check(&run, &mut found);
        reentry::check(&run, &mut found);
        notice::check(&run, &mut found);
        let mut parts = run.tallies.clone();
        validity::check(&run, &mut parts, &mut found);
        sets::check(&run, sets, &mut parts, &mut found);
        readers::check(&run, &mut parts, &mut found);
        let strikes: Vec<_> = run.strikes.finish(u64::MAX).collect();
        let caches = std::mem::take(&mut run.caches).finish(&strikes, &mut found);
        let counters = std::mem::take(&mut run.counters).finish(&mut found);
        let services = std::mem::take(&mut run.services).finish(&mut found);
        Findings { counters, services, ..Findings::new(run.began, parts, found, &apart, leaders, caches) }
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
