//! Waiting for what a test is about: with a bound, and without a fixed sleep.

use std::{future::Future, panic::Location, time::Duration};

use tokio::time::{sleep, timeout};

/// How long [`soon`] and [`until`] wait: one minute. That is far more than anything in a test needs on a busy machine, so
/// only a test that fails waits so long.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The interval between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(1);

/// The output of a future that must be ready within [`DEFAULT_TIMEOUT`].
///
/// It needs the timer of a tokio runtime.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (sender, receiver) = tokio::sync::oneshot::channel();
/// tokio::spawn(async move { sender.send("done") });
/// assert_eq!(curator_test::soon(receiver).await, Ok("done"));
/// # }
/// ```
///
/// # Panics
///
/// When the time is over, with the place of the call.
#[track_caller]
pub fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    within(DEFAULT_TIMEOUT, future)
}

/// The output of a future that must be ready within `bound`: [`soon`] with a bound of one's own.
///
/// # Panics
///
/// When the time is over, with the place of the call.
#[track_caller]
#[expect(clippy::panic, reason = "it is for tests, which fail by a panic")]
pub fn within<F: Future>(bound: Duration, future: F) -> impl Future<Output = F::Output> {
    let caller = Location::caller();
    async move {
        match timeout(bound, future).await {
            Ok(output) => output,
            Err(_) => panic!("{caller}: not ready within {bound:?}"),
        }
    }
}

/// Polls a condition until it is true, for [`DEFAULT_TIMEOUT`] at most.
///
/// There is a millisecond between two checks. It needs the timer of a tokio runtime.
///
/// ```
/// # async fn example(server: &curator_test::TestingServer) {
/// use curator_test::until;
///
/// until(async || server.watch_count().await.unwrap() == 2).await;
/// # }
/// ```
///
/// # Panics
///
/// When the time is over, with the place of the call.
#[track_caller]
pub fn until(mut condition: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    soon(async move {
        while !condition().await {
            sleep(PAUSE).await;
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failure here is the test's failure")]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_ready_is_handed_on() {
        assert_eq!(soon(ready(7)).await, 7);
        let later = async {
            sleep(DEFAULT_TIMEOUT / 2).await;
            7
        };
        assert_eq!(soon(later).await, 7);
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_is_a_panic_that_names_the_caller() {
        let began = tokio::time::Instant::now();
        let line = line!() + 1;
        let waiting = tokio::spawn(within(DEFAULT_TIMEOUT / 2, pending::<()>()));
        let panic = waiting.await.unwrap_err().into_panic();
        assert_eq!(began.elapsed().as_secs(), (DEFAULT_TIMEOUT / 2).as_secs());
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains(&format!("{}:{line}:", file!())), "{message}");
        assert!(message.ends_with("not ready within 30s"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_is_looked_at_until_it_is_true() {
        let mut looks = 0;
        until(async || {
            looks += 1;
            looks == 3
        })
        .await;
        assert_eq!(looks, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_that_stays_false_is_a_panic() {
        let waiting = tokio::spawn(until(async || false));
        assert!(waiting.await.unwrap_err().is_panic());
    }
}
