//! A clock that two processes of a machine share, and that goes on while it sleeps.

use std::time::Duration;

use curator_recipes::client::ClockInstant;
use rustix::time::{ClockId, clock_gettime};

use crate::stopping::Moment;

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The time since the machine was started.
pub(crate) fn now() -> Moment {
    let now = clock_gettime(CLOCK);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// A time for people, without what is less than a millisecond.
pub(crate) fn text(time: Duration) -> String {
    humantime::format_duration(Duration::from_millis(time.as_millis().try_into().unwrap_or(u64::MAX))).to_string()
}

/// A moment of the client's clock on this one; not later.
pub(crate) fn moment(instant: ClockInstant) -> Moment {
    // In this order, a pause between the two makes it earlier.
    let now = now();
    now + instant.remaining()
}
