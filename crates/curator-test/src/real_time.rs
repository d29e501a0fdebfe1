//! Timers in real time, for what a test waits for on its own runtime.
//!
//! A test may pause tokio's clock, which then jumps to the next timer whenever the runtime is idle. Servers and networks are
//! not simulated: while one of them works, every limit on tokio's clock would be over at once.

use std::time::Duration;

use async_io::Timer;

/// The time was over before the future was ready.
#[derive(Debug)]
pub(crate) struct Elapsed;

pub(crate) async fn sleep(duration: Duration) {
    Timer::after(duration).await;
}

/// The output of `future`, if it is ready within `limit`.
pub(crate) async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    tokio::select! {
        biased;
        output = future => Ok(output),
        () = sleep(limit) => Err(Elapsed),
    }
}
