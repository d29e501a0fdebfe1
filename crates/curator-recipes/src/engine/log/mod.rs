//! The log of the locks, by `tracing`: a span for each acquire, a span for each hold, and their events. What is measured, behind the
//! feature `metrics`, is measured here too.
//!
//! All of it is at level `debug`, and the pipelines at level `trace`. Where nobody listens, nothing is formatted or allocated
//! and no clock is read.

mod acquire;
mod flight;
mod hold;
mod text;

use curator_client::{CuratorClient, ZPath};

use super::meter::Meter;

pub(crate) use self::acquire::AcquireLog;
pub(crate) use self::flight::{deletes_sent, pipeline_sent};
pub(crate) use self::hold::HoldLog;
pub(crate) use self::text::Truncated;

/// A lock, as it is named.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) client: &'a CuratorClient,
    /// What the recipe calls itself.
    pub(crate) kind: &'static str,
    /// Of a multi-lock, all that it takes at once.
    pub(crate) paths: &'a [ZPath],
    /// What is logged is measured too.
    pub(crate) meter: &'a Meter,
}
