//! The event loop of `async-io`, which serves all connections of the process.
//!
//! Its first use starts it, with a thread and three descriptors, or four where there is no `eventfd`. It panics if it cannot
//! have them. A thread that was missing is started by the next use. A descriptor that was missing is worse: the thread is there
//! by then, makes its own attempt, and ends with the same panic. It is never started again, and no connection of the process is
//! ever served. So the first attempt to connect makes sure of the descriptors, and starts the event loop.
//!
//! A forked child has a copy of it, without the thread and over the same `epoll` instance: nothing works with that.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use async_io::Timer;

use crate::process::Process;

/// Locked while it is being started.
static STARTING: Mutex<()> = Mutex::new(());
/// The process in which this has started it.
static STARTED: OnceLock<Process> = OnceLock::new();

/// Whether it was started in the process from which this one was forked. Takes no lock.
pub(crate) fn has_forked() -> bool {
    STARTED.get().is_some_and(|process| process.has_forked())
}

/// Starts the event loop, unless this has done so before. Fails if the process has too few descriptors left for that.
///
/// # Panics
///
/// If its thread cannot be started. The next call tries it again.
pub(crate) fn start() -> io::Result<()> {
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if STARTED.get().is_none() {
        #[cfg(unix)]
        let four_descriptors = (io::pipe()?, io::pipe()?);
        #[cfg(unix)]
        drop(four_descriptors);
        // A timer that is polled is one of the event loop's.
        let mut timer = Timer::after(Duration::from_secs(1));
        let _pending = Future::poll(Pin::new(&mut timer), &mut Context::from_waker(Waker::noop()));
        let _ = STARTED.set(Process::current());
    }
    Ok(())
}
