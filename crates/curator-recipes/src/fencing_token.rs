//! The number that a store can refuse an old holder by.

/// Rises strictly from holder to holder of one lock.
///
/// It is the `czxid` of the lock's node: the ensemble's transaction number of its creation. It costs no request, and it
/// goes on rising when the lock's directory is deleted and made anew. Send it along with every write, and let the store
/// refuse a write whose token is lower than one that it has seen: so a holder that was stopped, lost its lock without
/// knowing, and went on, does no harm.
///
/// From Martin Kleppmann, "How to do distributed locking" (2016); the choice of the `czxid` is that of the Chubby paper's
/// sequencers (2006) put into ZooKeeper's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    pub(crate) fn new(czxid: i64) -> Self {
        Self(czxid)
    }

    /// The number. Positive, and rising from holder to holder.
    #[must_use]
    pub fn as_i64(self) -> i64 {
        self.0
    }
}

impl std::fmt::Display for FencingToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
