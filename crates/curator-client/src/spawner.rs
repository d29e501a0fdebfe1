//! Starts the tasks of a client, and catches their panics.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

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
