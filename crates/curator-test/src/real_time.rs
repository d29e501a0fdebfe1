//! Timers in real time, for the test tools.
//!
//! A test may pause tokio's clock, which then jumps to the next timer whenever the runtime is idle.
//! Servers and networks are real: while the test waits for one of them, every limit on tokio's
//! clock would expire immediately.

use std::time::Duration;

use async_io::Timer;

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
