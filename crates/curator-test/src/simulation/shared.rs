//! The world, shared by its clients; the task that lets time pass in it; and the pause of tokio's
//! clock.

use std::{
    fmt,
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::time::{Instant, Sleep, advance, pause, sleep_until};

use super::world::World;
use crate::embedded::Millis;

/// The driver updates the time at least this often, even when nothing is due, so that time that
/// stands still is noticed.
const BEAT: Millis = 1000;

/// A world and its clock.
pub(crate) struct Shared {
    state: Mutex<State>,
    start: Instant,
    /// Whether the time is the system's, even for a caller whose runtime has paused the clock.
    is_real: bool,
    /// The time of the last change.
    latest: AtomicU64,
}

struct State {
    world: World,
    /// The driver's waker. It wakes the driver if something is due before `sleeps_until`.
    driver: Option<Waker>,
    sleeps_until: Millis,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(world: World) -> Self {
        Self::begin(world, Instant::now(), false)
    }

    pub(crate) fn in_real_time(world: World) -> Self {
        Self::begin(world, std::time::Instant::now().into(), true)
    }

    fn begin(world: World, start: Instant, is_real: bool) -> Self {
        let state = State {
            world,
            driver: None,
            sleeps_until: 0,
        };
        Self {
            state: Mutex::new(state),
            start,
            is_real,
            latest: AtomicU64::new(0),
        }
    }

    fn elapsed(&self) -> Duration {
        if self.is_real {
            self.start.into_std().elapsed()
        } else {
            self.start.elapsed()
        }
    }

    /// The trace so far, unless the world is being changed. Reads no clock and does not wait, so it
    /// can be called outside of the runtime, and on any thread.
    pub(crate) fn trace(&self) -> Option<String> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(state.world.trace.text().to_owned())
    }

    /// The time of the last change. While the driver is polled, at most [`BEAT`] behind the clock.
    pub(crate) fn latest(&self) -> Millis {
        self.latest.load(Ordering::Relaxed)
    }

    /// Processes everything that is due in the world, then changes the world, and wakes the tasks
    /// that are affected.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut World) -> R) -> R {
        // Whole milliseconds, like tokio's timers.
        let now = Millis::try_from(self.elapsed().as_millis()).unwrap_or(Millis::MAX);
        self.latest.store(now, Ordering::Relaxed);
        let (result, wakers, driver) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.world.run_until(now);
            let result = change(&mut state.world);
            state.world.run_until(now);
            let wakers = std::mem::take(&mut state.world.wakers);
            let is_earlier = state
                .world
                .queue
                .next()
                .is_some_and(|next| next < state.sleeps_until);
            let driver = if is_earlier {
                state.driver.take()
            } else {
                None
            };
            (result, wakers, driver)
        };
        // Woken after the lock is released, because a waker may poll its task.
        wakers.into_iter().chain(driver).for_each(Waker::wake);
        result
    }
}

/// Lets time pass in a world, forever.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    /// Created at the first poll, because only then is the driver in its runtime.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            sleep: None,
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            self.shared.update(|_| ());
            let next = {
                let mut state = self
                    .shared
                    .state
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                let beat = state.world.now.saturating_add(BEAT);
                let next = state.world.queue.next().map_or(beat, |next| next.min(beat));
                (state.driver, state.sleeps_until) = (Some(context.waker().clone()), next);
                next
            };
            let deadline = self.shared.start + Duration::from_millis(next);
            let sleep = self
                .sleep
                .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            if sleep.deadline() != deadline || sleep.is_elapsed() {
                sleep.as_mut().reset(deadline);
            }
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

/// The unit of tokio's timers.
const UNIT: Duration = Duration::from_millis(1);

/// The longest time that can have passed since the runtime's timers last ran.
const RECENT: Duration = Duration::from_secs(60 * 60);

/// Pauses the clock of the current runtime, unless it is paused.
///
/// Timers end at whole milliseconds since the start of the runtime. A clock that is paused between
/// two whole milliseconds would stay between them, and every timer would end a millisecond late. So
/// the clock is set to the next whole millisecond.
///
/// # Panics
///
/// See [`pause`]: when called outside a runtime, or in a multi-threaded one.
pub(super) fn pause_clock() {
    let before = Instant::now();
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_micros(1) {}
    if before.elapsed() > Duration::ZERO {
        pause();
        let late = Duration::from_nanos(u64::from(since_whole().subsec_nanos() % 1_000_000));
        if late > Duration::ZERO {
            poll_once(advance(UNIT - late));
        }
    }
}

/// The time since a whole millisecond of the runtime: the latest deadline of a timer that ends
/// immediately, found by bisection.
fn since_whole() -> Duration {
    let now = Instant::now();
    let mut ends = RECENT;
    let mut waits = Duration::ZERO;
    if poll_once(sleep_until(now)) {
        return Duration::ZERO;
    }
    while ends - waits > Duration::from_nanos(1) {
        let middle = waits + (ends - waits) / 2;
        // No timer can be set before the start of the clock; such a timer would have ended.
        if now
            .checked_sub(middle)
            .is_none_or(|at| poll_once(sleep_until(at)))
        {
            ends = middle;
        } else {
            waits = middle;
        }
    }
    ends
}

/// Whether a future is ready immediately.
fn poll_once(future: impl Future) -> bool {
    pin!(future)
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn timers_are_exact_after_the_clock_was_paused() {
        pause_clock();
        let start = Instant::now();
        for _ in 0..3 {
            tokio::time::sleep(UNIT).await;
        }
        assert_eq!(start.elapsed(), 3 * UNIT);
        // The clock is already paused, so nothing changes.
        pause_clock();
        assert_eq!(start.elapsed(), 3 * UNIT);
    }

    #[tokio::test]
    async fn timers_are_exact_in_a_runtime_that_has_run_for_a_while() {
        tokio::time::sleep(3 * UNIT).await;
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_micros(2300) {}
        pause_clock();
        let start = Instant::now();
        tokio::time::sleep(UNIT).await;
        assert_eq!(start.elapsed(), UNIT);
    }
}
