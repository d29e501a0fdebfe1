//! Pauses tokio's clock.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
    time::Duration,
};

use tokio::time::{Instant, advance, pause, sleep_until};

/// The unit of tokio's timers.
const UNIT: Duration = Duration::from_millis(1);

/// How long ago the runtime's timers have run last, at most.
const RECENT: Duration = Duration::from_secs(60 * 60);

/// Pauses the clock of the current runtime, unless it is paused.
///
/// Timers end at whole milliseconds since the start of the runtime. A clock that was paused in
/// between would stay there, and every timer would end a millisecond late. So the clock is set to
/// the next whole one.
///
/// # Panics
///
/// As [`pause`]: outside a runtime, or in one with several threads.
pub(super) fn pause_clock() {
    let (before, began) = (Instant::now(), std::time::Instant::now());
    while began.elapsed() < Duration::from_micros(1) {}
    if before.elapsed() > Duration::ZERO {
        pause();
        let late = Duration::from_nanos(u64::from(since_whole().subsec_nanos() % 1_000_000));
        if late > Duration::ZERO {
            poll_once(advance(UNIT - late));
        }
    }
}

/// The time since some whole millisecond of the runtime: the latest time for which a timer ends at
/// once.
fn since_whole() -> Duration {
    let now = Instant::now();
    let (mut ends, mut waits) = (RECENT, Duration::ZERO);
    if poll_once(sleep_until(now)) {
        return Duration::ZERO;
    }
    while ends - waits > Duration::from_nanos(1) {
        let middle = waits + (ends - waits) / 2;
        // Before the start of the clock, no timer can be set; it would have ended.
        if now
            .checked_sub(middle)
            .is_none_or(|at| poll_once(sleep_until(at)))
        {
            ends = middle
        } else {
            waits = middle
        }
    }
    ends
}

/// Whether a future is ready at once.
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
        // Paused already: nothing changes.
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
