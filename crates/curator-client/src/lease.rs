//! How long a session is certainly alive.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::ClockInstant;

/// How long a session is certainly alive.
#[derive(Debug)]
pub struct Lease {
    timeout: Duration,
    valid_until: AtomicU64,
}

impl Lease {
    pub(crate) fn new(session_timeout: Duration, connect_sent: ClockInstant) -> Self {
        let until = connect_sent + session_timeout / 16 * 15;
        Self { timeout: session_timeout, valid_until: AtomicU64::new(until.as_nanos()) }
    }

    pub(crate) fn probe_answered(&self, sent: ClockInstant) {
        self.valid_until.fetch_max((sent + self.timeout / 2).as_nanos(), Ordering::AcqRel);
    }

    pub(crate) fn revoke(&self) {
        self.valid_until.store(0, Ordering::Release);
    }

    /// Valid until then.
    #[must_use]
    pub fn valid_until(&self) -> ClockInstant {
        ClockInstant::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    /// Whether it is valid now.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// What is left.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.valid_until().remaining()
    }

    /// Between two probes.
    #[must_use]
    pub fn probe_interval(&self) -> Duration {
        self.timeout / 6
    }
}
