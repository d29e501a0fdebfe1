//! An operator who deletes the nodes of a recipe while it is used.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::client::{CuratorClient, Error as ClientError};
use curator_test::Faults;
use futures_util::FutureExt as _;

use super::{Make, Workload};
use crate::life::Life;
use crate::servers::Nodes;
use crate::world::World;

/// Another workload, whose nodes an operator deletes: of holders and of waiters, and directories.
pub(super) fn of(make: Make, root: String) -> Arc<dyn Workload> {
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
        let (uses, operates) = (life.part("uses"), life.part("operator"));
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

    /// Deletes a node, and all below it.
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
