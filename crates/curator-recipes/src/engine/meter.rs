//! Measures acquires, holds and caches, behind the feature `metrics`. Without it, a meter is empty,
//! and no clock is read.

#[cfg(feature = "metrics")]
mod measured;

#[cfg(feature = "metrics")]
pub(crate) use self::measured::{CacheMeter, Meter, Participation};
#[cfg(feature = "metrics")]
pub use self::measured::{HISTOGRAM_BOUNDS, describe_metrics};
#[cfg(not(feature = "metrics"))]
pub(crate) use self::unmeasured::{CacheMeter, Meter, Participation};

/// Why an acquire did not get the lock.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NotAcquired {
    /// The acquire must not wait, and other contenders are ahead.
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

/// Empty meters, for builds without the feature `metrics`.
#[cfg(not(feature = "metrics"))]
mod unmeasured {
    use std::time::{Duration, Instant};

    use super::{HoldEnded, NotAcquired};

    #[derive(Debug, Clone)]
    pub(crate) struct Meter;

    #[expect(clippy::unused_self, reason = "the same methods as with the feature")]
    impl Meter {
        pub(crate) fn new(_kind: &'static str) -> Self {
            Self
        }

        pub(crate) fn now(&self) -> Option<Instant> {
            None
        }

        pub(crate) fn acquired(&self, _waited: Option<Duration>, _handed_over: Option<Duration>) {}

        pub(crate) fn not_acquired(&self, _why: NotAcquired) {}

        pub(crate) fn queued(&self, _before: usize) {}

        pub(crate) fn participates(&self) -> Participation {
            Participation
        }

        pub(crate) fn hold_begins(&self) {}

        pub(crate) fn hold_ended(&self, _how: HoldEnded, _held: Option<Duration>) {}

        pub(crate) fn reentered(&self) {}
    }

    #[derive(Debug)]
    pub(crate) struct Participation;

    #[derive(Debug, Clone)]
    pub(crate) struct CacheMeter;

    #[expect(clippy::unused_self, reason = "the same methods as with the feature")]
    impl CacheMeter {
        pub(crate) fn unnamed() -> Self {
            Self
        }

        pub(crate) fn stale_begins(&self) {}

        pub(crate) fn stale_ends(&self, _after: Option<Duration>) {}
    }
}
