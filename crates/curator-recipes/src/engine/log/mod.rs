//! Logs the locks with `tracing`: a span for each acquire, a span for each hold, and their events.
//! Also records the metrics, behind the feature `metrics`.
//!
//! Everything is logged at level `debug`, except pipelines, which are logged at level `trace`.
//! Without a subscriber, nothing is formatted or allocated and no clock is read.

mod acquire;
mod fields;
mod hold;

pub(crate) use self::acquire::{AcquireLog, Subject, pipeline_sent};
pub(crate) use self::fields::Truncated;
pub(crate) use self::hold::{HoldLog, deletes_sent};
