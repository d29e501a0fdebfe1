//! The clock and the source of random ids, for crates that are built on this one.
//!
//! Code that gets its time and its ids here can run in a `simulation` (a feature of this crate):
//! there, the time is simulated, and runs with the same seed make the same ids. Random numbers come
//! from the crate `fastrand`, whose generator a simulation seeds. In builds with that feature, the
//! generator also chooses the order in which the receivers of a [`watch`] channel are woken.

#[cfg(feature = "simulation")]
pub mod watch;

use std::time::{Duration, Instant, SystemTime};

#[cfg(not(feature = "simulation"))]
pub use tokio::sync::watch;
use uuid::Uuid;

#[cfg(feature = "simulation")]
use crate::simulation;

/// Reads the monotonic clock, as [`Instant::now`] does.
#[must_use]
#[inline]
#[expect(clippy::disallowed_methods, reason = "the only caller")]
pub fn now() -> Instant {
    #[cfg(feature = "simulation")]
    if let Some(now) = simulation::now() {
        return now;
    }
    Instant::now()
}

/// The time since `earlier`; zero if `earlier` is later.
#[must_use]
#[inline]
pub fn elapsed(earlier: Instant) -> Duration {
    now().saturating_duration_since(earlier)
}

/// Reads the system's clock: the time since 1970, in UTC.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the only caller")]
pub fn since_1970() -> Duration {
    #[cfg(feature = "simulation")]
    if let Some(since_1970) = simulation::since_1970() {
        return since_1970;
    }
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Makes a random UUID (version 4).
///
/// The random bits come from the operating system: a forked child makes other ids than its parent.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the only caller")]
pub fn new_uuid() -> Uuid {
    #[cfg(feature = "simulation")]
    if simulation::is_active() {
        return uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes()).into_uuid();
    }
    Uuid::new_v4()
}
