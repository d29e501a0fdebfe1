//! How long an acquire that may not wait stays behind other contenders for leases while enough
//! leases are left.
//!
//! A contender that finds a free lease is in the queue for a few round trips. A contender that has
//! waited there for long waits for more leases than are left, or is stopped. These two cases differ
//! only in time.

use std::time::Duration;

use curator_client::{Deadline, Stat};

/// How long a contender ahead may stay in the queue. Many round trips to a distant ensemble, and a
/// pause of a busy machine.
const PATIENCE: Duration = Duration::from_secs(3);

/// The patience of one contender.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// When the contender's node was created, in milliseconds of the servers' clock.
    joined: Option<i64>,
    /// When the wait for the contender ahead ends.
    deadline: Option<Deadline>,
}

impl Patience {
    /// Records that the contender has joined the queue with a node of this `stat`.
    pub(super) fn joined(&mut self, stat: &Stat) {
        self.joined = Some(stat.ctime);
    }

    /// Records the `stat` of the node ahead that the contender now watches.
    pub(super) fn behind(&mut self, stat: &Stat) {
        let age = self
            .joined
            .map_or(0, |joined| joined.saturating_sub(stat.ctime));
        let is_waiting = u64::try_from(age).is_ok_and(|age| Duration::from_millis(age) >= PATIENCE);
        let deadline = Deadline::after(if is_waiting { Duration::ZERO } else { PATIENCE });
        self.deadline = Some(
            self.deadline
                .map_or(deadline, |earlier| earlier.min(deadline)),
        );
    }

    /// Records that the contender ahead has left the queue: the next one has as much time.
    pub(crate) fn advanced(&mut self) {
        self.deadline = None;
    }

    /// When to give up.
    pub(crate) fn deadline(&mut self) -> Deadline {
        *self
            .deadline
            .get_or_insert_with(|| Deadline::after(PATIENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created_at(ctime: i64) -> Stat {
        let mut stat = Stat::default();
        stat.ctime = ctime;
        stat
    }

    #[test]
    fn only_a_contender_that_joined_shortly_before_is_waited_for() {
        let deadline_behind = |ahead| {
            let mut patience = Patience::default();
            patience.joined(&created_at(10_000));
            patience.behind(&created_at(ahead));
            patience.deadline()
        };
        // The last node is newer: the servers' clock was set back.
        for ahead in [7_001, 10_000, 20_000] {
            assert!(!deadline_behind(ahead).has_passed(), "{ahead}");
        }
        for ahead in [7_000, 0, i64::MIN] {
            assert!(deadline_behind(ahead).has_passed(), "{ahead}");
        }
    }
}
