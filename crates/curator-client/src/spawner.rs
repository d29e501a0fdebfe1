//! Starts the tasks of a client.

use tokio::runtime::Handle;
use tokio::task::JoinSet;

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
