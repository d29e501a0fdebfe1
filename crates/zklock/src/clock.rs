//! A clock that the processes of one machine share, and that also runs while the machine is
//! suspended.

use std::time::Duration;

use curator_recipes::client::ClockInstant;
use rustix::time::{ClockId, clock_gettime};

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A time since the machine was started, on a clock that also runs while the machine is suspended.
pub(crate) type Moment = Duration;

/// The time since the machine was started.
pub(crate) fn now() -> Moment {
    let now = clock_gettime(CLOCK);
    Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

/// Formats a duration for messages, rounded down to milliseconds.
pub(crate) fn text(time: Duration) -> String {
    humantime::format_duration(Duration::from_millis(
        time.as_millis().try_into().unwrap_or(u64::MAX),
    ))
    .to_string()
}

/// Converts a moment of the client's clock to this clock. The result is never later than the
/// moment.
pub(crate) fn moment(instant: ClockInstant) -> Moment {
    // Read in this order, so a pause between the two reads makes the result earlier.
    let now = now();
    now + instant.remaining()
}
