//! The workloads: what the processes of a schedule do.

mod cache;
mod config;
mod counter;
mod discovery;
mod exclusive;
mod group;
mod guarded;
mod latch;
mod mixed;
mod observer;
mod persistent;
mod read_write;
mod selector;
mod semaphore;
mod shards;
mod shared;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use curator_recipes::client::{CreateMode, CuratorClient, Error};
use curator_test::Faults;

pub use self::guarded::Ledger;
use crate::life::Life;
use crate::servers::Nodes;
use crate::world::World;

/// A use of a recipe by several processes.
#[async_trait]
pub trait Workload: Debug + Send + Sync {
    /// The number that holders write, if the recipe has holders.
    fn ledger(&self) -> Option<&Ledger> {
        None
    }

    /// Creates the nodes that the processes share, before the faults begin.
    async fn prepare(&self, client: &CuratorClient) -> Result<(), Error> {
        match self.ledger() {
            Some(ledger) => ledger.prepare(client).await,
            None => Ok(()),
        }
    }

    /// Uses the recipe in one process, from the start of a client to its close.
    async fn live(&self, life: &Life);

    /// The faults that the recipe promises to survive.
    fn faults(&self) -> Faults {
        Faults::of_network_and_servers()
    }

    /// Whether the recipe sends nothing but probes while nothing changes.
    fn is_idle_at_rest(&self) -> bool {
        true
    }

    /// Checks the nodes that are left when all processes have closed their clients.
    fn check_end(&self, world: &World, nodes: &Nodes) {
        if let Some(ledger) = self.ledger() {
            ledger.check_end(world, nodes);
        }
    }

    /// Whether a node below the root may be left when all processes have closed their clients.
    /// Containers may always be left.
    fn may_leave(&self, path: &str) -> bool {
        self.ledger().is_some_and(|ledger| path == ledger.path())
    }
}

/// Makes a workload whose nodes are below a root.
type Make = fn(root: String) -> Arc<dyn Workload>;

/// All workloads, by their names.
const WORKLOADS: &[(&str, Make)] = &[
    ("mutex", exclusive::mutex),
    ("mutex-in-lost-sessions", exclusive::mutex_in_lost_sessions),
    ("reentrant-mutex", exclusive::reentrant_mutex),
    ("semaphore-mutex", exclusive::semaphore_mutex),
    ("multi-lock", exclusive::multi_lock),
    ("multi-lock-of-locks", exclusive::multi_lock_of_locks),
    ("semaphore", semaphore::make),
    ("read-write-lock", read_write::make),
    ("mutex-with-deletes", |root| {
        mixed::with_deletes(exclusive::mutex, root)
    }),
    ("reentrant-mutex-with-deletes", |root| {
        mixed::with_deletes(exclusive::reentrant_mutex, root)
    }),
    ("semaphore-mutex-with-deletes", |root| {
        mixed::with_deletes(exclusive::semaphore_mutex, root)
    }),
    ("multi-lock-with-deletes", |root| {
        mixed::with_deletes(exclusive::multi_lock, root)
    }),
    ("semaphore-with-deletes", |root| {
        mixed::with_deletes(semaphore::make, root)
    }),
    ("read-write-lock-with-deletes", |root| {
        mixed::with_deletes(read_write::make, root)
    }),
    ("leader-latch", latch::make),
    ("leader-selector", selector::make),
    ("leader-observer", observer::make),
    ("shards", shards::make),
    ("cache", cache::make),
    ("cache-without-access", cache::without_access),
    ("config", config::make),
    ("persistent-node", persistent::deleted),
    ("persistent-node-without-access", persistent::without_access),
    ("restored-persistent-node", persistent::restored),
    ("group", group::make),
    ("counter", counter::exactly_once),
    ("plain-counter", counter::plain),
    ("promoted-counter", counter::promoted),
    ("shared-value", shared::make),
    ("ids", counter::ids),
    ("discovery", discovery::make),
    ("mixed", mixed::make),
];

/// The names of all workloads.
pub fn names() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().map(|(name, _)| *name)
}

/// Makes the workload of this name.
#[must_use]
pub fn make(name: &str) -> Option<Arc<dyn Workload>> {
    let (name, make) = WORKLOADS.iter().find(|(known, _)| *known == name)?;
    Some(make(format!("/{name}")))
}

/// Creates an empty node, and the parents that it needs.
async fn create(client: &CuratorClient, path: &str, data: &str) -> Result<(), Error> {
    client
        .create()
        .with_mode(CreateMode::Persistent)
        .creating_parent_containers()
        .for_path(path, data)
        .await?;
    Ok(())
}

/// Checks that a call at rest has succeeded.
fn must_succeed<T, E: Debug>(life: &Life, what: &str, result: Result<T, E>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            life.world()
                .fail(format!("{}: {what} at rest: {error:?}", life.name()));
            None
        }
    }
}

/// Makes a call during faults, and records its error.
async fn try_call<T, E: Debug>(
    life: &Life,
    what: &str,
    call: impl Future<Output = Result<T, E>>,
) -> Option<T> {
    life.call(what, call)
        .await?
        .map_err(|error| explain(life, what, &error))
        .ok()
}

/// Records an error during faults. Fails if no fault explains the error.
fn explain(life: &Life, what: &str, error: &impl Debug) {
    let text = format!("{error:?}");
    life.note(|| format!("{what}: {text}"));
    let unexplained = ["panicked", "Protocol", "protocol", "overflow", "Unsuitable"];
    let unexplained = unexplained.iter().any(|word| text.contains(word));
    life.world().check(!unexplained, || {
        format!(
            "{}: no fault explains the error of {what}: {text}",
            life.name()
        )
    });
}
