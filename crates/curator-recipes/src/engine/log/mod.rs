//! Logs the locks with `tracing`: a span for each acquire, a span for each hold, and their events.
//! Also records the metrics, behind the feature `metrics`.
//!
//! Everything is logged at level `debug`, except pipelines, which are logged at level `trace`.
//! Without a subscriber, nothing is formatted or allocated and no clock is read.

mod acquire;
mod hold;
mod requests;
mod text;

use curator_client::{CuratorClient, ZPath};

use super::meter::Meter;

pub(crate) use self::acquire::AcquireLog;
pub(crate) use self::hold::HoldLog;
pub(crate) use self::requests::{deletes_sent, pipeline_sent};
pub(crate) use self::text::Truncated;

/// The lock that a log entry names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) client: &'a CuratorClient,
    /// The recipe's name in the log.
    pub(crate) kind: &'static str,
    /// For a multi-lock, all paths that it acquires together.
    pub(crate) paths: &'a [ZPath],
    /// Records the metrics of the same events.
    pub(crate) meter: &'a Meter,
}
