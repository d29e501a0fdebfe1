//! Metrics of a client's session and its pending deletes (`metrics`). Without the feature, nothing
//! is measured.

#[cfg(feature = "metrics")]
mod measured;

#[cfg(feature = "metrics")]
pub use self::measured::describe_metrics;
#[cfg(feature = "metrics")]
pub(crate) use self::measured::{Begun, ClientMeter};
#[cfg(not(feature = "metrics"))]
pub(crate) use self::unmeasured::{Begun, ClientMeter};

/// Empty meters, for builds without the feature `metrics`.
#[cfg(not(feature = "metrics"))]
mod unmeasured {
    use std::sync::Arc;
    use std::time::Duration;

    use crate::error::SessionEnd;

    /// Empty, so that no clock is read.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Begun;

    impl Begun {
        pub(crate) fn now() -> Self {
            Self
        }
    }

    #[derive(Debug)]
    pub(crate) struct ClientMeter;

    #[expect(clippy::unused_self, reason = "the same methods as with the feature")]
    impl ClientMeter {
        pub(crate) fn new(_label: Option<Arc<str>>) -> Self {
            Self
        }

        pub(crate) fn confirmed(&self, _lease: impl FnOnce() -> Duration) {}

        pub(crate) fn doubted(&self) {}

        pub(crate) fn resumed(&self) {}

        pub(crate) fn opened(&self) {}

        pub(crate) fn lost(&self, _end: SessionEnd) {}

        pub(crate) fn closed(&self) {}

        pub(crate) fn pending(&self, _count: usize, _oldest: Option<Begun>) {}
    }
}
