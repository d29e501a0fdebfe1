//! Starts a client's tasks, catches panics, and starts the event loop of `async-io`, which serves
//! all connections of the process.
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
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use async_io::Timer;
use futures_util::FutureExt as _;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::process::Process;
use crate::text::panic_message;

/// Starts tasks on the runtime of a client. In a simulation, they belong to the process that has
/// started the client.
#[derive(Clone)]
pub(crate) struct Spawner {
    runtime: Handle,
    #[cfg(feature = "simulation")]
    process: Option<crate::simulation::Simulated>,
}

impl std::fmt::Debug for Spawner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spawner").finish_non_exhaustive()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where tasks are started"
)]
impl Spawner {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            #[cfg(feature = "simulation")]
            process: crate::simulation::Simulated::current(),
        }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(self.in_process(task));
    }

    /// Starts a task that ends when `tasks` are dropped.
    pub(crate) fn spawn_in(
        &self,
        tasks: &mut JoinSet<()>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        tasks.spawn_on(self.in_process(task), &self.runtime);
    }

    #[cfg(feature = "simulation")]
    fn in_process<F>(&self, task: F) -> crate::simulation::Task<F> {
        crate::simulation::Task::new(self.process.clone(), task)
    }

    #[cfg(not(feature = "simulation"))]
    #[expect(clippy::unused_self, reason = "used in a simulation")]
    fn in_process<F>(&self, task: F) -> F {
        task
    }
}

/// A panic that was caught.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panicked {
    pub(crate) message: String,
}

/// Runs `future`, which may panic. The future is dropped before this returns, so state that it owns
/// is never visible half-changed; state that it borrows must be valid wherever the future can
/// panic.
///
/// The panic hook runs first. With `panic = "abort"`, the process ends instead.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(future)
        .catch_unwind()
        .await
        .map_err(|panic| Panicked {
            message: panic_message(&*panic),
        })
}

/// Locked while the event loop is being started.
static STARTING: Mutex<()> = Mutex::new(());
/// The process where [`start_event_loop`] has started the event loop.
static STARTED: OnceLock<Process> = OnceLock::new();

/// Whether the event loop was started in the process from which this one was forked. Takes no lock.
pub(crate) fn event_loop_has_forked() -> bool {
    STARTED.get().is_some_and(|process| process.has_forked())
}

/// Starts the event loop, unless an earlier call has. Fails if the process has too few free
/// descriptors.
///
/// # Panics
///
/// If the thread of the event loop cannot be started. The next call tries again.
#[expect(
    clippy::disallowed_methods,
    reason = "a timer of `async-io`, which a simulation does not have"
)]
pub(crate) fn start_event_loop() -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_caught_with_its_message() {
        assert_eq!(caught(async { 7 }).await, Ok(7));
        let text = "on purpose";
        let number = 7;
        let messages = [
            caught(async { panic!("on purpose") }).await,
            caught(async { panic!("{text}, {number}") }).await,
            caught(async { std::panic::panic_any(number) }).await,
        ];
        let messages = messages.map(|caught: Result<(), _>| caught.unwrap_err().message);
        assert_eq!(messages, ["on purpose", "on purpose, 7", "no message"]);
    }
}
