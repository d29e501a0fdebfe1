//! Checks exclusion and order from the holders' reports.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curator_recipes::{FencingToken, LockGuard};

/// Checks that contenders that exclude each other never hold at the same time, and records the
/// holders.
///
/// Clones share the record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Witness(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    /// The number of exclusive holders, at most one.
    exclusive: usize,
    /// The number of holders that share the lock.
    sharing: usize,
    most_sharing: usize,
    /// All holders so far, in order, and whether each shared the lock.
    held: Vec<(usize, bool)>,
    /// The number of holds that have ended.
    left: usize,
    greatest_exclusive: Option<FencingToken>,
    greatest_shared: Option<FencingToken>,
}

impl Witness {
    /// Records that the contender `who` holds the lock from now on, exclusively or shared.
    pub(crate) fn enter(&self, who: usize, shares: bool, guard: &LockGuard) {
        assert!(guard.is_valid());
        self.enter_with(who, shares, guard.fencing_token());
    }

    /// Like [`enter`](Self::enter), for one of several locks of a guard.
    pub(crate) fn enter_with(&self, who: usize, shares: bool, token: FencingToken) {
        let mut seen = self.seen();
        assert_eq!(
            seen.exclusive, 0,
            "{who} holds while an exclusive holder holds"
        );
        assert!(
            shares || seen.sharing == 0,
            "{who} holds exclusively while others share the lock"
        );
        assert!(
            seen.greatest_exclusive < Some(token),
            "{who} has token {token} after {:?}",
            seen.greatest_exclusive
        );
        if shares {
            seen.sharing += 1;
            seen.most_sharing = seen.most_sharing.max(seen.sharing);
            // Shared holders have no order among themselves.
            seen.greatest_shared = seen.greatest_shared.max(Some(token));
        } else {
            seen.exclusive += 1;
            assert!(
                seen.greatest_shared < Some(token),
                "{who} has token {token} after {:?}",
                seen.greatest_shared
            );
            seen.greatest_exclusive = Some(token);
        }
        seen.held.push((who, shares));
    }

    /// Records that one holder no longer holds the lock. Must be called before the lock is
    /// released.
    pub(crate) fn leave(&self, shares: bool) {
        let mut seen = self.seen();
        if shares {
            seen.sharing -= 1;
        } else {
            seen.exclusive -= 1;
        }
        seen.left += 1;
    }

    /// Ignores poison: the thread that found the failure has reported it.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of holds that have ended.
    pub(crate) fn left(&self) -> usize {
        self.seen().left
    }

    /// The number of current holders.
    pub(crate) fn holders(&self) -> usize {
        let seen = self.seen();
        seen.exclusive + seen.sharing
    }

    /// The maximum number of holders that have shared the lock at the same time.
    pub(crate) fn most_sharing(&self) -> usize {
        self.seen().most_sharing
    }

    /// The holders, in order. Consecutive shared holders, whose order is undefined, are sorted.
    pub(crate) fn order(&self) -> Vec<usize> {
        let seen = self.seen();
        let together = seen
            .held
            .chunk_by(|(_, one_shares), (_, next_shares)| *one_shares && *next_shares);
        together
            .flat_map(|together| {
                let mut together: Vec<_> = together.iter().map(|(who, _)| *who).collect();
                together.sort_unstable();
                together
            })
            .collect()
    }
}
