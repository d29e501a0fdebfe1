//! Counts a cache in the metric of caches that are not current.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::engine::meter::CacheMeter;

/// Whether a cache counts as not current. The handles of a cache share it with its task: a cache
/// that an error has ended counts until it is closed, or its last handle is dropped.
#[derive(Debug)]
pub(super) struct StaleCount {
    meter: CacheMeter,
    is_counted: AtomicBool,
}

impl StaleCount {
    /// Of a cache that is loading.
    pub(super) fn begin(meter: CacheMeter) -> Self {
        meter.stale_begins();
        Self {
            meter,
            is_counted: AtomicBool::new(true),
        }
    }

    /// The cache is not current.
    pub(super) fn count(&self) {
        if !self.is_counted.swap(true, Ordering::AcqRel) {
            self.meter.stale_begins();
        }
    }

    /// The cache is current again after it was stale for this long, or is no longer used.
    pub(super) fn end(&self, after: Option<Duration>) {
        if self.is_counted.swap(false, Ordering::AcqRel) {
            self.meter.stale_ends(after);
        }
    }
}

impl Drop for StaleCount {
    fn drop(&mut self) {
        self.end(None);
    }
}
