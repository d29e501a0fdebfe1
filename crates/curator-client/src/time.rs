//! The clock of the session leases, deadlines, and timers. The timers also work outside the
//! runtime, and while tokio's clock is paused.

use std::future::Future;
use std::ops::Add;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::process::Process;
#[cfg(feature = "simulation")]
use crate::simulation;
use crate::source;

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
/// (the feature `simulation`), the clock is simulated, and begins with the simulation.
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
        if let Some(elapsed) = simulation::elapsed() {
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
    static FIRST_USE: OnceLock<Instant> = OnceLock::new();
    let elapsed = FIRST_USE.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos())
        .unwrap_or(u64::MAX)
        .saturating_add(1)
}

/// Makes timers of the client's runtime that can be polled on any thread.
///
/// `tokio::time::sleep` panics outside a runtime, but a plain thread may wait for a lock. A timer
/// of tokio also panics when it is polled after the end of its runtime; so from then on it is no
/// longer polled, and counts as expired.
///
/// [`sleep`](Self::sleep) and [`sleep_until`](Self::sleep_until) only record the time. The first
/// poll of their future makes tokio's timer. So a `Drop` may call them on any thread: a thread that
/// is ending cannot enter a runtime any more.
///
/// The timers run in real time, except in a simulation, whose network is simulated too. A test may
/// pause tokio's clock, which then jumps to the next timer whenever the runtime is idle, for
/// example while a reply is on its way: every reply would be late, and every session would expire.
#[derive(Debug, Clone)]
pub(crate) struct Timer {
    runtime: Handle,
    /// Whether the timers have ended. Ending them waits for any thread that is polling one.
    ended: Arc<RwLock<bool>>,
    /// The process of the runtime. In a forked child the timers have ended too: no runtime drives
    /// them.
    process: Process,
}

/// The longest duration of a timer, used for "forever".
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

impl Timer {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            ended: Arc::default(),
            process: Process::current(),
        }
    }

    pub(crate) fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.until(source::now() + duration.min(FAR))
    }

    pub(crate) fn sleep_until(
        &self,
        deadline: Deadline,
    ) -> impl Future<Output = ()> + Send + use<> {
        self.until(deadline.at.unwrap_or_else(|| source::now() + FAR))
    }

    /// Ends all timers permanently. A task of the runtime must call this when it is dropped: a
    /// runtime drops its tasks before its clock.
    pub(crate) fn end(&self) {
        *self.ended.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.process.has_forked() || *self.ended.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn until(&self, at: Instant) -> impl Future<Output = ()> + Send + use<> {
        let timer = self.clone();
        let mut sleep = None;
        std::future::poll_fn(move |cx| {
            if timer.process.has_forked() {
                return Poll::Ready(());
            }
            let ended = timer.ended.read().unwrap_or_else(PoisonError::into_inner);
            if *ended {
                return Poll::Ready(());
            }
            let sleep = sleep.get_or_insert_with(|| {
                let _inside = timer.runtime.enter();
                Sleep::until(at)
            });
            sleep.poll(cx)
        })
    }
}

/// A timer of the clock that [`source::now`] reads. Boxed: a timer is large, and callers' futures
/// contain it.
enum Sleep {
    Tokio(Instant, Pin<Box<tokio::time::Sleep>>),
    /// A timer that tokio does not control, for while tokio's clock is paused.
    Paused(Box<async_io::Timer>),
    #[cfg(feature = "simulation")]
    Simulated(Pin<Box<tokio::time::Sleep>>),
}

impl Sleep {
    /// Must be called inside the runtime.
    #[expect(clippy::disallowed_methods, reason = "makes the timers")]
    fn until(at: Instant) -> Self {
        #[cfg(feature = "simulation")]
        if simulation::is_active() {
            return Self::Simulated(Box::pin(tokio::time::sleep_until(at.into())));
        }
        let before = source::now();
        let tokio = tokio::time::Instant::now().into_std();
        // Tokio's clock agrees with the system's, unless it is paused, or was paused: a resumed
        // clock keeps its difference.
        if before <= tokio && tokio <= source::now() {
            Self::Tokio(at, Box::pin(tokio::time::sleep_until(at.into())))
        } else {
            Self::paused(at)
        }
    }

    #[expect(clippy::disallowed_methods, reason = "makes the timers")]
    fn paused(at: Instant) -> Self {
        Self::Paused(Box::new(async_io::Timer::at(at)))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Tokio(at, sleep) => {
                ready!(sleep.as_mut().poll(cx));
                if *at <= source::now() {
                    return Poll::Ready(());
                }
                // The clock was paused in the meantime, and has jumped.
                *self = Self::paused(*at);
                self.poll(cx)
            }
            Self::Paused(timer) => Pin::new(&mut **timer).poll(cx).map(drop),
            #[cfg(feature = "simulation")]
            Self::Simulated(sleep) => sleep.as_mut().poll(cx),
        }
    }
}

/// A deadline for a whole operation, however many requests it makes, on the monotonic clock.
///
/// It uses real time, even in a test that pauses tokio's clock; in a simulation, simulated time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    at: Option<Instant>,
}

impl Deadline {
    /// No deadline.
    pub const NEVER: Self = Self { at: None };

    /// The deadline `timeout` from now. A timeout beyond the range of the clock is
    /// [`NEVER`](Self::NEVER).
    #[must_use]
    pub fn after(timeout: Duration) -> Self {
        Self {
            at: source::now().checked_add(timeout),
        }
    }

    /// Whether the deadline has passed.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.at.is_some_and(|at| at <= source::now())
    }

    /// The remaining time; `None` without a deadline.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.at
            .map(|at| at.saturating_duration_since(source::now()))
    }

    /// The earlier of the two deadlines.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        match (self.at, other.at) {
            (Some(a), Some(b)) => Self { at: Some(a.min(b)) },
            (at, None) | (None, at) => Self { at },
        }
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_timeout_beyond_the_clock_is_a_deadline_that_never_passes() {
        assert_eq!(Deadline::after(Duration::MAX), Deadline::NEVER);
        assert!(!Deadline::NEVER.has_passed());
        assert!(Deadline::after(Duration::ZERO).has_passed());
        let soon = Deadline::after(Duration::from_secs(1));
        assert_eq!(soon.min(Deadline::NEVER), soon);
        assert_eq!(Deadline::NEVER.min(soon), soon);
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_tokio_clock_neither_shortens_a_sleep_nor_stops_it() {
        let timer = Timer::new(Handle::current());
        let time = Duration::from_millis(20);
        let began = Instant::now();
        timer.sleep(time).await;
        assert!(began.elapsed() >= time);
        let deadline = Deadline::after(time);
        timer.sleep_until(deadline).await;
        assert!(deadline.has_passed() && began.elapsed() >= 2 * time);
        // While a blocking task runs, the paused clock does not even jump.
        let (finish_tx, finish_rx) = std::sync::mpsc::channel::<()>();
        let blocking = tokio::task::spawn_blocking(move || finish_rx.recv());
        curator_test::soon(timer.sleep(time)).await;
        finish_tx.send(()).unwrap();
        blocking.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn pausing_the_tokio_clock_during_a_sleep_does_not_shorten_it() {
        let timer = Timer::new(Handle::current());
        let time = Duration::from_millis(20);
        let began = Instant::now();
        let mut sleep = Box::pin(timer.sleep(time));
        assert!(futures_util::poll!(&mut sleep).is_pending());
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(3_600)).await;
        sleep.await;
        assert!(began.elapsed() >= time);
        tokio::time::resume();
        timer.sleep(time).await;
        assert!(began.elapsed() >= 2 * time);
    }

    #[test]
    fn sleeps_return_when_the_runtime_of_their_timer_has_ended() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let timer = Timer::new(runtime.handle().clone());
        let ends_with_the_runtime = timer.clone();
        let (started_tx, started_rx) = tokio::sync::oneshot::channel();
        runtime.spawn(async move {
            let _end = EndOnDrop(ends_with_the_runtime);
            started_tx.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        runtime.block_on(started_rx).unwrap();
        let other = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let mut waiting = Box::pin(timer.sleep(FAR));
        let first = other.block_on(async { futures_util::poll!(&mut waiting) });
        assert_eq!(first, Poll::Pending);
        drop(runtime);
        other.block_on(waiting);
        other.block_on(timer.sleep(FAR));

        struct EndOnDrop(Timer);
        impl Drop for EndOnDrop {
            fn drop(&mut self) {
                self.0.end();
            }
        }
    }
}
