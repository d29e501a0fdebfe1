//! Timers that also work outside the runtime.

use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

/// Makes timers on the runtime on which the client was connected, no matter where they are polled.
///
/// `tokio::time::sleep` panics outside a runtime, and a plain thread may wait for a lock. A timer also panics when it is
/// polled after the end of its runtime; from then on it is therefore no longer polled, and counts as expired.
#[derive(Debug, Clone)]
pub(crate) struct Timer {
    runtime: Handle,
    /// Whether the timers have ended. Ending them waits for any thread that is polling one.
    ended: Arc<RwLock<bool>>,
}

/// The longest time a timer is set for, when the caller means "forever".
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

impl Timer {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { runtime, ended: Arc::default() }
    }

    pub(crate) fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<> {
        let _inside = self.runtime.enter();
        self.until_the_end(tokio::time::sleep(duration.min(FAR)))
    }

    pub(crate) fn sleep_until(&self, deadline: Deadline) -> impl Future<Output = ()> + Send + use<> {
        let _inside = self.runtime.enter();
        let at = deadline.at.unwrap_or_else(|| Instant::now() + FAR);
        self.until_the_end(tokio::time::sleep_until(at))
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Ends all timers, for good. A task of the runtime must call this when it is dropped: a runtime drops its tasks
    /// before its clock.
    pub(crate) fn end(&self) {
        *self.ended.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn until_the_end(&self, sleep: tokio::time::Sleep) -> impl Future<Output = ()> + Send + use<> {
        // A timer is large, and a future that waits for it should not be.
        let mut sleep = Box::pin(sleep);
        let ended = Arc::clone(&self.ended);
        std::future::poll_fn(move |cx| {
            let ended = ended.read().unwrap_or_else(PoisonError::into_inner);
            if *ended { Poll::Ready(()) } else { sleep.as_mut().poll(cx) }
        })
    }
}

/// One point in time for a whole operation, however many requests it makes, on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    at: Option<Instant>,
}

impl Deadline {
    /// No deadline.
    pub const NEVER: Self = Self { at: None };

    /// The deadline `timeout` from now. A timeout beyond the range of the clock is [`NEVER`](Self::NEVER).
    #[must_use]
    pub fn after(timeout: Duration) -> Self {
        Self { at: Instant::now().checked_add(timeout) }
    }

    /// Whether the deadline has passed.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.at.is_some_and(|at| at <= Instant::now())
    }

    /// The remaining time; `None` without a deadline.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// The earlier of the two.
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
    use super::*;

    #[test]
    fn an_absurd_timeout_is_no_deadline() {
        assert_eq!(Deadline::after(Duration::MAX), Deadline::NEVER);
        assert!(!Deadline::NEVER.has_passed());
        assert!(Deadline::after(Duration::ZERO).has_passed());
        let soon = Deadline::after(Duration::from_secs(1));
        assert_eq!(soon.min(Deadline::NEVER), soon);
        assert_eq!(Deadline::NEVER.min(soon), soon);
    }

    #[test]
    fn a_timer_works_on_a_plain_thread() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let timer = Timer::new(runtime.handle().clone());
        let sleep = std::thread::spawn(move || timer.sleep(Duration::from_millis(1))).join().unwrap();
        futures_executor(sleep);

        fn futures_executor(future: impl Future<Output = ()>) {
            let mut future = std::pin::pin!(future);
            let thread = std::thread::current();
            let waker = std::task::Waker::from(Arc::new(Unpark(thread)));
            while future.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending() {
                std::thread::park_timeout(Duration::from_secs(5));
            }
        }
        struct Unpark(std::thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
    }

    #[test]
    fn a_timer_has_run_out_when_its_runtime_has_ended() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let timer = Timer::new(runtime.handle().clone());
        let ends_with_the_runtime = timer.clone();
        let (started, is_started) = tokio::sync::oneshot::channel();
        runtime.spawn(async move {
            let _end = EndOnDrop(ends_with_the_runtime);
            started.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        runtime.block_on(is_started).unwrap();
        let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
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
