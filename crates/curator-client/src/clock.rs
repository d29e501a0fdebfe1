//! The clock on which leases are measured.

use std::ops::Add;
use std::time::Duration;

/// A point on a clock that only moves forward, and that includes the time during which the machine
/// was asleep.
///
/// A server keeps counting down the session timeout while this machine is suspended, so a lease
/// must too. On Linux the clock is `CLOCK_BOOTTIME`: nanoseconds since the machine was booted,
/// including sleep. `std::time::Instant` is `CLOCK_MONOTONIC` there, which stops during sleep: a
/// process that wakes up could rely on a session that expired an hour ago.
///
/// On other systems the clock is [`std::time::Instant`], counted from its first use in the process.
/// Whether that includes sleep depends on the system (on Windows it does, on macOS it does not).
/// Where it does not, a reading right after waking up can be too early, and only a fencing token is
/// safe.
///
/// Instants of different machines, or of different processes, cannot be compared. In a simulation
/// (the feature `simulation`), the clock is that of the simulation, and begins with it.
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::ClockInstant;
///
/// let deadline = ClockInstant::now() + Duration::from_secs(10);
/// assert!(deadline.remaining() <= Duration::from_secs(10));
/// assert_eq!(ClockInstant::from_nanos(deadline.as_nanos()), deadline);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClockInstant {
    nanos: u64,
}

impl ClockInstant {
    /// The start of the clock. Every reading of the clock is later.
    pub const ZERO: Self = Self { nanos: 0 };

    /// Reads the clock.
    #[must_use]
    pub fn now() -> Self {
        #[cfg(feature = "simulation")]
        if let Some(elapsed) = crate::simulation::elapsed() {
            return Self::ZERO + elapsed + Duration::from_nanos(1);
        }
        Self {
            nanos: read_clock(),
        }
    }

    /// The instant `nanos` nanoseconds after [`ZERO`](Self::ZERO). The inverse of
    /// [`as_nanos`](Self::as_nanos); allows storing an instant in an `AtomicU64`.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// Nanoseconds since [`ZERO`](Self::ZERO). 64 bits are enough for 584 years.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.nanos
    }

    /// This instant plus `duration`. `None` when that is beyond the range of the clock.
    #[must_use]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        Some(Self {
            nanos: self.nanos.checked_add(nanos)?,
        })
    }

    /// The time from `earlier` until this instant; zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos.saturating_sub(earlier.nanos))
    }

    /// The time from now until this instant; zero if it has passed.
    #[must_use]
    pub fn remaining(self) -> Duration {
        self.saturating_duration_since(Self::now())
    }

    /// Whether the clock has reached this instant.
    #[must_use]
    pub fn has_passed(self) -> bool {
        self <= Self::now()
    }
}

/// This instant plus a duration, saturating at the end of the clock's range. Never panics;
/// [`ClockInstant::checked_add`] detects the overflow.
impl Add<Duration> for ClockInstant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration)
            .unwrap_or(Self { nanos: u64::MAX })
    }
}

#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "outside of a simulation")]
fn read_clock() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // The kernel never gives a negative time since boot.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanos)
        .max(1)
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "outside of a simulation")]
fn read_clock() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;

    static FIRST_USE: OnceLock<Instant> = OnceLock::new();
    let elapsed = FIRST_USE.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos())
        .unwrap_or(u64::MAX)
        .saturating_add(1)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_clock_advances_as_fast_as_std_instant() {
        /// A reading between two readings of `Instant` that are less than 100 µs apart.
        fn read() -> (Instant, ClockInstant, Instant) {
            loop {
                let before = Instant::now();
                let ours = ClockInstant::now();
                let after = Instant::now();
                if after - before < Duration::from_micros(100) {
                    return (before, ours, after);
                }
            }
        }
        let (start_before, start, start_after) = read();
        std::thread::sleep(Duration::from_millis(5));
        let (end_before, end, end_after) = read();
        let ours = end.saturating_duration_since(start);
        let least = end_before - start_after;
        let most = end_after - start_before;
        assert!(
            least <= ours && ours <= most,
            "{ours:?}, expected {least:?} to {most:?}"
        );
    }

    proptest! {
        #[test]
        fn adding_and_subtracting_are_inverse(
            start in any::<u64>(),
            duration in prop_oneof![any::<u64>().prop_map(Duration::from_nanos), any::<Duration>()],
        ) {
            let start = ClockInstant::from_nanos(start);
            match start.checked_add(duration) {
                Some(later) => {
                    prop_assert!(later >= start);
                    prop_assert_eq!(later.saturating_duration_since(start), duration);
                    prop_assert_eq!(start + duration, later);
                }
                None => prop_assert_eq!((start + duration).as_nanos(), u64::MAX),
            }
        }
    }
}
