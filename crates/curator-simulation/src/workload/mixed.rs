//! Workloads that combine others: several recipes in one client, with a future that is not polled
//! for most of its lifetime; and a recipe whose nodes an operator deletes while it is used.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::InterProcessMutex;
use curator_recipes::client::{CuratorClient, Error as ClientError};
use curator_test::Faults;
use futures_util::FutureExt as _;

use super::{Make, WORKLOADS, Workload, must_succeed};
use crate::life::{DropAt, Life};
use crate::servers::Nodes;
use crate::world::World;

/// How many recipes each client uses.
const PARTS: usize = 3;

pub(super) fn make(root: String) -> Arc<dyn Workload> {
    // The members of `shards` are all processes, and each is a member once.
    let parts = WORKLOADS
        .iter()
        .filter(|(name, _)| !["mixed", "cache-without-access", "shards"].contains(name))
        .map(|(name, make): &(&str, Make)| (*name, make(format!("{root}/{name}"))))
        .collect();
    Arc::new(Mixed { root, parts })
}

#[derive(Debug)]
struct Mixed {
    root: String,
    parts: Vec<(&'static str, Arc<dyn Workload>)>,
}

#[async_trait]
impl Workload for Mixed {
    async fn prepare(&self, client: &CuratorClient) -> Result<(), ClientError> {
        for (_, part) in &self.parts {
            part.prepare(client).await?;
        }
        Ok(())
    }

    async fn live(&self, life: &Life) {
        // Processes often choose the same first recipe, so that they contend with each other.
        let first = life.world().choice(self.parts.len());
        let chosen: Vec<_> = (0..PARTS)
            .map(|n| {
                if n == 0 {
                    first
                } else {
                    life.below(self.parts.len())
                }
            })
            .collect();
        let parts = chosen.into_iter().enumerate().map(|(number, chosen)| {
            let (name, workload) = &self.parts[chosen];
            let life = life.part(&format!("{name}-{number}"));
            async move { workload.live(&life).await }.boxed()
        });
        let unpolled = life.part("unpolled");
        let unpolled = async move { keep_unpolled(&unpolled, &self.root).await }.boxed();
        let parts: Vec<_> = parts.chain([unpolled]).collect();
        life.joined(parts).await;
    }

    fn check_end(&self, world: &World, nodes: &Nodes) {
        self.parts
            .iter()
            .for_each(|(_, part)| part.check_end(world, nodes));
    }

    fn may_leave(&self, path: &str) -> bool {
        self.parts.iter().any(|(_, part)| part.may_leave(path))
    }
}

/// Begins to acquire a mutex, and neither polls nor drops the future until the client is closed.
/// The future must not delay anything but the mutex.
pub(super) async fn keep_unpolled(life: &Life, root: &str) {
    let path = format!("{root}-unpolled/{}", life.name().replace('/', "-"));
    let Some(mutex) = must_succeed(
        life,
        "make a mutex",
        InterProcessMutex::non_reentrant(life.client(), path),
    ) else {
        return;
    };
    life.think_for(Duration::from_secs(20)).await;
    let mut acquire = Box::pin(mutex.acquire());
    let polled = DropAt::new(&mut acquire, 1 + life.below(4));
    // The acquire may wait for a connection, so the polls are limited to a second.
    let _ = tokio::time::timeout(Duration::from_secs(1), polled).await;
    life.note(|| "polls an acquire no more".to_owned());
    if life.at_rest().await {
        life.idle().await;
    }
    drop(acquire);
}

/// Wraps another workload, and lets an operator delete its nodes: nodes of holders, nodes of
/// waiters, and directories.
pub(super) fn with_deletes(make: Make, root: String) -> Arc<dyn Workload> {
    Arc::new(WithDeletes {
        workload: make(root.clone()),
        root,
    })
}

#[derive(Debug)]
struct WithDeletes {
    root: String,
    workload: Arc<dyn Workload>,
}

#[async_trait]
impl Workload for WithDeletes {
    async fn prepare(&self, client: &CuratorClient) -> Result<(), ClientError> {
        self.workload.prepare(client).await
    }

    async fn live(&self, life: &Life) {
        let uses = life.part("uses");
        let operates = life.part("operator");
        let parts = [self.workload.live(&uses), self.operate(&operates).boxed()];
        life.joined(parts).await;
    }

    fn faults(&self) -> Faults {
        self.workload.faults()
    }

    fn is_idle_at_rest(&self) -> bool {
        self.workload.is_idle_at_rest()
    }

    fn check_end(&self, world: &World, nodes: &Nodes) {
        self.workload.check_end(world, nodes);
    }

    fn may_leave(&self, path: &str) -> bool {
        self.workload.may_leave(path)
    }
}

impl WithDeletes {
    async fn operate(&self, life: &Life) {
        while life.goes_on() {
            life.think_for(Duration::from_secs(8)).await;
            self.delete_some(life);
        }
        if life.at_rest().await {
            for _ in 0..life.below(4) {
                self.delete_some(life);
                life.think().await;
            }
        }
        life.idle().await;
    }

    /// Deletes a random node, and all nodes below it.
    fn delete_some(&self, life: &Life) {
        let paths: Vec<_> = life
            .world()
            .servers()
            .nodes_below(&self.root)
            .into_keys()
            .collect();
        if !paths.is_empty() {
            life.world().delete(&paths[life.below(paths.len())]);
        }
    }
}
