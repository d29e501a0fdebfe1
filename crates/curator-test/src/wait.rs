//! For the code of a test: waits for conditions and futures, with a limit and without a fixed sleep;
//! timers in real time; and paths that no other test uses.
//!
//! A test may pause tokio's clock, which then jumps to the next timer whenever the runtime is idle.
//! Servers and networks are real: while the test waits for one of them, every limit on tokio's
//! clock would expire immediately.

use std::{
    future::{Future, poll_fn},
    panic::Location,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::Context,
    time::Duration,
};

use async_io::Timer;

/// The limit of [`soon`] and [`until`]: three minutes. That is more than any test needs, even with
/// half of a processor on a busy machine, so only a failing test waits that long.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(180);

/// The pause after the first check of a condition. It doubles after each check, because most checks
/// send requests, which take processor time from what the test waits for.
const PAUSE: Duration = Duration::from_millis(1);
/// The longest pause between two checks.
const LONGEST_PAUSE: Duration = Duration::from_millis(32);

/// Waits for a future, at most [`DEFAULT_TIMEOUT`]. Returns its output.
///
/// Measures real time, even if the test has paused tokio's clock.
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
/// After the limit, with the location of the call.
#[track_caller]
pub fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    within(DEFAULT_TIMEOUT, future)
}

/// Like [`soon`], but with the limit `bound`.
///
/// # Panics
///
/// After the limit, with the location of the call.
#[track_caller]
pub fn within<F: Future>(bound: Duration, future: F) -> impl Future<Output = F::Output> {
    let mut limit = Limit {
        bound,
        timer: None,
        caller: Location::caller(),
    };
    // Boxed, because each layer around a future doubles its size. Not an `async` block with
    // `select!`: such state machines, one for each of the hundreds of futures that tests wait for,
    // take a tenth of the tests' compile time.
    let mut future = Box::pin(future);
    poll_fn(move |context| {
        let output = future.as_mut().poll(context);
        if output.is_pending() {
            limit.check(context);
        }
        output
    })
}

/// The limit of a wait.
struct Limit {
    bound: Duration,
    /// Created when the future is first polled and not ready.
    timer: Option<Timer>,
    caller: &'static Location<'static>,
}

impl Limit {
    #[expect(clippy::panic, reason = "for tests, which fail by a panic")]
    fn check(&mut self, context: &mut Context<'_>) {
        let timer = self.timer.get_or_insert_with(|| Timer::after(self.bound));
        if Pin::new(timer).poll(context).is_ready() {
            panic!("{}: not ready within {:?}", self.caller, self.bound);
        }
    }
}

/// Polls a condition until it is true, at most for [`DEFAULT_TIMEOUT`].
///
/// Pauses between two checks, first for 1 ms, finally for 32 ms. Measures real time, like [`soon`].
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
/// After the limit, with the location of the call.
#[track_caller]
pub fn until(condition: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    soon(polled(condition))
}

async fn polled(mut condition: impl AsyncFnMut() -> bool) {
    let mut pause = PAUSE;
    while !condition().await {
        sleep(pause).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// The future was not ready within the limit.
#[derive(Debug)]
pub(crate) struct Elapsed;

pub(crate) async fn sleep(duration: Duration) {
    Timer::after(duration).await;
}

/// Waits for `future` for at most `limit`. Returns its output.
pub(crate) async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    tokio::select! {
        biased;
        output = future => Ok(output),
        () = sleep(limit) => Err(Elapsed),
    }
}

/// A path that no other call in this process returns, such as `/orders-3` for `orders`.
///
/// With it, tests that share a server use different nodes. The path is a child of the root, unless
/// `name` contains a `/`, so the node can be created without its parents.
#[must_use]
pub fn unique_path(name: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("/{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failure here is the test's failure")]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test(start_paused = true)]
    async fn soon_returns_the_output_and_a_paused_clock_causes_no_timeout() {
        assert_eq!(soon(ready(7)).await, 7);
        let later = async {
            // Meanwhile the runtime is idle, and there is no timer on tokio's paused clock to jump
            // to.
            Timer::after(SHORT).await;
            7
        };
        assert_eq!(soon(later).await, 7);
        let far = async {
            tokio::time::sleep(2 * DEFAULT_TIMEOUT).await;
            7
        };
        assert_eq!(soon(far).await, 7);
    }

    #[tokio::test]
    async fn a_timeout_panics_with_the_location_of_the_caller() {
        let line = line!() + 1;
        let waiting = tokio::spawn(within(SHORT, pending::<()>()));
        let panic = waiting.await.unwrap_err().into_panic();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(
            message.contains(&format!("{}:{line}:", file!())),
            "{message}"
        );
        assert!(message.ends_with("not ready within 20ms"), "{message}");
    }
}
