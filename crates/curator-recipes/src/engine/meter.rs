//! Measures acquires, holds and caches, behind the feature `metrics`. Without it, a meter is empty,
//! and no clock is read.

#[cfg(feature = "metrics")]
mod measured;
#[cfg(not(feature = "metrics"))]
mod unmeasured;

#[cfg(feature = "metrics")]
pub(crate) use self::measured::{CacheMeter, Meter, Participation};
#[cfg(feature = "metrics")]
pub use self::measured::{HISTOGRAM_BOUNDS, describe_metrics};
#[cfg(not(feature = "metrics"))]
pub(crate) use self::unmeasured::{CacheMeter, Meter, Participation};

/// Why an acquire did not get the lock.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NotAcquired {
    /// The acquire may not wait, and other contenders are ahead.
    Busy,
    TimedOut,
    /// The acquire's future was dropped.
    Cancelled,
    Failed,
    /// The client is closing, or has ended.
    Closed,
}

/// How a hold has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HoldEnded {
    /// The session or a node was lost before the acquire returned.
    Unused,
    Released,
    SessionLost,
    NodeDeleted,
}
