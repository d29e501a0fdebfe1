//! The event loop of `async-io`, which serves all connections of the process.
//!
//! The first use of the event loop starts it, with a thread and three descriptors (four on a system
//! without `eventfd`), and panics if it cannot get them. If only the thread could not be created,
//! the next use starts the event loop. A missing descriptor is worse: the thread exists by then,
//! also tries to start the event loop, and ends with the same panic. The thread is never restarted,
//! and no connection of the process ever works. So the first attempt to connect checks for enough
//! descriptors, and starts the event loop.
//!
//! A forked child has a copy of the event loop without its thread, over the same `epoll` instance:
//! it is unusable there.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use async_io::Timer;

use crate::process::Process;

/// Locked while the event loop is being started.
static STARTING: Mutex<()> = Mutex::new(());
/// The process in which [`start`] has started the event loop.
static STARTED: OnceLock<Process> = OnceLock::new();

/// Whether the event loop was started in the process from which this one was forked. Takes no lock.
pub(crate) fn has_forked() -> bool {
    STARTED.get().is_some_and(|process| process.has_forked())
}

/// Starts the event loop, unless an earlier call has. Fails if the process has too few free
/// descriptors.
///
/// # Panics
///
/// If the thread of the event loop cannot be started. The next call tries again.
pub(crate) fn start() -> io::Result<()> {
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if STARTED.get().is_none() {
        #[cfg(unix)]
        let four_descriptors = (io::pipe()?, io::pipe()?);
        #[cfg(unix)]
        drop(four_descriptors);
        // Polling a timer registers it with the event loop, which starts it.
        let mut timer = Timer::after(Duration::from_secs(1));
        let _pending = Future::poll(
            Pin::new(&mut timer),
            &mut Context::from_waker(Waker::noop()),
        );
        let _ = STARTED.set(Process::current());
    }
    Ok(())
}
