//! Metrics of a client's session and its pending deletes (`metrics`). Without the feature, nothing
//! is measured.

#[cfg(feature = "metrics")]
mod measured;
#[cfg(not(feature = "metrics"))]
mod unmeasured;

#[cfg(feature = "metrics")]
pub use self::measured::describe_metrics;
#[cfg(feature = "metrics")]
pub(crate) use self::measured::{Begun, ClientMeter};
#[cfg(not(feature = "metrics"))]
pub(crate) use self::unmeasured::{Begun, ClientMeter};
